"""Runs in the store: asked for, followed, ended; readable from any process."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import EVENT_COLUMNS, read_event
from modelpact.ledger.stores.base import LedgerUnavailable, LedgerUncertain
from modelpact.openwop.workflows import RunRequest
from modelpact.vocabulary.errors import ModelpactError

Status = Literal["pending", "running", "completed", "failed"]
ENDED: Final = ("completed", "failed")
_POLL_SECONDS: Final = 0.5
"""How often a run that another process writes is looked at."""
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds after which an event is written again that the store did not take."""
_PAGE: Final = 1_000
_REQUEST: Final = msgspec.json.Decoder(RunRequest)
_COLUMNS: Final = "id, workflow, status, request, error, owner, tenant, created, updated"


class UnknownRun(ModelpactError):
    """A run that is not there, or is somebody else's."""


class RunOwnedElsewhere(ModelpactError):
    """A run that another process has begun or ended: nothing more is written to it."""


class Run(msgspec.Struct, frozen=True):
    """A run as the store has it."""

    id: str
    workflow: str
    status: Status
    request: RunRequest
    error: dict[str, Any] | None
    owner: str
    tenant: str
    created: int
    updated: int

    @property
    def envelope(self) -> str:
        """The envelope of its events."""
        return f"run/{self.id}"

    def data(self) -> dict[str, Any]:
        """Return the run as clients see it."""
        shown: dict[str, Any] = {
            "runId": self.id,
            "workflowId": self.workflow,
            "status": self.status,
        }
        if self.error is not None:
            shown["error"] = self.error
        return shown


class Runs:
    """The runs of a store."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def open(self, request: RunRequest, owner: str, tenant: str) -> Run:
        """Keep a new run; it is there before anybody hears of it."""
        identity = f"run_{secrets.token_urlsafe(16)}"
        encoded = msgspec.json.encode(request).decode()
        workflow = request.workflow.workflow_id

        def work(tx: Transaction) -> int:
            tx.execute(
                f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, 'pending', ?, NULL, ?, ?, ?, ?)",
                (identity, workflow, encoded, owner, tenant, tx.now, tx.now),
            )
            return tx.now

        now = await self._ledger.write_async(work)
        return Run(identity, workflow, "pending", request, None, owner, tenant, now, now)

    async def find(self, identity: str, tenant: str | None = None) -> Run:
        """Return a run, of that tenant where one is given, or raise `UnknownRun`."""
        rows = await asyncio.to_thread(
            self._ledger.read, f"SELECT {_COLUMNS} FROM runs WHERE id = ?", (identity,)
        )
        if not rows or tenant not in (None, rows[0][6]):
            raise UnknownRun(f"no run {identity!r:.80}")
        return _run(rows[0])

    async def unfinished(self, owner: str) -> list[Run]:
        """Return what an owner has not finished, the oldest first."""
        rows = await asyncio.to_thread(
            self._ledger.read,
            f"SELECT {_COLUMNS} FROM runs WHERE owner = ? AND status IN ('pending', 'running') "
            "ORDER BY created, id",
            (owner,),
        )
        return [_run(row) for row in rows]

    async def append(
        self,
        run: Run,
        kind: str,
        payload: dict[str, Any],
        cause: str | None = None,
        *,
        status: Status | None = None,
        error: dict[str, Any] | None = None,
    ) -> Event:
        """Append an event to a run and, in the same commit, change its status.

        A run is begun once and ended once, by whoever is first; `RunOwnedElsewhere` tells the
        others. A store that is away for a moment is waited for.
        """
        draft = Draft(run.envelope, kind, payload, cause)
        told = None if error is None else msgspec.json.encode(error).decode()

        def work(tx: Transaction, unsure: bool) -> Event:
            if unsure and (kept := _last(tx, draft)) is not None:
                return kept
            tx.head(run.envelope)  # who ends the run appends to it, so that is not missed
            if status is None:
                rows = tx.query("SELECT status FROM runs WHERE id = ?", (run.id,))
                ours = rows == [("running",)]
            else:
                before = "pending" if status == "running" else "running"
                ours = bool(
                    tx.execute_update(
                        "UPDATE runs SET status = ?, error = ?, updated = ? "
                        "WHERE id = ? AND status = ?",
                        (status, told, tx.now, run.id, before),
                    )
                )
            if not ours:
                raise RunOwnedElsewhere(
                    f"{run.id}: {kind} comes too late: another process was first"
                )
            tx.open_envelope(run.envelope, "run", run.workflow)
            return tx.append(draft)

        unsure = False
        for pause in _PAUSES:
            try:
                return await self._ledger.write_async(partial(work, unsure=unsure))
            except LedgerUnavailable as away:
                unsure = unsure or isinstance(away, LedgerUncertain)
            await asyncio.sleep(pause)
        return await self._ledger.write_async(partial(work, unsure=unsure))

    async def events(self, run: Run, after: int = 0) -> list[Event]:
        """Return a run's events, those after a sequence number."""
        found: list[Event] = []
        while True:
            page = await asyncio.to_thread(
                self._ledger.events, run.envelope, after=after, limit=_PAGE
            )
            found += page
            if len(page) < _PAGE:
                return found
            after = page[-1].sequence

    async def follow(self, run: Run, after: int = 0) -> AsyncIterator[Event | None]:
        """Yield a run's events as they come, until it has ended; None when nothing came."""
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def hear(event: Event) -> None:
            if event.envelope == run.envelope:
                loop.call_soon_threadsafe(news.set)

        stop = self._ledger.bus.subscribe(hear)
        try:
            while True:
                news.clear()
                ended = (await self.find(run.id)).status in ENDED
                found = await self.events(run, after)
                for event in found:
                    after = event.sequence
                    yield event
                if ended:
                    return
                if not found:
                    yield None
                try:
                    async with asyncio.timeout(_POLL_SECONDS):
                        await news.wait()
                except TimeoutError:
                    continue
        finally:
            stop()


def _last(tx: Transaction, draft: Draft) -> Event | None:
    """Return the last event of an envelope if it is what was to be written: it was kept."""
    rows = tx.query(
        f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1",
        (draft.envelope,),
    )
    if not rows:
        return None
    event = read_event(rows[0])
    same = (event.type, event.cause) == (draft.type, draft.cause)
    return event if same and canonical(event.payload) == canonical(draft.payload) else None


def _run(row: tuple[Any, ...]) -> Run:
    identity, workflow, status, request, error, owner, tenant, created, updated = row
    return Run(
        identity,
        workflow,
        status,
        _REQUEST.decode(request),
        None if error is None else msgspec.json.decode(error),
        owner,
        tenant,
        created,
        updated,
    )


def event_data(event: Event) -> dict[str, Any]:
    """Return a run's event as clients see it."""
    payload = dict(event.payload)
    if "outputJson" in payload:  # numbers with fractions have no place in a hashed record
        payload["output"] = msgspec.json.decode(payload.pop("outputJson"))
    moment = datetime.fromtimestamp(event.time / 1e9, UTC)
    return {
        "eventId": event.id,
        "runId": event.envelope.removeprefix("run/"),
        "type": event.type,
        "payload": payload,
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sequence": event.sequence,
    }
