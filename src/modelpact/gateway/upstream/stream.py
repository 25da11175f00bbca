"""Endings: the events with which streams end, well or badly, told apart from what models say.

What a model says is inside JSON strings, where quotes and line ends are escaped: it cannot look
like an event.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.response import Usage
from modelpact.needs.requests import RequestApi
from modelpact.vocabulary.errors import InputError

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


class _UsageFields(msgspec.Struct):
    usage: Any = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Reasoned(msgspec.Struct):
    reasoning_tokens: int | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _Cached | None = None
    completion_tokens_details: _Reasoned | None = None


class _Chat(msgspec.Struct):
    usage: _ChatUsage


_MOST_TOKENS: Final = 2**40
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""How what an upstream sends fails to be JSON: in its form, in its letters, in its depth."""
_ANSWER: Final = msgspec.json.Decoder(_UsageFields)
_CHAT: Final = msgspec.json.Decoder(_Chat)


def usage_of(api: RequestApi, answer: bytes) -> Usage | None:
    """Return the usage that a whole answer states, or None."""
    if api == "openai-chat":
        try:
            return _of_chat(_CHAT.decode(answer).usage)
        except UNREADABLE:
            pass  # it is said in another way, or not at all
    try:
        told = _ANSWER.decode(answer).usage
    except UNREADABLE:
        return None
    return _read(api, told)


def _of_chat(told: _ChatUsage) -> Usage | None:
    cached, reasoned = told.prompt_tokens_details, told.completion_tokens_details
    found = Usage(
        told.prompt_tokens,
        told.completion_tokens,
        0 if reasoned is None else reasoned.reasoning_tokens or 0,
        0 if cached is None else cached.cached_tokens or 0,
    )
    return found if _sensible(found) else None


def _sensible(usage: Usage) -> bool:
    """Tell whether a usage can be: an upstream may say anything."""
    return (
        0 <= usage.input <= _MOST_TOKENS
        and 0 <= usage.output <= _MOST_TOKENS
        and 0 <= usage.reasoning <= _MOST_TOKENS
        and 0 <= usage.cache_read <= _MOST_TOKENS
        and 0 <= usage.cache_write <= _MOST_TOKENS
    )


def _read(api: RequestApi, told: Any) -> Usage | None:
    if not isinstance(told, dict):
        return None
    if api == "openai-responses" or ("input_tokens" in told and api != "anthropic"):
        told = _as_chat(told)
    try:
        read = anthropic.read_usage(told) if api == "anthropic" else openai_chat.read_usage(told)
    except InputError:
        return None
    return read if _sensible(read) else None


def _as_chat(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt_tokens": told.get("input_tokens", 0),
        "completion_tokens": told.get("output_tokens", 0),
        "prompt_tokens_details": told.get("input_tokens_details"),
        "completion_tokens_details": told.get("output_tokens_details"),
    }


_USAGE: Final = re.compile(rb'"usage"\s*:\s*\{')
_LIMIT: Final = 1024 * 1024
_USAGE_ENDS: Final = (b"\n\n", b"\r\n\r\n")


def _last_end(data: bytearray, start: int) -> int:
    """Return where the last whole event ends that does so after `start`, or 0."""
    if data.endswith(_USAGE_ENDS):
        return len(data)
    bare, full = data.rfind(b"\n\n", start), data.rfind(b"\r\n\r\n", start)
    return max(bare + 2 if bare >= 0 else 0, full + 4 if full >= 0 else 0)


class UsageTap:
    """Looks at a stream's events as they pass: whole ones go on, their usage is noted.

    `hide_usage` keeps back the chunk that has nothing but a usage which the client did not ask for.
    """

    def __init__(self, api: RequestApi, *, hide_usage: bool = False) -> None:
        self._api = api
        self._hide = hide_usage
        self._rest = bytearray()
        self.usage: Usage | None = None
        self.characters = 0
        self.broken = False

    def feed(self, chunk: bytes) -> bytes:
        """Return the whole events that a chunk completes; what is left waits for the rest."""
        if not self._rest and chunk.endswith(_USAGE_ENDS):
            events = chunk
        else:
            # What waits has no end in it: only its last bytes may be the beginning of one.
            start = len(self._rest) - 3
            self._rest += chunk
            end = _last_end(self._rest, start if start > 0 else 0)
            if not end:
                self.broken = len(self._rest) > _LIMIT
                return b""
            events = bytes(self._rest)
            self._rest.clear()
            if end < len(events):
                self._rest += events[end:]
                events = events[:end]
        self.characters += len(events)
        if b'"usage"' in events and _USAGE.search(events) is not None:
            events = self._look(events)
        return events

    def end(self) -> bytes:
        """Return what came after the last whole event, as one: some servers leave it open."""
        rest = bytes(self._rest.strip())
        self._rest.clear()
        return self._look(rest + b"\n\n") if rest else b""

    def _look(self, events: bytes) -> bytes:
        kept = []
        for event in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", events):
            if b'"usage"' not in event or not self._note(event):
                kept.append(event)
        return b"".join(kept)

    def _note(self, event: bytes) -> bool:
        """Note the usage in an event; tell whether it is one to keep back."""
        data = b"\n".join(
            line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")
        )
        try:
            said = msgspec.json.decode(data)
        except UNREADABLE:
            return False
        if not isinstance(said, dict):
            return False
        told = said.get("usage")
        for inner in ("message", "response"):
            if isinstance(said.get(inner), dict) and told is None:
                told = said[inner].get("usage")
        found = _read(self._api, told)
        if found is None:
            return False
        before = self.usage or Usage()
        if self._api == "anthropic":
            found = msgspec.structs.replace(
                found,
                input=max(found.input, before.input),
                output=max(found.output, before.output),
                cache_read=max(found.cache_read, before.cache_read),
                cache_write=max(found.cache_write, before.cache_write),
            )
        self.usage = found
        return self._hide and said.get("choices") == []
