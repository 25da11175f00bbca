"""Translation: a request read from a client's API and written in a provider's API."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic import from_anthropic, to_anthropic
from modelpact.conversation.fidelity import Loss, TranslatedBody
from modelpact.conversation.openai_chat import from_openai_chat, to_openai_chat
from modelpact.conversation.openai_responses import from_openai_responses, to_openai_responses
from modelpact.conversation.request import Request

REQUEST_READERS: Final[Mapping[str, Callable[[Any], Request]]] = {
    "openai-chat": from_openai_chat,
    "openai-responses": from_openai_responses,
    "anthropic": from_anthropic,
}
"""By API: what reads a request body."""
_SEVERAL_ANSWERS: Final = Loss("n", "unsupported", "one answer is read; ask several times instead")


def _to_openai_chat(request: Request) -> TranslatedBody:
    translated = to_openai_chat(request)
    if translated.body.get("n") in (None, 1):
        return translated
    return msgspec.structs.replace(translated, losses=(*translated.losses, _SEVERAL_ANSWERS))


_REQUEST_WRITERS: Final[Mapping[str, Callable[[Request], TranslatedBody]]] = {
    "openai-chat": _to_openai_chat,
    "openai-responses": to_openai_responses,
    "anthropic": to_anthropic,
}


def write_request(api: str, request: Request) -> TranslatedBody:
    """Write a request for one answer in an API, and say what that API cannot express."""
    return _REQUEST_WRITERS[api](request)


def request_losses(api: str, request: Request) -> tuple[Loss, ...]:
    """Return what an API cannot express of a request; one that is not known loses nothing."""
    writer = _REQUEST_WRITERS.get(api)
    return () if writer is None else writer(request).losses
