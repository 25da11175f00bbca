"""Sizing: what a request is expected to use, and whether it fits its model.

A quick estimate by length decides for most requests. Near the limit the prompt is counted with the
vocabulary of the model, where that is public: OpenAI's is, and the extra `tokens` contains it.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Protocol

import msgspec

from modelpact.catalog.provider import Family
from modelpact.conversation.response import Usage
from modelpact.gateway.plan.plan import PROMPT_TOKENS_HEADER, HeaderTuples, Plan
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

MIN_BYTES_PER_TOKEN: Final = 2
"""A prompt with fewer bytes than this per free token is taken to fit without a count."""
_NEAR: Final = 0.75
"""The share of the free tokens above which the prompt is counted, not estimated."""
_ESTIMATED: Final = "estimated"
_NO_NEEDS: Final = Needs()
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
"""Vocabularies by the start of OpenAI's model names: the first match counts.

`gpt-4` itself is not listed, because that model is older than `gpt-4o`.
"""
_TOKENS_PER_MESSAGE: Final = 3
_SLICE: Final = 32_768
_BOUNDARY: Final = re.compile(r"(?<=\S)(?= [A-Za-z])")
"""A place that no token of these vocabularies spans: before the space that starts a word."""


class TokenEstimate(msgspec.Struct, frozen=True):
    """What a request is expected to use."""

    usage: Usage
    headers: HeaderTuples = ()
    """The response headers that report the size of the prompt."""
    too_long: Needs = _NO_NEEDS
    """The limits that the request needs and the model does not have."""


def quick_estimate(plan: Plan, raw: bytes, body: dict[str, Any]) -> TokenEstimate | None:
    """Estimate what a request uses by its length; None if it may exceed the context window."""
    if plan.action == "refuse":
        return TokenEstimate(Usage())
    window, limit = plan.context_window, _output_limit(body)
    if limit is not None and plan.max_output is not None and limit > plan.max_output:
        return TokenEstimate(Usage(), too_long=_limit_need("max-output", limit, "max_tokens"))
    room = None if window is None else window - (limit or 0)
    if room is None or len(raw) // MIN_BYTES_PER_TOKEN < room:
        output = output_tokens(limit, plan.max_output)
        return TokenEstimate(Usage(tokens_for(len(raw)), output))
    return None


async def estimate(plan: Plan, raw: bytes, body: dict[str, Any]) -> TokenEstimate:
    """Estimate what a request uses; measure a prompt that may exceed the context window."""
    quick = quick_estimate(plan, raw, body)
    if quick is not None:
        return quick
    assert plan.context_window is not None
    limit = _output_limit(body) or 0
    room = plan.context_window - limit
    size = measure_body(body)
    tokens, method = prompt_tokens(size), _ESTIMATED
    if tokens > room * _NEAR:
        tokens, method = await prompt_size(body, plan.encoding)
    if tokens > room:
        needed = _limit_need("context-window", tokens + limit, f"messages, {method}")
        return TokenEstimate(Usage(), too_long=needed)
    usage = Usage(tokens, output_tokens(size.output, plan.max_output))
    return TokenEstimate(usage, ((PROMPT_TOKENS_HEADER, f"{tokens} {method}"),))


async def prompt_size(body: dict[str, Any], encoding: str) -> tuple[int, str]:
    """Return the tokens of a prompt, and the method: `counted with ...`, or `estimated`."""
    size = measure_body(body)
    counted = await asyncio.to_thread(count_prompt, body, encoding) if encoding else None
    if counted is None:
        return prompt_tokens(size), _ESTIMATED
    images = ", media estimated" if size.images else ""
    return counted, f"counted with {encoding}{images}"


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""


def encoding_of(family: Family, provider: str) -> str:
    """Return the vocabulary of a model, or an empty text where it is not public."""
    if family.vendor != "openai" and not (family.vendor is None and provider == "openai"):
        return ""
    if family.name == "gpt-4":
        return "cl100k_base"
    return next((name for start, name in _ENCODINGS if family.name.startswith(start)), "")


@cache
def token_counter(encoding: str) -> TokenCounter | None:
    """Return the counter of a vocabulary, or None where the package is not installed."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]
    except ImportError:
        return None
    counter: TokenCounter = getattr(openai, encoding)()
    return counter


def count_prompt(body: Mapping[str, Any], encoding: str) -> int | None:
    """Count the tokens of a prompt and of its message frames; None without a counter.

    Media have no tokens that could be counted: each counts as what it often takes.
    """
    counter = token_counter(encoding)
    if counter is None:
        return None
    prompt = read_prompt(body)
    listed = body.get("messages") or body.get("input")
    messages = len(listed) if type(listed) is list else 1
    tokens = _TOKENS_PER_MESSAGE * (messages + 1) + prompt.media * TOKENS_PER_MEDIUM
    for text in prompt.texts:
        for part in _slices(text):
            tokens += counter.count(part)
    return tokens


def _slices(text: str) -> Iterator[str]:
    """Yield a long text in slices that have as many tokens as the whole."""
    start = 0
    while len(text) - start > _SLICE:
        boundary = _BOUNDARY.search(text, start + _SLICE)
        if boundary is None:
            break
        yield text[start : boundary.start()]
        start = boundary.start()
    yield text[start:] if start else text


def _limit_need(capability: str, minimum: int, place: str) -> Needs:
    return Needs([need(capability, minimum=minimum, required_by=(f"request: {place}",))])


def _output_limit(body: dict[str, Any]) -> int | None:
    for name in OUTPUT_LIMITS:
        value = body.get(name)
        if type(value) is int and value > 0:
            return value
    return None
