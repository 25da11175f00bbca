"""The strategy that forwards a request to a server that speaks the client's API.

The body is sent byte for byte, unless the plan changes a field of it.
"""

from typing import Any, Final

import msgspec

from modelpact.conversation.openai_chat import wants_usage
from modelpact.conversation.response import ErrorBody, read_error
from modelpact.gateway.plan.plan import RESPONSE_HEADERS, Plan
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.upstream.endpoints import Endpoint
from modelpact.gateway.upstream.response import NO_HEADERS, StreamedResponse, UpstreamFailed, WholeResponse
from modelpact.gateway.upstream.sse_scan import UsageTap, find_end, find_error, read_usage
from modelpact.needs.requests import RequestApi
from modelpact.providers.models.upstream import UpstreamError, error_from_response, redact_upstream
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.strict_json import UNREADABLE
from modelpact.wire import ClientResponse, ConnectionLost, PoolFull, RawHeaders, WireError, WireTimeout
from modelpact.wire.messages import BODILESS_STATUSES

USAGE_OPTION: Final = "stream_options.include_usage"
"""The option by which the gateway asks for the usage of a stream."""
_NOT_FORWARDED: Final = frozenset(
    {b"set-cookie", b"server", b"alt-svc", b"strict-transport-security", b"cf-ray", b"via"}
    | {name.encode() for name in RESPONSE_HEADERS}
)
"""Headers of upstreams that clients do not get."""
_USAGE_ADDED: Final = RawHeaders.encode((("modelpact-added", USAGE_OPTION),))
_MAX_ERROR_BYTES: Final = 256 * 1024
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ForwardedCall:
    """A call that forwards a request."""

    __slots__ = ("_ask_usage", "_body", "_endpoint", "planned")

    def __init__(self, planned: PlannedRequest, endpoint: Endpoint) -> None:
        self.planned = planned
        self._endpoint = endpoint
        self._ask_usage = (
            planned.incoming.stream
            and planned.incoming.api == "openai-chat"
            and endpoint.stream_usage
            and not wants_usage(planned.incoming.body)
        )
        self._body = rewrite_body(planned.incoming.raw, planned.incoming.body, planned.plan, ask_usage=self._ask_usage)

    async def send(self) -> WholeResponse | StreamedResponse:
        """Forward the request; raise `UpstreamFailed` if the call failed."""
        planned, endpoint = self.planned, self._endpoint
        headers = planned.incoming.caller.headers_for(endpoint, planned.incoming.headers)
        try:
            try:
                response = await endpoint.send(planned.incoming.api, headers, self._body)
            except WireError as error:
                if error.phase != "connect" or isinstance(error, WireTimeout):
                    raise
                # There was no connection, so nothing was sent: try once more.
                response = await endpoint.send(planned.incoming.api, headers, self._body)
            if not 200 <= response.status < 300:
                raise await self._rejection(response)
            if planned.incoming.stream and _is_stream(response):
                return _ForwardedStream(planned.incoming.api, endpoint, response, self._ask_usage)
            content = await response.read()
        except WireError as error:
            raise self._failure(error) from error
        return WholeResponse(
            response.status,
            response.headers.forwardable(_NOT_FORWARDED),
            content,
            read_usage(planned.incoming.api, content),
        )

    async def _rejection(self, response: ClientResponse) -> UpstreamFailed:
        """Return the failure for an error response, without the provider's key."""
        endpoint, status = self._endpoint, response.status
        content = endpoint.without_key(await response.read(_MAX_ERROR_BYTES))
        reported, key = _read_error(content), endpoint.key.reveal()
        error = error_from_response(self.planned.plan.provider, status, response.headers, reported, key)
        kind = "429" if status == 429 else "5xx" if status >= 500 else "refused"
        forwarded = response.headers.forwardable(_NOT_FORWARDED)
        headers = RawHeaders(endpoint.without_key(forwarded))
        recorded = f"{error.code or status}: {error}"
        provider_response = WholeResponse(status, headers, content, None)
        return UpstreamFailed(kind, error, recorded, provider_response=provider_response)

    def _failure(self, error: WireError) -> UpstreamFailed:
        code = _error_code(error)
        wait = error.retry_after if isinstance(error, PoolFull) else None
        message = f"{self.planned.plan.provider}: {error}"
        return UpstreamFailed(
            "429" if wait is not None else "outage",
            UpstreamError(message, code=code, retry_after=wait),
            f"{code}: {error}",
        )


