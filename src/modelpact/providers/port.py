"""The port: the interface of every model provider."""

from collections.abc import AsyncIterator
from typing import Protocol

from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.vocabulary.errors import ModelpactError


class ProviderError(ModelpactError):
    """A provider rejected a request or failed; `status` is its HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class UnsupportedByProvider(ProviderError):
    """A request uses a capability that the model does not have."""

    def __init__(self, capability: str, field: str) -> None:
        self.capability = capability
        super().__init__(f"{field}: the model does not support {capability}", status=400)


class ModelPort(Protocol):
    """A model provider. A stream that ends without `Finish` was cut off."""

    async def complete(self, request: Request) -> Response:
        """Return the whole response to a request."""

    def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed response."""
