"""What was learned: one capability of one model, and how it came out."""

import re
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.statement import Stated, statement_problems
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact_text

Origin = Literal["probe", "use"]
"""`probe`: tried on purpose, the answer checked. `use`: seen while working."""

LONGEST_DETAIL: Final = 300
_LONGEST_REASON: Final = 120
_TRANSCRIPT: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was learned of one capability.

    A limit or a choice is `native` with its value. `detail` says why, in a few words;
    `transcript` is the hash of what was asked and answered.
    """

    provider: str
    model: str
    capability: str
    support: Literal["native", "unsupported"]
    value: int | str | tuple[str, ...] | None = None
    origin: Origin = "probe"
    detail: str = ""
    transcript: str = ""

    def __post_init__(self) -> None:
        for what in ("provider", "model"):
            _check_name(getattr(self, what), what)
        if "/" in self.provider:
            raise InputError(f"provider: {brief(self.provider)} has a slash; give the model apart")
        known = capability(self.capability)
        if known.id != self.capability:
            raise InputError(f"capability: write {known.id}, not {brief(self.capability)}")
        if known.formula is not None:
            raise InputError(f"{known.id} follows from others ({known.formula}): record those")
        if self.support not in ("native", "unsupported"):
            raise InputError(f"support: expected native or unsupported, not {brief(self.support)}")
        if self.origin not in ("probe", "use"):
            raise InputError(f"origin: expected probe or use, not {brief(self.origin)}")
        self._check_value(known.kind)
        if len(self.detail) > LONGEST_DETAIL or not self.detail.isprintable():
            raise InputError(f"detail: expected one line of at most {LONGEST_DETAIL} characters")
        if self.transcript and not _TRANSCRIPT.fullmatch(self.transcript):
            raise InputError("transcript: expected sha256: and 64 hex digits")

    def _check_value(self, kind: str) -> None:
        if self.support == "unsupported" and (kind != "flag" or self.value is not None):
            raise InputError(f"{self.capability}: unsupported is said of flags, without a value")
        if kind != "flag" and self.value is None:
            raise InputError(f"{self.capability}: a {kind} needs its value")
        for _, problem in statement_problems({self.field: self.said}):
            raise InputError(f"{self.capability}: {problem}")

    @property
    def field(self) -> str:
        """The field of a statement that says the same."""
        name = self.capability
        return name if name.startswith("x-host-") else name.replace("-", "_")

    @property
    def said(self) -> Any:
        """The value of that field."""
        if self.value is None:
            return self.support == "native"
        return list(self.value) if isinstance(self.value, tuple) else self.value

    @property
    def stated(self) -> Stated:
        """What the catalog's evidence layer says; why something is missing goes along."""
        if self.support != "unsupported" or not self.detail:
            return Stated(self.support, self.value)
        long = len(self.detail) > _LONGEST_REASON
        reason = f"{self.detail[: _LONGEST_REASON - 1]}…" if long else self.detail
        return Stated(self.support, self.value, reason)


def shortened(text: str) -> str:
    """Make a detail of any text: one line without secrets, and not at any length."""
    line = "".join(one if one.isprintable() else " " for one in redact_text(text[:4_000]))
    line = " ".join(line.split())
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= LONGEST_DETAIL else f"{line[: LONGEST_DETAIL - 1]}…"


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise InputError(f"{what}: expected a name of 1 to 200 characters, not {brief(name)}")
    if not name.isprintable() or " " in name:
        raise InputError(f"{what}: {brief(name)} has characters that a name cannot have")
