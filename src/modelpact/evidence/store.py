"""Evidence in the ledger: an event for what was learned, and a row for what stands."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Evidence
from modelpact.catalog.layer import Layer
from modelpact.catalog.rules import ascii_lower
from modelpact.evidence.observation import Observation
from modelpact.evidence.responses import Refutation
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, brief

_COLUMNS: Final = (
    "provider, model, capability, support, value, origin, detail, transcript, observed, event"
)
_KEEP: Final = (
    f"INSERT INTO evidence ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (provider, model, capability) DO UPDATE SET support = excluded.support, "
    "value = excluded.value, origin = excluded.origin, detail = excluded.detail, "
    "transcript = excluded.transcript, observed = excluded.observed, event = excluded.event"
)
_STANDING: Final = (
    "SELECT support, value, origin, observed FROM evidence "
    "WHERE provider = ? AND model = ? AND capability = ?"
)
_DAY: Final = 86_400 * 1_000_000_000


def record(ledger: Ledger, *learned: Observation, cause: str | None = None) -> list[Event]:
    """Keep what was learned, in one commit; the newest stands.

    What use shows a second time on the same day is not written again.
    """
    return ledger.write(lambda tx: _record(tx, learned, cause)) if learned else []


async def record_async(
    ledger: Ledger, *learned: Observation, cause: str | None = None
) -> list[Event]:
    """Keep what was learned without blocking the loop; see `record`."""
    if not learned:
        return []
    return await ledger.write_async(lambda tx: _record(tx, learned, cause))


def standing(reader: LedgerReader, provider: str, model: str) -> tuple[Observation, ...]:
    """Return the evidence of one model that stands, as it was learned."""
    rows = reader.read(f"SELECT {_COLUMNS} FROM evidence WHERE provider = ?", (provider,))
    return tuple(_read(row) for row in rows if ascii_lower(row[1]) == ascii_lower(model))


async def replace_async(
    ledger: Ledger, refuted: Iterable[Refutation], *, cause: str | None = None
) -> None:
    """Let what was refuted stand no longer, and what was seen instead stand in its place."""
    listed = tuple(refuted)

    def work(tx: Transaction) -> None:
        for one in listed:
            if one.instead is None:
                gone = (one.before.model, one.before.capability)
                _drop(tx, one.before.provider, one.before.model, [gone], one.why, cause)
        _record(tx, tuple(one.instead for one in listed if one.instead is not None), cause)

    if listed:
        await ledger.write_async(work)


def forget(ledger: Ledger, target: str, capabilities: Iterable[str] = ()) -> int:
    """Let evidence of a model no longer stand; its events stay. Returns how many rows fell."""
    provider, slash, model = target.partition("/")
    if not (slash and provider and model):
        raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL")
    wanted = {capability(one).id for one in capabilities}

    def work(tx: Transaction) -> int:
        rows = tx.execute("SELECT model, capability FROM evidence WHERE provider = ?", (provider,))
        gone = [
            (spelled, name)
            for spelled, name in rows
            if ascii_lower(spelled) == ascii_lower(model) and (not wanted or name in wanted)
        ]
        if gone:
            _drop(tx, provider, model, gone)
        return len(gone)

    return ledger.write(work)


def _drop(
    tx: Transaction,
    provider: str,
    model: str,
    gone: list[tuple[str, str]],
    why: str = "",
    cause: str | None = None,
) -> None:
    for spelled, name in gone:
        tx.execute(
            "DELETE FROM evidence WHERE provider = ? AND model = ? AND capability = ?",
            (provider, spelled, name),
        )
    names = sorted({name for _, name in gone})
    payload: dict[str, Any] = {"provider": provider, "model": model, "capabilities": names}
    if why:
        payload["why"] = why
    tx.append(Draft(_envelope(tx, provider), "evidence.forgotten", payload, cause))


def read_evidence(reader: LedgerReader) -> Mapping[tuple[str, str], tuple[Layer, ...]]:
    """Return the evidence that stands, as layers for `Catalog.extended(evidence=…)`.

    What was learned on one day in one way is one layer of its model.
    """
    newest: dict[tuple[str, str], dict[str, tuple[Observation, int, str]]] = {}
    spelled: dict[tuple[str, str], str] = {}
    rows = reader.read(f"SELECT {_COLUMNS} FROM evidence ORDER BY observed, event")
    for row in rows:
        one, (when, event) = _read(row), row[-2:]
        key = (one.provider, ascii_lower(one.model))
        spelled[key] = one.model
        newest.setdefault(key, {})[one.capability] = (one, when, event)
    return {
        (provider, spelled[provider, model]): _layers(said.values())
        for (provider, model), said in newest.items()
    }


def _read(row: tuple[Any, ...]) -> Observation:
    provider, model, name, support, value, origin, detail, transcript = row[:8]
    kept = None if value is None else msgspec.json.decode(value)
    kept = tuple(kept) if isinstance(kept, list) else kept
    return Observation(provider, model, name, support, kept, origin, detail, transcript)


def _record(tx: Transaction, learned: tuple[Observation, ...], cause: str | None) -> list[Event]:
    events = []
    for one in learned:
        value = None if one.value is None else msgspec.json.encode(one.value).decode()
        if one.origin == "use" and _known_today(tx, one, value):
            continue
        payload: dict[str, Any] = msgspec.to_builtins(one)
        draft = Draft(_envelope(tx, one.provider), "evidence.recorded", payload, cause)
        event = tx.append(draft)
        events.append(event)
        tx.execute(
            _KEEP,
            (
                one.provider,
                one.model,
                one.capability,
                one.support,
                value,
                one.origin,
                one.detail,
                one.transcript,
                event.time,
                event.id,
            ),
        )
    return events


def _known_today(tx: Transaction, one: Observation, value: str | None) -> bool:
    rows = tx.execute(_STANDING, (one.provider, one.model, one.capability))
    return any(
        (support, kept, origin) == (one.support, value, "use")
        and observed // _DAY == tx.now // _DAY
        for support, kept, origin, observed in rows
    )


def _envelope(tx: Transaction, provider: str) -> str:
    name = f"evidence/{provider}"
    tx.open_envelope(name, "evidence", provider)
    return name


def _layers(said: Iterable[tuple[Observation, int, str]]) -> tuple[Layer, ...]:
    groups: dict[tuple[str, str, str], list[tuple[Observation, str]]] = {}
    for one, when, event in sorted(said, key=lambda each: each[1]):
        day = datetime.fromtimestamp(when // 1_000_000_000, UTC).date().isoformat()
        groups.setdefault((day, one.origin, one.transcript), []).append((one, event))
    return tuple(
        Layer(
            Evidence("evidence", rule=origin, source=transcript or found[-1][1], date=day),
            {one.field: one.said for one, _ in found},
            {one.capability: one.stated for one, _ in found},
        )
        for (day, origin, transcript), found in groups.items()
    )
