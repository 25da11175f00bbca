"""Scans the responses of upstreams for their usage, their errors and their last event.

The scan searches the bytes of server-sent events, and decodes only those with a usage. Text that a
model writes is in JSON strings, where quotes and line ends are escaped, so it cannot look like an
event.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.response import Usage
from modelpact.needs.requests import RequestApi
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.strict_json import UNREADABLE

_END_PATTERNS: Final[Mapping[RequestApi, tuple[bytes, re.Pattern[bytes]]]] = {
    "openai-chat": (b"[DONE]", re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)),
    "anthropic": (b"message_stop", re.compile(rb'"type"\s*:\s*"message_stop"')),
    "openai-responses": (b'"response.', re.compile(rb'"type"\s*:\s*"response\.(completed|incomplete|failed)"')),
}
"""By API: a text that is quick to search for, and the exact pattern."""
_ERROR_PATTERNS: Final[Mapping[RequestApi, re.Pattern[bytes]]] = {
    "openai-chat": re.compile(rb'"error"\s*:\s*[{"]'),
    "anthropic": re.compile(rb'"type"\s*:\s*"error"'),
    "openai-responses": re.compile(rb'"type"\s*:\s*"(error|response\.failed)"'),
}
_ERROR_TEXTS: Final = (b'"error"', b'"response.failed"')
_USAGE_PATTERN: Final = re.compile(rb'"usage"\s*:\s*\{')
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n")
_MAX_EVENT_BYTES: Final = 1024 * 1024
_MAX_TOKENS: Final = 2**40


class _UsageFields(msgspec.Struct):
    usage: Any = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _ChatResponse(msgspec.Struct):
    usage: _ChatUsage


_USAGE_DECODER: Final = msgspec.json.Decoder(_UsageFields)
_CHAT_DECODER: Final = msgspec.json.Decoder(_ChatResponse)


def find_end(api: RequestApi, events: bytes) -> int:
    """Return the start of the event that ends a stream, among whole events; -1 without one."""
    text, pattern = _END_PATTERNS[api]
    if text not in events:
        return -1
    match = pattern.search(events)
    return -1 if match is None else _event_start(events, match.start())


def find_error(api: RequestApi, events: bytes) -> bytes:
    """Return the event that reports an error, among whole events; empty without one."""
    if not any(text in events for text in _ERROR_TEXTS):
        return b""
    match = _ERROR_PATTERNS[api].search(events)
    if match is None:
        return b""
    start = _event_start(events, match.start())
    return re.split(rb"\r?\n\r?\n", events[start:], maxsplit=1)[0]


def read_usage(api: RequestApi, content: bytes) -> Usage | None:
    """Return the usage that the body of a whole response states, or None."""
    if api == "openai-chat":
        try:
            return _read_chat_usage(_CHAT_DECODER.decode(content).usage)
        except UNREADABLE:
            pass  # the usage has another form, or is not there
    try:
        usage = _USAGE_DECODER.decode(content).usage
    except UNREADABLE:
        return None
    return _convert_usage(api, usage)


class UsageTap:
    """Reads the usage from the events of a stream as they pass.

    `hide_usage` removes the chunk that has nothing but a usage, which the client did not ask for.
    """

    def __init__(self, api: RequestApi, *, hide_usage: bool = False) -> None:
        self._api = api
        self._hide_usage = hide_usage
        self._incomplete = bytearray()
        self.usage: Usage | None = None
        self.size = 0
        """How many bytes of whole events have passed."""
        self.broken = False
        """Whether an event is longer than the gateway accepts."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the whole events that a chunk completes; the rest waits for the next chunk."""
        if not self._incomplete and chunk.endswith(_EVENT_ENDS):
            events = chunk
        else:
            # Of the incomplete event, only the last bytes can be the start of an event's end.
            start = len(self._incomplete) - 3
            self._incomplete += chunk
            end = _last_event_end(self._incomplete, start if start > 0 else 0)
            if not end:
                self.broken = len(self._incomplete) > _MAX_EVENT_BYTES
                return b""
            events = bytes(self._incomplete)
            self._incomplete.clear()
            if end < len(events):
                self._incomplete += events[end:]
                events = events[:end]
        self.size += len(events)
        if b'"usage"' in events and _USAGE_PATTERN.search(events) is not None:
            events = self._read_events(events)
        return events

    def end(self) -> bytes:
        """Return the rest after the last whole event as an event: some servers do not end it."""
        rest = bytes(self._incomplete.strip())
        self._incomplete.clear()
        return self._read_events(rest + b"\n\n") if rest else b""

    def _read_events(self, events: bytes) -> bytes:
        """Read the usage in events; return them without the one to hide."""
        passed = []
        for event in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", events):
            if b'"usage"' not in event or not self._read_event(event):
                passed.append(event)
        return b"".join(passed)

    def _read_event(self, event: bytes) -> bool:
        """Read the usage in an event; tell whether the event is to be hidden."""
        text = b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
        try:
            data = msgspec.json.decode(text)
        except UNREADABLE:
            return False
        if not isinstance(data, dict):
            return False
        stated = data.get("usage")
        for inner in ("message", "response"):
            if isinstance(data.get(inner), dict) and stated is None:
                stated = data[inner].get("usage")
        usage = _convert_usage(self._api, stated)
        if usage is None:
            return False
        if self._api == "anthropic" and self.usage is not None:
            # Each event states a part of the usage, or the sum so far.
            usage = msgspec.structs.replace(
                usage,
                input=max(usage.input, self.usage.input),
                output=max(usage.output, self.usage.output),
                cache_read=max(usage.cache_read, self.usage.cache_read),
                cache_write=max(usage.cache_write, self.usage.cache_write),
            )
        self.usage = usage
        return self._hide_usage and data.get("choices") == []


