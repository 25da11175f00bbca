"""Counting: the tokens of a prompt, exactly, where its model's vocabulary is public.

OpenAI's is, and the package of the extra `tokens` carries it. Of all others there are estimates.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Protocol

import msgspec

from modelpact.catalog.names import Family
from modelpact.conversation.response import Usage
from modelpact.gateway.plan.plan import HeaderPairs, Plan
from modelpact.needs.need import Needs, need
from modelpact.needs.token_estimate import (
    OUTPUT_LIMITS,
    TOKENS_PER_MEDIUM,
    measure_body,
    output_tokens,
    prompt_tokens,
    read_prompt,
    tokens_for,
)

_ENCODINGS: Final = (
    ("gpt-3.5", "cl100k_base"),
    ("gpt-4-", "cl100k_base"),
    ("text-embedding-", "cl100k_base"),
    ("gpt-4", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("gpt-oss", "o200k_base"),
    ("chatgpt-4o", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
)
"""Beginnings of OpenAI's names, the first that fits; `gpt-4` itself is older than `gpt-4o`."""
_TOKENS_A_MESSAGE: Final = 3
_SLICE: Final = 32_768
_BOUNDARY: Final = re.compile(r"(?<=\S)(?= [A-Za-z])")
"""Where no token of these vocabularies goes across: before the space that begins a word."""


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""


def encoding_of(family: Family, provider: str) -> str:
    """Return the vocabulary of a model, or nothing where it is not public."""
    if family.vendor != "openai" and not (family.vendor is None and provider == "openai"):
        return ""
    if family.name == "gpt-4":
        return "cl100k_base"
    return next((found for start, found in _ENCODINGS if family.name.startswith(start)), "")


@cache
def counter(encoding: str) -> TokenCounter | None:
    """Return what counts with a vocabulary, or None where the package is not installed."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]
    except ImportError:
        return None
    found: TokenCounter = getattr(openai, encoding)()
    return found


def count_prompt(body: Mapping[str, Any], encoding: str) -> int | None:
    """Count the tokens of a prompt with what frames its messages; None where that cannot be done.

    Media have no tokens that could be counted: they are put at what they often take.
    """
    counting = counter(encoding)
    if counting is None:
        return None
    prompt = read_prompt(body)
    listed = body.get("messages") or body.get("input")
    messages = len(listed) if type(listed) is list else 1
    tokens = _TOKENS_A_MESSAGE * (messages + 1) + prompt.media * TOKENS_PER_MEDIUM
    for text in prompt.texts:
        for part in _slices(text):
            tokens += counting.count(part)
    return tokens


def _slices(text: str) -> Iterator[str]:
    """Yield a long text in parts that have as many tokens: each is counted in one go."""
    start = 0
    while len(text) - start > _SLICE:
        found = _BOUNDARY.search(text, start + _SLICE)
        if found is None:
            break
        yield text[start : found.start()]
        start = found.start()
    yield text[start:] if start else text


SIZE_HEADER: Final = "modelpact-prompt-tokens"
_ESTIMATED: Final = "estimated"
_FEWEST_BYTES_A_TOKEN: Final = 2
"""A prompt with fewer bytes than this for every token of room fits without a closer look."""
_NEAR: Final = 0.75
"""The part of the room from which on an estimate is too rough to decide."""


_NONE: Final = Needs()


class TokenEstimate(msgspec.Struct, frozen=True):
    """What a request is expected to use, and what its answer says of that."""

    usage: Usage
    told: HeaderPairs = ()
    too_long: Needs = _NONE
    """What the request needs that the model is too small for."""


def expected_at_once(plan: Plan, raw: bytes, body: dict[str, Any]) -> TokenEstimate | None:
    """Estimate what a request uses by its length; None where that is too rough to decide.

    Also say what it needs that the model is too small for.
    """
    if plan.how == "refuse":
        return TokenEstimate(Usage())
    window, asked = plan.window, _output(body)
    if asked is not None and plan.longest_output is not None and asked > plan.longest_output:
        return TokenEstimate(Usage(), too_long=_size("max-output", asked, "max_tokens"))
    room = None if window is None else window - (asked or 0)
    if room is None or len(raw) // _FEWEST_BYTES_A_TOKEN < room:
        output = output_tokens(asked, plan.longest_output)
        return TokenEstimate(Usage(tokens_for(len(raw)), output))
    return None


async def expected(plan: Plan, raw: bytes, body: dict[str, Any]) -> TokenEstimate:
    """Estimate what a request uses, with a closer look at a prompt that may not fit."""
    found = expected_at_once(plan, raw, body)
    if found is not None:
        return found
    assert plan.window is not None
    asked = _output(body) or 0
    room = plan.window - asked
    sizes = measure_body(body)
    tokens, how = prompt_tokens(sizes), _ESTIMATED
    if tokens > room * _NEAR:
        tokens, how = await prompt_size(body, plan.encoding)
    if tokens > room:
        needed = _size("context-window", tokens + asked, f"messages, {how}")
        return TokenEstimate(Usage(), too_long=needed)
    usage = Usage(tokens, output_tokens(sizes.output, plan.longest_output))
    return TokenEstimate(usage, ((SIZE_HEADER, f"{tokens} {how}"),))


async def prompt_size(body: dict[str, Any], encoding: str) -> tuple[int, str]:
    """Return the tokens of a prompt and how they were found: counted with a vocabulary, or not."""
    sizes = measure_body(body)
    counted = await asyncio.to_thread(count_prompt, body, encoding) if encoding else None
    if counted is None:
        return prompt_tokens(sizes), _ESTIMATED
    images = ", media estimated" if sizes.images else ""
    return counted, f"counted with {encoding}{images}"


def _size(capability: str, least: int, place: str) -> Needs:
    return Needs([need(capability, minimum=least, required_by=(f"request: {place}",))])


def _output(body: dict[str, Any]) -> int | None:
    for name in OUTPUT_LIMITS:
        value = body.get(name)
        if type(value) is int and value > 0:
            return value
    return None
