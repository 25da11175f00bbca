"""Thinking: asked for in the prompt, and split from the answer, whole or streamed."""

from typing import Final

PROMPT: Final = (
    "Think step by step before answering. Write your thinking between <thinking> and </thinking>, "
    "then write the answer alone."
)
_OPEN: Final = "<thinking>"
_CLOSE: Final = "</thinking>"


def split(text: str) -> tuple[str, str]:
    """Return the thinking at the beginning of an answer, and the answer."""
    splitter = ThinkingSplitter()
    pieces = [*splitter.feed(text), *splitter.finish()]
    thinking = "".join(piece for is_thinking, piece in pieces if is_thinking)
    return thinking, "".join(piece for is_thinking, piece in pieces if not is_thinking)


class ThinkingSplitter:
    """Tells thinking from answer in streamed text; gives (is thinking, piece)."""

    __slots__ = ("_held", "_state")

    def __init__(self) -> None:
        self._state = "before"
        self._held = ""

    def feed(self, chunk: str) -> list[tuple[bool, str]]:
        """Take a chunk and return what is certain."""
        text = self._held + chunk
        self._held = ""
        found: list[tuple[bool, str]] = []
        if self._state == "before":
            start = text.lstrip()
            if start.startswith(_OPEN):
                self._state, text = "inside", start[len(_OPEN) :].lstrip("\n")
            elif _OPEN.startswith(start):
                self._held = text
                return found
            else:
                self._state = "answer"
        if self._state == "inside":
            close = text.find(_CLOSE)
            if close < 0:
                keep = _partial(text, _CLOSE)
                self._held, text = text[keep:], text[:keep]
                return [(True, text)] if text else found
            thought = text[:close].rstrip("\n")
            found += [(True, thought)] if thought else []
            self._state, text = "gap", text[close + len(_CLOSE) :]
        if self._state == "gap":
            text = text.lstrip()
            if not text:
                return found
            self._state = "answer"
        return [*found, (False, text)] if text else found

    def finish(self) -> list[tuple[bool, str]]:
        """Return what was held back."""
        held, self._held = self._held, ""
        return [(self._state == "inside", held)] if held else []


def _partial(text: str, tag: str) -> int:
    """Return where an end of the text begins that could become the tag (newlines before it too)."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return len(text[:-length].rstrip("\n"))
    return len(text.rstrip("\n"))
