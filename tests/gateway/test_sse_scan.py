"""Streams that pass: any chunking gives the same bytes, the same usage and the same end."""

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation.response import Usage
from modelpact.gateway.upstream.sse_scan import UsageTap, find_end, find_error, read_usage
from modelpact.needs.requests import RequestApi

USED = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def chunk(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}}], **more}


OPENAI: list[Any] = [
    {"id": "c", "choices": [], "prompt_filter_results": [], "usage": None},
    chunk('[DONE] "usage":{"x":1} \n\n', usage=None),
    chunk("Grüße\r\n\r\n"),
    {"id": "c", "choices": [], "usage": USED},
]
ANTHROPIC: list[Any] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}},
    {"type": "content_block_delta", "delta": {"text": 'message_stop "type":"message_stop"\n\n'}},
    {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]


def openai_bytes(end: str) -> bytes:
    items = [f"data: {json.dumps(event, ensure_ascii=False)}{end}{end}" for event in OPENAI]
    return "".join([*items, f"data: [DONE]{end}{end}"]).encode()


def anthropic_bytes(end: str) -> bytes:
    return "".join(f"event: {event['type']}{end}data: {json.dumps(event)}{end}{end}" for event in ANTHROPIC).encode()


def watched(api: RequestApi, data: bytes, cuts: list[int], *, hide: bool = False) -> tuple[bytes, UsageTap, bool]:
    """Return what passes, the watch, and whether the end was seen."""
    watch = UsageTap(api, hide_usage=hide)
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    passed, ended = b"", False
    for start, stop in itertools.pairwise(places):
        events = watch.feed(data[start:stop])
        ended = ended or find_end(api, events) >= 0
        passed += events
    return passed + watch.end(), watch, ended


cuts = st.lists(st.integers(0, 10_000), max_size=12)
ends = st.sampled_from(["\n", "\r\n"])


@given(cuts, ends)
def test_any_chunking_gives_the_same_bytes(where: list[int], end: str) -> None:
    whole = openai_bytes(end)
    passed, watch, ended = watched("openai-chat", whole, where)
    assert (passed, watch.usage, ended) == (whole, Usage(11, 3), True)
    assert watch.size == len(whole)
    whole = anthropic_bytes(end)
    passed, watch, ended = watched("anthropic", whole, where)
    assert (passed, watch.usage, ended) == (whole, Usage(10, 7), True)


@given(cuts, ends)
def test_a_usage_that_the_client_did_not_ask_for_is_hidden(where: list[int], end: str) -> None:
    """Only the chunk that is nothing but usage; others without choices pass."""
    passed, watch, _ = watched("openai-chat", openai_bytes(end), where, hide=True)
    hidden = f"data: {json.dumps(OPENAI[-1])}{end}{end}".encode()
    assert passed == openai_bytes(end).replace(hidden, b"")
    assert watch.usage == Usage(11, 3)


@given(cuts)
def test_a_stream_whose_last_event_is_left_open(where: list[int]) -> None:
    whole = openai_bytes("\n")
    passed, watch, _ = watched("openai-chat", whole.removesuffix(b"\n\n"), where)
    assert passed == whole
    assert watch.usage == Usage(11, 3)


def test_the_text_of_a_model_does_not_end_its_stream() -> None:
    text = f"data: {json.dumps(OPENAI[1])}\n\n".encode()
    assert find_end("openai-chat", text) == -1
    assert find_end("openai-chat", text + b"data: [DONE]\n\n") == len(text)
    text = f"event: x\ndata: {json.dumps(ANTHROPIC[1])}\n\n".encode()
    assert find_end("anthropic", text) == -1
    stop = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
    assert find_end("anthropic", text + stop) == len(text)
    done = b'event: response.completed\r\ndata: {"type":"response.completed"}\r\n\r\n'
    assert find_end("openai-responses", b"data: {}\r\n\r\n" + done) == 12


@pytest.mark.parametrize(
    ("api", "event"),
    [
        ("openai-chat", b'data: {"error": {"message": "Overloaded"}}'),
        ("anthropic", b'event: error\ndata: {"type":"error","error":{"message":"Overloaded"}}'),
        ("openai-responses", b'data: {"type":"error","message":"Overloaded"}'),
    ],
)
def test_an_error_in_a_stream_is_found(api: RequestApi, event: bytes) -> None:
    before = b'data: {"x": "\\"error\\": {"}\n\n'
    assert find_error(api, before) == b""
    assert find_error(api, before + event + b"\n\n" + before) == event


@given(cuts, st.permutations(["\n", "\r\n"]))
def test_both_line_ends_in_one_stream(where: list[int], kinds: list[str]) -> None:
    """What is whole goes on at once, however its neighbours end."""
    whole = b"".join(openai_bytes(end) for end in kinds)
    passed, watch, _ = watched("openai-chat", whole, where)
    assert (passed, watch.usage) == (whole, Usage(11, 3))
    assert UsageTap("openai-chat").feed(whole) == whole


def test_an_event_that_comes_byte_by_byte_is_copied_once() -> None:
    """A megabyte: copied at each byte, it would be half a terabyte."""
    event = b"data: " + b"x" * 1_000_000 + b"\r\n\r\n"
    watch = UsageTap("openai-chat")
    started = time.process_time()
    passed = b"".join(watch.feed(event[at : at + 1]) for at in range(len(event)))
    assert time.process_time() - started < 10
    assert passed == event


def test_an_event_without_an_end_breaks_the_stream() -> None:
    watch = UsageTap("openai-chat")
    assert watch.feed(b"data: " + b"x" * 1_100_000) == b""
    assert watch.broken


@pytest.mark.parametrize(
    ("api", "body", "usage"),
    [
        ("openai-chat", {"usage": USED}, Usage(11, 3)),
        ("anthropic", {"usage": {"input_tokens": 5, "output_tokens": 2}}, Usage(5, 2)),
        ("openai-responses", {"usage": {"input_tokens": 5, "output_tokens": 2}}, Usage(5, 2)),
        ("embeddings", {"usage": {"prompt_tokens": 9, "total_tokens": 9}}, Usage(9, 0)),
        ("openai-chat", {"usage": {"prompt_tokens": -1}}, None),
        ("openai-chat", {"usage": "much"}, None),
        ("openai-chat", {}, None),
        ("openai-chat", [], None),
    ],
)
def test_the_usage_of_a_whole_answer(api: RequestApi, body: Any, usage: Usage | None) -> None:
    assert read_usage(api, json.dumps(body).encode()) == usage
