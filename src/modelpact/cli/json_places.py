"""Where JSON pointers stand in a text: line and column, for editors and CI systems."""

import bisect
import json
import re
from collections.abc import Collection
from typing import Final

from modelpact.schemas.pointer import pointer

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class _Open:
    """An object or array that is being read: its pointer, and its next item's."""

    __slots__ = ("at", "count", "is_object", "key")

    def __init__(self, at: str, is_object: bool) -> None:
        self.at, self.is_object = at, is_object
        self.key: str | None = None
        self.count = 0


def places(text: str, wanted: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return line and column, from 1, of each pointer that the text has; a field's are its key's.

    The text must be valid JSON.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[str, tuple[int, int]] = {}
    stack: list[_Open] = []

    def note(where: str, offset: int) -> None:
        if where in wanted and where not in found:
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
            here = ""
            note(here, token.start())
        elif inside.is_object and inside.key is None:
            inside.key = inside.at + pointer([json.loads(sign, strict=False)])
            note(inside.key, token.start())
            continue
        elif inside.is_object:
            here, inside.key = inside.key or "", None
        else:
            here = f"{inside.at}/{inside.count}"
            inside.count += 1
            note(here, token.start())
        if sign in "[{":
            stack.append(_Open(here, sign == "{"))
    return found
