"""Answers as OpenAI's Responses API gives them, and a way to cut them into streams."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.conversation.response_bodies import COUNT, INPUT, NAME, NON_EMPTY_TEXT, TEXT, cut

CITATION = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "u"}
SEARCHED = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
ECHOED: dict[str, Any] = {
    "background": False,
    "instructions": "Be brief.",
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": "low", "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}


@st.composite
def _messages(draw: st.DrawFn, index: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 5)) == 0:
            parts.append({"type": "refusal", "refusal": draw(NON_EMPTY_TEXT)})
            continue
        annotations = [CITATION] if draw(st.booleans()) else []
        part = {"type": "output_text", "text": draw(TEXT), "annotations": annotations}
        parts.append({**part, "logprobs": []} if draw(st.booleans()) else part)
    message = {"id": f"msg_{index}", "type": "message", "role": "assistant"}
    return {**message, "status": "completed", "content": parts}


@st.composite
def _items(draw: st.DrawFn, index: int) -> dict[str, Any]:
    kind = draw(st.sampled_from(["message", "message", "call", "reasoning", "search"]))
    if kind == "message":
        return draw(_messages(index))
    if kind == "call":
        call = {"id": f"fc_{index}", "type": "function_call", "status": "completed"}
        arguments = json.dumps(draw(INPUT))
        return {**call, "call_id": f"call_{index}", "name": draw(NAME), "arguments": arguments}
    if kind == "search":
        return {**SEARCHED, "id": f"ws_{index}"}
    summary = [{"type": "summary_text", "text": text} for text in draw(st.lists(NON_EMPTY_TEXT, max_size=2))]
    item = {"id": f"rs_{index}", "type": "reasoning", "summary": summary}
    return {**item, "encrypted_content": "gAAA"} if draw(st.booleans()) else item


@st.composite
def responses_bodies(draw: st.DrawFn) -> dict[str, Any]:
    output = [draw(_items(index)) for index in range(draw(st.integers(0, 4)))]
    reason = draw(st.sampled_from([None, None, "max_output_tokens", "content_filter", "steered"]))
    cached, written, fresh, made = (draw(COUNT) for _ in range(4))
    input_tokens = cached + written + fresh
    return {
        "id": "resp_9",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": "gpt-5",
        "output": output,
        **ECHOED,
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": draw(st.integers(0, made))},
            "total_tokens": input_tokens + made,
        },
    }


def responses_events(body: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    """Cut a body into events as the server does."""
    start = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": kind, "response": {**start, "incomplete_details": None}}
        for kind in ("response.created", "response.in_progress")
    ]
    for index, item in enumerate(body["output"]):
        events += _item_events(index, item, draw)
    events.append({"type": f"response.{body['status']}", "response": body})
    return [{**event, "sequence_number": place} for place, event in enumerate(events)]


def _item_events(index: int, item: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    at = {"item_id": item["id"], "output_index": index}
    opened = {**item, "status": "in_progress"}
    events: list[dict[str, Any]] = []
    if item["type"] == "message":
        opened["content"] = []
        for number, part in enumerate(item["content"]):
            events += _part_events(part, {**at, "content_index": number}, draw)
    elif item["type"] == "function_call":
        opened["arguments"] = ""
        kind = "response.function_call_arguments"
        pieces = cut(item["arguments"], draw)
        events += [{"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces]
        events.append({"type": f"{kind}.done", **at, "arguments": item["arguments"]})
    elif item["type"] == "reasoning":
        opened["summary"] = []
        for number, part in enumerate(item["summary"]):
            position = {**at, "summary_index": number}
            kind = "response.reasoning_summary"
            events.append({"type": f"{kind}_part.added", **position, "part": {**part, "text": ""}})
            texts = [piece for piece in cut(part["text"], draw) if piece]
            events += [{"type": f"{kind}_text.delta", **position, "delta": piece} for piece in texts]
            events.append({"type": f"{kind}_text.done", **position, "text": part["text"]})
            events.append({"type": f"{kind}_part.done", **position, "part": part})
    else:
        events.append({"type": "response.web_search_call.searching", **at})
    first = {"type": "response.output_item.added", "output_index": index, "item": opened}
    return [first, *events, {**first, "type": "response.output_item.done", "item": item}]


def _part_events(part: dict[str, Any], at: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    kind = part["type"]
    field = "refusal" if kind == "refusal" else "text"
    begun = {"type": "response.content_part.added", **at, "part": {**part, field: ""}}
    pieces = cut(part[field], draw)
    deltas = [{"type": f"response.{kind}.delta", **at, "delta": piece} for piece in pieces]
    done = {"type": f"response.{kind}.done", **at, field: part[field]}
    return [begun, *deltas, done, {"type": "response.content_part.done", **at, "part": part}]
