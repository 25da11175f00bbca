"""Archiving: an envelope is closed, exported, verified, and its events may leave the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import LedgerError
from modelpact.ledger.verify.export import export_lines, read_export, write_export
from modelpact.ledger.verify.importer import NotVerified
from modelpact.ledger.verify.report import ExpectedHead, VerifyReport
from modelpact.ledger.verify.verifier import verify_export
from modelpact.ledger.write.transaction import ARCHIVED, Transaction

if TYPE_CHECKING:
    from modelpact.identity import Keyring

_TOGETHER: Final = 5_000


def archive(
    ledger: Ledger,
    envelope: str,
    file: Path,
    *,
    signer: "Keyring | None" = None,
    drop: bool = False,
    reason: str = "",
) -> VerifyReport:
    """Close an envelope and write its archive; with `drop`, its events then leave the store.

    Each step can be done again: what was stopped on the way is finished by the next call. The
    last event stays in the store, so that nothing can be appended behind the archive's back.
    """
    found = ledger.envelope(envelope)
    if found is None:
        raise LedgerError(f"there is no envelope {envelope!r:.80} in {ledger.store.url}")
    if drop and signer is None:
        raise LedgerError("events are dropped only where their archive is signed: give a signer")
    (first,) = ledger.events(envelope, limit=1)
    if first.sequence == 1:
        _check_free(ledger, envelope, file)
    if found.archived is None:
        payload = {"events": found.events, "file": file.name, "reason": reason}
        ledger.write(lambda tx: _close(tx, Draft(envelope, ARCHIVED, payload)))
    if signer is not None:
        ledger.checkpoint(envelope, signer)
    expected = None
    if first.sequence == 1:
        write_export(file, export_lines(ledger, envelope), compress=True)
    else:  # stopped while events were dropped: the archive must be the one that this is the end of
        head = ledger.events(envelope, after=found.events - 1)[-1]
        expected = ExpectedHead(head.sequence, head.hash)
    keys = None if signer is None else signer.public_keys
    report = verify_export(read_export(file), keys, expected=expected)
    if not report.ok:
        raise NotVerified(report)
    if drop:
        _drop(ledger, envelope, report.events)
    return report


def _check_free(ledger: Ledger, envelope: str, file: Path) -> None:
    """Refuse to write over a file, unless it is an earlier part of the same envelope."""
    if not file.exists():
        return
    there = verify_export(read_export(file))
    same = ledger.read(
        "SELECT hash FROM events WHERE envelope = ? AND sequence = ?", (envelope, there.events)
    )
    if not there.ok or there.envelope != envelope or same != [(there.head,)]:
        raise LedgerError(
            f"{file} is there already and is not the archive of {envelope}: "
            "name another file; nothing was changed"
        )


def _close(tx: Transaction, draft: Draft) -> None:
    """Close an envelope, unless something in it is yet to end."""
    rows = tx.execute(
        "SELECT id FROM invocations WHERE envelope = ? AND state = 'open'", (draft.envelope,)
    )
    if rows:
        raise LedgerError(
            f"{draft.envelope} has {len(rows):,} open invocations, {rows[0][0]} among them: let "
            "them end, or cancel them with `modelpact invocations cancel`; nothing was changed"
        )
    last = tx.execute(
        "SELECT type, (SELECT kind FROM envelopes WHERE id = events.envelope) FROM events "
        "WHERE envelope = ? ORDER BY sequence DESC LIMIT 1",
        (draft.envelope,),
    )
    if last and last[0][1] == "gateway" and last[0][0] != "gateway.stopped":
        raise LedgerError(
            f"{draft.envelope} is a gateway's that has not finished it: stop that gateway, or "
            "start it again if it died; nothing was changed"
        )
    tx.append(draft)


def _drop(ledger: Ledger, envelope: str, last: int) -> None:
    for end in range(_TOGETHER, last + _TOGETHER, _TOGETHER):

        def work(tx: Transaction, end: int = min(end, last - 1)) -> None:
            tx.execute("DELETE FROM events WHERE envelope = ? AND sequence <= ?", (envelope, end))

        ledger.write(work)
