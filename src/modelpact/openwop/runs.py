"""Runs in the store: started, followed and ended, from any process."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.errors import LedgerUnavailable, LedgerUncertain
from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import EVENT_COLUMNS, read_event
from modelpact.openwop.workflows import RunRequest
from modelpact.vocabulary.errors import ModelpactError

Status = Literal["pending", "running", "completed", "failed"]
ENDED: Final = ("completed", "failed")
_POLL_SECONDS: Final = 0.5
"""How often to look for events that another process wrote."""
_RETRY_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts to append an event to a store that is unavailable."""
_PAGE: Final = 1_000
_REQUEST: Final = msgspec.json.Decoder(RunRequest)
_COLUMNS: Final = "id, workflow, status, request, error, owner, tenant, created, updated"


class UnknownRun(ModelpactError):
    """There is no such run, or it belongs to another client."""


class RunOwnedElsewhere(ModelpactError):
    """Another process has begun or ended the run. Nothing more is written to it here."""


class Run(msgspec.Struct, frozen=True):
    """A run, as it is stored."""

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

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain data for clients."""
        data: dict[str, Any] = {"runId": self.id, "workflowId": self.workflow, "status": self.status}
        if self.error is not None:
            data["error"] = self.error
        return data


class Runs:
    """The runs in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def open(self, request: RunRequest, owner: str, tenant: str) -> Run:
        """Store a new run, and return it."""
        run_id = f"run_{secrets.token_urlsafe(16)}"
        encoded = msgspec.json.encode(request).decode()
        workflow = request.workflow.workflow_id

        def work(tx: Transaction) -> int:
            tx.execute(
                f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, 'pending', ?, NULL, ?, ?, ?, ?)",
                (run_id, workflow, encoded, owner, tenant, tx.now, tx.now),
            )
            return tx.now

        now = await self._ledger.write_async(work)
        return Run(run_id, workflow, "pending", request, None, owner, tenant, now, now)

    async def find(self, run_id: str, tenant: str | None = None) -> Run:
        """Return a run, or raise `UnknownRun`. With a tenant, the run must be the tenant's."""
        rows = await asyncio.to_thread(self._ledger.read, f"SELECT {_COLUMNS} FROM runs WHERE id = ?", (run_id,))
        if not rows or tenant not in (None, rows[0][6]):
            raise UnknownRun(f"there is no run {run_id!r:.80}")
        return _run(rows[0])

    async def unfinished(self, owner: str) -> list[Run]:
        """Return the unfinished runs of a host, the oldest first."""
        rows = await asyncio.to_thread(
            self._ledger.read,
            f"SELECT {_COLUMNS} FROM runs WHERE owner = ? AND status IN ('pending', 'running') ORDER BY created, id",
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

        A run is begun once and ended once: the first process wins, and the others get
        `RunOwnedElsewhere`. If the store is unavailable, the append is retried for some seconds.
        """
        draft = Draft(run.envelope, kind, payload, cause)
        stored_error = None if error is None else msgspec.json.encode(error).decode()

        def work(tx: Transaction, may_be_written: bool) -> Event:
            if may_be_written and (written := _last_if_same(tx, draft)) is not None:
                return written
            tx.head(run.envelope)  # conflicts with any other process that appends to the run
            if status is None:
                rows = tx.query("SELECT status FROM runs WHERE id = ?", (run.id,))
                is_ours = rows == [("running",)]
            else:
                before = "pending" if status == "running" else "running"
                is_ours = bool(
                    tx.execute_update(
                        "UPDATE runs SET status = ?, error = ?, updated = ? WHERE id = ? AND status = ?",
                        (status, stored_error, tx.now, run.id, before),
                    )
                )
            if not is_ours:
                raise RunOwnedElsewhere(
                    f"{run.id}: {kind} was not recorded: another process has begun or ended the run"
                )
            tx.open_envelope(run.envelope, "run", run.workflow)
            return tx.append(draft)

        may_be_written = False
        for pause in _RETRY_PAUSES:
            try:
                return await self._ledger.write_async(partial(work, may_be_written=may_be_written))
            except LedgerUnavailable as unavailable:
                may_be_written = may_be_written or isinstance(unavailable, LedgerUncertain)
            await asyncio.sleep(pause)
        return await self._ledger.write_async(partial(work, may_be_written=may_be_written))

    async def events(self, run: Run, after: int = 0) -> list[Event]:
        """Return the events of a run after a sequence number."""
        events: list[Event] = []
        while True:
            page = await asyncio.to_thread(self._ledger.events, run.envelope, after=after, limit=_PAGE)
            events += page
            if len(page) < _PAGE:
                return events
            after = page[-1].sequence

    async def follow(self, run: Run, after: int = 0) -> AsyncIterator[Event | None]:
        """Yield the events of a run until it has ended, and None whenever there was nothing new."""
        loop = asyncio.get_running_loop()
        appended = asyncio.Event()

        def on_event(event: Event) -> None:
            if event.envelope == run.envelope:
                loop.call_soon_threadsafe(appended.set)

        unsubscribe = self._ledger.bus.subscribe(on_event)
        try:
            while True:
                appended.clear()
                has_ended = (await self.find(run.id)).status in ENDED
                events = await self.events(run, after)
                for event in events:
                    after = event.sequence
                    yield event
                if has_ended:
                    return
                if not events:
                    yield None
                try:
                    async with asyncio.timeout(_POLL_SECONDS):
                        await appended.wait()
                except TimeoutError:
                    continue
        finally:
            unsubscribe()


def event_json(event: Event) -> dict[str, Any]:
    """Return an event of a run as plain data for clients."""
    payload = dict(event.payload)
    if "outputJson" in payload:  # stored as text: canonical JSON has no fractions
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


def _last_if_same(tx: Transaction, draft: Draft) -> Event | None:
    """Return the last event of an envelope if it is this draft: then it was written."""
    rows = tx.query(
        f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1", (draft.envelope,)
    )
    if not rows:
        return None
    event = read_event(rows[0])
    is_same = (event.type, event.cause) == (draft.type, draft.cause)
    return event if is_same and canonical(event.payload) == canonical(draft.payload) else None


def _run(row: tuple[Any, ...]) -> Run:
    run_id, workflow, status, request, error, owner, tenant, created, updated = row
    return Run(
        run_id,
        workflow,
        status,
        _REQUEST.decode(request),
        None if error is None else msgspec.json.decode(error),
        owner,
        tenant,
        created,
        updated,
    )
