"""The results of calling a provider: a whole response, a stream, or a failure."""

from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import msgspec

from modelpact.conversation.response import Usage
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.responses import GatewayResponse
from modelpact.ledger.costs import CostLine
from modelpact.providers.contract import Invocation
from modelpact.providers.models.upstream import UpstreamError
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import RawHeaders

NO_HEADERS: Final = RawHeaders()


class WholeResponse(msgspec.Struct):
    """A response that has arrived as a whole."""

    status: int
    headers: RawHeaders
    """The headers that come before the gateway's own."""
    content: bytes
    usage: Usage | None
    """The usage that the provider states."""
    extra_headers: RawHeaders = NO_HEADERS


class StreamedResponse:
    """A response that the provider streams."""

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        chunks: AsyncIterator[Any],
        *,
        extra_headers: RawHeaders = NO_HEADERS,
        asks_usage: bool = False,
    ) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks
        self.extra_headers = extra_headers
        self.asks_usage = asks_usage
        """Whether the gateway asked for the usage, and not the client."""
        self.usage: Usage | None = None
        self.size = 0
        """How many bytes of events have come."""
        self.complete = False
        """Whether the event that ends the response has come."""
        self.settles_before_last_event = False
        """Whether the events fed last end the response, and are sent after the call is settled.

        Only translated streams can do this: the gateway writes their last event itself.
        """
        self.error = ""
        """The error that the provider itself reported in the stream."""
        self.malformed = ""
        """Why the stream cannot be read any further."""

    def feed(self, chunk: Any) -> bytes:
        """Return the bytes for the client that a chunk completes."""
        raise NotImplementedError

    def end(self) -> bytes:
        """Return the bytes for the client that remain when the chunks have ended."""
        return b""

    def describe(self, error: ModelpactError) -> str:
        """Return code and message of an error that ended the chunks."""
        return f"{getattr(error, 'code', '') or 'failed'}: {error}"

    async def aclose(self) -> None:
        """Stop reading."""


class PreparedCall(Protocol):
    """A call that is ready to send: nothing is left that could refuse it."""

    planned: PlannedRequest
    """The request as it is sent: a translated call may reduce the token limit of its plan."""

    async def send(self) -> WholeResponse | StreamedResponse:
        """Send the request; raise `UpstreamFailed` if the call failed."""


class UpstreamFailed(ModelpactError):
    """A call of a provider failed; another provider may be called instead."""

    invocation: Invocation
    """The call that failed."""

    def __init__(
        self,
        kind: str,
        error: UpstreamError,
        recorded: str,
        *,
        lines: tuple[CostLine, ...] = (),
        provider_response: WholeResponse | None = None,
    ) -> None:
        """Describe a failure.

        `kind` is `refused`, or one that a workload may declare a fallback for: `outage`, `429` or
        `5xx`. `recorded` is the error for the record, `lines` what the call cost nevertheless, and
        `provider_response` the provider's own error response, if there was one.
        """
        self.kind = kind
        self.error = error
        self.recorded = recorded
        self.lines = lines
        self.provider_response = provider_response
        self.response: GatewayResponse | None = None
        """The same with the headers of the gateway, for the client. The sender sets it."""
        super().__init__(str(error))
