"""The adapter to OpenAI's Responses API and the servers that speak it."""

from collections.abc import Collection, Mapping
from typing import Any

from modelpact.conversation.codecs import StreamReader
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.openai_responses import (
    OpenAIResponsesStreamReader,
    read_response,
    write_request,
)
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


class OpenAIResponsesAdapter(HttpAdapter):
    """A model port to one server. Nothing is stored there unless a request of its API says so."""

    path = "/responses"

    def __init__(
        self,
        base_url: str,
        key: ApiKey = NO_KEY,
        *,
        name: str = "openai",
        headers: Mapping[str, str] | None = None,
        key_header: str = "authorization",
        client: Client | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        plain_http: Collection[str] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
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

    def _carry(self, request: Request) -> TranslatedBody:
        return write_request(request)

    def _read(self, answer: Any) -> Response:
        return read_response(answer)

    def _reader(self) -> StreamReader:
        return OpenAIResponsesStreamReader()
