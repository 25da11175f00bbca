"""Answers as the real APIs give them, and ways to cut them into streams."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NON_EMPTY_TEXT = TEXT.filter(bool)
NAME = st.text("abcdefgh_", min_size=1, max_size=6)
COUNT = st.integers(0, 10_000)
INPUT = st.dictionaries(NAME, st.none() | st.booleans() | st.integers(-99, 99) | TEXT, max_size=3)


@st.composite
def openai_bodies(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if draw(st.booleans()):
        message[draw(st.sampled_from(["reasoning_content", "reasoning"]))] = draw(NON_EMPTY_TEXT)
    if draw(st.booleans()):
        message["content"] = draw(NON_EMPTY_TEXT)
    refused = draw(st.integers(0, 5)) == 0
    if refused:
        message["refusal"] = draw(NON_EMPTY_TEXT)
    calls = draw(st.lists(st.tuples(NAME, INPUT), max_size=3))
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for place, (name, arguments) in enumerate(calls)
        ]
    reason = "tool_calls" if calls else draw(st.sampled_from(["stop", "length"]))
    if not calls and not refused and draw(st.integers(0, 5)) == 0:
        reason = "content_filter"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    cached, written = draw(COUNT), draw(COUNT)
    prompt, made = cached + written + draw(COUNT), draw(COUNT)
    return {
        "id": "chatcmpl-9",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-5",
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": made,
            "total_tokens": prompt + made,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": draw(st.integers(0, made))},
        },
        "system_fingerprint": "fp_1",
    }


def cut(text: str, draw: Any) -> Iterator[str]:
    """Cut a text anywhere, empty pieces included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        yield text[start:end]


def openai_chunks(body: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    """Cut a body into chunks as a server does, the arguments of calls interleaved."""
    (choice,) = body["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
    for field in ("reasoning_content", "reasoning", "content", "refusal"):
        if message.get(field):
            deltas += [{field: piece} for piece in cut(message[field], draw)]
    rows: list[list[dict[str, Any]]] = []
    for index, call in enumerate(message.get("tool_calls", [])):
        head = {"index": index, **call, "function": {**call["function"], "arguments": ""}}
        pieces = cut(call["function"]["arguments"], draw)
        rows.append([head, *({"index": index, "function": {"arguments": p}} for p in pieces)])
    for place in range(max(map(len, rows), default=0)):
        together = [row[place] for row in rows if place < len(row)]
        if draw(st.booleans()):
            deltas.append({"tool_calls": together})
        else:
            deltas += [{"tool_calls": [row]} for row in together]
    head = {
        "id": body["id"],
        "object": "chat.completion.chunk",
        "created": body["created"],
        "model": body["model"],
        "system_fingerprint": body["system_fingerprint"],
        "obfuscation": "x7",
    }

    def chunk(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**head, "choices": [choice], "usage": None}

    chunks = [chunk(delta, None) for delta in deltas]
    chunks.append(chunk({}, choice["finish_reason"]))
    return [*chunks, {**head, "choices": [], "usage": body["usage"]}]


WITH_USAGE = {"stream_options": {"include_usage": True}}
"""The part of a request body that asks for the usage of a stream."""
CITATION = {"type": "char_location", "cited_text": "x", "document_index": 0}
REDACTED = {"type": "redacted_thinking", "data": "abc"}


@st.composite
def anthropic_bodies(draw: st.DrawFn) -> dict[str, Any]:
    text = st.builds(lambda words: {"type": "text", "text": words}, TEXT)
    cited = st.builds(lambda words: {"type": "text", "text": words, "citations": [CITATION]}, TEXT)
    thinking = st.builds(
        lambda words, sign: {"type": "thinking", "thinking": words, "signature": sign},
        TEXT,
        st.sampled_from(["", "sig"]),
    )
    call = st.builds(
        lambda name, arguments: {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}, NAME, INPUT
    )
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    other = st.sampled_from([REDACTED, search])
    content = draw(st.lists(st.one_of(text, cited, thinking, call, other), max_size=5))
    reason = draw(st.sampled_from(["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn"]))
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": "END" if reason == "stop_sequence" else None,
        "usage": {
            "input_tokens": draw(COUNT),
            "cache_creation_input_tokens": draw(COUNT),
            "cache_read_input_tokens": draw(COUNT),
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": draw(COUNT),
            "service_tier": "standard",
        },
    }


def anthropic_events(body: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    """Cut a body into events as the server does."""
    start = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**body["usage"], "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(body["content"]):
        opened, deltas = _block_events(block, draw)
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}
    usage = {"output_tokens": body["usage"]["output_tokens"], "input_tokens": None}
    events.append({"type": "message_delta", "delta": delta, "usage": usage})
    return [*events, {"type": "message_stop"}]


def _block_events(block: dict[str, Any], draw: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in cut(block["text"], draw)]
        deltas += [{"type": "citations_delta", "citation": c} for c in block.get("citations", [])]
        return {"type": "text", "text": ""}, deltas
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": o} for o in cut(block["thinking"], draw)]
        if block["signature"]:
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if "input" in block:
        pieces = cut(json.dumps(block["input"]) if block["input"] else "", draw)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []
