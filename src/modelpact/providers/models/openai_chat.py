"""The adapter to OpenAI's Chat Completions and the many servers that speak it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from modelpact.conversation.codecs import StreamReader
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.openai_chat import API, OpenAIChatStreamReader, read_response
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response
from modelpact.conversation.translation import write_request
from modelpact.providers.models.base import HttpAdapter
from modelpact.providers.models.credentials import NO_KEY, ApiKey
from modelpact.providers.models.upstream import (
    DEFAULT_TIMEOUTS,
    MOST_BYTES,
    UpstreamClient,
)
from modelpact.wire import Client, Timeouts

LimitFor = Callable[[str], str | None]
"""How a model's token limit is spelled: `max-tokens` or `max-completion-tokens`; None: as asked."""


class OpenAIChatAdapter(HttpAdapter):
    """A model port to one server. `limit_for` says how each model spells the token limit."""

    path = "/chat/completions"

    def __init__(
        self,
        base_url: str,
        key: ApiKey = NO_KEY,
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
        super().__init__(
            UpstreamClient(
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
        )
        self._limit_for = limit_for
        self._ask_usage = ask_usage

    def _carry(self, request: Request) -> TranslatedBody:
        limit = self._limit_for(request.model) if self._limit_for is not None else None
        if limit is not None and limit != request.token_limit_param:
            request = msgspec.structs.replace(request, token_limit_param=limit)
        return write_request(API, request)

    def _read(self, answer: Any) -> Response:
        return read_response(answer)

    def _reader(self) -> StreamReader:
        return OpenAIChatStreamReader()

    def _streaming(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self._ask_usage:
            return body
        asked = body.get("stream_options") or {}
        return {**body, "stream_options": {**asked, "include_usage": True}}
