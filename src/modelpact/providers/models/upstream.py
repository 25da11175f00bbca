"""The way to an upstream server: one POST, whole or streamed, with every failure told apart."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.codecs import StreamReader
from modelpact.conversation.error_bodies import ErrorBody, ResponseError, read_error
from modelpact.conversation.response import Finish, StreamEvent
from modelpact.providers.models.credentials import NO_KEY, ApiKey
from modelpact.providers.models.endpoints import checked_base
from modelpact.providers.models.errors import UpstreamError, cleaned, refused
from modelpact.vocabulary.errors import InputError
from modelpact.wire import (
    Client,
    ClientResponse,
    ConnectionLost,
    EventParser,
    Timeouts,
    WireError,
    WireTimeout,
)

DEFAULT_TIMEOUTS: Final = Timeouts(connect=10.0, write=60.0, first_byte=600.0, between_bytes=120.0)
MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest answer that is taken, whole or streamed."""
_MOST_ERROR: Final = 256 * 1024
_AFTER_THE_END: Final = 0.2
"""Seconds to wait for a stream to close after its last event, so that its connection is kept."""


class UpstreamClient:
    """A server that answers POSTs. Its key is in no message and no representation."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        key: ApiKey = NO_KEY,
        key_header: tuple[str, str] = ("authorization", "Bearer "),
        headers: Mapping[str, str] | None = None,
        client: Client | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        plain_http: Collection[str] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.name = name
        self.base_url = checked_base(base_url, name, plain_http)
        self._key = key
        self._headers = {
            "content-type": "application/json",
            "user-agent": "modelpact",
            **{header.lower(): value for header, value in (headers or {}).items()},
        }
        if key:
            self._headers[key_header[0]] = f"{key_header[1]}{key.reveal()}"
        self._client = client
        self._own = client is None
        self._timeouts = timeouts
        self._most_bytes = most_bytes

    def __repr__(self) -> str:
        return f"<Upstream {self.name} {self.base_url}>"

    async def aclose(self) -> None:
        """Close the connections, unless they are those of a client that was handed in."""
        if self._own and self._client is not None:
            await self._client.aclose()
            self._client = None

    async def whole(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a body and return the answer's JSON."""
        answer = await self._post(path, body, "application/json")
        try:
            content = await answer.read(self._most_bytes)
        except WireError as error:
            raise self._failed(error) from error
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise self._malformed(f"not JSON: {self._shown(content)!r:.120}") from None

    async def events(
        self, path: str, body: Mapping[str, Any], reader: StreamReader
    ) -> AsyncIterator[StreamEvent]:
        """Send a body and yield what the streamed answer says, as it comes.

        A stream that ends early just ends, without `Finish`, where the server closed it in order;
        where the connection broke, that is raised. Whoever stops reading closes the upstream.
        """
        answer = await self._post(path, body, "text/event-stream")
        async with answer:
            kind = (answer.headers.get("content-type") or "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                await self._refuse_kind(answer, kind)
            parser, taken = EventParser(), 0
            try:
                async for chunk in answer:
                    taken += len(chunk)
                    if taken > self._most_bytes:
                        raise self._malformed(f"the stream is longer than {self._most_bytes} bytes")
                    for event in parser.feed(chunk):
                        for said in self._read(reader.feed, event.data):
                            yield said
                            if isinstance(said, Finish):
                                await _let_close(answer)
                                return
            except WireError as error:
                raise self._failed(error) from error
            for said in self._read(lambda _: reader.end(), ""):
                yield said

    def malformed(self, error: InputError | ResponseError) -> UpstreamError:
        """Make the error of an answer that cannot be read, or that is an error."""
        if isinstance(error, ResponseError):
            return self._broken(error.body)
        return self._malformed(str(error))

    def _read(self, read: Callable[[str], list[StreamEvent]], data: str) -> list[StreamEvent]:
        try:
            return read(data)
        except (InputError, ResponseError) as error:
            raise self.malformed(error) from None

    async def _post(self, path: str, body: Mapping[str, Any], accept: str) -> ClientResponse:
        content = _written(body, self.name)
        headers = {**self._headers, "accept": accept}
        url = f"{self.base_url}{path}"
        try:
            answer = await self._send(url, headers, content)
        except WireError as error:
            raise self._failed(error) from error
        if 200 <= answer.status < 300:
            encoding = answer.headers.get("content-encoding") or "identity"
            if encoding.lower() != "identity":
                await answer.aclose()
                raise self._malformed(f"it is encoded as {encoding!r:.40}, which was not asked for")
            return answer
        async with answer:
            said = await self._error_body(answer)
            raise refused(self.name, answer.status, answer.headers, said, self._key.reveal())

    async def _send(self, url: str, headers: Mapping[str, str], content: bytes) -> ClientResponse:
        """Send, and once more where no connection came about: nothing had been sent then."""
        if self._client is None:
            self._client = Client()
        try:
            return await self._client.request(
                "POST", url, headers, content, timeouts=self._timeouts
            )
        except WireError as error:
            if error.phase != "connect" or isinstance(error, WireTimeout):
                raise
        return await self._client.request("POST", url, headers, content, timeouts=self._timeouts)

    async def _error_body(self, answer: ClientResponse) -> ErrorBody | None:
        try:
            content = await answer.read(_MOST_ERROR)
        except WireError:
            return None
        try:
            said = read_error(msgspec.json.decode(content))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            said = None
        return said or (ErrorBody(self._shown(content)) if content.strip() else None)

    async def _refuse_kind(self, answer: ClientResponse, kind: str) -> None:
        """Raise for an answer that is no stream, with what it says."""
        said = await self._error_body(answer) if kind == "application/json" else None
        if said is not None and said.kind:
            raise self._broken(said)
        told = f"a stream was asked for and {kind or 'no content type'!r:.60} came"
        raise self._malformed(told, "not_streamed")

    def _shown(self, content: bytes) -> str:
        return cleaned(content[:4_096].decode("utf-8", "replace").strip(), self._key.reveal())

    def _broken(self, said: ErrorBody) -> UpstreamError:
        key = self._key.reveal()
        return UpstreamError(
            f"{self.name} broke off with an error: {cleaned(said.message or said.kind, key)}",
            status=said.status,
            code=cleaned(said.code or said.kind, key),
            param=cleaned(said.param, key),
        )

    def _malformed(self, what: str, code: str = "malformed") -> UpstreamError:
        told = cleaned(what, self._key.reveal())
        return UpstreamError(f"{self.name} sent a malformed answer: {told}", code=code)

    def _failed(self, error: WireError) -> UpstreamError:
        code = "malformed"
        if isinstance(error, WireTimeout):
            code = "timeout"
        elif error.phase in ("pool", "connect", "tls"):
            code = "unreachable"
        elif isinstance(error, ConnectionLost):
            code = "cut_off"
        told = cleaned(str(error), self._key.reveal())
        wait = getattr(error, "retry_after", None)
        return UpstreamError(f"{self.name}: {told}", code=code, retry_after=wait)


def _written(body: Mapping[str, Any], name: str) -> bytes:
    """Write a body; msgspec would write numbers that JSON does not have as null."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name}: the request cannot be written as JSON: {error}") from None


async def _let_close(answer: ClientResponse) -> None:
    """Read a stream to its close after the last event: its connection can be used again then."""
    try:
        async with asyncio.timeout(_AFTER_THE_END):
            async for _ in answer:
                pass
    except (WireError, TimeoutError):
        await answer.aclose()
