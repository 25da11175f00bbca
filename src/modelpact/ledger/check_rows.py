"""Invocations and providers held against the events that tell of them."""

import hashlib
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from modelpact.ledger.cost_rows import event_place
from modelpact.ledger.reader import Reader
from modelpact.ledger.report import Broken, Kind, TableReport
from modelpact.ledger.store import Row
from modelpact.ledger.transfer import imported_to
from modelpact.vocabulary.errors import InputError

REGISTRY: Final = "registry"
"""The envelope in which providers come and go."""
_PAGE: Final = 500
_ENDS: Final = ("capability.completed", "capability.failed", "capability.cancelled")
_LISTED_ENDS: Final = ", ".join(f"'{one}'" for one in _ENDS)
_COLUMNS: Final = (
    "id, provider, capability, semantics, envelope, event, input, attribution, "
    "state, settled_by, output, error"
)
_TRIES: Final = 5


class _Told(msgspec.Struct):
    """What an event tells of an invocation or a provider."""

    invocation: str = ""
    provider: str = ""
    capability: str = ""
    semantics: str = ""
    input: str = ""
    attribution: dict[str, Any] = {}
    output: str | None = None
    error: str | None = None
    reason: str | None = None
    registration: Any = None


_DECODE: Final = msgspec.json.Decoder(_Told).decode


def agrees(stored: Any, told: Any) -> bool:
    """Tell whether a JSON text is what an event embeds, or names by its digest."""
    if not isinstance(stored, str):
        return stored is told
    if isinstance(told, str):
        digest = hashlib.sha256(stored.encode("utf-8", "surrogatepass")).hexdigest()
        return told in (stored, f"sha256:{digest}")
    try:
        return bool(msgspec.json.decode(stored) == told)
    except (msgspec.DecodeError, RecursionError):
        return False


def _told(
    reader: Reader, envelope: str, types: Collection[str], after: int, last: int
) -> Iterator[list[tuple[int, str, _Told]]]:
    """Yield what events of some types tell, a page at a time."""
    listed = ", ".join(f"'{one}'" for one in types)
    while True:
        page = reader.read(
            "SELECT sequence, type, payload FROM events WHERE envelope = ? AND sequence > ? "
            f"AND sequence <= ? AND type IN ({listed}) ORDER BY sequence LIMIT ?",
            (envelope, after, last, _PAGE),
        )
        if not page:
            return
        found = []
        for sequence, kind, payload in page:
            try:
                found.append((sequence, kind, _DECODE(payload)))
            except (msgspec.DecodeError, RecursionError):
                continue  # somebody else's event, which tells of something else
        yield found
        after = page[-1][0]


def check_invocations(reader: Reader, envelope: str, first: int, last: int) -> TableReport:
    """Look whether the invocations are what the events of an envelope tell of them."""
    imported = imported_to(reader.read, envelope)
    rows = 0
    for page in _told(reader, envelope, ("capability.invoked", *_ENDS), first - 1, last):
        names = sorted({told.invocation for _, _, told in page if told.invocation})
        marks = ", ".join("?" * len(names))
        sql = f"SELECT {_COLUMNS} FROM invocations WHERE id IN ({marks})"
        kept = {row[0]: row for row in reader.read(sql, names)} if names else {}
        for sequence, kind, told in page:
            row = kept.get(told.invocation)
            name = f"{envelope}:{sequence}"
            if row is None:
                if told.invocation and sequence > imported:
                    return _broken("dropped", name, f"invocation {told.invocation} is missing")
                continue
            wrong = _wrong(row, name, kind, told)
            if wrong:
                said = f"{wrong} of invocation {told.invocation} is not what it says"
                return _broken("edited", name, said)
            rows += kind == "capability.invoked"
    return TableReport("invocations", rows)


