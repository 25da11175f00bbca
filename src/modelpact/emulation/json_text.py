"""JSON in prose: found in text and fences, and parsed strictly."""

import json
import re
from typing import Any, Final

import msgspec

LARGEST_ANSWER: Final = 4 * 1024 * 1024
_FENCE: Final = re.compile(r"```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\r?\n(.*?)(?:\r?\n)?```", re.DOTALL)
_OPENING: Final = re.compile(r"[{\[]")
_INSIDE: Final = re.compile(r'["{}\[\]]')
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MOST_STARTS: Final = 64
_DEEPEST: Final = 200


class Found(msgspec.Struct, frozen=True):
    """JSON that was found: its value, and its text as the model wrote it."""

    value: Any
    text: str


class NoJson(Exception):
    """No JSON, or none that can be read; the message says what was wrong."""


def find_json(text: str) -> Found:
    """Return the JSON of an answer: the whole of it, a fenced block, or the first in the prose."""
    if len(text) > LARGEST_ANSWER:
        raise NoJson(f"the answer has {len(text):,} characters; more than {LARGEST_ANSWER:,}")
    whole = text.strip()
    if not whole:
        raise NoJson("the answer is empty")
    problem = ""
    if whole[0] not in "`":
        try:
            return Found(parse_strict(whole), whole)
        except NoJson as error:
            problem = str(error)
    for fence in _FENCE.finditer(text):
        inner = fence[2].strip()
        if inner and fence[1].lower() in ("", "json", "json5", "jsonc"):
            try:
                return Found(parse_strict(inner), inner)
            except NoJson as error:
                problem = str(error)
    for candidate in _balanced(text):
        try:
            return Found(parse_strict(candidate), candidate)
        except NoJson as error:
            problem = str(error)
    if not _OPENING.search(text):
        problem = "the answer has no JSON in it"
    raise NoJson(problem or "the answer has no JSON in it")


def _balanced(text: str) -> "list[str]":
    """Return stretches with balanced brackets, outermost first, in one pass for each start."""
    found: list[str] = []
    place = 0
    for _ in range(_MOST_STARTS):
        opening = _OPENING.search(text, place)
        if opening is None:
            break
        end = _end_of(text, opening.start())
        if end is None:
            place = opening.end()
            continue
        found.append(text[opening.start() : end])
        place = end
        if len(found) == 1 and end - opening.start() < 4096:
            inner = _OPENING.search(text, opening.end(), end)
            if inner is not None and (stop := _end_of(text, inner.start())) is not None:
                found.append(text[inner.start() : stop])
    return found


def _end_of(text: str, start: int) -> int | None:
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
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise NoJson(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise NoJson("the JSON is nested too deeply") from None
    except ValueError as error:
        raise NoJson(f"not JSON that can be read: {error}") from None
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
