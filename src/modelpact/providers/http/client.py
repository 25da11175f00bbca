"""The HTTP transport: sends invocations to providers and verifies their responses."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from modelpact.identity import SIGNATURE_HEADER, Identity, Trust, UntrustedPeer
from modelpact.identity.tls import client_context
from modelpact.ledger.event import Event
from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.providers.http.messages import (
    JSON,
    DeregisteredMessage,
    InvocationMessage,
    encode,
    read_accepted,
    read_partial,
    read_response,
)
from modelpact.providers.models.endpoints import check_plain_http
from modelpact.providers.transport import Accepted, ContractViolation, Partial, Unreachable
from modelpact.vocabulary.redaction import redact_text
from modelpact.wire import Client, ClientResponse, ConnectionLost, EventParser, Timeouts, WireError, WireTimeout

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
_MAX_ERROR_BYTES: Final = 4_096
_MAX_SHOWN: Final = 300
_TIMEOUTS: Final = Timeouts(connect=10.0)
_CANCEL_STATUSES: Final = frozenset({204, 404})
"""Cancelled, or unknown to the provider: either way it does not run any more."""
_NANOSECONDS_PER_MS: Final = 1_000_000


class HttpTransport:
    """The client side of the HTTP binding.

    A provider with a pinned identity must prove it in the TLS handshake. One without an identity
    is reached over plain HTTP: on this host, or at a host in `plain_http`.
    """

    def __init__(
        self,
        identity: Identity,
        trust: Trust,
        *,
        plain_http: frozenset[str] = frozenset(),
        max_bytes: int = MAX_RESPONSE_BYTES,
        timeouts: Timeouts = _TIMEOUTS,
    ) -> None:
        self._identity = identity
        self._trust = trust
        self._plain_http = plain_http
        self._max_bytes = max_bytes
        self._timeouts = timeouts
        self._clients: dict[str, Client] = {}

    async def aclose(self) -> None:
        """Drop every connection."""
        clients, self._clients = list(self._clients.values()), {}
        await asyncio.gather(*(client.aclose() for client in clients))

    def _client(self, registration: Registration) -> Client:
        """Return the client whose handshakes demand the pinned key of the provider."""
        pin = registration.identity
        client = self._clients.get(pin)
        if client is None:
            tls = None
            if pin:
                trust = msgspec.structs.replace(self._trust, pins=frozenset([pin]), peer=None)
                tls = client_context(self._identity, trust, check="fingerprint")
            client = self._clients[pin] = Client(tls=tls)
        return client

    async def _request(self, registration: Registration, method: str, path: str, body: bytes = b"") -> ClientResponse:
        if not registration.base_url:
            raise Unreachable(f"{registration.id} did not register an address")
        check_plain_http(registration.base_url, self._plain_http)
        url = f"{registration.base_url.rstrip('/')}{path}"
        headers = (JSON, ("accept", "application/json, text/event-stream"))
        client = self._client(registration)
        try:
            return await client.request(method, url, headers, body, timeouts=self._timeouts)
        except WireError as error:
            raise _transport_error(registration, error) from None

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        """Send a synchronous or asynchronous invocation."""
        body = _encode_invocation(invocation)
        async with await self._request(registration, "POST", "/invocations", body) as response:
            _check_status(registration, response, await self._error_text(response))
            return await self._read_reply(registration, invocation, response)

    async def stream(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Reply | Accepted]:
        """Send a streaming invocation; yield its partials, then the reply."""
        body = _encode_invocation(invocation)
        async with await self._request(registration, "POST", "/invocations", body) as response:
            _check_status(registration, response, await self._error_text(response))
            kind = (response.headers.get("content-type") or "").partition(";")[0].strip()
            if kind != "text/event-stream":
                yield await self._read_reply(registration, invocation, response)
                return
            number = 1
            async for event, header, content in self._events(registration, response):
                if event == "final":
                    yield read_response(registration, invocation.id, content, header, number)
                    return
                yield read_partial(registration, invocation.id, content, header, number)
                number += 1

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Tell the provider that an invocation is cancelled; raise `Unreachable` if it refuses."""
        path = f"/invocations/{invocation.id}"
        async with await self._request(registration, "DELETE", path) as response:
            error = await self._error_text(response)
            if response.status not in _CANCEL_STATUSES:
                _check_status(registration, response, error)

    async def notify(self, registration: Registration, event: Event) -> None:
        """Notify a provider of the event that deregistered it."""
        payload = event.payload
        message = DeregisteredMessage(registration.id, payload["registered"], payload["state"], payload["reason"])
        body = encode(message)
        async with await self._request(registration, "POST", "/deregistered", body) as response:
            error = await self._error_text(response)
            if response.status != 204:
                _check_status(registration, response, error)

    async def _read_reply(
        self, registration: Registration, invocation: Invocation, response: ClientResponse
    ) -> Reply | Accepted:
        """Read and verify a response that is not a stream."""
        try:
            content = await _read_limited(response, self._max_bytes)
        except WireError as error:
            raise _transport_error(registration, error) from None
        if content is None:
            raise ContractViolation("oversized_response", f"the response is longer than {self._max_bytes} bytes")
        header = response.headers.get(SIGNATURE_HEADER)
        if response.status == 202:
            return read_accepted(registration, invocation.id, content, header)
        return read_response(registration, invocation.id, content, header, 1)

    async def _events(
        self, registration: Registration, response: ClientResponse
    ) -> AsyncIterator[tuple[str, str, bytes]]:
        """Yield the type, the signature and the signed bytes of each event."""
        parser = EventParser(self._max_bytes)
        total = 0
        try:
            async for chunk in response:
                total += len(chunk)
                if total > self._max_bytes:
                    raise ContractViolation("oversized_response", f"the stream is longer than {self._max_bytes} bytes")
                for event in parser.feed(chunk):
                    header, separator, content = event.data.partition("\n")
                    if event.event not in ("partial", "final") or not separator:
                        detail = "an event of the stream is not a signed partial or final"
                        raise ContractViolation("invalid_response", detail)
                    yield event.event, header, content.encode()
        except WireError as error:
            raise _transport_error(registration, error) from None

    async def _error_text(self, response: ClientResponse) -> str:
        """Return the body of an error response as text, or an empty string."""
        if response.status in (200, 202):
            return ""
        try:
            content = await _read_limited(response, _MAX_ERROR_BYTES)
        except WireError:
            return ""
        return (content or b"").decode("utf-8", "replace").strip()