def _wrong(row: Row, event: str, kind: str, told: _Told) -> str:
    """Return what in a row contradicts an event, or an empty text."""
    _, provider, capability, semantics, envelope, opened, given, who, state, end, out, error = row
    if kind == "capability.invoked":
        facts = {
            "the provider": provider == told.provider,
            "the capability": capability == told.capability,
            "the way": semantics == told.semantics,
            "the envelope": envelope == event.rpartition(":")[0],
            "the event": opened == event,
            "the input": agrees(given, told.input),
            "the attribution": agrees(who, told.attribution),
        }
    else:
        facts = {
            "the end": end == event,
            "the state": kind == f"capability.{state}",
            "the output": agrees(out, told.output),
            "the error": error == (told.reason if state == "cancelled" else told.error),
        }
    return next((name for name, holds in facts.items() if not holds), "")


def _broken(kind: Kind, event: str, said: str) -> TableReport:
    return TableReport("invocations", broken=Broken(kind, 0, event, said))


def check_backed(reader: Reader, left: dict[str, int]) -> TableReport:
    """Look for invocations that no event tells of; `left`: where events are left from, if not all.

    One statement, so that what is written meanwhile is seen whole or not at all.
    """
    place = "CAST(SUBSTR({0}, LENGTH(i.envelope) + 2) AS BIGINT)"
    named = "REPLACE({0}.payload, '\"invocation\":\"' || i.id || '\"', '') = {0}.payload"
    rows = reader.read(
        "SELECT i.id, i.envelope, i.event FROM invocations i "
        f"LEFT JOIN events a ON a.envelope = i.envelope AND a.sequence = {place.format('i.event')} "
        "LEFT JOIN events b ON b.envelope = i.envelope "
        f"AND b.sequence = {place.format('i.settled_by')} "
        f"WHERE a.sequence IS NULL OR a.type <> 'capability.invoked' OR {named.format('a')} "
        "OR (i.state = 'open') <> (i.settled_by IS NULL) OR (i.settled_by IS NOT NULL AND "
        f"(b.sequence IS NULL OR b.type NOT IN ({_LISTED_ENDS}) OR {named.format('b')}))"
    )
    unproven = 0
    for identity, envelope, event in rows:
        try:
            gone = event_place(event)[1] < left.get(envelope, 0)
        except (InputError, AttributeError):
            gone = False
        if not gone:
            return _broken("edited", str(event), f"invocation {identity} is not what it tells of")
        unproven += 1
    return TableReport("invocations", unproven=unproven)


def check_providers(reader: Reader, first: int) -> TableReport:
    """Look whether the providers are those that the registry's events tell of."""
    for _ in range(_TRIES):
        before = _providers(reader)
        found = _check_providers(reader, before, first)
        if found.ok or before == _providers(reader):
            return found  # else somebody registered meanwhile
    return found


def _providers(reader: Reader) -> list[Row]:
    return reader.read("SELECT id, state, registration, event FROM providers ORDER BY id")


def _check_providers(reader: Reader, kept: list[Row], first: int) -> TableReport:
    registered: dict[str, tuple[int, Any]] = {}
    active: dict[str, bool] = {}
    types = ("provider.registered", "provider.deregistered")
    for page in _told(reader, REGISTRY, types, first - 1, 2**62):
        for sequence, kind, told in page:
            active[told.provider] = kind == types[0]
            if active[told.provider]:
                registered[told.provider] = (sequence, told.registration)
    unproven = 0
    for name, state, text, event in kept:
        sequence, registration = registered.pop(name, (0, None))
        if not sequence and first > 1:
            unproven += 1
        elif not sequence or event != f"{REGISTRY}:{sequence}" or not agrees(text, registration):
            return _wrong_provider(str(event), f"{name} is not registered so")
        elif (state == "active") != active[name]:
            return _wrong_provider(str(event), f"{name} is marked as {state}, and is not")
    imported = imported_to(reader.read, REGISTRY)
    for name, (sequence, _) in registered.items():
        if sequence > imported:
            return _wrong_provider(f"{REGISTRY}:{sequence}", f"{name} is missing")
    return TableReport("providers", len(kept) - unproven, unproven)


def _wrong_provider(event: str, said: str) -> TableReport:
    return TableReport("providers", broken=Broken("edited", 0, event, said))
