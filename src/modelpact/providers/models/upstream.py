"""The client of an upstream server: one POST, whole or streamed, and its errors."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from modelpact.conversation.codecs import StreamReader
from modelpact.conversation.response import ErrorBody, Finish, ResponseError, StreamEvent, read_error
from modelpact.providers.models.credentials import NO_KEY, ApiKey, redact_key
from modelpact.providers.models.endpoints import authentication_header, check_base_url
from modelpact.providers.port import ProviderError
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.redaction import redact_text
from modelpact.wire import (
    Client,
    ClientResponse,
    ConnectionLost,
    EventParser,
    Headers,
    Timeouts,
    WireError,
    WireTimeout,
)

DEFAULT_TIMEOUTS: Final = Timeouts(connect=10.0, write=60.0, first_byte=600.0, between_bytes=120.0)
MAX_BYTES: Final = 64 * 1024 * 1024
"""The longest response that is accepted, whole or streamed."""
_MAX_ERROR_BYTES: Final = 256 * 1024
_MAX_SHOWN: Final = 600
_MAX_RETRY_AFTER: Final = 86_400.0
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_CLOSE_SECONDS: Final = 0.2
"""How long to wait for a stream to close after its last event, so that its connection is kept."""


class UpstreamError(ProviderError):
    """An upstream server rejected a request, failed, or could not be reached.

    `status` is its HTTP status, `code` its own error code (or ours: `timeout`, `unreachable`,
    `cut_off`, `malformed`, `not_streamed`), `param` the field that it names, `retry_after` the
    seconds after which it accepts another attempt.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        param: str = "",
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.request_id = request_id
        super().__init__(message, status=status)


