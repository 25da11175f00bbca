"""The surface: what providers may ask of a runtime, each only for itself."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from modelpact.identity import (
    HEADER,
    Identity,
    PeerCertificate,
    Trust,
    read_certificate,
    server_context,
)
from modelpact.ledger.costs import CostRecord, check_lines
from modelpact.ledger.stores.base import LedgerError
from modelpact.ledger.write.batch import EnvelopeClosed
from modelpact.providers.contract import ContractError, Invocation, Registration, cost_violation
from modelpact.providers.http.client import LARGEST_ANSWER
from modelpact.providers.http.messages import (
    ACKNOWLEDGED,
    JSON,
    CorrectionMessage,
    SignalMessage,
    decode,
    read_answer,
    read_partial,
    registering,
    verify_message,
)
from modelpact.providers.runtime.registration import read_registration
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.runtime.settlement import correct_once
from modelpact.providers.runtime.signals import MAX_ID_LENGTH, Signal
from modelpact.providers.transport import ContractViolation
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire import HttpError, HttpRequest, HttpResponse, Server, serve

_LOG: Final = logging.getLogger("modelpact.providers")
_STATUS: Final = {
    "unauthenticated": 401,
    "identity_mismatch": 403,
    "identity_required": 403,
    "not_yours": 403,
    "expelled": 403,
    "plain_http": 403,
    "breach": 403,
    "unknown_provider": 404,
    "unknown_invocation": 404,
    "unknown_event": 404,
    "provider_deregistered": 409,
    "settled": 409,
    "answered_twice": 409,
    "out_of_order": 409,
    "not_settled": 409,
    "superseded": 409,
    "closed": 409,
    "store_unavailable": 503,
}
_MOST_FLAGS: Final = 100
_HOUR: Final = 3_600.0
Answering = Callable[[HttpRequest, PeerCertificate, str], Awaitable[HttpResponse]]


class RuntimeRoutes:
    """A handler for `modelpact.wire`. Whoever calls has shown a certificate in the handshake."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._signals = runtime.signal_inbox
        self._flags: dict[str, tuple[float, int]] = {}
        self._routes: tuple[tuple[str, str, str, Answering], ...] = (
            ("POST", "/v1/providers", "", self._register),
            ("GET", "/v1/providers/", "", self._standing),
            ("DELETE", "/v1/providers/", "", self._deregister),
            ("GET", "/v1/invocations/", "", self._state),
            ("POST", "/v1/invocations/", "/response", self._response),
            ("POST", "/v1/invocations/", "/partials", self._partial),
            ("POST", "/v1/costs/corrections", "", self._correction),
            ("GET", "/v1/signals/", "", self._last_signal),
            ("POST", "/v1/signals", "", self._signal),
        )

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a provider's request; errors say what is wrong in JSON."""
        try:
            return await self._route(request)
        except ContractError as error:
            return _error(error.code, str(error))
        except ContractViolation as breach:
            return _error("breach", str(breach), violation=breach.violation)
        except EnvelopeClosed as error:
            return _error("closed", str(error))
        except LedgerError as error:
            return _error("store_unavailable", str(error))
        except InputError as error:
            return _error("invalid_request", str(error))
        except ModelpactError as error:
            if isinstance(error, HttpError):
                raise
            return _error("refused", str(error))

    async def _route(self, request: HttpRequest) -> HttpResponse:
        path = request.decoded_path
        methods = []
        for method, start, end, answering in self._routes:
            if start.endswith("/"):
                name = path.removeprefix(start).removesuffix(end)
                fits = path == f"{start}{name}{end}" and name and "/" not in name
            else:
                name, fits = "", path == start
            if fits and method == request.method:
                return await answering(request, _peer(request), name)
            if fits:
                methods.append(method)
        if methods:
            raise HttpError(405, f"expected {' or '.join(methods)}")
        raise HttpError(404, "no such path")

    async def _register(self, request: HttpRequest, peer: PeerCertificate, _: str) -> HttpResponse:
        body, header = await request.body(), request.headers.get(HEADER)
        try:
            data = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"registration: {error}") from None
        registration = read_registration(data)
        if registration.identity != peer.fingerprint:
            raise ContractError(
                "identity_mismatch",
                f"registration.identity is not the key of your certificate, {peer.fingerprint}",
            )
        named = [one for one in peer.identities if one.startswith("modelpact:")]
        mine = f"modelpact:provider:{registration.id}" in named
        if named and not mine:
            raise ContractError(
                "identity_mismatch",
                f"your certificate says {named[0]:.80}, not modelpact:provider:{registration.id}",
            )

        def vouched(before: Registration) -> bool:
            try:
                verify_message(before, registering(before.id), body, header, ACKNOWLEDGED)
            except ContractViolation:
                return False
            return True

        work = self._runtime.registry.registration_work(
            registration, by_itself=True, named=mine, vouched=vouched
        )
        event = await self._runtime.ledger.write_async(work)
        return _json(201, {"provider": registration.id, "event": event.id})

    async def _standing(self, _: HttpRequest, peer: PeerCertificate, provider: str) -> HttpResponse:
        await self._own(peer, provider)
        state, event = await asyncio.to_thread(self._runtime.registry.status, provider)
        return _json(200, {"provider": provider, "state": state, "event": event})

    async def _deregister(
        self, request: HttpRequest, peer: PeerCertificate, provider: str
    ) -> HttpResponse:
        await self._own(peer, provider)
        asked = parse_qs(request.query)
        policy = asked.get("policy", [""])[0] or None
        if policy not in (None, "drain", "cancel"):
            raise InputError("policy: expected drain or cancel")
        event = await self._runtime.deregister(
            provider,
            "asked to by itself",
            policy,  # type: ignore[arg-type]
            registered=asked.get("event", [None])[0],
            by_itself=True,
        )
        return _json(200, {"provider": provider, "event": event.id})

    async def _state(self, _: HttpRequest, peer: PeerCertificate, identity: str) -> HttpResponse:
        return _json(200, _brief((await self._addressed(peer, identity))[1]))

    async def _response(
        self, request: HttpRequest, peer: PeerCertificate, identity: str
    ) -> HttpResponse:
        body = await request.body()
        registration, before = await self._addressed(peer, identity)
        try:
            _check_length(body)
            header, due = request.headers.get(HEADER), before.partials + 1
            reply = read_answer(registration, identity, body, header, due)
        except ContractViolation as breach:
            await self._flag(registration, breach, before)
            raise
        if before.answered is not None:
            twice = f"{identity} was answered already"
            await self._flag(registration, ContractViolation("answered_twice", twice), before)
            raise ContractError("answered_twice", twice)
        after = await self._runtime.lifecycle.settle_reply(registration, before, reply)
        if before.state != "open" or after.state == "cancelled" or _expired(after):
            raise ContractError("settled", f"{identity} is {after.state}; your cost was recorded")
        return _json(200, _brief(after))

    async def _partial(
        self, request: HttpRequest, peer: PeerCertificate, identity: str
    ) -> HttpResponse:
        body = await request.body()
        registration, before = await self._addressed(peer, identity)
        if before.state != "open":
            raise ContractError("settled", f"{identity} is {before.state}; send no more of it")
        try:
            if before.semantics == "sync":
                raise ContractViolation(
                    "invalid_response", "a synchronous invocation has no partials"
                )
            if not before.kept:
                raise ContractViolation(
                    "invalid_response", "pieces that are not kept come in the stream"
                )
            _check_length(body)
            header, due = request.headers.get(HEADER), before.partials + 1
            piece = read_partial(registration, identity, body, header, due)
        except ContractViolation as breach:
            await self._flag(registration, breach, before)
            raise
        if await self._runtime.lifecycle.add_partial(before, piece) is None:
            raise ContractError("out_of_order", f"expected partial {before.partials + 1}")
        return _json(200, {"invocationId": identity, "partials": piece.number})

    async def _correction(
        self, request: HttpRequest, peer: PeerCertificate, _: str
    ) -> HttpResponse:
        body = await request.body()
        message = decode(body, CorrectionMessage)
        if not 0 < len(message.id) <= MAX_ID_LENGTH or not message.id.isprintable():
            raise InputError(f"correction.id: expected 1 to {MAX_ID_LENGTH} visible characters")
        registration, found = await self._addressed(peer, message.invocation_id)
        try:
            header = request.headers.get(HEADER)
            verify_message(registration, message.invocation_id, body, header, found.partials + 2)
        except ContractViolation as breach:
            await self._flag(registration, breach, found)
            raise
        if found.settled_by is None:
            raise ContractError("not_settled", f"{found.id} is open: report its cost with it")
        lines = check_lines(message.cost)
        problem = cost_violation(registration, registration.offer(found.capability), lines)
        if problem:
            misstated = ContractViolation("misstated_cost", problem)
            await self._flag(registration, misstated, found)
            raise misstated
        settled, record = found.settled_by, CostRecord(lines, estimate=message.estimate)
        event = await self._runtime.ledger.write_async(
            lambda tx: correct_once(tx, settled, record, message.reason, message.id)
        )
        return _json(200, {"invocationId": found.id, "corrects": settled, "event": event})

    async def _signal(self, request: HttpRequest, peer: PeerCertificate, _: str) -> HttpResponse:
        body = await request.body()
        message = decode(body, SignalMessage)
        registration = await self._own(peer, message.source)
        try:
            subject = f"{message.source}/{message.id}"
            header = request.headers.get(HEADER)
            verify_message(registration, subject, body, header, message.number)
        except ContractViolation as breach:
            await self._flag(registration, breach, None)
            raise
        signal = Signal(
            message.source,
            message.id,
            message.number,
            message.type,
            message.emitted * 1_000_000,
            message.content,
        )
        receipt = await self._signals.receive(signal, message.cost, estimate=message.estimate)
        return _json(200, msgspec.to_builtins(receipt))

    async def _last_signal(
        self, _: HttpRequest, peer: PeerCertificate, source: str
    ) -> HttpResponse:
        await self._own(peer, source)
        last = await asyncio.to_thread(self._signals.last, source)
        return _json(200, {"source": source, "last": last})

    async def _own(self, peer: PeerCertificate, provider: str) -> Registration:
        """Return a provider's registration if the peer is it."""
        found = await asyncio.to_thread(self._runtime.registry.find, provider)
        if found is None or found[0].identity != peer.fingerprint:
            raise ContractError("not_yours", f"{provider!r:.80} is not registered by you")
        return found[0]

    async def _addressed(
        self, peer: PeerCertificate, identity: str
    ) -> tuple[Registration, Invocation]:
        """Return an invocation and its provider if the peer is that provider.

        It is the provider under whose registration the invocation was made: who has its name
        since, with another identity, is not. An id that is unknown, or another's, is a violation;
        which of the two is not told.
        """
        registry, violation = self._runtime.registry, "unknown_invocation"
        try:
            invocation = await asyncio.to_thread(self._runtime.find, identity)
            found = await asyncio.to_thread(registry.registration_for, invocation)
            if found.identity == peer.fingerprint:
                return found, invocation
            violation = "foreign_invocation"
        except ContractError:
            pass
        mine = await asyncio.to_thread(registry.find_by_identity, peer.fingerprint)
        if not mine:
            raise ContractError("not_yours", "you are not registered")
        breach = ContractViolation(violation, f"it sent something for {identity!r:.80}")
        for registration, _ in mine:
            await self._flag(registration, breach, None)
        raise ContractError("unknown_invocation", f"no invocation {identity!r:.80} of yours")

    async def _flag(
        self, registration: Registration, breach: ContractViolation, found: Invocation | None
    ) -> None:
        """Flag a violation; of the many that one provider commits, so many an hour."""
        since, count = self._flags.get(registration.id, (time.monotonic(), 0))
        if time.monotonic() - since > _HOUR:
            since, count = time.monotonic(), 0
        self._flags[registration.id] = (since, count + 1)
        if count >= _MOST_FLAGS:
            _LOG.warning("%s goes on: %s", registration.id, breach)
            return
        cause = None if found is None else found.settled_by or found.event
        await self._runtime.flag(registration.id, breach.violation, breach.detail, cause)


