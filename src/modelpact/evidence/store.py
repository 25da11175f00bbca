"""Evidence in the ledger: an event for each observation, and a row for the current one."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Evidence
from modelpact.catalog.layer import Layer
from modelpact.catalog.rules import ascii_lower
from modelpact.evidence.observation import Observation, Refutation
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, brief

_COLUMNS: Final = (
    "provider, model, capability, support, value, origin, detail, transcript, observed, event"
)
_UPSERT: Final = (
    f"INSERT INTO evidence ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (provider, model, capability) DO UPDATE SET support = excluded.support, "
    "value = excluded.value, origin = excluded.origin, detail = excluded.detail, "
    "transcript = excluded.transcript, observed = excluded.observed, event = excluded.event"
)
_SELECT_CURRENT: Final = (
    "SELECT support, value, origin, observed FROM evidence "
    "WHERE provider = ? AND model = ? AND capability = ?"
)
_DAY_NS: Final = 86_400 * 1_000_000_000


def record(ledger: Ledger, *observations: Observation, cause: str | None = None) -> list[Event]:
    """Record observations in one commit; each replaces the current one for its capability.

    An observation from use that was already recorded on the same day is not written again.
    """
    return ledger.write(lambda tx: _record(tx, observations, cause)) if observations else []


async def record_async(
    ledger: Ledger, *observations: Observation, cause: str | None = None
) -> list[Event]:
    """Do what `record` does, without blocking the event loop."""
    if not observations:
        return []
    return await ledger.write_async(lambda tx: _record(tx, observations, cause))


async def withdraw_async(
    ledger: Ledger, refutations: Iterable[Refutation], *, cause: str | None = None
) -> None:
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


def current_observations(
    reader: LedgerReader, provider: str, model: str
) -> tuple[Observation, ...]:
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


def _record(
    tx: Transaction, observations: tuple[Observation, ...], cause: str | None
) -> list[Event]:
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
        (support, stored, origin) == (observation.support, value, "use")
        and observed // _DAY_NS == tx.now // _DAY_NS
        for support, stored, origin, observed in tx.execute(_SELECT_CURRENT, key)
    )


def _drop(
    tx: Transaction,
    provider: str,
    model: str,
    rows: list[tuple[str, str]],
    reason: str = "",
    cause: str | None = None,
) -> None:
    """Delete rows, each a model's spelling and a capability, and record that in one event."""
    for spelling, name in rows:
        tx.execute(
            "DELETE FROM evidence WHERE provider = ? AND model = ? AND capability = ?",
            (provider, spelling, name),
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
