"""Where JSON pointers stand in a text: line and column, for editors and CI systems."""

import bisect
import json
import re
from collections.abc import Collection
from typing import Any, Final

from modelpact.schemas.pointer import steps_of

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


_HERE: Final = None
"""The key under which a tree of wanted places has the pointer of a place itself."""


class _Open:
    """An object or array that is being read: what is wanted in it, and in its next value."""

    __slots__ = ("count", "inside", "is_object", "keyed", "wanted")

    def __init__(self, wanted: dict[Any, Any], is_object: bool) -> None:
        self.wanted, self.is_object = wanted, is_object
        self.inside: dict[Any, Any] = {}
        self.keyed = False
        self.count = 0


def _tree(wanted: Collection[str]) -> dict[Any, Any]:
    """Return pointers as a tree of their steps, so that no pointer is made for every value."""
    root: dict[Any, Any] = {}
    for path in wanted:
        here = root
        for step in steps_of(path):
            here = here.setdefault(step, {})
        here[_HERE] = path
    return root


def places(text: str, wanted: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return line and column, from 1, of each pointer that the text has; a field's are its key's.

    The text must be valid JSON.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[str, tuple[int, int]] = {}
    stack: list[_Open] = []

    def note(tree: dict[Any, Any], offset: int) -> None:
        where = tree.get(_HERE)
        if where is not None and where not in found:
            line = bisect.bisect_right(starts, offset)
            found[where] = (line, offset - starts[line - 1] + 1)

    for token in _TOKEN.finditer(text):
        sign, inside = token[0], stack[-1] if stack else None
        if sign in ",:":
            continue
        if sign in "]}":
            stack.pop()
            continue
        if inside is None:
            here = _tree(wanted)
            note(here, token.start())
        elif inside.is_object and not inside.keyed:
            inside.keyed = True
            inside.inside = inside.wanted.get(json.loads(sign, strict=False), {})
            note(inside.inside, token.start())
            continue
        elif inside.is_object:
            here, inside.keyed = inside.inside, False
        else:
            here = inside.wanted.get(str(inside.count), {})
            inside.count += 1
            note(here, token.start())
        if sign in "[{":
            stack.append(_Open(here, sign == "{"))
    return found
