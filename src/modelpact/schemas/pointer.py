"""JSON pointers, and the references that hold them in a fragment."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

MISSING: Final = object()
"""What a pointer leads to when it leads nowhere."""


def pointer(steps: Iterable[str | int]) -> str:
    """Write steps as a JSON pointer."""
    return "".join(
        f"/{step}" if isinstance(step, int) else f"/{step.replace('~', '~0').replace('/', '~1')}"
        for step in steps
    )


def fragment_steps(fragment: str) -> tuple[str, ...] | None:
    """Read the fragment of a reference, without `#`, as a pointer; None where it is none."""
    text = unquote(fragment)
    if not text:
        return ()
    if not text.startswith("/"):
        return None
    return steps_of(text)


def steps_of(text: str) -> tuple[str, ...]:
    """Read a JSON pointer."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def step_into(value: Any, steps: Iterable[str]) -> Any:
    """Return what stands at a place, or `MISSING`."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            place = int(step) if len(step) < 9 and (step == "0" or step[0] != "0") else len(value)
            value = value[place] if place < len(value) else MISSING
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value