def rewrite_body(raw: bytes, body: dict[str, Any], plan: Plan, *, ask_usage: bool) -> bytes:
    """Return the body to send. Fields that the plan does not change keep their bytes."""
    if body["model"] == plan.model and not (plan.renames or plan.drops or ask_usage):
        return raw
    fields: dict[str, Any] = _FIELDS.decode(raw)
    fields["model"] = plan.model
    for name in plan.drops:
        fields.pop(name, None)
    for old, new in plan.renames:
        if old in fields:
            fields = {new if name == old else name: value for name, value in fields.items()}
    if ask_usage:
        fields["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return msgspec.json.encode(fields)


class _ForwardedStream(StreamedResponse):
    """The stream of an upstream, event by event."""

    def __init__(self, api: RequestApi, endpoint: Endpoint, response: ClientResponse, ask_usage: bool) -> None:
        super().__init__(
            response.status,
            response.headers.forwardable(_NOT_FORWARDED),
            aiter(response),
            extra_headers=_USAGE_ADDED if ask_usage else NO_HEADERS,
            asks_usage=ask_usage,
        )
        self._api = api
        self._endpoint = endpoint
        self._response = response
        self._tap = UsageTap(api, hide_usage=ask_usage)

    def feed(self, chunk: bytes) -> bytes:
        """Return the whole events that a chunk completes."""
        events = self._tap.feed(chunk)
        self.usage, self.size = self._tap.usage, self._tap.size
        if events:
            events = self._inspect(events)
        if self._tap.broken:
            self.malformed = "malformed: an event has no end"
        return events

    def end(self) -> bytes:
        """Return the last event if the server did not end it: some servers do that."""
        events = self._tap.end()
        self.usage, self.size = self._tap.usage, self._tap.size
        return self._inspect(events) if events else events

    def _inspect(self, events: bytes) -> bytes:
        """Note errors and the end of the response; return the events without the provider's key."""
        api = self._api
        self.complete = self.complete or find_end(api, events) >= 0
        self.error = self.error or _reported_error(api, events, self._endpoint)
        return self._endpoint.without_key(events) if self.error else events

    def describe(self, error: ModelpactError) -> str:
        """Return code and message of an error on the wire."""
        code = _error_code(error) if isinstance(error, WireError) else "failed"
        return f"{code}: {error}"

    async def aclose(self) -> None:
        """Close the response."""
        await self._response.aclose()


def _is_stream(response: ClientResponse) -> bool:
    if response.status in BODILESS_STATUSES:
        return False
    kind = response.headers.get("content-type") or ""
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _read_error(content: bytes) -> ErrorBody | None:
    try:
        error = read_error(msgspec.json.decode(content))
    except UNREADABLE:
        error = None
    if error is None and content.strip():
        return ErrorBody(redact_upstream(content[:2_000].decode("utf-8", "replace").strip(), ""))
    return error


def _reported_error(api: RequestApi, events: bytes, endpoint: Endpoint) -> str:
    """Return the error that an upstream reports in its stream, for the record."""
    event = find_error(api, events)
    if not event:
        return ""
    error = _read_error(event[max(0, event.find(b"{")) :])
    if error is None:
        return "upstream_error: "
    key = endpoint.key.reveal()
    code = redact_upstream(error.code or error.kind, key) or "upstream_error"
    return f"{code}: {redact_upstream(error.message, key)}"


def _error_code(error: WireError) -> str:
    if isinstance(error, WireTimeout):
        return "timeout"
    if isinstance(error, PoolFull):
        return "overloaded"
    if error.phase in ("pool", "connect", "tls"):
        return "unreachable"
    return "cut_off" if isinstance(error, ConnectionLost) else "malformed"
