"""Write responses in the API of the client, whichever upstream produced them."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from modelpact.conversation.codecs import CODECS
from modelpact.conversation.fidelity import TranslatedBody
from modelpact.conversation.response import Finish, Response, StreamEvent
from modelpact.needs.requests import RequestApi
from modelpact.wire import write_event


def new_id(api: RequestApi) -> str:
    """Return a new response id in the API's format."""
    return f"{CODECS[api].id_prefix}{secrets.token_hex(12)}"


def write_answer(
    api: RequestApi, response: Response, request_body: Mapping[str, Any]
) -> TranslatedBody:
    """Write a whole response; some APIs repeat fields of the request in it."""
    return CODECS[api].write_response(response, created=int(time.time()), request_body=request_body)


class StreamEncoder:
    """Writes a stream for a client, as bytes."""

    def __init__(
        self, api: RequestApi, id: str, model: str, request_body: Mapping[str, Any]
    ) -> None:
        self._api = api
        self._writer = CODECS[api].stream_writer(
            id, model, created=int(time.time()), request_body=request_body
        )

    def feed(self, event: StreamEvent) -> bytes:
        """Return the bytes of one event."""
        written = self._writer.feed(event)
        if self._api == "openai-chat":
            out = b"".join(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in written)
            return out + b"data: [DONE]\n\n" if isinstance(event, Finish) else out
        return b"".join(
            write_event(msgspec.json.encode(data).decode(), str(data["type"])) for data in written
        )
