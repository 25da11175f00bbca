"""Find JSON in the text of a response, in prose or in code fences, and parse it strictly."""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import ModelpactError

LARGEST_TEXT: Final = 4 * 1024 * 1024
"""The most characters of a response in which JSON is looked for."""
_FENCE: Final = "```"
_FENCE_LANGUAGES: Final = frozenset(["", "json", "json5", "jsonc"])
_OPENING: Final = re.compile(r"[{\[]")
_JSON_START: Final = re.compile(r"""\{\s*(?:["'}‘“]|[\w$]+\s*:)|\[\s*(?:["{\[\]]|-?[0-9]|(?:true|false|null)\b)""")
"""The beginning of JSON, or of what models write for it; other brackets belong to the prose."""
_TOKEN: Final = re.compile(r'["{}\[\]]')
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MAX_CANDIDATES: Final = 256
_MAX_DEPTH: Final = 200


class FoundJson(msgspec.Struct, frozen=True):
    """JSON in a text: its value, and its text as the model wrote it."""

    value: Any
    text: str


class NoJson(ModelpactError):
    """The text has no JSON that can be read; the message says why."""


def find_json(text: str, accepts: Callable[[Any], bool] | None = None) -> FoundJson:
    """Return the JSON of a response: the whole text, a fenced block, or the first in the prose.

    Candidates that `accepts` refuses are returned only if it refuses all of them. A part of broken
    JSON is never a candidate.
    """
    if len(text) > LARGEST_TEXT:
        raise NoJson(f"the answer has {len(text):,} characters; more than {LARGEST_TEXT:,}")
    if not text.strip():
        raise NoJson("the answer is empty")
    first: FoundJson | None = None
    problem = "the answer has no JSON in it"
    for count, candidate in enumerate(_candidates(text)):
        if isinstance(candidate, NoJson):
            problem = str(candidate)
        elif accepts is None or accepts(candidate.value):
            return candidate
        else:
            first = first or candidate
        if count == _MAX_CANDIDATES:
            break
    if first is None:
        raise NoJson(problem)
    return first


def json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON that begins at `start`; return its value and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NoJson(f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}") from None
    except RecursionError:
        raise NoJson("the JSON is nested too deeply") from None
    except ValueError as error:
        raise NoJson(f"not JSON that can be read: {error}") from None
    if text.count("[", start, end) + text.count("{", start, end) > _MAX_DEPTH and _too_deep(value):
        raise NoJson("the JSON is nested too deeply")
    return value, end


def parse_strict(text: str) -> Any:
    """Parse JSON without duplicate keys, NaN or deep nesting; otherwise raise `NoJson`."""
    text = text.strip()
    value, end = json_at(text, 0)
    if end != len(text):
        raise NoJson(f"not JSON: more than one value, from character {end}")
    return value


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
    """Yield the contents of code fences."""
    start = text.find(_FENCE)
    while start >= 0:
        line_end = text.find("\n", start)
        close = text.find(_FENCE, line_end)
        if line_end < 0 or close < 0:
            return
        language = text[start + len(_FENCE) : line_end].strip()
        inner = text[line_end:close].strip()
        if inner and language.lower() in _FENCE_LANGUAGES:
            yield inner
        start = text.find(_FENCE, close + len(_FENCE))


def _in_prose(text: str) -> Iterator[FoundJson | NoJson]:
    """Yield every JSON object and array, in one pass; the inside of broken JSON is skipped."""
    opening = _OPENING.search(text)
    while opening is not None:
        start = opening.start()
        position: int | None = start + 1
        if _JSON_START.match(text, start):
            try:
                value, position = json_at(text, start)
                yield FoundJson(value, text[start:position])
            except NoJson as error:
                yield error
                position = _end_of(text, start)
        if position is None:
            return
        opening = _OPENING.search(text, position)


def _too_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level:
        if depth == _MAX_DEPTH:
            return True
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
    return False


def _end_of(text: str, start: int) -> int | None:
    """Return where the bracket at `start` is closed, ignoring brackets in strings."""
    depth = 0
    position = start
    while True:
        token = _TOKEN.search(text, position)
        if token is None:
            return None
        character = token[0]
        if character == '"':
            string = _STRING.match(text, token.start())
            if string is None:
                return None
            position = string.end()
            continue
        depth += 1 if character in "{[" else -1
        position = token.end()
        if depth <= 0:
            return position


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NoJson(f"the key {duplicate!r:.80} occurs twice in one object")
    return value


def _constant(text: str) -> Any:
    raise NoJson(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NoJson(f"the number {text:.40} is too large")
    return number


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique_pairs, parse_constant=_constant, parse_float=_finite)