async def _read_limited(response: ClientResponse, limit: int) -> bytes | None:
    """Return the whole body, or None as soon as it is longer than the limit."""
    parts, remaining = [], limit
    async for chunk in response:
        remaining -= len(chunk)
        if remaining < 0:
            return None
        parts.append(chunk)
    return b"".join(parts)


def _encode_invocation(invocation: Invocation) -> bytes:
    deadline = invocation.deadline
    message = InvocationMessage(
        invocation.id,
        invocation.capability,
        invocation.semantics,
        invocation.input,
        None if deadline is None else deadline // _NANOSECONDS_PER_MS,
    )
    return encode(message)


def _check_status(registration: Registration, response: ClientResponse, error: str) -> None:
    if response.status not in (200, 202):
        shown = redact_text(error)[:_MAX_SHOWN]
        raise Unreachable(f"{registration.id} refused with status {response.status}: {shown}")


def _transport_error(registration: Registration, error: WireError) -> ContractViolation | Unreachable:
    """Distinguish a provider that breaks the contract from one that is not reached."""
    # A client of `modelpact.wire` raises its error from the failure of the handshake.
    if isinstance(error.__cause__, UntrustedPeer):
        return ContractViolation("wrong_identity", f"at {registration.base_url}: {error.__cause__}")
    unavailable = isinstance(error, WireTimeout | ConnectionLost)
    if not unavailable and error.phase in ("head", "body"):
        return ContractViolation("invalid_response", str(error))
    return Unreachable(str(error))
