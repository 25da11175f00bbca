"""The digest of a stream whose pieces are not kept."""

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    pass


class StreamDigest:
    """Counts the pieces of a stream, and hashes their JSON, each with a line end."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, content: Any) -> None:
        """Take a piece in."""
        self.count += 1
        self._hash.update(msgspec.json.encode(content) + b"\n")

    def to_json(self) -> dict[str, Any]:
        """Return the tally as the event that settles the invocation embeds it."""
        return {"count": self.count, "digest": f"sha256:{self._hash.hexdigest()}"}
