"""Find and list invocations, whichever storage keeps them."""

from modelpact.ledger.costs import CostRecord
from modelpact.ledger.reader import LedgerReader
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime.events import find_in_events, list_in_events
from modelpact.providers.runtime.rows import current_cost, find_row, list_rows


def find_invocation(reader: LedgerReader, invocation_id: str) -> Invocation:
    """Return an invocation, or raise `unknown_invocation`.

    An invocation that only events keep has the id of the event that opened it.
    """
    if ":" in invocation_id:
        return find_in_events(reader, invocation_id)
    return find_row(reader, invocation_id)


def list_invocations(
    reader: LedgerReader, state: str = "", provider: str = "", limit: int = 100
) -> tuple[list[Invocation], bool]:
    """Return invocations, the newest first, and whether older ones in events were left out."""
    in_events, truncated = list_in_events(reader, state, provider, limit)
    found = [*list_rows(reader, state, provider, limit), *in_events]
    found.sort(key=lambda invocation: -invocation.created)
    return found[:limit], truncated


def find_cost(reader: LedgerReader, invocation: Invocation) -> CostRecord | None:
    """Return what a settled invocation cost, corrections included; None while it is open."""
    settled_by = invocation.settled_by
    return None if settled_by is None else current_cost(reader.read, settled_by)
