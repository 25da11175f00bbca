"""The HTTP server of a runtime: the requests that providers send, each only for itself."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from modelpact.identity import SIGNATURE_HEADER, Identity, PeerCertificate, Trust, read_certificate
from modelpact.identity.tls import server_context
from modelpact.ledger.costs import CostRecord, check_lines
from modelpact.ledger.errors import EnvelopeClosed, LedgerError
from modelpact.providers.contract import ContractError, Invocation, Registration, cost_violation
from modelpact.providers.http.client import MAX_RESPONSE_BYTES
from modelpact.providers.http.messages import (
    ACKNOWLEDGEMENT,
    JSON,
    CorrectionMessage,
    SignalMessage,
    decode,
    read_partial,
    read_response,
    registration_subject,
    signed_number,
    verify_message,
)
from modelpact.providers.runtime.registration import read_registration
from modelpact.providers.runtime.rows import correct_once, is_stored
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.runtime.signals import MAX_ID_LENGTH, Signal
from modelpact.providers.transport import ContractViolation, Partial
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire import HttpError, HttpRequest, HttpResponse, Routes, Server, serve

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
_MAX_FLAGS_PER_HOUR: Final = 100
_HOUR: Final = 3_600.0


class RuntimeRoutes:
    """A handler for `modelpact.wire`. Callers have presented a certificate in the handshake."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._signals = runtime.signal_inbox
        self._flags: dict[str, tuple[float, int]] = {}
        self._routes = Routes(
            ("POST", "/v1/providers", self._register),
            ("GET", "/v1/providers/{}", self._registration_state),
            ("DELETE", "/v1/providers/{}", self._deregister),
            ("GET", "/v1/invocations/{}", self._invocation_state),
            ("POST", "/v1/invocations/{}/response", self._response),
            ("POST", "/v1/invocations/{}/partials", self._partial),
            ("POST", "/v1/costs/corrections", self._correction),
            ("GET", "/v1/signals/{}", self._last_signal),
            ("POST", "/v1/signals", self._signal),
        )

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Handle a request of a provider; errors are JSON."""
        endpoint, segments = self._routes.find(request.method, request.path)
        try:
            return await endpoint(request, _peer(request), *segments)
        except ContractError as error:
            return _error(error.code, str(error))
        except ContractViolation as error:
            return _error("breach", str(error), violation=error.violation)
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

    async def _register(self, request: HttpRequest, peer: PeerCertificate) -> HttpResponse:
        body, header = await request.body(), request.headers.get(SIGNATURE_HEADER)
        try:
            data = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"registration: {error}") from None
        registration = read_registration(data)
        if registration.identity != peer.fingerprint:
            raise ContractError(
                "identity_mismatch", f"registration.identity must be the key of your certificate, {peer.fingerprint}"
            )
        identities = [uri for uri in peer.identities if uri.startswith("modelpact:")]
        name_certified = f"modelpact:provider:{registration.id}" in identities
        if identities and not name_certified:
            raise ContractError(
                "identity_mismatch",
                f"your certificate is for {identities[0]:.80}, not for modelpact:provider:{registration.id}",
            )

        def is_rotation_signed(previous: Registration) -> bool:
            subject = registration_subject(previous.id)
            try:
                verify_message(previous, subject, body, header, ACKNOWLEDGEMENT)
            except ContractViolation:
                return False
            return True

        work = self._runtime.registry.registration_work(
            registration, by_provider=True, name_certified=name_certified, rotation_signed=is_rotation_signed
        )
        event = await self._runtime.ledger.write_async(work)
        return _json(201, {"provider": registration.id, "event": event.id})

    async def _registration_state(self, _: HttpRequest, peer: PeerCertificate, provider: str) -> HttpResponse:
        await self._own(peer, provider)
        state, event = await asyncio.to_thread(self._runtime.registry.status, provider)
        return _json(200, {"provider": provider, "state": state, "event": event})

    async def _deregister(self, request: HttpRequest, peer: PeerCertificate, provider: str) -> HttpResponse:
        await self._own(peer, provider)
        query = parse_qs(request.query)
        policy = query.get("policy", [""])[0] or None
        if policy not in (None, "drain", "cancel"):
            raise InputError("policy: expected drain or cancel")
        event = await self._runtime.deregister(
            provider,
            "requested by the provider",
            policy,  # type: ignore[arg-type]
            registered=query.get("event", [None])[0],
            by_provider=True,
        )
        return _json(200, {"provider": provider, "event": event.id})

    async def _invocation_state(self, _: HttpRequest, peer: PeerCertificate, invocation_id: str) -> HttpResponse:
        invocation = (await self._own_invocation(peer, invocation_id))[1]
        return _json(200, _summary(invocation))

    async def _response(self, request: HttpRequest, peer: PeerCertificate, invocation_id: str) -> HttpResponse:
        body = await request.body()
        registration, before = await self._own_invocation(peer, invocation_id)
        async with self._flagging(registration, before):
            _check_length(body)
            header = request.headers.get(SIGNATURE_HEADER)
            number = _next_number(before, before.partials + 1, header)
            reply = read_response(registration, invocation_id, body, header, number)
        if before.answered is not None:
            detail = f"{invocation_id} was answered already"
            await self._flag(registration, ContractViolation("answered_twice", detail), before)
            raise ContractError("answered_twice", detail)
        after = await self._runtime.lifecycle.settle_reply(registration, before, reply)
        if before.state != "open" or after.state == "cancelled" or _expired(after):
            raise ContractError("settled", f"{invocation_id} is {after.state}; your cost was recorded")
        return _json(200, _summary(after))

    async def _partial(self, request: HttpRequest, peer: PeerCertificate, invocation_id: str) -> HttpResponse:
        body = await request.body()
        registration, before = await self._own_invocation(peer, invocation_id)
        if before.state != "open":
            raise ContractError("settled", f"{invocation_id} is {before.state}: send no more partials")
        async with self._flagging(registration, before):
            if before.semantics == "sync":
                raise ContractViolation("invalid_response", "a synchronous invocation has no partials")
            if not before.kept:
                raise ContractViolation("invalid_response", "partials that are not stored must be streamed")
            _check_length(body)
            header, expected = request.headers.get(SIGNATURE_HEADER), before.partials + 1
            repeated = 0 < signed_number(header) == before.partials
            number = before.partials if repeated else expected
            partial = read_partial(registration, invocation_id, body, header, number)
            if repeated and not await self._is_stored(partial, number):
                raise ContractViolation("reordered_response", f"got response {number}, expected {expected}")
        # After a failure a provider sends a partial again, which may have been stored already.
        if not repeated and await self._runtime.lifecycle.add_partial(before, partial) is None:
            raise ContractError("out_of_order", f"expected partial {before.partials + 1}")
        return _json(200, {"invocationId": invocation_id, "partials": partial.number})

    async def _is_stored(self, partial: Partial, number: int) -> bool:
        if partial.number != number:
            return False
        return await asyncio.to_thread(is_stored, self._runtime.ledger.read, partial)

    async def _correction(self, request: HttpRequest, peer: PeerCertificate) -> HttpResponse:
        body = await request.body()
        message = decode(body, CorrectionMessage)
        if not 0 < len(message.id) <= MAX_ID_LENGTH or not message.id.isprintable():
            raise InputError(f"correction.id: expected 1 to {MAX_ID_LENGTH} visible characters")
        registration, invocation = await self._own_invocation(peer, message.invocation_id)
        async with self._flagging(registration, invocation):
            header = request.headers.get(SIGNATURE_HEADER)
            number = _next_number(invocation, invocation.partials + 2, header)
            verify_message(registration, message.invocation_id, body, header, number)
        if invocation.settled_by is None:
            raise ContractError("not_settled", f"{invocation.id} is open: report its cost with the response")
        lines = check_lines(message.cost)
        problem = cost_violation(registration, registration.offer(invocation.capability), lines)
        if problem:
            misstated = ContractViolation("misstated_cost", problem)
            await self._flag(registration, misstated, invocation)
            raise misstated
        settled, record = invocation.settled_by, CostRecord(lines, estimate=message.estimate)
        event = await self._runtime.ledger.write_async(
            lambda tx: correct_once(tx, settled, record, message.reason, message.id)
        )
        return _json(200, {"invocationId": invocation.id, "corrects": settled, "event": event})

    async def _signal(self, request: HttpRequest, peer: PeerCertificate) -> HttpResponse:
        body = await request.body()
        message = decode(body, SignalMessage)
        registration = await self._own(peer, message.source)
        async with self._flagging(registration, None):
            subject = f"{message.source}/{message.id}"
            header = request.headers.get(SIGNATURE_HEADER)
            verify_message(registration, subject, body, header, message.number)
        signal = Signal(
            message.source, message.id, message.number, message.type, message.emitted * 1_000_000, message.content
        )
        receipt = await self._signals.receive(signal, message.cost, estimate=message.estimate)
        return _json(200, msgspec.to_builtins(receipt))

    async def _last_signal(self, _: HttpRequest, peer: PeerCertificate, source: str) -> HttpResponse:
        await self._own(peer, source)
        last = await asyncio.to_thread(self._signals.last, source)
        return _json(200, {"source": source, "last": last})

    async def _own(self, peer: PeerCertificate, provider: str) -> Registration:
        """Return the registration of a provider if the peer is that provider."""
        registered = await asyncio.to_thread(self._runtime.registry.find, provider)
        if registered is None or registered[0].identity != peer.fingerprint:
            raise ContractError("not_yours", f"{provider!r:.80} is not registered by you")
        return registered[0]

    async def _own_invocation(self, peer: PeerCertificate, invocation_id: str) -> tuple[Registration, Invocation]:
        """Return an invocation and its registration if the peer is its provider.

        The registration is the one under which the invocation was made; a later provider of the
        same name with another identity has no access. An id that is unknown or belongs to another
        provider is a violation; the error does not reveal which.
        """
        registry, violation = self._runtime.registry, "unknown_invocation"
        try:
            invocation = await asyncio.to_thread(self._runtime.find, invocation_id)
            registration = await asyncio.to_thread(registry.registration_for, invocation)
            if registration.identity == peer.fingerprint:
                return registration, invocation
            violation = "foreign_invocation"
        except ContractError:
            pass
        registrations = await asyncio.to_thread(registry.find_by_identity, peer.fingerprint)
        if not registrations:
            raise ContractError("not_yours", "you are not registered")
        flagged = ContractViolation(violation, f"it sent a message for {invocation_id!r:.80}")
        for registration, _ in registrations:
            await self._flag(registration, flagged, None)
        raise ContractError("unknown_invocation", f"you have no invocation {invocation_id!r:.80}")

    @asynccontextmanager
    async def _flagging(self, registration: Registration, invocation: Invocation | None) -> AsyncIterator[None]:
        """Flag a violation that the block raises."""
        try:
            yield
        except ContractViolation as violation:
            await self._flag(registration, violation, invocation)
            raise

    async def _flag(
        self, registration: Registration, violation: ContractViolation, invocation: Invocation | None
    ) -> None:
        """Flag a violation, at most `_MAX_FLAGS_PER_HOUR` times an hour for each provider."""
        since, count = self._flags.get(registration.id, (time.monotonic(), 0))
        if time.monotonic() - since > _HOUR:
            since, count = time.monotonic(), 0
        self._flags[registration.id] = (since, count + 1)
        if count >= _MAX_FLAGS_PER_HOUR:
            _LOG.warning("%s has too many violations to flag: %s", registration.id, violation)
            return
        cause = None if invocation is None else invocation.settled_by or invocation.event
        await self._runtime.flag(registration.id, violation.violation, violation.detail, cause)


class RuntimeHost(msgspec.Struct, frozen=True):
    """A runtime that listens for providers."""

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
    """Listen for providers over mutual TLS, resume open invocations and enforce deadlines."""
    tls = server_context(identity, trust)
    unfinished = runtime.unfinished()
    async with await serve(RuntimeRoutes(runtime), host, port, tls=tls) as server:
        url_host = f"[{host}]" if ":" in host else host
        tasks = [
            asyncio.create_task(runtime.maintenance.run(maintenance_s)),
            asyncio.create_task(runtime.recover(unfinished)),
        ]
        try:
            yield RuntimeHost(runtime, server, f"https://{url_host}:{server.port}")
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)


def _check_length(body: bytes) -> None:
    """Apply the length limit of an immediate response to a deferred one."""
    if len(body) > MAX_RESPONSE_BYTES:
        detail = f"the response is longer than {MAX_RESPONSE_BYTES} bytes"
        raise ContractViolation("oversized_response", detail)


def _next_number(invocation: Invocation, expected: int, header: str | None) -> int:
    """Return the number that a message must have.

    The runtime refuses partials of an invocation that it has ended, and the provider has counted
    them: a higher number than expected is in order then.
    """
    if invocation.state in ("failed", "cancelled"):
        return max(expected, signed_number(header))
    return expected


def _expired(invocation: Invocation) -> bool:
    return (invocation.error or "").startswith("deadline:")


def _peer(request: HttpRequest) -> PeerCertificate:
    der = request.peer_certificate
    if der is None:
        raise ContractError("unauthenticated", "a provider must present a certificate: use mutual TLS")
    return _read_peer(der)


@lru_cache(maxsize=1_024)
def _read_peer(der: bytes) -> PeerCertificate:
    return read_certificate(der)


def _summary(invocation: Invocation) -> dict[str, Any]:
    return {
        "invocationId": invocation.id,
        "state": invocation.state,
        "partials": invocation.partials,
        "event": invocation.settled_by or invocation.event,
    }


def _json(status: int, data: Any) -> HttpResponse:
    return HttpResponse(status, (JSON,), msgspec.json.encode(data))


def _error(code: str, message: str, **fields: str) -> HttpResponse:
    status = _STATUS.get(code, 400)
    return _json(status, {"error": {"code": code, "message": message, **fields}})
