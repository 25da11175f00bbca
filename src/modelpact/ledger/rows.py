"""Rows that wait to be written together, and what a writer remembers between writes."""

from collections.abc import Hashable
from typing import Any, Final

import msgspec

from modelpact.ledger.cost_rows import (
    CostRow,
    attribution_id,
    write_attributions,
    write_costs,
)
from modelpact.ledger.costs import Attribution
from modelpact.ledger.event import GENESIS
from modelpact.ledger.store import Conflict, Connection, Row

_MOST_KNOWN: Final = 10_000


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event of an envelope."""

    sequence: int = 0
    hash: str = GENESIS
    time: int = 0
    archived: bool = False


class Known:
    """What a writer remembers from batch to batch, so that it need not look.

    Heads and attributions may be out of date: writing shows it. Facts may not: they are forgotten
    as soon as somebody else may have written.
    """

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.heads: dict[str, Head] = {}
        self.attributions: dict[Attribution, int] = {}
        self.facts: dict[Hashable, Any] = {}

    def forget(self) -> None:
        """Look again from now on."""
        self.heads.clear()
        self.attributions.clear()
        self.facts.clear()

    def trim(self) -> None:
        """Forget what has become too much."""
        if len(self.heads) + len(self.attributions) > _MOST_KNOWN:
            self.forget()
        elif len(self.facts) > _MOST_KNOWN:
            self.facts.clear()


class Rows:
    """Rows that wait to be written together."""

    __slots__ = (
        "attributions",
        "changes",
        "checkpoints",
        "costs",
        "envelopes",
        "events",
        "inserts",
        "signers",
    )

    def __init__(self) -> None:
        self.attributions: dict[Attribution, int] = {}
        self.envelopes: list[Row] = []
        self.events: list[Row] = []
        self.costs: list[CostRow] = []
        self.checkpoints: list[Row] = []
        self.signers: list[tuple[str, str]] = []
        self.inserts: dict[str, list[Row]] = {}
        self.changes: dict[str, dict[Any, Row]] = {}

    def extend(self, more: "Rows") -> None:
        """Take over another's rows."""
        self.events += more.events
        if more.envelopes:
            self.envelopes += more.envelopes
        if more.costs:
            self.costs += more.costs
            self.attributions.update(more.attributions)
        if more.checkpoints:
            self.checkpoints += more.checkpoints
        if more.signers:
            self.signers += more.signers
        for sql, rows in more.inserts.items():
            self.inserts.setdefault(sql, []).extend(rows)
        for sql, changed in more.changes.items():
            self.changes.setdefault(sql, {}).update(changed)

    def number(self, who: Attribution, known: Known) -> int:
        """Return the number of an attribution, which is written before the costs that have it."""
        found = known.attributions.get(who)
        if found is None:
            found = self.attributions.get(who)
            if found is None:
                found = self.attributions[who] = attribution_id(who)
        return found

    def changing(self, key: Any) -> bool:
        """Tell whether a row of this key waits to be changed."""
        return any(key in rows for rows in self.changes.values())

    def write(self, connection: Connection, known: Known) -> None:
        """Write the rows and keep none."""
        if self.envelopes:
            connection.many(_ENVELOPE, self.envelopes)
            self.envelopes = []
        if self.events:
            connection.many(_EVENT, self.events)
            self.events = []
        if self.attributions:
            write_attributions(connection, self.attributions)
            known.attributions.update(self.attributions)
            self.attributions = {}
        if self.costs:
            write_costs(connection, self.costs, known.writer)
            self.costs = []
        if self.signers:
            connection.many(_SIGNER, list(dict(self.signers).items()))
            self.signers = []
        if self.checkpoints:
            connection.many(_CHECKPOINT, self.checkpoints)
            self.checkpoints = []
        for sql, rows in self.inserts.items():
            connection.many(sql, rows)
        self.inserts = {}
        for sql, changed in self.changes.items():
            if connection.many(sql, list(changed.values())) != len(changed):
                raise Conflict("a row is no longer what it was")
        self.changes = {}


_ENVELOPE: Final = "INSERT INTO envelopes VALUES (?, ?, ?, ?, NULL) ON CONFLICT (id) DO NOTHING"
_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CHECKPOINT: Final = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_SIGNER: Final = (
    "INSERT INTO signers VALUES (?, ?) ON CONFLICT (root) DO UPDATE SET keys = excluded.keys "
    "WHERE LENGTH(excluded.keys) > LENGTH(signers.keys)"
)
