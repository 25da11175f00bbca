"""Server-Sent Events: a parser and a writer, as in section 9.2 of the WHATWG HTML standard."""

import re
from typing import Final

import msgspec

from modelpact.vocabulary.errors import InputError, brief
from modelpact.wire.errors import WireError

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_DEFAULT_LIMIT: Final = 16 * 1024 * 1024


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event: its data, its type, and the last id of the stream."""

    data: str
    event: str = "message"
    id: str = ""


class EventParser:
    """Parses a stream that may be split anywhere and returns the events that each chunk completes.

    An unfinished event that is longer than the limit raises `WireError`.
    """

    def __init__(self, limit: int = _DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._partial: list[bytes] = []
        self._partial_size = self._data_size = 0
        self._first = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._event = b""
        self._id = b""
        self.retry: int | None = None
        """The reconnection time in milliseconds that the stream last sent."""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that a chunk completes. An event ends with an empty line."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        last = lines.pop()
        events: list[ServerSentEvent] = []
        if lines:
            if self._partial:
                lines[0] = b"".join([*self._partial, lines[0]])
                self._partial = []
                self._partial_size = 0
            if self._first:
                self._first = False
                lines[0] = lines[0].removeprefix(_BOM)
            for line in lines:
                if line:
                    self._field(line)
                elif (event := self._dispatch()) is not None:
                    events.append(event)
        if last:
            self._partial.append(last)
            self._partial_size += len(last)
        if self._partial_size + self._data_size > self._limit:
            raise WireError("body", f"an event of the stream is longer than {self._limit} bytes")
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            self.retry = int(value)

    def _dispatch(self) -> ServerSentEvent | None:
        data, event = self._data, self._event
        self._data, self._event = [], b""
        self._data_size = 0
        if not data:
            return None
        return ServerSentEvent(
            b"\n".join(data).decode("utf-8", "replace"),
            event.decode("utf-8", "replace") or "message",
            self._id.decode("utf-8", "replace"),
        )


def write_event(data: str, event: str = "", id: str = "", retry: int | None = None) -> bytes:
    """Encode an event; line ends within its data become newlines."""
    parts = []
    if event:
        parts.append(f"event: {_one_line('event', event)}\n")
    if id:
        if "\0" in id:
            raise InputError(f"id {brief(id)}: an event id cannot contain NUL")
        parts.append(f"id: {_one_line('id', id)}\n")
    if retry is not None:
        parts.append(f"retry: {retry:d}\n")
    if "\n" in data or "\r" in data:
        parts.extend(f"data: {line}\n" for line in _LINE_END.split(data))
    else:
        parts.append(f"data: {data}\n")
    parts.append("\n")
    return "".join(parts).encode()


def write_comment(text: str = "") -> bytes:
    """Encode a comment. Parsers skip it; it keeps an idle stream open."""
    return f": {_one_line('comment', text)}\n\n".encode()


def _one_line(field: str, text: str) -> str:
    if "\n" in text or "\r" in text:
        raise InputError(f"{field} {brief(text)}: expected a single line")
    return text
