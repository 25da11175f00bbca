"""Observations: one capability of one model, as a probe or a call showed it.

The ledger has an event for each observation, and a row for the current one.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.claim import Evidence
from modelpact.catalog.facts import Layer
from modelpact.catalog.rules import ascii_lower
from modelpact.catalog.statement import Stated, statement_problems
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.redaction import redact_text

Origin = Literal["probe", "use"]
"""`probe`: a test call showed it. `use`: a call that was made for its own sake showed it."""

MAX_DETAIL: Final = 300
_MAX_REASON: Final = 120
_TRANSCRIPT: Final = re.compile(r"sha256:[0-9a-f]{64}")
_COLUMNS: Final = "provider, model, capability, support, value, origin, detail, transcript, observed, event"
_UPSERT: Final = (
    f"INSERT INTO evidence ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (provider, model, capability) DO UPDATE SET support = excluded.support, "
    "value = excluded.value, origin = excluded.origin, detail = excluded.detail, "
    "transcript = excluded.transcript, observed = excluded.observed, event = excluded.event"
)
_SELECT_CURRENT: Final = (
    "SELECT support, value, origin, observed FROM evidence WHERE provider = ? AND model = ? AND capability = ?"
)
_DAY_NS: Final = 86_400 * 1_000_000_000


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
            raise InputError(f"provider: {brief(self.provider)} has a slash; pass provider and model separately")
        known = capability(self.capability)
        if known.id != self.capability:
            raise InputError(f"capability: write {known.id}, not {brief(self.capability)}")
        if known.formula is not None:
            raise InputError(f"{known.id} is derived ({known.formula}): record the capabilities it derives from")
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
            raise InputError(f"{self.capability}: only a flag can be unsupported, and then it has no value")
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


def record(ledger: Ledger, *observations: Observation, cause: str | None = None) -> list[Event]:
    """Record observations in one commit; each replaces the current one for its capability.

    An observation from use that was already recorded on the same day is not written again.
    """
    return ledger.write(lambda tx: _record(tx, observations, cause)) if observations else []


async def record_async(ledger: Ledger, *observations: Observation, cause: str | None = None) -> list[Event]:
    """Do what `record` does, without blocking the event loop."""
    if not observations:
        return []
    return await ledger.write_async(lambda tx: _record(tx, observations, cause))


async def withdraw_async(ledger: Ledger, refutations: Iterable[Refutation], *, cause: str | None = None) -> None:
    """Withdraw refuted evidence, and record what replaces it, in one commit."""
    listed = tuple(refutations)

    def work(tx: Transaction) -> None:
        for refutation in listed:
            if refutation.replacement is None:
                before = refutation.before
                rows = [(before.model, before.capability)]
                _drop(tx, before.provider, before.model, rows, refutation.reason, cause)
        replacements = (refutation.replacement for refutation in listed)
        _record(tx, tuple(filter(None, replacements)), cause)

    if listed:
        await ledger.write_async(work)


def forget(ledger: Ledger, target: str, capabilities: Iterable[str] = ()) -> int:
    """Drop the current evidence about a model; its events stay. Return the number of rows."""
    provider, slash, model = target.partition("/")
    if not (slash and provider and model):
        raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL")
    wanted = {capability(name).id for name in capabilities}

    def work(tx: Transaction) -> int:
        rows = tx.execute("SELECT model, capability FROM evidence WHERE provider = ?", (provider,))
        dropped = [
            (spelling, name)
            for spelling, name in rows
            if ascii_lower(spelling) == ascii_lower(model) and (not wanted or name in wanted)
        ]
        if dropped:
            _drop(tx, provider, model, dropped)
        return len(dropped)

    return ledger.write(work)


def current_observations(reader: LedgerReader, provider: str, model: str) -> tuple[Observation, ...]:
    """Return the current evidence about one model, as it was recorded."""
    rows = reader.read(f"SELECT {_COLUMNS} FROM evidence WHERE provider = ?", (provider,))
    return tuple(_read(row) for row in rows if ascii_lower(row[1]) == ascii_lower(model))


def read_evidence(reader: LedgerReader) -> Mapping[tuple[str, str], tuple[Layer, ...]]:
    """Return all current evidence as layers for `Catalog.extended(evidence=…)`.

    Observations of one model with the same day, origin and transcript form one layer.
    """
    newest: dict[tuple[str, str], dict[str, tuple[Observation, int, str]]] = {}
    spellings: dict[tuple[str, str], str] = {}
    rows = reader.read(f"SELECT {_COLUMNS} FROM evidence ORDER BY observed, event")
    for row in rows:
        observation, (time, event) = _read(row), row[-2:]
        key = (observation.provider, ascii_lower(observation.model))
        spellings[key] = observation.model
        newest.setdefault(key, {})[observation.capability] = (observation, time, event)
    return {
        (provider, spellings[provider, model]): _layers(by_capability.values())
        for (provider, model), by_capability in newest.items()
    }


def _check_name(name: Any, field: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise InputError(f"{field}: expected a name of 1 to 200 characters, not {brief(name)}")
    if not name.isprintable() or " " in name:
        raise InputError(f"{field}: {brief(name)} contains a space or a control character")


def _record(tx: Transaction, observations: tuple[Observation, ...], cause: str | None) -> list[Event]:
    events = []
    for observation in observations:
        value = observation.value
        stored = None if value is None else msgspec.json.encode(value).decode()
        if observation.origin == "use" and _recorded_today(tx, observation, stored):
            continue
        payload: dict[str, Any] = msgspec.to_builtins(observation)
        envelope = _envelope(tx, observation.provider)
        event = tx.append(Draft(envelope, "evidence.recorded", payload, cause))
        events.append(event)
        tx.execute(
            _UPSERT,
            (
                observation.provider,
                observation.model,
                observation.capability,
                observation.support,
                stored,
                observation.origin,
                observation.detail,
                observation.transcript,
                event.time,
                event.id,
            ),
        )
    return events


def _recorded_today(tx: Transaction, observation: Observation, value: str | None) -> bool:
    key = (observation.provider, observation.model, observation.capability)
    return any(
        (support, stored, origin) == (observation.support, value, "use") and observed // _DAY_NS == tx.now // _DAY_NS
        for support, stored, origin, observed in tx.execute(_SELECT_CURRENT, key)
    )


def _drop(
    tx: Transaction, provider: str, model: str, rows: list[tuple[str, str]], reason: str = "", cause: str | None = None
) -> None:
    """Delete rows, each a model's spelling and a capability, and record that in one event."""
    for spelling, name in rows:
        tx.execute(
            "DELETE FROM evidence WHERE provider = ? AND model = ? AND capability = ?", (provider, spelling, name)
        )
    names = sorted({name for _, name in rows})
    payload: dict[str, Any] = {"provider": provider, "model": model, "capabilities": names}
    if reason:
        payload["why"] = reason
    tx.append(Draft(_envelope(tx, provider), "evidence.forgotten", payload, cause))


def _envelope(tx: Transaction, provider: str) -> str:
    name = f"evidence/{provider}"
    tx.open_envelope(name, "evidence", provider)
    return name


def _read(row: tuple[Any, ...]) -> Observation:
    provider, model, name, support, stored, origin, detail, transcript = row[:8]
    value = None if stored is None else msgspec.json.decode(stored)
    value = tuple(value) if isinstance(value, list) else value
    return Observation(provider, model, name, support, value, origin, detail, transcript)


def _layers(observed: Iterable[tuple[Observation, int, str]]) -> tuple[Layer, ...]:
    groups: dict[tuple[str, str, str], list[tuple[Observation, str]]] = {}
    for observation, time, event in sorted(observed, key=lambda entry: entry[1]):
        day = datetime.fromtimestamp(time // 1_000_000_000, UTC).date().isoformat()
        key = (day, observation.origin, observation.transcript)
        groups.setdefault(key, []).append((observation, event))
    return tuple(
        Layer(
            Evidence("evidence", rule=origin, source=transcript or group[-1][1], date=day),
            {observation.field: observation.field_value for observation, _ in group},
            {observation.capability: observation.stated for observation, _ in group},
        )
        for (day, origin, transcript), group in groups.items()
    )
