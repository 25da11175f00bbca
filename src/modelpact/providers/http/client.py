"""The carrier: takes invocations to a provider's server, and believes only what is proven."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from modelpact.identity import HEADER, Identity, Trust, UntrustedPeer, client_context
from modelpact.ledger.event import Event
from modelpact.providers.contract import Invocation, Registration, Reply
from modelpact.providers.http.messages import (
    JSON,
    DeregisteredMessage,
    InvocationMessage,
    encode,
    read_accepted,
    read_answer,
    read_partial,
)
from modelpact.providers.models.endpoints import plain_upstream
from modelpact.providers.transport import Accepted, ContractViolation, Partial, Unreachable
from modelpact.vocabulary.redaction import redact_text
from modelpact.wire import (
    Client,
    ClientResponse,
    ConnectionLost,
    EventParser,
    Timeouts,
    WireError,
    WireTimeout,
)

LARGEST_ANSWER: Final = 16 * 1024 * 1024
_REFUSAL: Final = 4_096
_SHOWN: Final = 300
_TIMEOUTS: Final = Timeouts(connect=10.0)
_MILLISECOND: Final = 1_000_000


class HttpTransport:
    """Speaks the HTTP binding as a client; every provider is held to its pinned identity."""

    def __init__(
        self,
        identity: Identity,
        trust: Trust,
        *,
        plain_http: frozenset[str] = frozenset(),
        largest: int = LARGEST_ANSWER,
        timeouts: Timeouts = _TIMEOUTS,
    ) -> None:
        self._identity = identity
        self._trust = trust
        self._plain_http = plain_http
        self._largest = largest
        self._timeouts = timeouts
        self._clients: dict[str, Client] = {}

    async def aclose(self) -> None:
        """Drop every connection."""
        clients, self._clients = list(self._clients.values()), {}
        await asyncio.gather(*(client.aclose() for client in clients))

    def _client(self, registration: Registration) -> Client:
        """Return the client whose every handshake demands the provider's pinned key."""
        pin = registration.identity
        client = self._clients.get(pin)
        if client is None:
            tls = None
            if pin:
                trust = msgspec.structs.replace(self._trust, pins=frozenset([pin]), peer=None)
                tls = client_context(self._identity, trust, check="fingerprint")
            client = self._clients[pin] = Client(tls=tls)
        return client

    async def _request(
        self, registration: Registration, method: str, path: str, body: bytes = b""
    ) -> ClientResponse:
        if not registration.base_url:
            raise Unreachable(f"{registration.id} registered no address")
        plain_upstream(registration.base_url, self._plain_http)
        url = f"{registration.base_url.rstrip('/')}{path}"
        headers = (JSON, ("accept", "application/json, text/event-stream"))
        client = self._client(registration)
        try:
            return await client.request(method, url, headers, body, timeouts=self._timeouts)
        except WireError as error:
            raise _told(registration, error) from None

    async def send(self, registration: Registration, invocation: Invocation) -> Reply | Accepted:
        """Take a synchronous or asynchronous invocation there."""
        body = _asked(invocation)
        async with await self._request(registration, "POST", "/invocations", body) as answer:
            _check_status(registration, answer, await self._refusal(answer))
            said = await self._whole(registration, answer)
            header = answer.headers.get(HEADER)
            if answer.status == 202:
                return read_accepted(registration, invocation.id, said, header)
            return read_answer(registration, invocation.id, said, header, 1)

    async def stream(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Reply | Accepted]:
        """Take a streaming invocation there."""
        body = _asked(invocation)
        async with await self._request(registration, "POST", "/invocations", body) as answer:
            _check_status(registration, answer, await self._refusal(answer))
            kind = (answer.headers.get("content-type") or "").partition(";")[0].strip()
            if kind != "text/event-stream":
                said = await self._whole(registration, answer)
                header = answer.headers.get(HEADER)
                if answer.status == 202:
                    yield read_accepted(registration, invocation.id, said, header)
                else:
                    yield read_answer(registration, invocation.id, said, header, 1)
                return
            number = 1
            async for event, header, said in self._events(registration, answer):
                if event == "final":
                    yield read_answer(registration, invocation.id, said, header, number)
                    return
                yield read_partial(registration, invocation.id, said, header, number)
                number += 1

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Tell the provider that nobody waits for this any more."""
        path = f"/invocations/{invocation.id}"
        async with await self._request(registration, "DELETE", path) as answer:
            await self._refusal(answer)

    async def notify(self, registration: Registration, event: Event) -> None:
        """Tell a provider of the event that deregistered it."""
        told = event.payload
        message = DeregisteredMessage(
            registration.id, told["registered"], told["state"], told["reason"]
        )
        body = encode(message)
        async with await self._request(registration, "POST", "/deregistered", body) as answer:
            said = await self._refusal(answer)
            if answer.status != 204:
                _check_status(registration, answer, said)

    async def _whole(self, registration: Registration, answer: ClientResponse) -> bytes:
        try:
            said = await _gathered(answer, self._largest)
        except WireError as error:
            raise _told(registration, error) from None
        if said is None:
            raise ContractViolation(
                "oversized_response", f"the answer is longer than {self._largest} bytes"
            )
        return said

    async def _events(
        self, registration: Registration, answer: ClientResponse
    ) -> AsyncIterator[tuple[str, str, bytes]]:
        """Yield each event's type, signature and signed bytes."""
        parser = EventParser(self._largest)
        total = 0
        try:
            async for chunk in answer:
                total += len(chunk)
                if total > self._largest:
                    raise ContractViolation(
                        "oversized_response", f"the stream is longer than {self._largest} bytes"
                    )
                for event in parser.feed(chunk):
                    header, line, said = event.data.partition("\n")
                    if event.event not in ("partial", "final") or not line:
                        what = "an event of the stream is not a signed partial or final"
                        raise ContractViolation("invalid_response", what)
                    yield event.event, header, said.encode()
        except WireError as error:
            raise _told(registration, error) from None

    async def _refusal(self, answer: ClientResponse) -> str:
        """Read what a provider says that does not answer."""
        if answer.status in (200, 202):
            return ""
        try:
            said = await _gathered(answer, _REFUSAL)
        except WireError:
            return ""
        return (said or b"").decode("utf-8", "replace").strip()


async def _gathered(answer: ClientResponse, limit: int) -> bytes | None:
    """Return the whole body, or None as soon as it is longer than the limit."""
    parts, room = [], limit
    async for chunk in answer:
        room -= len(chunk)
        if room < 0:
            return None
        parts.append(chunk)
    return b"".join(parts)


def _asked(invocation: Invocation) -> bytes:
    deadline = invocation.deadline
    message = InvocationMessage(
        invocation.id,
        invocation.capability,
        invocation.semantics,
        invocation.input,
        None if deadline is None else deadline // _MILLISECOND,
    )
    return encode(message)


def _check_status(registration: Registration, answer: ClientResponse, said: str) -> None:
    if answer.status not in (200, 202):
        shown = redact_text(said)[:_SHOWN]
        raise Unreachable(f"{registration.id} refused with status {answer.status}: {shown}")


def _told(registration: Registration, error: WireError) -> ContractViolation | Unreachable:
    """Tell a provider that breaks the contract from one that is not there."""
    if isinstance(error.__cause__, UntrustedPeer):
        return ContractViolation("wrong_identity", f"at {registration.base_url}: {error.__cause__}")
    gone = isinstance(error, WireTimeout | ConnectionLost)
    if not gone and error.phase in ("head", "body"):
        return ContractViolation("invalid_response", str(error))
    return Unreachable(str(error))
