"""The adapter to OpenAI's Chat Completions and the many servers that speak it."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

import msgspec

from modelpact.conversation.answers import OpenAIStream, StreamBroken, from_openai_answer
from modelpact.conversation.fidelity import Carried, Loss
from modelpact.conversation.openai_chat import to_openai_chat
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.providers.adapters.errors import CannotCarry
from modelpact.providers.adapters.keys import NO_KEY, Key
from modelpact.providers.adapters.upstream import DEFAULT_TIMEOUTS, MOST_BYTES, Upstream
from modelpact.vocabulary.errors import InputError
from modelpact.wire import Client, Timeouts

LimitFor = Callable[[str], str | None]
"""How a model's token limit is spelled: `max-tokens` or `max-completion-tokens`; None: as asked."""


class OpenAIChatAdapter:
    """A model port to one server. `limit_for` says how each model spells the token limit."""

    def __init__(
        self,
        base_url: str,
        key: Key = NO_KEY,
        *,
        name: str = "openai",
        headers: Mapping[str, str] | None = None,
        key_header: str = "authorization",
        limit_for: LimitFor | None = None,
        ask_usage: bool = True,
        client: Client | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        plain_http: Collection[str] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`ask_usage`: ask for usage in streams, which few servers refuse."""
        self._upstream = Upstream(
            name,
            base_url,
            key=key,
            key_header=(key_header, "Bearer " if key_header == "authorization" else ""),
            headers=headers,
            client=client,
            timeouts=timeouts,
            plain_http=plain_http,
            most_bytes=most_bytes,
        )
        self._limit_for = limit_for
        self._ask_usage = ask_usage

    def losses(self, request: Request) -> tuple[Loss, ...]:
        """Return what the API cannot be told of a request; nothing is sent."""
        return self._carry(request).losses

    async def complete(self, request: Request) -> Response:
        """Answer a request whole."""
        body = self._body(request)
        body.pop("stream", None)
        body.pop("stream_options", None)
        answer = await self._upstream.whole("/chat/completions", body)
        try:
            return from_openai_answer(answer)
        except (InputError, StreamBroken) as error:
            raise self._upstream.malformed(error) from None

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Answer a request in events."""
        body = {**self._body(request), "stream": True}
        if self._ask_usage:
            asked = body.get("stream_options") or {}
            body["stream_options"] = {**asked, "include_usage": True}
        events = self._upstream.events("/chat/completions", body, OpenAIStream())
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def aclose(self) -> None:
        """Close the adapter's own connections."""
        await self._upstream.aclose()

    def __repr__(self) -> str:
        return f"<OpenAIChatAdapter {self._upstream.name} {self._upstream.base_url}>"

    def _carry(self, request: Request) -> Carried:
        limit = self._limit_for(request.model) if self._limit_for is not None else None
        if limit is not None and limit != request.token_limit_param:
            request = msgspec.structs.replace(request, token_limit_param=limit)
        carried = to_openai_chat(request)
        if carried.body.get("n") not in (None, 1):
            several = Loss("n", "unsupported", "one answer is read; ask several times instead")
            carried = msgspec.structs.replace(carried, losses=(*carried.losses, several))
        return carried

    def _body(self, request: Request) -> dict[str, Any]:
        carried = self._carry(request)
        unsupported = [loss for loss in carried.losses if loss.fidelity == "unsupported"]
        if unsupported:
            raise CannotCarry(self._upstream.name, unsupported)
        return carried.body