def _check_length(body: bytes) -> None:
    """Hold a late answer to the length of one that comes at once."""
    if len(body) > LARGEST_ANSWER:
        what = f"the answer is longer than {LARGEST_ANSWER} bytes"
        raise ContractViolation("oversized_response", what)


def _expired(invocation: Invocation) -> bool:
    return (invocation.error or "").startswith("deadline:")


def _peer(request: HttpRequest) -> PeerCertificate:
    der = request.peer_certificate
    if der is None:
        raise ContractError("unauthenticated", "providers show a certificate: use mutual TLS")
    return _read_peer(der)


@lru_cache(maxsize=1_024)
def _read_peer(der: bytes) -> PeerCertificate:
    return read_certificate(der)


def _brief(invocation: Invocation) -> dict[str, Any]:
    return {
        "invocationId": invocation.id,
        "state": invocation.state,
        "partials": invocation.partials,
        "event": invocation.settled_by or invocation.event,
    }


def _json(status: int, data: Any) -> HttpResponse:
    return HttpResponse(status, (JSON,), msgspec.json.encode(data))


def _error(code: str, message: str, **more: str) -> HttpResponse:
    status = _STATUS.get(code, 400)
    return _json(status, {"error": {"code": code, "message": message, **more}})


class RuntimeHost(msgspec.Struct, frozen=True):
    """A runtime that providers can reach."""

    runtime: Runtime
    server: Server
    url: str


@asynccontextmanager
async def serve_runtime(
    runtime: Runtime,
    identity: Identity,
    trust: Trust,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    maintenance_s: float = 1.0,
) -> AsyncIterator[RuntimeHost]:
    """Serve a runtime's surface over mutual TLS; take up what it left open; keep deadlines."""
    tls = server_context(identity, trust)
    unfinished = runtime.unfinished()
    async with await serve(RuntimeRoutes(runtime), host, port, tls=tls) as server:
        shown = f"[{host}]" if ":" in host else host
        tasks = [
            asyncio.create_task(runtime.maintenance.run(maintenance_s)),
            asyncio.create_task(runtime.recover(unfinished)),
        ]
        try:
            yield RuntimeHost(runtime, server, f"https://{shown}:{server.port}")
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
