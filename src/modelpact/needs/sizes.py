"""How long a chat request is: what its model will read."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.needs.requests import MEDIA_PARTS

_READ: Final = ("messages", "input", "system", "instructions", "tools", "response_format")
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_CHARACTERS_A_KEY: Final = 3


class RequestSize(msgspec.Struct, frozen=True, gc=False):
    """How long a request is: characters of text, images, and the answer that it asks for."""

    characters: int
    images: int = 0
    output: int | None = None


class PromptText(msgspec.Struct, frozen=True):
    """What a model will read: texts, the keys that hold them, and media without their data."""

    texts: list[str]
    keys: int
    media: int


def read_prompt(body: Mapping[str, Any]) -> PromptText:
    """Take the texts out of a body, without base64 data."""
    texts: list[str] = []
    keys = media = 0
    stack: list[Any] = [body.get(name) for name in _READ]
    while stack:
        part = stack.pop()
        if type(part) is str:
            texts.append(part)
        elif type(part) is list:
            stack.extend(part)
        elif type(part) is dict:
            kind = part.get("type")
            if type(kind) is str and kind in MEDIA_PARTS:
                media += 1
            else:
                stack.extend(part.values())
                keys += len(part)
    return PromptText(texts, keys, media)


def measure(body: Mapping[str, Any]) -> RequestSize:
    """Measure a request in characters."""
    prompt = read_prompt(body)
    characters = prompt.keys * _CHARACTERS_A_KEY
    for text in prompt.texts:
        # Scripts that take more bytes for a character take more tokens for it as well.
        characters += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    limits = [body[name] for name in _LIMITS if type(body.get(name)) is int]
    return RequestSize(characters, prompt.media, max(limits, default=None))