class UpstreamClient:
    """A client of one server. Its key appears in no message and no representation."""

    def __init__(
        self,
        base_url: str,
        key: ApiKey = NO_KEY,
        *,
        name: str,
        key_header: str = "authorization",
        headers: Mapping[str, str] | None = None,
        client: Client | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        plain_http: Collection[str] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.name = name
        self.base_url = check_base_url(base_url, name, plain_http)
        self._key = key
        self._headers = {
            "content-type": "application/json",
            "user-agent": "modelpact",
            **{header.lower(): value for header, value in (headers or {}).items()},
        }
        if key:
            self._headers.update([authentication_header(key_header, key.reveal())])
        self._client = client
        self._owns_client = client is None
        self._timeouts = timeouts
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"<UpstreamClient {self.name} {self.base_url}>"

    async def aclose(self) -> None:
        """Close the connections, unless they belong to a client that was passed in."""
        if self._owns_client and self._client is not None:
            await self._client.aclose()
            self._client = None

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a body and return the JSON of the response."""
        response = await self._post(path, body, "application/json")
        try:
            content = await response.read(self._max_bytes)
        except WireError as error:
            raise self._wire_failure(error) from error
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise self._malformed(f"not JSON: {self._excerpt(content)!r:.120}") from None

    async def post_stream(self, path: str, body: Mapping[str, Any], reader: StreamReader) -> AsyncIterator[StreamEvent]:
        """Send a body and yield the events of the streamed response as they arrive.

        If the server closes the stream early but in order, the iteration just ends, without
        `Finish`. If the connection is lost, that is raised. Closing the iterator closes the
        connection.
        """
        response = await self._post(path, body, "text/event-stream")
        async with response:
            kind = (response.headers.get("content-type") or "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                await self._raise_not_streamed(response, kind)
            parser, received = EventParser(), 0
            try:
                async for chunk in response:
                    received += len(chunk)
                    if received > self._max_bytes:
                        raise self._malformed(f"the stream is longer than {self._max_bytes} bytes")
                    for sse_event in parser.feed(chunk):
                        for event in self._read(reader.feed, sse_event.data):
                            yield event
                            if isinstance(event, Finish):
                                await _read_to_close(response)
                                return
            except WireError as error:
                raise self._wire_failure(error) from error
            for event in self._read(lambda _: reader.end(), ""):
                yield event

    def unreadable(self, error: InputError | ResponseError) -> UpstreamError:
        """Return the error for a response that cannot be read, or that is itself an error."""
        if isinstance(error, ResponseError):
            return self._api_failure(error.body)
        return self._malformed(str(error))

    def _read(self, read: Callable[[str], list[StreamEvent]], data: str) -> list[StreamEvent]:
        try:
            return read(data)
        except (InputError, ResponseError) as error:
            raise self.unreadable(error) from None

    async def _post(self, path: str, body: Mapping[str, Any], accept: str) -> ClientResponse:
        content = _encode(body, self.name)
        headers = {**self._headers, "accept": accept}
        url = f"{self.base_url}{path}"
        try:
            response = await self._send(url, headers, content)
        except WireError as error:
            raise self._wire_failure(error) from error
        if 200 <= response.status < 300:
            encoding = response.headers.get("content-encoding") or "identity"
            if encoding.lower() != "identity":
                await response.aclose()
                raise self._malformed(f"it has the content encoding {encoding!r:.40}, not requested")
            return response
        async with response:
            api_error = await self._read_error(response)
            raise error_from_response(self.name, response.status, response.headers, api_error, self._key.reveal())

    async def _send(self, url: str, headers: Mapping[str, str], content: bytes) -> ClientResponse:
        """Send a request; try again if the connection could not be made and nothing was sent."""
        if self._client is None:
            self._client = Client()
        try:
            return await self._client.request("POST", url, headers, content, timeouts=self._timeouts)
        except WireError as error:
            if error.phase != "connect" or isinstance(error, WireTimeout):
                raise
        return await self._client.request("POST", url, headers, content, timeouts=self._timeouts)

    async def _read_error(self, response: ClientResponse) -> ErrorBody | None:
        try:
            content = await response.read(_MAX_ERROR_BYTES)
        except WireError:
            return None
        try:
            error = read_error(msgspec.json.decode(content))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            error = None
        return error or (ErrorBody(self._excerpt(content)) if content.strip() else None)

    async def _raise_not_streamed(self, response: ClientResponse, kind: str) -> None:
        """Raise for a response that is not a stream, with the error that it contains."""
        error = await self._read_error(response) if kind == "application/json" else None
        if error is not None and error.kind:
            raise self._api_failure(error)
        reason = f"expected a stream, got {kind or 'no content type'!r:.60}"
        raise self._malformed(reason, "not_streamed")

    def _excerpt(self, content: bytes) -> str:
        text = content[:4_096].decode("utf-8", "replace").strip()
        return redact_upstream(text, self._key.reveal())

    def _api_failure(self, error: ErrorBody) -> UpstreamError:
        key = self._key.reveal()
        message = redact_upstream(error.message or error.kind, key)
        return UpstreamError(
            f"{self.name} stopped with an error: {message}",
            status=error.status,
            code=redact_upstream(error.code or error.kind, key),
            param=redact_upstream(error.param, key),
        )

    def _malformed(self, reason: str, code: str = "malformed") -> UpstreamError:
        reason = redact_upstream(reason, self._key.reveal())
        return UpstreamError(f"{self.name} sent a malformed response: {reason}", code=code)

    def _wire_failure(self, error: WireError) -> UpstreamError:
        code = "malformed"
        if isinstance(error, WireTimeout):
            code = "timeout"
        elif error.phase in ("pool", "connect", "tls"):
            code = "unreachable"
        elif isinstance(error, ConnectionLost):
            code = "cut_off"
        message = redact_upstream(str(error), self._key.reveal())
        retry_after = getattr(error, "retry_after", None)
        return UpstreamError(f"{self.name}: {message}", code=code, retry_after=retry_after)


def redact_upstream(text: str, key: str) -> str:
    """Return the text of an upstream server without the key and other secrets, shortened."""
    text = redact_text(redact_key(text[: 4 * _MAX_SHOWN + len(key)], key))
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def error_from_response(name: str, status: int, headers: Headers, error: ErrorBody | None, key: str) -> UpstreamError:
    """Return the error for a response with an error status."""
    message = "" if error is None else redact_upstream(error.message, key)
    if 300 <= status < 400:
        message = "it redirects, and redirects are not followed: set base_url to the new address"
    code = "" if error is None else redact_upstream(error.code or error.kind, key)
    named_code = f" ({code})" if code else ""
    message = message or "no reason given"
    if status in (401, 403):
        message = f"{message.removesuffix('.')}; check the key of {name}"
    request_id = headers.get("request-id") or headers.get("x-request-id") or ""
    return UpstreamError(
        f"{name} answered {status}{named_code}: {message}",
        status=status,
        code=code,
        param="" if error is None else redact_upstream(error.param, key),
        retry_after=read_retry_after(headers),
        request_id=redact_upstream(request_id, key),
    )


def read_retry_after(headers: Headers, now: float | None = None) -> float | None:
    """Return the seconds after which an upstream server accepts another attempt, or None."""
    for name, scale in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        if _SECONDS.fullmatch(value):
            return min(float(value) / scale, _MAX_RETRY_AFTER)
    value = headers.get("retry-after") or ""
    try:
        when = parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, when - (time.time() if now is None else now)), _MAX_RETRY_AFTER)


def _encode(body: Mapping[str, Any], name: str) -> bytes:
    """Encode a body with `json`: msgspec would write numbers that JSON does not have as null."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name}: the request cannot be written as JSON: {error}") from None


async def _read_to_close(response: ClientResponse) -> None:
    """Read a stream to its end after the last event, so that its connection can be reused."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            async for _ in response:
                pass
    except (WireError, TimeoutError):
        await response.aclose()
