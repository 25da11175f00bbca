"""The codec of each API, and the translation of requests with them.

To add an API, write a package like `openai_chat`, add it to `CODECS` and to `fidelity.APIS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from modelpact.conversation import anthropic, openai_chat, openai_responses
from modelpact.conversation.fidelity import Loss, TranslatedBody
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent

_SEVERAL_CHOICES: Final = Loss("n", "unsupported", "only one response is read; send several requests instead")


class StreamReader(Protocol):
    """Reads the events of one streamed response."""

    def feed(self, data: str) -> list[StreamEvent]:
        """Read the data of one server-sent event."""

    def end(self) -> list[StreamEvent]:
        """Read the end of the stream."""


class StreamWriter(Protocol):
    """Writes the events of one streamed response."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be expressed so far."""

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the API's events for one event."""


class WriteResponse(Protocol):
    """Writes a whole response."""

    def __call__(
        self, response: Response, *, created: int = 0, request_body: Mapping[str, Any] | None = None
    ) -> TranslatedBody:
        """Return the body; some APIs date it and repeat fields of the request."""


class MakeStreamWriter(Protocol):
    """Makes the writer of one stream."""

    def __call__(
        self, id: str, model: str, *, created: int = 0, request_body: Mapping[str, Any] | None = None
    ) -> StreamWriter:
        """Return a writer; some APIs date the response and repeat fields of the request."""


class Codec(NamedTuple):
    """How the bodies and streams of one API are read and written."""

    read_request: Callable[[Any], Request]
    write_request: Callable[[Request], TranslatedBody]
    read_response: Callable[[Any], Response]
    write_response: WriteResponse
    stream_reader: Callable[[], StreamReader]
    stream_writer: MakeStreamWriter
    id_prefix: str
    """How the ids of responses begin."""


CODECS: Final[Mapping[str, Codec]] = {
    openai_chat.API: Codec(
        openai_chat.read_request,
        openai_chat.write_request,
        openai_chat.read_response,
        openai_chat.write_response,
        openai_chat.OpenAIChatStreamReader,
        openai_chat.OpenAIChatStreamWriter,
        "chatcmpl-",
    ),
    openai_responses.API: Codec(
        openai_responses.read_request,
        openai_responses.write_request,
        openai_responses.read_response,
        openai_responses.write_response,
        openai_responses.OpenAIResponsesStreamReader,
        openai_responses.OpenAIResponsesStreamWriter,
        "resp_",
    ),
    anthropic.API: Codec(
        anthropic.read_request,
        anthropic.write_request,
        anthropic.read_response,
        anthropic.write_response,
        anthropic.AnthropicStreamReader,
        anthropic.AnthropicStreamWriter,
        "msg_",
    ),
}


def write_request(api: str, request: Request) -> TranslatedBody:
    """Write a request in the format of an API, and report what the API cannot express.

    More than one choice is a loss too: the codecs read one response.
    """
    translated = CODECS[api].write_request(request)
    if api != openai_chat.API or translated.body.get("n") in (None, 1):
        return translated
    return msgspec.structs.replace(translated, losses=(*translated.losses, _SEVERAL_CHOICES))


def request_losses(api: str, request: Request) -> tuple[Loss, ...]:
    """Return what an API cannot express of a request; nothing for an API without a codec."""
    return write_request(api, request).losses if api in CODECS else ()
