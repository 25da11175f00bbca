"""Names of invocations: opaque, never repeated, and impossible to guess."""

import base64
import hashlib
import os
from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import msgspec

from modelpact.ledger.canonical import NotCanonical
from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.ledger import Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Params, Row
from modelpact.providers.contract import ContractError, Invocation, NotKept

_BYTES: Final = 15
_AT_ONCE: Final = 256
_random: list[str] = []


def new_id(now: int) -> str:
    """Return a new name. It begins with the time, so that names of one time lie together.

    In an index names without any order would each touch a page of their own.
    """
    try:
        chance = _random.pop()
    except IndexError:
        # Drawn together: whoever asks the system lets go of the interpreter each time.
        drawn = base64.urlsafe_b64encode(os.urandom(_BYTES * _AT_ONCE)).decode()
        width = len(drawn) // _AT_ONCE
        _random.extend(drawn[at : at + width] for at in range(width, len(drawn), width))
        chance = drawn[:width]
    return f"inv_{now >> 20:011x}{chance}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)


_DIGEST: Final = "sha256:"
COLUMNS: Final = (
    "id, provider, capability, semantics, state, input, envelope, event, created, deadline, "
    "output, error, settled_by, partials, attribution, owner, acknowledged, answered, reminders, "
    "registered"
)


def load(tx: Transaction, invocation_id: str) -> Invocation:
    """Return an invocation as a transaction sees it."""
    rows = tx.execute(f"SELECT {COLUMNS} FROM invocations WHERE id = ?", (invocation_id,))
    if not rows:
        raise ContractError("unknown_invocation", f"no invocation {invocation_id!r:.80}")
    return read_row(rows[0])


def find_invocation(reader: LedgerReader, invocation_id: str) -> Invocation:
    """Return an invocation, or raise `unknown_invocation`."""
    rows = []
    if invocation_id.isprintable():  # others no store has, nor takes for a question
        rows = reader.read(f"SELECT {COLUMNS} FROM invocations WHERE id = ?", (invocation_id,))
    if not rows:
        raise ContractError("unknown_invocation", f"no invocation {invocation_id!r:.80}")
    return read_row(rows[0])


def list_invocations(
    reader: LedgerReader, state: str = "", provider: str = "", limit: int = 100
) -> list[Invocation]:
    """Return invocations, the newest first."""
    if not provider.isprintable():
        return []
    rows = reader.read(
        f"SELECT {COLUMNS} FROM invocations WHERE (? = '' OR state = ?) "
        "AND (? = '' OR provider = ?) ORDER BY created DESC LIMIT ?",
        (state, state, provider, provider, limit),
    )
    return [read_row(row) for row in rows]


def read_row(row: tuple[Any, ...]) -> Invocation:
    """Make an invocation of its row."""
    asked = _content(row[5])
    return Invocation(
        id=row[0],
        provider=row[1],
        capability=row[2],
        semantics=row[3],
        state=row[4],
        input=asked,
        envelope=row[6],
        event=row[7],
        created=row[8],
        deadline=row[9],
        output=None if row[10] is None else _content(row[10]),
        error=row[11],
        settled_by=row[12],
        partials=row[13],
        attribution=msgspec.json.decode(row[14], type=Attribution),
        owner=row[15],
        acknowledged=row[16],
        answered=row[17],
        reminders=row[18],
        kept=not isinstance(asked, NotKept),
        registered=row[19],
    )


def _content(text: str) -> Any:
    """Read a content; a digest, which is no JSON, stands for one that was not kept."""
    return NotKept(text) if text.startswith(_DIGEST) else msgspec.json.decode(text)


def find_cost(reader: LedgerReader, invocation: Invocation) -> CostRecord | None:
    """Return what a settled invocation cost, as it stands now; None while it is open."""
    ended = invocation.settled_by
    return None if ended is None else standing_cost(reader.read, ended)


def standing_cost(execute: Callable[[str, Params], list[Row]], event_id: str) -> CostRecord | None:
    """Return the record that stands for an event now: its own, or its last correction's."""
    envelope, _, number = event_id.rpartition(":")
    if not number.isdecimal() or len(number) > 18:
        return None
    rows = execute(
        "SELECT payload FROM events WHERE envelope = ? AND type = 'cost.corrected' AND cause = ? "
        "ORDER BY sequence DESC LIMIT 1",
        (envelope, event_id),
    ) or execute(
        "SELECT payload FROM events WHERE envelope = ? AND sequence = ?", (envelope, int(number))
    )
    cost = msgspec.json.decode(rows[0][0]).get("cost") if rows else None
    return None if cost is None else msgspec.convert(cost, CostRecord)


def plain(text: str, limit: int = 500) -> str:
    """Cut a text from elsewhere to what an event and every store take."""
    return text[:limit].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def digest(data: bytes) -> str:
    """Return the hash by which an event names a content, in JSON, that it does not hold."""
    return _DIGEST + hashlib.sha256(data).hexdigest()


def encoded(value: Any) -> bytes:
    """Write a content, or refuse what JSON cannot carry; fractions may stand in it."""
    try:
        data = msgspec.json.encode(value)
        finite = b"null" not in data or _finite(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotCanonical(f"not JSON: {error}") from None
    if not finite:
        raise NotCanonical("not JSON: a number is not finite")
    return data


def _finite(value: Any) -> bool:
    """Tell whether every number is one: the encoder would write null for the others."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    return True


def elapsed(tx: Transaction, invocation: Invocation) -> CostRecord:
    """Return the cost where a provider reported none: the time that it took, as an estimate."""
    line = CostLine("time", max(0, tx.now - invocation.created))
    return CostRecord((line,), invocation.attribution, estimate=True)
