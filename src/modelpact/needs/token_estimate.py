"""Token estimates: how many tokens a request takes, judged by its length.

Exact counts need the vocabulary of a model; see `modelpact.gateway.plan.sizing`. Everything else in
modelpact that estimates tokens uses this module.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import ImageBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import Usage
from modelpact.needs.requests import MEDIA_PARTS

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_MEDIUM: Final = 1_000
"""Tokens that an image, a document or a recording often takes, whatever its length in bytes."""
TYPICAL_OUTPUT: Final = 1_024
"""Tokens of an answer to a request that sets no limit."""
OUTPUT_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""The fields of request bodies that limit the answer."""
_STREAM_BYTES_PER_TOKEN: Final = 40
"""Most of a stream is JSON around the text."""
_CHARACTERS_PER_KEY: Final = 3
_PROMPT_FIELDS: Final = ("messages", "input", "system", "instructions", "tools", "response_format")


class RequestSize(msgspec.Struct, frozen=True, gc=False):
    """The length of a request: characters of text, images, and the output limit that it sets."""

    characters: int
    images: int = 0
    output: int | None = None


class PromptText(msgspec.Struct, frozen=True):
    """What a model will read: texts, the number of keys that hold them, and of media."""

    texts: list[str]
    keys: int
    media: int


def tokens_for(characters: int) -> int:
    """Estimate the tokens of so many characters, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def stream_tokens(length: int) -> int:
    """Estimate the tokens of an answer by the length of its stream in bytes."""
    return max(1, length // _STREAM_BYTES_PER_TOKEN)


def read_prompt(body: Mapping[str, Any]) -> PromptText:
    """Collect the texts of a request body, without base64 data."""
    texts: list[str] = []
    keys = media = 0
    stack: list[Any] = [body.get(name) for name in _PROMPT_FIELDS]
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


def measure_body(body: Mapping[str, Any]) -> RequestSize:
    """Measure a request body."""
    prompt = read_prompt(body)
    characters = prompt.keys * _CHARACTERS_PER_KEY
    for text in prompt.texts:
        # Scripts that take more bytes for a character take more tokens for it as well.
        characters += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    limits = [body[name] for name in OUTPUT_LIMITS if type(body.get(name)) is int]
    return RequestSize(characters, prompt.media, max(limits, default=None))


def prompt_tokens(size: RequestSize) -> int:
    """Estimate the tokens of a prompt by its size."""
    return tokens_for(size.characters) + size.images * TOKENS_PER_MEDIUM


def request_tokens(request: Request) -> int:
    """Estimate the tokens of a prompt in the conversation model."""
    images = 0
    characters = len(msgspec.json.encode(request.tools)) if request.tools else 0
    for message in request.messages:
        for block in message.content:
            if isinstance(block, ImageBlock):
                images += 1
            else:
                characters += len(msgspec.json.encode(block))
    return prompt_tokens(RequestSize(characters, images))


def output_tokens(limit: int | None, longest: int | None) -> int:
    """Estimate the tokens of an answer: the limit of its request, or else what is typical.

    `longest` is the most that the model can answer, where it is known.
    """
    return min(longest or TYPICAL_OUTPUT, TYPICAL_OUTPUT) if limit is None else limit


def expected_usage(request: Request, longest: int | None) -> Usage:
    """Estimate what a request in the conversation model will use."""
    return Usage(request_tokens(request), output_tokens(request.max_tokens, longest))
