"""Spelling: requests read and answers written in the client's API, whoever answers them."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from modelpact.conversation.anthropic import from_anthropic
from modelpact.conversation.codecs import (
    AnthropicEvents,
    OpenAIChunks,
    ResponsesEvents,
    to_anthropic_answer,
    to_openai_answer,
    to_openai_response,
)
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.openai_chat import from_openai_chat
from modelpact.conversation.openai_responses import from_openai_responses
from modelpact.conversation.request import Request
from modelpact.conversation.response import Finish, Response, StreamEvent
from modelpact.needs.requests import RequestApi
from modelpact.wire import write_event


class EventWriter(Protocol):
    """Writes the events of one API's stream."""

    def feed(self, event: StreamEvent) -> list[dict[str, Any]]:
        """Return the events that say one of ours."""


READ: Final[Mapping[RequestApi, Callable[[Any], Request]]] = {
    "openai-chat": from_openai_chat,
    "openai-responses": from_openai_responses,
    "anthropic": from_anthropic,
}
_IDS: Final[Mapping[RequestApi, str]] = {
    "openai-chat": "chatcmpl-",
    "anthropic": "msg_",
    "openai-responses": "resp_",
}


def new_id(api: RequestApi) -> str:
    """Return an id for an answer, such as the API has them."""
    return f"{_IDS.get(api, '')}{secrets.token_hex(12)}"


def write_answer(api: RequestApi, response: Response, asked: Mapping[str, Any]) -> TranslatedBody:
    """Write a whole answer; `asked` is the body of the request, of which some APIs repeat parts."""
    if api == "anthropic":
        return to_anthropic_answer(response)
    if api == "openai-responses":
        return to_openai_response(response, created=int(time.time()), asked=asked)
    return to_openai_answer(response, created=int(time.time()))


class StreamEncoder:
    """Writes a stream for a client, as bytes."""

    def __init__(
        self,
        api: RequestApi,
        identity: str,
        model: str,
        asked: Mapping[str, Any],
        *,
        usage: bool,
    ) -> None:
        self._api = api
        self._writer: EventWriter
        now = int(time.time())
        if api == "anthropic":
            self._writer = AnthropicEvents(identity, model)
        elif api == "openai-responses":
            self._writer = ResponsesEvents(identity, model, created=now, asked=asked)
        else:
            self._writer = OpenAIChunks(identity, model, created=now, usage=usage)

    def feed(self, event: StreamEvent) -> bytes:
        """Return the bytes that say an event."""
        said = self._writer.feed(event)
        if self._api == "openai-chat":
            out = b"".join(b"data: %b\n\n" % msgspec.json.encode(one) for one in said)
            return out + b"data: [DONE]\n\n" if isinstance(event, Finish) else out
        return b"".join(
            write_event(msgspec.json.encode(one).decode(), str(one["type"])) for one in said
        )
