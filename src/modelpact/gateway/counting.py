"""Counting: the tokens of a prompt, exactly, where its model's vocabulary is public.

OpenAI's is, and the package of the extra `tokens` carries it. Of all others there are estimates.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Protocol

from modelpact.catalog.names import Family
from modelpact.needs.sizes import read_prompt

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
_TOKENS_A_MEDIUM: Final = 1_000
_SLICE: Final = 32_768
_BOUNDARY: Final = re.compile(r"(?<=\S)(?= [A-Za-z])")
"""Where no token of these vocabularies goes across: before the space that begins a word."""


class Counter(Protocol):
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
def counter(encoding: str) -> Counter | None:
    """Return what counts with a vocabulary, or None where the package is not installed."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]
    except ImportError:
        return None
    found: Counter = getattr(openai, encoding)()
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
    tokens = _TOKENS_A_MESSAGE * (messages + 1) + prompt.media * _TOKENS_A_MEDIUM
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
