"""The adapter to Anthropic's Messages and the servers that speak it."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from modelpact.conversation.anthropic import AnthropicStreamReader, read_response, write_request
from modelpact.conversation.codecs import StreamReader
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response
from modelpact.providers.models.base import HttpAdapter
from modelpact.providers.models.credentials import NO_KEY, ApiKey
from modelpact.providers.models.upstream import (
    DEFAULT_TIMEOUTS,
    MOST_BYTES,
    UpstreamClient,
)
from modelpact.wire import Client, Timeouts

VERSION: Final = "2023-06-01"
"""The version of the API that this adapter speaks."""


class AnthropicAdapter(HttpAdapter):
    """A model port to one server. Betas are asked for with an `anthropic-beta` header."""

    path = "/v1/messages"

    def __init__(
        self,
        base_url: str,
        key: ApiKey = NO_KEY,
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
        super().__init__(
            UpstreamClient(
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
        )

    def _carry(self, request: Request) -> TranslatedBody:
        return write_request(request)

    def _read(self, answer: Any) -> Response:
        return read_response(answer)

    def _reader(self) -> StreamReader:
        return AnthropicStreamReader()
