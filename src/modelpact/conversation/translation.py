"""Write a request for a provider's API if only one response will be read."""

from typing import Final

import msgspec

from modelpact.conversation import openai_chat
from modelpact.conversation.codecs import CODECS
from modelpact.conversation.fidelity import Loss, TranslatedBody
from modelpact.conversation.request import Request

_SEVERAL_CHOICES: Final = Loss(
    "n", "unsupported", "only one response is read; send several requests instead"
)


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