def _event_start(events: bytes, position: int) -> int:
    return max(
        0,
        events.rfind(b"\n\n", 0, position) + 2 if b"\n\n" in events[:position] else 0,
        events.rfind(b"\r\n\r\n", 0, position) + 4 if b"\r\n\r\n" in events[:position] else 0,
    )


def _last_event_end(data: bytearray, start: int) -> int:
    """Return where the last whole event ends, searched from `start`; 0 without one."""
    if data.endswith(_EVENT_ENDS):
        return len(data)
    lf, crlf = data.rfind(b"\n\n", start), data.rfind(b"\r\n\r\n", start)
    return max(lf + 2 if lf >= 0 else 0, crlf + 4 if crlf >= 0 else 0)


def _read_chat_usage(stated: _ChatUsage) -> Usage | None:
    prompt, completion = stated.prompt_tokens_details, stated.completion_tokens_details
    usage = Usage(
        stated.prompt_tokens,
        stated.completion_tokens,
        0 if completion is None else completion.reasoning_tokens or 0,
        0 if prompt is None else prompt.cached_tokens or 0,
    )
    return usage if _is_plausible(usage) else None


def _convert_usage(api: RequestApi, stated: Any) -> Usage | None:
    if not isinstance(stated, dict):
        return None
    if api == "openai-responses" or ("input_tokens" in stated and api != "anthropic"):
        stated = {
            "prompt_tokens": stated.get("input_tokens", 0),
            "completion_tokens": stated.get("output_tokens", 0),
            "prompt_tokens_details": stated.get("input_tokens_details"),
            "completion_tokens_details": stated.get("output_tokens_details"),
        }
    read = anthropic.read_usage if api == "anthropic" else openai_chat.read_usage
    try:
        usage = read(stated)
    except InputError:
        return None
    return usage if _is_plausible(usage) else None


def _is_plausible(usage: Usage) -> bool:
    """Tell whether the numbers of a usage are in range: an upstream may state anything."""
    return (
        0 <= usage.input <= _MAX_TOKENS
        and 0 <= usage.output <= _MAX_TOKENS
        and 0 <= usage.reasoning <= _MAX_TOKENS
        and 0 <= usage.cache_read <= _MAX_TOKENS
        and 0 <= usage.cache_write <= _MAX_TOKENS
    )
