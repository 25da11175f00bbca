"""Finds the line and column of JSON pointers in a text, for editors and CI systems."""

import bisect
import json
import re
from collections.abc import Collection
from typing import Any, Final

from modelpact.schemas.document import parse_pointer

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_POINTER: Final = None
"""The key of a node in the tree of pointers that holds the pointer which ends there."""


class _Container:
    """An object or array being scanned, with the pointers wanted in it and in its next value."""

    __slots__ = ("count", "has_key", "is_object", "value_wanted", "wanted")

    def __init__(self, wanted: dict[Any, Any], is_object: bool) -> None:
        self.wanted, self.is_object = wanted, is_object
        self.value_wanted: dict[Any, Any] = {}
        self.has_key = False
        self.count = 0


def json_positions(text: str, pointers: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return the line and column, from 1, of each pointer that the text has.

    The position of an object's field is that of its key. The text must be valid JSON.
    """
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    positions: dict[str, tuple[int, int]] = {}
    stack: list[_Container] = []

    def add(tree: dict[Any, Any], offset: int) -> None:
        pointer = tree.get(_POINTER)
        if pointer is not None and pointer not in positions:
            line = bisect.bisect_right(line_starts, offset)
            positions[pointer] = (line, offset - line_starts[line - 1] + 1)

    for match in _TOKEN.finditer(text):
        token, parent = match[0], stack[-1] if stack else None
        if token in ",:":
            continue
        if token in "]}":
            stack.pop()
            continue
        if parent is None:
            wanted = _pointer_tree(pointers)
            add(wanted, match.start())
        elif parent.is_object and not parent.has_key:
            parent.has_key = True
            parent.value_wanted = parent.wanted.get(json.loads(token, strict=False), {})
            add(parent.value_wanted, match.start())
            continue
        elif parent.is_object:
            wanted, parent.has_key = parent.value_wanted, False
        else:
            wanted = parent.wanted.get(str(parent.count), {})
            parent.count += 1
            add(wanted, match.start())
        if token in "[{":
            stack.append(_Container(wanted, token == "{"))
    return positions


def _pointer_tree(pointers: Collection[str]) -> dict[Any, Any]:
    """Return the pointers as a tree of their steps, so that the scan builds no pointers."""
    root: dict[Any, Any] = {}
    for pointer in pointers:
        node = root
        for step in parse_pointer(pointer):
            node = node.setdefault(step, {})
        node[_POINTER] = pointer
    return root
