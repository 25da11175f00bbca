"""Stop sequences: the answer ends where the provider would have ended it.

A provider stops as soon as a stop sequence is complete, so the one that ends first wins; of several
that end at the same place, the longest.
"""

import re
from collections.abc import Iterable

from modelpact.vocabulary.errors import InputError


def first_stop(text: str, stops: Iterable[str]) -> tuple[int, str] | None:
    """Return where the text is cut and by which stop sequence, or None."""
    best: tuple[int, int, str] | None = None
    for stop in stops:
        start = text.find(stop) if best is None else text.find(stop, 0, best[0])
        if start >= 0:
            found = (start + len(stop), start, stop)
            if best is None or found < best:
                best = found
    return None if best is None else (best[1], best[2])


class StopScanner:
    """Cuts streamed text exactly as `first_stop` cuts the whole, however it is chunked.

    Text that may be the beginning of a stop sequence is held back until it is known not to be.
    """

    __slots__ = ("_held", "_longest", "_starts", "_stops", "stopped_by")

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if not all(isinstance(stop, str) and stop for stop in self._stops):
            raise InputError("stop: a stop sequence is a text that is not empty")
        self._longest = max(map(len, self._stops), default=0)
        firsts = sorted({stop[0] for stop in self._stops})
        self._starts = re.compile(f"[{''.join(map(re.escape, firsts))}]" if firsts else r"(?!)")
        self._held = ""
        self.stopped_by = ""

    def feed(self, chunk: str) -> str:
        """Take a chunk and return the text that is certain."""
        if self.stopped_by or not chunk:
            return ""
        if not self._held and self._starts.search(chunk) is None:
            return chunk
        text = self._held + chunk
        cut = first_stop(text, self._stops)
        if cut is not None:
            self._held, self.stopped_by = "", cut[1]
            return text[: cut[0]]
        keep = self._overlap(text)
        self._held = text[keep:]
        return text[:keep]

    def _overlap(self, text: str) -> int:
        """Return where the longest end of the text begins that could become a stop sequence."""
        for match in self._starts.finditer(text, max(0, len(text) - self._longest + 1)):
            start = match.start()
            if any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)

    def finish(self) -> str:
        """Return what was held back: the text has ended, and no stop sequence came."""
        held, self._held = self._held, ""
        return held
