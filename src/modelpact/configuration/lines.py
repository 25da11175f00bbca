"""Lines: where in a TOML text a key stands."""

import tomllib
from collections.abc import Sequence
from typing import Any


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Return the line of a key, or of the nearest table above it that can be found."""
    best: tuple[int, int] | None = None
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            header = _keys(stripped.split("#")[0].strip())
            if header is None:
                continue
            table = header
            here = table
        elif "=" in stripped and not stripped.startswith("#"):
            keys = _keys(stripped[: stripped.index("=")].strip() + " = 0")
            if keys is None:
                continue
            here = [*table, *keys]
        else:
            continue
        depth = _common(here, path)
        if depth == len(here) and depth and (best is None or depth > best[0]):
            best = (depth, number)
    return None if best is None else best[1]


def _common(here: Sequence[str], path: Sequence[str]) -> int:
    depth = 0
    for one, other in zip(here, path, strict=False):
        if one != other:
            break
        depth += 1
    return depth


def _keys(snippet: str) -> list[str] | None:
    """Return the keys that a header or an assignment names, outermost first."""
    try:
        found: Any = tomllib.loads(snippet)
    except tomllib.TOMLDecodeError:
        return None
    keys: list[str] = []
    while isinstance(found, (dict, list)) and found:
        if isinstance(found, list):
            found = found[0]
            continue
        key = next(iter(found))
        keys.append(key)
        found = found[key]
    return keys
