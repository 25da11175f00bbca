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
    """Tells thinking from answer in streamed text; gives (is thinking, piece).

    However the text is chunked, the pieces together are the same. Newlines next to the tags belong
    to the tags.
    """

    __slots__ = ("_held", "_newlines", "_space", "_state")

    def __init__(self) -> None:
        self._state = "before"
        self._held = ""
        """What may be the beginning of a tag."""
        self._space: list[str] = []
        self._newlines = 0

    def feed(self, chunk: str) -> list[tuple[bool, str]]:
        """Take a chunk and return what is certain."""
        found: list[tuple[bool, str]] = []
        text = chunk
        if self._state == "before":
            text = self._before(text)
        if self._state == "opened":
            text = text.lstrip("\n")
            if text:
                self._state = "inside"
        if self._state == "inside":
            text = self._inside(text, found)
        if self._state == "gap":
            text = text.lstrip()
            if text:
                self._state = "answer"
        if self._state == "answer" and text:
            found.append((False, text))
        return found

    def _before(self, chunk: str) -> str:
        """Look for the opening tag; return the text that follows from it, or nothing yet."""
        if not self._held:
            start = chunk.lstrip()
            self._space.append(chunk[: len(chunk) - len(start)])
            chunk = start
        start = self._held + chunk
        self._held = ""
        if start.startswith(_OPEN):
            self._state = "opened"
            return start[len(_OPEN) :]
        if _OPEN.startswith(start):
            self._held = start
            return ""
        self._state = "answer"
        return "".join(self._space) + start

    def _inside(self, chunk: str, found: list[tuple[bool, str]]) -> str:
        """Take thinking; return what follows the closing tag, or nothing yet."""
        text = self._held + chunk
        close = text.find(_CLOSE)
        end = close if close >= 0 else _partial(text, _CLOSE)
        thought = text[:end].rstrip("\n")
        if thought:
            found.append((True, "\n" * self._newlines + thought))
            self._newlines = 0
        self._newlines += end - len(thought)
        if close < 0:
            self._held = text[end:]
            return ""
        self._held, self._state = "", "gap"
        return text[close + len(_CLOSE) :]

    def finish(self) -> list[tuple[bool, str]]:
        """Return what was held back."""
        held, self._held = self._held, ""
        if self._state == "inside":
            held = "\n" * self._newlines + held
        elif self._state == "before":
            held = "".join(self._space) + held
        return [(self._state == "inside", held)] if held else []


def _partial(text: str, tag: str) -> int:
    """Return where an end of the text begins that could become the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return len(text) - length
    return len(text)
