"""Observations: one capability of one model, as a probe or a call showed it."""

import re
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.statement import Stated, statement_problems
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact_text

Origin = Literal["probe", "use"]
"""`probe`: a test call showed it. `use`: a call that was made for its own sake showed it."""

MAX_DETAIL: Final = 300
_MAX_REASON: Final = 120
_TRANSCRIPT: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was observed about one capability of one model.

    A limit or a choice is `native` and has a value. `detail` says why in a few words. `transcript`
    is the hash of the requests and responses that showed it.
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
        for field in ("provider", "model"):
            _check_name(getattr(self, field), field)
        if "/" in self.provider:
            raise InputError(
                f"provider: {brief(self.provider)} has a slash; pass provider and model separately"
            )
        known = capability(self.capability)
        if known.id != self.capability:
            raise InputError(f"capability: write {known.id}, not {brief(self.capability)}")
        if known.formula is not None:
            raise InputError(
                f"{known.id} is derived ({known.formula}): record the capabilities it derives from"
            )
        if self.support not in ("native", "unsupported"):
            raise InputError(f"support: expected native or unsupported, not {brief(self.support)}")
        if self.origin not in ("probe", "use"):
            raise InputError(f"origin: expected probe or use, not {brief(self.origin)}")
        self._check_value(known.kind)
        if len(self.detail) > MAX_DETAIL or not self.detail.isprintable():
            raise InputError(f"detail: expected one line of at most {MAX_DETAIL} characters")
        if self.transcript and not _TRANSCRIPT.fullmatch(self.transcript):
            raise InputError("transcript: expected sha256: and 64 hex digits")

    def _check_value(self, kind: str) -> None:
        if self.support == "unsupported" and (kind != "flag" or self.value is not None):
            raise InputError(
                f"{self.capability}: only a flag can be unsupported, and then it has no value"
            )
        if kind != "flag" and self.value is None:
            raise InputError(f"{self.capability}: a {kind} needs a value")
        for _, problem in statement_problems({self.field: self.field_value}):
            raise InputError(f"{self.capability}: {problem}")

    @property
    def field(self) -> str:
        """The catalog field that states this capability."""
        name = self.capability
        return name if name.startswith("x-host-") else name.replace("-", "_")

    @property
    def field_value(self) -> Any:
        """The value of that field."""
        if self.value is None:
            return self.support == "native"
        return list(self.value) if isinstance(self.value, tuple) else self.value

    @property
    def stated(self) -> Stated:
        """The statement in the evidence layer. An absence has the detail as its reason."""
        if self.support != "unsupported" or not self.detail:
            return Stated(self.support, self.value)
        too_long = len(self.detail) > _MAX_REASON
        reason = f"{self.detail[: _MAX_REASON - 1]}…" if too_long else self.detail
        return Stated(self.support, self.value, reason)


class Refutation(msgspec.Struct, frozen=True):
    """Recorded evidence that a response contradicts, and what to record instead, if anything."""

    before: Observation
    replacement: Observation | None = None
    reason: str = ""


def detail_line(text: str) -> str:
    """Return a text as the detail of an observation: one redacted line of limited length."""
    line = "".join(char if char.isprintable() else " " for char in redact_text(text[:4_000]))
    line = " ".join(line.split())
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= MAX_DETAIL else f"{line[: MAX_DETAIL - 1]}…"


def _check_name(name: Any, field: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise InputError(f"{field}: expected a name of 1 to 200 characters, not {brief(name)}")
    if not name.isprintable() or " " in name:
        raise InputError(f"{field}: {brief(name)} contains a space or a control character")
