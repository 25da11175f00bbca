"""Corrections: a cost that was reported, replaced by one that refers to it."""

import msgspec

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Transaction
from modelpact.providers.contract import ContractError
from modelpact.providers.invocations import plain, standing_cost


def correct(
    tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str = ""
) -> Event:
    """Replace the cost that an event embeds by a correction that refers to it."""
    event_id = _root(tx, event_id)
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)  # a correction that comes to another runtime meanwhile is seen or stops us
    before = standing_cost(tx.execute, event_id)
    if before is None:
        raise ContractError("unknown_event", f"{event_id!r:.80} embeds no cost record")
    corrected = CostRecord(
        record.lines,
        before.attribution,
        record.estimate,
        corrects=event_id,
        replaced=before.lines,
    )
    payload = {
        "corrects": event_id,
        "reason": plain(reason),
        "cost": corrected.to_json(),
        **({"correction": plain(name)} if name else {}),
    }
    draft = Draft(envelope, "cost.corrected", payload, event_id)
    event = tx.append(draft)
    tx.record_cost(event, corrected)
    return event


def _root(tx: Transaction, event_id: str) -> str:
    """Return the event whose cost is meant: a correction's own is the one that it corrects."""
    envelope, _, number = event_id.rpartition(":")
    if not number.isdecimal() or len(number) > 18:
        return event_id
    rows = tx.execute(
        "SELECT cause FROM events WHERE envelope = ? AND sequence = ? AND type = 'cost.corrected'",
        (envelope, int(number)),
    )
    return str(rows[0][0]) if rows else event_id


def correct_once(tx: Transaction, event_id: str, record: CostRecord, reason: str, name: str) -> str:
    """Correct a cost under a name of the provider's; the same name again changes nothing."""
    envelope = event_id.rpartition(":")[0]
    tx.head(envelope)
    rows = tx.execute(
        "SELECT sequence, payload FROM events WHERE envelope = ? AND type = 'cost.corrected' "
        "AND cause = ?",
        (envelope, event_id),
    )
    for sequence, payload in rows:
        if msgspec.json.decode(payload).get("correction") == plain(name):
            return f"{envelope}:{sequence}"
    return correct(tx, event_id, record, reason, name).id
