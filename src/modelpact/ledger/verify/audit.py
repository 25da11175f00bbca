"""Auditing a store: its envelopes, what archives left of them, and the tables beside the events."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.event import GENESIS
from modelpact.ledger.reader import Envelope, LedgerReader
from modelpact.ledger.stores.base import LedgerError, LedgerUnavailable
from modelpact.ledger.verify.export import (
    UNREADABLE,
    decode_event,
    event_line,
    export_lines,
    hash_holds,
    keys_of,
)
from modelpact.ledger.verify.keys import TrustedKeys
from modelpact.ledger.verify.report import BrokenLink, ExpectedHead, Kind, TableReport, VerifyReport
from modelpact.ledger.verify.tables import (
    REGISTRY,
    verify_cost_envelopes,
    verify_costs,
    verify_hourly_sums,
    verify_invocation_events,
    verify_invocations,
    verify_providers,
)
from modelpact.ledger.verify.verifier import verify_export
from modelpact.ledger.write.transaction import ARCHIVED
from modelpact.vocabulary.errors import InputError, brief

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys

Watch = Callable[[Iterable[bytes]], Iterable[bytes]]

_PAGE = 1_000


def verify_envelope(
    reader: LedgerReader,
    name: Any,
    public_keys: "PublicKeys | Sequence[PublicKeys] | None" = None,
    *,
    expected: ExpectedHead | None = None,
    watch: Watch = iter,
) -> VerifyReport:
    """Verify an envelope as it stands in a store, whatever was done to it there."""
    try:
        found = reader.envelope(name)
        if found is None:
            return _vanished(reader, name, TrustedKeys(public_keys))
        (first,) = reader.event_rows(name, limit=1)
        if first[1] != 1 and found.archived is not None:
            return _Remains(reader, found, public_keys).verify(expected)
        report = verify_export(watch(export_lines(reader, name)), public_keys, expected=expected)
        return _with_state(reader, found, report)
    except LedgerUnavailable:
        raise
    except LedgerError as error:
        return _report(brief(name), broken=BrokenLink("edited", 0, "", str(error)))


def verify_tables(
    reader: LedgerReader, reports: Mapping[str, VerifyReport], *, whole: bool
) -> list[TableReport]:
    """Hold the tables that users read against events that were verified; exports have none.

    `whole`: the reports are of all envelopes, so that nothing may be there beside them.
    """
    checks: list[partial[TableReport]] = []
    for name, report in reports.items():
        if report.events and (report.ok or report.unsigned):
            ends = (report.first, report.events)
            checks.append(partial(verify_costs, reader, name, *ends))
            checks.append(partial(verify_invocations, reader, name, *ends))
    if whole:
        left = {name: one.first for name, one in reports.items()}
        checks.append(partial(verify_cost_envelopes, reader, reports.keys()))
        checks.append(partial(verify_hourly_sums, reader))
        checks.append(partial(verify_invocation_events, reader, left))
        checks.append(partial(verify_providers, reader, left.get(REGISTRY, 1)))
    found: dict[str, TableReport] = {}
    for check in checks:
        try:
            one = check()
        except LedgerUnavailable:
            raise
        except LedgerError as error:
            table = check.func.__name__.removeprefix("verify_")
            one = TableReport(
                table, broken=BrokenLink("edited", 0, "", f"it cannot be read: {error}")
            )
        found[one.table] = found[one.table] + one if one.table in found else one
    return [one for one in found.values() if one.rows or one.unproven or not one.ok]


def _with_state(reader: LedgerReader, before: Envelope, report: VerifyReport) -> VerifyReport:
    """Hold what the table of envelopes says against the last event; both may have come on since."""
    after = reader.envelope(before.id)
    closed = report.archived and after is not None and after.archived is None
    if report.broken is None and (closed or (before.archived is not None and not report.archived)):
        said = "archived" if before.archived is not None else "open"
        broken = BrokenLink(
            "edited", 0, "", f"the envelope is marked as {said}, its last event is not"
        )
        return msgspec.structs.replace(report, broken=broken)
    return report


def _vanished(reader: LedgerReader, name: str, trusted: TrustedKeys) -> VerifyReport:
    """Tell of an envelope without events: it may just never have been written to."""
    rows = reader.read("SELECT archived FROM envelopes WHERE id = ?", (name,))
    signed = reader.checkpoints(name)
    if not rows and not signed:
        raise InputError(f"there is no envelope {name!r:.80} in {reader.store.url}")
    broken = None
    if signed:
        said = f"a checkpoint signs event {signed[-1].sequence}, and no event is here"
        broken = BrokenLink("truncated", 0, f"{name}:1", said)
    elif rows[0][0] is not None:
        said = "it is marked as archived, and not even its last event is here"
        broken = BrokenLink("truncated", 0, f"{name}:1", said)
    elif trusted.given:
        broken = BrokenLink("unsigned", 0, "", "it was opened, and no event is here")
    return _report(name, trusted=trusted.given, broken=broken)


def _report(name: str, **more: Any) -> VerifyReport:
    empty = VerifyReport(name, "", "", 0, GENESIS, 0, 0, (), False, False)
    return msgspec.structs.replace(empty, **more)


class _Broken(Exception):
    def __init__(self, kind: Kind, sequence: int, message: str) -> None:
        self.kind, self.sequence, self.message = kind, sequence, message


class _Remains:
    """What dropping left of an archived envelope: its end, which the archive must lead to."""

    def __init__(
        self,
        reader: LedgerReader,
        envelope: Envelope,
        public_keys: "PublicKeys | Sequence[PublicKeys] | None",
    ) -> None:
        self.reader = reader
        self.envelope = envelope
        self.trusted = TrustedKeys(public_keys)
        self.first = 0
        self.last = 0
        self.head = ""

    def verify(self, expected: ExpectedHead | None) -> VerifyReport:
        """Verify that the events which are left are chained, end the envelope, and are signed."""
        name, broken = self.envelope.id, None
        signed = self.reader.checkpoints(name)
        keys: tuple[str, ...] = ()
        try:
            self.read_events(expected)
            keys = self.read_checkpoints(signed)
        except _Broken as found:
            place = f"{name}:{found.sequence}"
            broken = BrokenLink(found.kind, 0, place, found.message)
        return _report(
            name,
            kind=self.envelope.kind,
            subject=self.envelope.subject,
            events=0 if broken else self.last,
            head=self.head,
            checkpoints=len(signed),
            signed=0 if broken else self.last,
            keys=keys,
            trusted=self.trusted.given,
            archived=True,
            broken=broken,
            first=self.first,
        )

    def read_events(self, expected: ExpectedHead | None) -> None:
        """Read the events that are left, in order; the last one closes the envelope."""
        kind = ""
        for row in self.rows():
            here = self.last + 1
            try:
                line = event_line(row).rstrip(b"\n")
                event = decode_event(line)
            except UNREADABLE:
                raise _Broken("edited", here, "the event cannot be read") from None
            here = event.sequence
            if not hash_holds(line, event.hash):
                raise _Broken("edited", here, "the event does not have the hash that it names")
            if self.last and here != self.last + 1:
                raise _Broken("dropped", self.last + 1, f"event {here:,} follows {self.last:,}")
            if self.last and event.previous != self.head:
                raise _Broken("edited", self.last, "the next event was chained to another")
            if expected is not None and here == expected.sequence and event.hash != expected.hash:
                raise _Broken("edited", here, "it is not the event that is expected")
            self.first = self.first or here
            self.last, self.head, kind = here, event.hash, event.type
        if kind != ARCHIVED:
            said = "the events before are missing, and this one does not close the envelope"
            raise _Broken("dropped", self.last, said)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the events that are left."""
        after: Any = 0
        while page := self.reader.event_rows(self.envelope.id, after=after, limit=_PAGE):
            yield from page
            after = page[-1][1]

    def read_checkpoints(self, signed: list[Checkpoint]) -> tuple[str, ...]:
        """Return the keys that signed the end; raise if none did."""
        keys: list[str] = []
        self.trusted.learn(keys_of(self.reader, {one.key_id for one in signed}))
        for one in signed:
            if type(one.sequence) is not int or one.sequence > self.last:
                raise _Broken(
                    "truncated", self.last + 1, f"a checkpoint signs {one.sequence!r:.40}"
                )
            known = self.trusted.find(one.key_id)
            if one.sequence < self.last or known is None:
                continue
            if one.hash != self.head or not one.holds(known):
                raise _Broken("forged checkpoint", self.last, "it does not hold for the last event")
            keys.append(one.key_id)
        if not keys:
            said = "the events before are missing, and no trusted key signed that it was archived"
            raise _Broken("dropped", self.last, said)
        return tuple(keys)
