"""Upkeep: deadlines, reminders, and what is left after a restart."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Transaction
from modelpact.ledger.stores.base import LedgerError, LedgerUnavailable
from modelpact.providers.contract import Invocation
from modelpact.providers.runtime import settlement as settling
from modelpact.providers.runtime.notify import tell_cancelled
from modelpact.providers.runtime.store import COLUMNS, load, read_row
from modelpact.vocabulary.errors import ModelpactError

if TYPE_CHECKING:
    from modelpact.providers.runtime.runtime import Runtime

_LOG: Final = logging.getLogger("modelpact.providers")
_MOST_AT_ONCE: Final = 1_000
_AGAIN_SECONDS: Final = 1.0
_PRUNE_SECONDS: Final = 60.0
_PIECES_KEPT: Final = 3_600 * 1_000_000_000


async def expire(runtime: "Runtime") -> list[Invocation]:
    """Fail every open invocation whose deadline has passed, whoever opened it.

    Of several runtimes one does it: an invocation is settled once.
    """
    rows = await asyncio.to_thread(
        runtime.ledger.read,
        "SELECT id FROM invocations WHERE state = 'open' AND deadline < ? ORDER BY deadline "
        "LIMIT ?",
        (runtime.now(), _MOST_AT_ONCE),
    )
    outcome = settling.InvocationOutcome(error="deadline: no answer before the deadline")

    def work(tx: Transaction, identity: str) -> Invocation | None:
        found = load(tx, identity)
        if found.state != "open":
            return None
        return settling.settle(tx, runtime.profile, found, outcome)[0]

    expired = []
    for (identity,) in rows:
        with _apart(identity):
            found = await runtime.ledger.write_async(lambda tx, one=identity: work(tx, one))  # type: ignore[misc]
            if found is not None:
                expired.append(found)
    await tell_cancelled(runtime, expired)
    return expired


async def remind(runtime: "Runtime") -> list[Invocation]:
    """Record a reminder of every open invocation that is due for one; one runtime does each."""
    rows = await asyncio.to_thread(
        runtime.ledger.read,
        "SELECT id, remind_at, remind_every FROM invocations WHERE state = 'open' "
        "AND remind_at < ? ORDER BY remind_at LIMIT ?",
        (runtime.now(), _MOST_AT_ONCE),
    )
    reminded = []
    for identity, due, every in rows:
        with _apart(identity):
            found = await runtime.ledger.write_async(
                lambda tx, one=identity, due=due, every=every: _remind(  # type: ignore[misc]
                    tx, one, due, every, runtime.now()
                )
            )
            if found is not None:
                reminded.append(found)
    return reminded


@contextmanager
def _apart(identity: str) -> Iterator[None]:
    """Let one invocation that cannot be kept up stop no other; a store that is away stops all."""
    try:
        yield
    except LedgerUnavailable:
        raise
    except Exception as error:
        _LOG.warning("%s cannot be kept up: %s: %s", identity, type(error).__name__, error)


def _remind(tx: Transaction, identity: str, due: int, every: int, now: int) -> Invocation | None:
    following = due + every * (1 + max(0, now - due) // every)
    changed = tx.execute_update(
        "UPDATE invocations SET remind_at = ?, reminders = reminders + 1 "
        "WHERE id = ? AND state = 'open' AND remind_at = ?",
        (following, identity, due),
    )
    if not changed:
        return None
    found = load(tx, identity)
    payload = {
        "invocation": identity,
        "provider": found.provider,
        "number": found.reminders,
        "open_for": tx.now - found.created,
    }
    tx.append(Draft(found.envelope, "capability.reminded", payload, found.event))
    return found


def left_open(runtime: "Runtime") -> list[Invocation]:
    """Return what this runtime left open, without a promise of an answer, when it stopped."""
    rows = runtime.ledger.read(
        f"SELECT {COLUMNS} FROM invocations WHERE state = 'open' AND owner = ? "
        "AND acknowledged IS NULL ORDER BY created",
        (runtime.name,),
    )
    return [read_row(row) for row in rows]


async def take_up(runtime: "Runtime", left: list[Invocation]) -> list[Invocation]:
    """Take up what was left open.

    What was acknowledged is not among it: its answer will find it. Asynchronous invocations that
    may never have left are sent again, under the same id. Callers of the others are gone with the
    process: they end as interrupted.
    """
    taken_up = []
    for invocation in left:
        while True:
            try:
                taken_up.append(await _take_up(runtime, invocation.id))
                break
            except LedgerUnavailable as error:
                _LOG.warning("%s waits for the store: %s", invocation.id, error)
                await asyncio.sleep(_AGAIN_SECONDS)
            except ModelpactError as error:
                _LOG.warning("%s cannot be taken up: %s", invocation.id, error)
                break
    return taken_up


async def _take_up(runtime: "Runtime", identity: str) -> Invocation:
    invocation = await asyncio.to_thread(runtime.find, identity)
    if invocation.state != "open" or invocation.acknowledged is not None:
        return invocation
    if invocation.semantics == "async":
        registration = await asyncio.to_thread(runtime.registry.under_which, invocation)
        return await runtime.send(registration, invocation)
    what = "the runtime stopped before the answer came"
    return await runtime.fail(invocation, "interrupted", what)


async def prune(runtime: "Runtime") -> int:
    """Delete the pieces of answers that were settled an hour ago; the answers stay.

    Until then whoever follows an invocation gets every piece of it. Returns how many invocations
    lost theirs.
    """
    rows = await asyncio.to_thread(
        runtime.ledger.read,
        "SELECT i.id FROM (SELECT DISTINCT invocation FROM partials) p "
        "JOIN invocations i ON i.id = p.invocation WHERE i.settled < ? LIMIT ?",
        (runtime.now() - _PIECES_KEPT, _MOST_AT_ONCE),
    )

    def work(tx: Transaction) -> None:
        for row in rows:
            tx.execute("DELETE FROM partials WHERE invocation = ?", row)

    if rows:
        await runtime.ledger.write_async(work)
    return len(rows)


async def keep_up(runtime: "Runtime", every_s: float = 1.0) -> None:
    """Enforce deadlines, record reminders and prune until cancelled, whatever the store does."""
    pruned = -_PRUNE_SECONDS
    while True:
        try:
            await expire(runtime)
            await remind(runtime)
            if time.monotonic() - pruned > _PRUNE_SECONDS:
                await prune(runtime)
                pruned = time.monotonic()
        except LedgerError as error:
            _LOG.warning("upkeep waits for the store: %s", error)
        except Exception:  # whatever it is, the next round may do what this one could not
            _LOG.exception("upkeep failed")
        await asyncio.sleep(every_s)
