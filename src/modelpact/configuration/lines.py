"""Lines: where in a TOML text its keys stand."""

import tomllib
from collections.abc import Sequence
from typing import Any


class Lines:
    """The places of all keys of a TOML text, found in one pass."""

    __slots__ = ("_places",)

    def __init__(self, text: str) -> None:
        self._places: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if stripped.startswith("["):
                header = _keys(stripped.split("#")[0].strip())
                if header is None:
                    continue
                table = here = header
            elif "=" in stripped and not stripped.startswith("#"):
                keys = _keys(stripped[: stripped.index("=")].strip() + " = 0")
                if keys is None:
                    continue
                here = (*table, *keys)
            else:
                continue
            self._places.setdefault(here, number)

    def of(self, path: Sequence[str]) -> int | None:
        """Return the line of a key, or of the nearest table above it that can be found."""
        for end in range(len(path), 0, -1):
            found = self._places.get(tuple(path[:end]))
            if found is not None:
                return found
        return None


def _keys(snippet: str) -> tuple[str, ...] | None:
    """Return the keys that a header or an assignment names, outermost first."""
    try:
        found: Any = tomllib.loads(snippet)
    except (ValueError, RecursionError):
        return None
    keys: list[str] = []
    while isinstance(found, (dict, list)) and found:
        if isinstance(found, list):
            found = found[0]
            continue
        key = next(iter(found))
        keys.append(key)
        found = found[key]
    return tuple(keys)
