"""Endings: the events with which streams end, well or badly, told apart from what models say.

What a model says is inside JSON strings, where quotes and line ends are escaped: it cannot look
like an event.
"""

import re
from collections.abc import Mapping
from typing import Final

from modelpact.needs.requests import RequestApi

_ENDS: Final[Mapping[RequestApi, tuple[bytes, re.Pattern[bytes]]]] = {
    "openai-chat": (b"[DONE]", re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)),
    "anthropic": (b"message_stop", re.compile(rb'"type"\s*:\s*"message_stop"')),
    "openai-responses": (
        b'"response.',
        re.compile(rb'"type"\s*:\s*"response\.(completed|incomplete|failed)"'),
    ),
}
"""For each API a text that is quick to look for, and the pattern that is sure."""
_ERRORS: Final[Mapping[RequestApi, re.Pattern[bytes]]] = {
    "openai-chat": re.compile(rb'"error"\s*:\s*[{"]'),
    "anthropic": re.compile(rb'"type"\s*:\s*"error"'),
    "openai-responses": re.compile(rb'"type"\s*:\s*"(error|response\.failed)"'),
}
_FAILED: Final = (b'"error"', b'"response.failed"')


def end_at(api: RequestApi, events: bytes) -> int:
    """Return where, among whole events, the one begins that ends a stream; -1 without one."""
    quick, sure = _ENDS[api]
    if quick not in events:
        return -1
    found = sure.search(events)
    return -1 if found is None else _event_start(events, found.start())


def error_in(api: RequestApi, events: bytes) -> bytes:
    """Return the event among them with which an upstream tells of an error; empty without one."""
    if not any(one in events for one in _FAILED):
        return b""
    found = _ERRORS[api].search(events)
    if found is None:
        return b""
    start = _event_start(events, found.start())
    return re.split(rb"\r?\n\r?\n", events[start:], maxsplit=1)[0]


def _event_start(events: bytes, place: int) -> int:
    return max(
        0,
        events.rfind(b"\n\n", 0, place) + 2 if b"\n\n" in events[:place] else 0,
        events.rfind(b"\r\n\r\n", 0, place) + 4 if b"\r\n\r\n" in events[:place] else 0,
    )
