"""What a call of a provider comes to: a whole answer, a stream, or a failure."""

from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import msgspec

from modelpact.conversation.response import Usage
from modelpact.gateway.errors import GatewayResponse
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.ledger.costs import CostLine
from modelpact.providers.contract import Invocation
from modelpact.providers.models.upstream import UpstreamError
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import RawHeaders

NO_HEADERS: Final = RawHeaders()


class WholeAnswer(msgspec.Struct):
    """An answer that a provider gave at once."""

    status: int
    headers: RawHeaders
    """The headers that come before the gateway's own."""
    content: bytes
    usage: Usage | None
    """What the provider says that it used."""
    extra_headers: RawHeaders = NO_HEADERS


class StreamedAnswer:
    """An answer that a provider gives in pieces."""

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
        """Whether the event that ends an answer has come."""
        self.settles_before_last_event = False
        """Whether the events fed last end the answer, and are sent after it is settled.

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
    """A call that can be made: everything that may be refused beforehand was checked."""

    planned: PlannedRequest

    async def send(self) -> WholeAnswer | StreamedAnswer:
        """Make the call; raise `UpstreamFailed` where no good answer came."""


class UpstreamFailed(Exception):
    """A provider gave no answer, or none that can be used; another one may be called instead."""

    invocation: Invocation
    """The call that failed."""

    def __init__(
        self,
        kind: str,
        error: UpstreamError,
        recorded: str,
        *,
        lines: tuple[CostLine, ...] = (),
        answer: WholeAnswer | None = None,
    ) -> None:
        """Fail as `outage`, `429` or `5xx`, for which a workload may have a fallback, or `refused`.

        `recorded` is the error on the record, `lines` what it cost nevertheless, and `answer` the
        provider's own error response, where it gave one.
        """
        self.kind = kind
        self.error = error
        self.recorded = recorded
        self.lines = lines
        self.answer = answer
        self.response: GatewayResponse | None = None
        """The provider's own error response, for the client."""
        super().__init__(str(error))
