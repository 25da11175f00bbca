"""What the adapters to the APIs share: one address to POST to, whole or streamed."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from modelpact.conversation.codecs import StreamReader
from modelpact.conversation.error_bodies import ResponseError
from modelpact.conversation.fidelity import Loss, TranslatedBody
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.providers.models.errors import NotTranslatable
from modelpact.providers.models.upstream import UpstreamClient
from modelpact.vocabulary.errors import InputError


class HttpAdapter(ABC):
    """A model port to one server; each API says how it writes requests and reads answers."""

    path: ClassVar[str]
    """Where the API takes requests, beneath the server's address."""

    def __init__(self, upstream: UpstreamClient) -> None:
        self._upstream = upstream

    def losses(self, request: Request) -> tuple[Loss, ...]:
        """Return what the API cannot be told of a request; nothing is sent."""
        return self._carry(request).losses

    async def complete(self, request: Request) -> Response:
        """Answer a request whole."""
        body = self._body(request)
        body.pop("stream", None)
        body.pop("stream_options", None)
        answer = await self._upstream.whole(self.path, body)
        try:
            return self._read(answer)
        except (InputError, ResponseError) as error:
            raise self._upstream.malformed(error) from None

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Answer a request in events."""
        body = self._streaming({**self._body(request), "stream": True})
        events = self._upstream.events(self.path, body, self._reader())
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def aclose(self) -> None:
        """Close the adapter's own connections."""
        await self._upstream.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._upstream.name} {self._upstream.base_url}>"

    def _body(self, request: Request) -> dict[str, Any]:
        carried = self._carry(request)
        unsupported = [loss for loss in carried.losses if loss.fidelity == "unsupported"]
        if unsupported:
            raise NotTranslatable(self._upstream.name, unsupported)
        return carried.body

    @abstractmethod
    def _carry(self, request: Request) -> TranslatedBody:
        """Write a request in the API's words."""

    @abstractmethod
    def _read(self, answer: Any) -> Response:
        """Read a whole answer."""

    @abstractmethod
    def _reader(self) -> StreamReader:
        """Return a reader of one streamed answer."""

    def _streaming(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a request for a stream, with what the API needs for one."""
        return body
