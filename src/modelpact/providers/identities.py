"""Names of invocations: opaque, never repeated, and impossible to guess."""

import base64
import os
from typing import Final

_BYTES: Final = 15
_AT_ONCE: Final = 256
_random: list[str] = []


def new_id(now: int) -> str:
    """Return a new name. It begins with the time, so that names of one time lie together.

    In an index names without any order would each touch a page of their own.
    """
    try:
        chance = _random.pop()
    except IndexError:
        # Drawn together: whoever asks the system lets go of the interpreter each time.
        drawn = base64.urlsafe_b64encode(os.urandom(_BYTES * _AT_ONCE)).decode()
        width = len(drawn) // _AT_ONCE
        _random.extend(drawn[at : at + width] for at in range(width, len(drawn), width))
        chance = drawn[:width]
    return f"inv_{now >> 20:011x}{chance}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)
