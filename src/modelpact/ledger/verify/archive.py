"""Archiving: close an envelope, export it, verify the export, and remove the events if asked."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.verify.export import export_lines, read_export, write_export
from modelpact.ledger.verify.importer import NotVerified
from modelpact.ledger.verify.report import ExpectedHead, VerifyReport
from modelpact.ledger.verify.verifier import verify_export
from modelpact.ledger.write.transaction import ARCHIVED, Transaction

if TYPE_CHECKING:
    from modelpact.identity import Keyring

_CHUNK_EVENTS: Final = 5_000


def archive(
    ledger: Ledger,
    envelope: str,
    file: Path,
    *,
    signer: "Keyring | None" = None,
    drop: bool = False,
    reason: str = "",
) -> VerifyReport:
    """Close an envelope and write its archive. With `drop`, its events then leave the store.

    If this is interrupted, call it again with the same arguments to finish. The last event stays in
    the store, so that nothing can be appended after the archive.
    """
    info = ledger.envelope(envelope)
    if info is None:
        raise LedgerError(f"there is no envelope {envelope!r:.80} in {ledger.store.url}")
    if drop and signer is None:
        raise LedgerError("events are dropped only if their archive is signed: name a signer")
    (first,) = ledger.events(envelope, limit=1)
    if first.sequence == 1:
        _check_not_taken(ledger, envelope, file)
    if info.archived is None:
        payload = {"events": info.events, "file": file.name, "reason": reason}
        ledger.write(lambda tx: _close(tx, Draft(envelope, ARCHIVED, payload)))
    if signer is not None:
        ledger.checkpoint(envelope, signer)
    expected = None
    if first.sequence == 1:
        write_export(file, export_lines(ledger, envelope), compress=True)
    else:  # interrupted while events were dropped: the file must be the archive of this envelope
        head = ledger.events(envelope, after=info.events - 1)[-1]
        expected = ExpectedHead(head.sequence, head.hash)
    keys = None if signer is None else signer.public_keys
    report = verify_export(read_export(file), keys, expected=expected)
    if not report.ok:
        raise NotVerified(report)
    if drop:
        _drop(ledger, envelope, report.events)
    return report


def _check_not_taken(ledger: Ledger, envelope: str, file: Path) -> None:
    """Refuse to overwrite a file, unless it is an earlier archive of the same envelope."""
    if not file.exists():
        return
    present = verify_export(read_export(file))
    same = ledger.read(
        "SELECT hash FROM events WHERE envelope = ? AND sequence = ?", (envelope, present.events)
    )
    if not present.ok or present.envelope != envelope or same != [(present.head,)]:
        raise LedgerError(
            f"{file} exists and is not the archive of {envelope}: name another file; "
            "nothing was changed"
        )


def _close(tx: Transaction, draft: Draft) -> None:
    """Close an envelope in which nothing is open."""
    rows = tx.execute(
        "SELECT id FROM invocations WHERE envelope = ? AND state = 'open'", (draft.envelope,)
    )
    if rows:
        raise LedgerError(
            f"{draft.envelope} has {len(rows):,} open invocations, for example {rows[0][0]}: let "
            "them end, or cancel them with `modelpact invocations cancel`; nothing was changed"
        )
    last = tx.execute(
        "SELECT type, (SELECT kind FROM envelopes WHERE id = events.envelope) FROM events "
        "WHERE envelope = ? ORDER BY sequence DESC LIMIT 1",
        (draft.envelope,),
    )
    if last and last[0][1] == "gateway" and last[0][0] != "gateway.stopped":
        raise LedgerError(
            f"{draft.envelope} belongs to a gateway that has not finished it: stop the gateway, or "
            "start it again if it crashed; nothing was changed"
        )
    tx.append(draft)


def _drop(ledger: Ledger, envelope: str, last: int) -> None:
    """Delete all events but the last."""
    for end in range(_CHUNK_EVENTS, last + _CHUNK_EVENTS, _CHUNK_EVENTS):

        def work(tx: Transaction, end: int = min(end, last - 1)) -> None:
            tx.execute("DELETE FROM events WHERE envelope = ? AND sequence <= ?", (envelope, end))

        ledger.write(work)
