"""JSON in prose: found in text and fences, and parsed strictly."""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

LARGEST_ANSWER: Final = 4 * 1024 * 1024
_FENCE: Final = "```"
_FENCED: Final = frozenset(["", "json", "json5", "jsonc"])
_OPENING: Final = re.compile(r"[{\[]")
_BEGUN: Final = re.compile(
    r"""\{\s*(?:["'}‘“]|[\w$]+\s*:)|\[\s*(?:["{\[\]]|-?[0-9]|(?:true|false|null)\b)"""
)
"""What begins like JSON, or like what people write for it; other brackets belong to the prose."""
_INSIDE: Final = re.compile(r'["{}\[\]]')
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MOST_TRIED: Final = 256
_DEEPEST: Final = 200


class FoundJson(msgspec.Struct, frozen=True):
    """JSON that was found: its value, and its text as the model wrote it."""

    value: Any
    text: str


class NoJson(Exception):
    """No JSON, or none that can be read; the message says what was wrong."""


def find_json(text: str, wanted: Callable[[Any], bool] | None = None) -> FoundJson:
    """Return the JSON of an answer: the whole of it, a fenced block, or the first in the prose.

    With `wanted`, the first that is wanted; where none is, the first. A part of broken JSON is
    never taken for an answer.
    """
    if len(text) > LARGEST_ANSWER:
        raise NoJson(f"the answer has {len(text):,} characters; more than {LARGEST_ANSWER:,}")
    if not text.strip():
        raise NoJson("the answer is empty")
    first: FoundJson | None = None
    problem = "the answer has no JSON in it"
    for tried, one in enumerate(_candidates(text)):
        if isinstance(one, NoJson):
            problem = str(one)
        elif wanted is None or wanted(one.value):
            return one
        else:
            first = first or one
        if tried == _MOST_TRIED:
            break
    if first is None:
        raise NoJson(problem)
    return first


def _candidates(text: str) -> Iterator[FoundJson | NoJson]:
    whole = text.strip()
    try:
        yield FoundJson(parse_strict(whole), whole)
        return
    except NoJson as error:
        if whole[0] in '{["':
            yield error
    for inner in _fenced(text):
        try:
            yield FoundJson(parse_strict(inner), inner)
        except NoJson as error:
            yield error
    yield from _in_prose(text)


def _fenced(text: str) -> Iterator[str]:
    """Yield what stands between fences, in one pass."""
    place = text.find(_FENCE)
    while place >= 0:
        line_end = text.find("\n", place)
        close = text.find(_FENCE, line_end)
        if line_end < 0 or close < 0:
            return
        word = text[place + len(_FENCE) : line_end].strip()
        inner = text[line_end:close].strip()
        if inner and word.lower() in _FENCED:
            yield inner
        place = text.find(_FENCE, close + len(_FENCE))


def _in_prose(text: str) -> Iterator[FoundJson | NoJson]:
    """Yield every JSON object and array, in one pass: what is nearly JSON is not searched."""
    opening = _OPENING.search(text)
    while opening is not None:
        start = opening.start()
        place: int | None = start + 1
        if _BEGUN.match(text, start):
            try:
                value, place = json_at(text, start)
                yield FoundJson(value, text[start:place])
            except NoJson as error:
                yield error
                place = _end_of(text, start)
        if place is None:
            return
        opening = _OPENING.search(text, place)


def json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse strictly the JSON that begins at `start`; return its value and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NoJson(
            f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}"
        ) from None
    except RecursionError:
        raise NoJson("the JSON is nested too deeply") from None
    except ValueError as error:
        raise NoJson(f"not JSON that can be read: {error}") from None
    if text.count("[", start, end) + text.count("{", start, end) > _DEEPEST and _too_deep(value):
        raise NoJson("the JSON is nested too deeply")
    return value, end


def _too_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level:
        if depth == _DEEPEST:
            return True
        depth += 1
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
    return False


def _end_of(text: str, start: int) -> int | None:
    """Return where the bracket at `start` is closed, strings left aside."""
    depth = 0
    place = start
    while True:
        token = _INSIDE.search(text, place)
        if token is None:
            return None
        sign = token[0]
        if sign == '"':
            string = _STRING.match(text, token.start())
            if string is None:
                return None
            place = string.end()
            continue
        depth += 1 if sign in "{[" else -1
        place = token.end()
        if depth <= 0:
            return place


def parse_strict(text: str) -> Any:
    """Parse JSON: no duplicate keys, no NaN, no endless nesting; else raise `NoJson`."""
    text = text.strip()
    value, end = json_at(text, 0)
    if end != len(text):
        raise NoJson(f"not JSON: more than one value, from character {end}")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NoJson(f"the key {twice!r:.80} stands twice in one object")
    return found


def _constant(text: str) -> Any:
    raise NoJson(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NoJson(f"the number {text:.40} is too large")
    return number


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_finite
)
