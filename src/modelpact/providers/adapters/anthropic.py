"""The adapter to Anthropic's Messages and the servers that speak it."""

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final

from modelpact.conversation.answers import AnthropicStream, StreamBroken, from_anthropic_answer
from modelpact.conversation.anthropic import to_anthropic
from modelpact.conversation.fidelity import Loss
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.providers.adapters.errors import CannotCarry
from modelpact.providers.adapters.keys import NO_KEY, Key
from modelpact.providers.adapters.upstream import DEFAULT_TIMEOUTS, MOST_BYTES, Upstream
from modelpact.vocabulary.errors import InputError
from modelpact.wire import Client, Timeouts

VERSION: Final = "2023-06-01"
"""The version of the API that this adapter speaks."""


class AnthropicAdapter:
    """A model port to one server. Betas are asked for with an `anthropic-beta` header."""

    def __init__(
        self,
        base_url: str,
        key: Key = NO_KEY,
        *,
        name: str = "anthropic",
        headers: Mapping[str, str] | None = None,
        key_header: str = "x-api-key",
        client: Client | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        plain_http: Collection[str] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`key_header`: some compatible servers take the key in `authorization` only."""
        self._upstream = Upstream(
            name,
            base_url.rstrip("/").removesuffix("/v1"),
            key=key,
            key_header=(key_header, "Bearer " if key_header == "authorization" else ""),
            headers={"anthropic-version": VERSION, **(headers or {})},
            client=client,
            timeouts=timeouts,
            plain_http=plain_http,
            most_bytes=most_bytes,
        )

    def losses(self, request: Request) -> tuple[Loss, ...]:
        """Return what the API cannot be told of a request; nothing is sent."""
        return to_anthropic(request).losses

    async def complete(self, request: Request) -> Response:
        """Answer a request whole."""
        body = self._body(request)
        body.pop("stream", None)
        answer = await self._upstream.whole("/v1/messages", body)
        try:
            return from_anthropic_answer(answer)
        except (InputError, StreamBroken) as error:
            raise self._upstream.malformed(error) from None

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Answer a request in events."""
        body = {**self._body(request), "stream": True}
        events = self._upstream.events("/v1/messages", body, AnthropicStream())
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def aclose(self) -> None:
        """Close the adapter's own connections."""
        await self._upstream.aclose()

    def __repr__(self) -> str:
        return f"<AnthropicAdapter {self._upstream.name} {self._upstream.base_url}>"

    def _body(self, request: Request) -> dict[str, Any]:
        carried = to_anthropic(request)
        unsupported = [loss for loss in carried.losses if loss.fidelity == "unsupported"]
        if unsupported:
            raise CannotCarry(self._upstream.name, unsupported)
        return carried.body
