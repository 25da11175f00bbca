"""Placed entries: events that have their numbers and hashes, on their way into the tables.

They are put there by this process or by another, so what they consist of can be sent.
"""

import contextlib
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import msgspec

from modelpact.ledger.cost_rows import plain_rows
from modelpact.ledger.costs import CostRecord
from modelpact.ledger.rows import Head, Known, Rows
from modelpact.ledger.store import (
    Conflict,
    Connection,
    LedgerError,
    LedgerUncertain,
    Refused,
    Store,
)
from modelpact.ledger.transaction import Given, NotSo

_HEAD: Final = (
    "SELECT sequence, hash, time FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1"
)
_HASH: Final = "SELECT hash FROM events WHERE envelope = ? AND sequence = ?"


class Line(msgspec.Struct, array_like=True):
    """An event as its row has it, and what is kept beside it."""

    envelope: str
    sequence: int
    type: str
    time: int
    cause: str | None
    payload: str
    previous: str
    hash: str
    cost: CostRecord | None = None
    opens: tuple[str, str] | None = None


class Placing:
    """Puts lines into the tables, all or none, durably."""

    def __init__(self, store: Store, *, patient: bool = True) -> None:
        """One that is not `patient` does not wait while another writes."""
        self._store = store
        self._patient = patient
        self._connection: Connection | None = None
        self._known = Known(uuid4().hex[:16])

    def head(self, envelope: str) -> Head:
        """Return where an envelope stands."""
        return Head(*next(iter(self._connected().execute(_HEAD, (envelope,))), ()))

    def has(self, envelope: str, sequence: int, digest: str) -> bool:
        """Tell whether an event is there."""
        found = self._connected().execute(_HASH, (envelope, sequence))
        return [tuple(row) for row in found] == [(digest,)]

    def put(self, lines: Sequence[Line], givens: Sequence[Given]) -> bool:
        """Put lines in, for which all that is given must be so; False if another writes just now.

        Raises `NotSo`, `Conflict` where the envelopes have moved on, or what else went wrong.
        """
        connection = self._connected()
        try:
            others = connection.begin()
        except LedgerError:
            if self._patient:
                raise
            return False
        try:
            if others:
                self._known.forget()
            self._check(connection, givens)
            self._rows(lines).write(connection, self._known)
        except LedgerError as error:
            self._give_up(connection)
            raise Conflict(str(error)) if isinstance(error, Refused) else error from None
        except BaseException:
            self._give_up(connection)
            raise
        try:
            connection.commit()
        except LedgerError as error:
            self.close()
            raise LedgerUncertain(f"it is not known whether it was kept: {error}") from None
        self._known.trim()
        return True

    def _connected(self) -> Connection:
        if self._connection is None:
            self._known.forget()
            self._connection = self._store.connect(writer=True, patient=self._patient)
        return self._connection

    def _check(self, connection: Connection, givens: Sequence[Given]) -> None:
        facts = self._known.facts
        for given in givens:
            if facts.get(given.fact) == given.value:
                continue
            rows = connection.execute(given.sql, given.params)
            if [tuple(row) for row in rows] != [(given.value,)]:
                raise NotSo(given.fact)
            facts[given.fact] = given.value

    def _rows(self, lines: Sequence[Line]) -> Rows:
        rows = Rows()
        for one in lines:
            envelope, sequence, time = one.envelope, one.sequence, one.time
            rows.events.append(
                (
                    envelope,
                    sequence,
                    one.type,
                    time,
                    one.cause,
                    one.payload,
                    one.previous,
                    one.hash,
                )
            )
            if one.cost is not None:
                rows.costs += plain_rows(envelope, sequence, time, one.cost)
            if one.opens is not None:
                rows.envelopes.append((envelope, *one.opens, time))
        return rows

    def _give_up(self, connection: Connection) -> None:
        self._known.forget()
        with contextlib.suppress(LedgerError):
            connection.rollback()
            return
        self.close()

    def close(self) -> None:
        """Close the connection; another is opened when it is needed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
