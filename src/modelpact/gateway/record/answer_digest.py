"""The digest of an answer that passes in pieces."""

import hashlib
from typing import Final

_MOST_KEPT: Final = 32 * 1024 * 1024


class AnswerDigest:
    """Its digest, and itself where it is to be kept; one that does not end is not kept either."""

    __slots__ = ("_hash", "_kept", "_room")

    def __init__(self, *, keep: bool) -> None:
        self._hash = hashlib.sha256()
        self._kept: list[bytes] | None = [] if keep else None
        self._room = _MOST_KEPT

    def add(self, piece: bytes) -> None:
        """Take a piece in."""
        self._hash.update(piece)
        if self._kept is not None:
            self._kept.append(piece)
            self._room -= len(piece)
            if self._room < 0:
                self._kept = None

    def told(self) -> tuple[str, str | None]:
        """Return the digest, and the text if it is kept."""
        text = None
        if self._kept is not None:
            text = b"".join(self._kept).decode("utf-8", "replace")
        return f"sha256:{self._hash.hexdigest()}", text
