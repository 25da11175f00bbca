"""Emulated reasoning: ask for thinking in the prompt, and split it from the response."""

from typing import Final

PROMPT: Final = (
    "Think step by step before answering. Write your thinking between <thinking> and </thinking>, "
    "then write the answer alone."
)
_OPEN: Final = "<thinking>"
_CLOSE: Final = "</thinking>"


class ThinkingSplitter:
    """Splits streamed text into pairs (is thinking, text).

    The texts together are the same however the stream is chunked. Newlines next to a tag belong to
    the tag.
    """

    __slots__ = ("_held", "_newlines", "_space", "_state")

    def __init__(self) -> None:
        self._state = "before"
        self._held = ""
        """Text that may be the beginning of a tag."""
        self._space: list[str] = []
        self._newlines = 0

    def feed(self, chunk: str) -> list[tuple[bool, str]]:
        """Read a chunk and return the text that is certain."""
        parts: list[tuple[bool, str]] = []
        text = chunk
        if self._state == "before":
            text = self._before(text)
        if self._state == "opened":
            text = text.lstrip("\n")
            if text:
                self._state = "inside"
        if self._state == "inside":
            text = self._inside(text, parts)
        if self._state == "gap":
            text = text.lstrip()
            if text:
                self._state = "answer"
        if self._state == "answer" and text:
            parts.append((False, text))
        return parts

    def _before(self, chunk: str) -> str:
        """Look for the opening tag; return the text after it, or nothing yet."""
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

    def _inside(self, chunk: str, parts: list[tuple[bool, str]]) -> str:
        """Read thinking; return the text after the closing tag, or nothing yet."""
        text = self._held + chunk
        close = text.find(_CLOSE)
        end = close if close >= 0 else _partial_tag(text, _CLOSE)
        thinking = text[:end].rstrip("\n")
        if thinking:
            parts.append((True, "\n" * self._newlines + thinking))
            self._newlines = 0
        self._newlines += end - len(thinking)
        if close < 0:
            self._held = text[end:]
            return ""
        self._held, self._state = "", "gap"
        return text[close + len(_CLOSE) :]

    def finish(self) -> list[tuple[bool, str]]:
        """Return the text held back."""
        held, self._held = self._held, ""
        if self._state == "inside":
            held = "\n" * self._newlines + held
        elif self._state == "before":
            held = "".join(self._space) + held
        return [(self._state == "inside", held)] if held else []


def split_thinking(text: str) -> tuple[str, str]:
    """Return the thinking at the beginning of a response, and the text after it."""
    splitter = ThinkingSplitter()
    parts = [*splitter.feed(text), *splitter.finish()]
    thinking = "".join(part for is_thinking, part in parts if is_thinking)
    return thinking, "".join(part for is_thinking, part in parts if not is_thinking)


def _partial_tag(text: str, tag: str) -> int:
    """Return where the beginning of a tag starts at the end of the text, or the text's length."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return len(text) - length
    return len(text)
