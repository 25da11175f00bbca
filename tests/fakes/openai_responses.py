"""The part of the fake of OpenAI that answers `/responses`, whole and in events."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modelpact.wire import HttpResponse
from tests.fakes.openai_defaults import CREATED, arguments
from tests.fakes.openai_responses_rules import ENCRYPTED, check_model
from tests.fakes.openai_responses_shapes import check_responses
from tests.fakes.openai_rules import REASONED, Model, tokens
from tests.fakes.openai_shapes import refusal
from tests.fakes.replies import Call, Reply
from tests.fakes.schema_examples import instance

if TYPE_CHECKING:
    from tests.fakes.openai import FakeOpenAI


class Responses:
    """Answers requests, and remembers what it was not told to forget."""

    def __init__(self, fake: "FakeOpenAI") -> None:
        self._fake = fake
        self._stored: dict[str, list[dict[str, Any]]] = {}

    async def answer(self, body: dict[str, Any]) -> HttpResponse:
        """Answer a request."""
        check_responses(body)
        model = self._fake.model(body["model"])
        items = self._items(body)
        check_model(body, model, items)
        self._check_items(items)
        reply = await self._fake.next_reply(body)
        return self._answered(body, model, items, reply)

    def _items(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        items = body.get("input")
        if items is None and body.get("prompt") is None:
            raise refusal("Missing required parameter: 'input'.", "input", "missing_required_parameter")
        if isinstance(items, str):
            items = [{"type": "message", "role": "user", "content": items}]
        before = body.get("previous_response_id")
        if before is not None and before not in self._stored:
            raise refusal(
                f"Previous response with id '{before}' not found.",
                "previous_response_id",
                "previous_response_not_found",
            )
        return [*self._stored.get(before or "", []), *(items or [])]

    def _check_items(self, items: list[dict[str, Any]]) -> None:
        known = {entry.get("id") for listed in self._stored.values() for entry in listed}
        calls: list[str] = []
        for item in items:
            kind = item.get("type")
            hidden = kind == "reasoning" and not item.get("encrypted_content")
            if (hidden or kind == "item_reference") and item["id"] not in known:
                raise refusal(
                    f"Item with id '{item['id']}' not found. Items are not persisted when `store` "
                    "is set to false. Try again with `store` set to true, or remove this item from "
                    "your input.",
                    "input",
                    status=404,
                )
            if kind == "function_call":
                calls.append(item["call_id"])
            elif kind == "function_call_output":
                if item["call_id"] not in calls:
                    message = "No tool call found for function call output with call_id {}."
                    raise refusal(message.format(item["call_id"]), "input")
                calls.remove(item["call_id"])
        if calls:
            raise refusal(f"No tool output found for function call {calls[0]}.", "input")

    def _answered(self, body: dict[str, Any], model: Model, items: list[dict[str, Any]], reply: Reply) -> HttpResponse:
        text, calls = _content(body, items, reply)
        made = tokens(text + reply.refusal + "".join(arguments(call) for call in calls))
        limit, reason = body.get("max_output_tokens"), None
        if limit is not None and made > limit and not calls:
            text, made, reason = text[: limit * 4], limit, "max_output_tokens"
        reason = reply.stop or reason
        output = list(self._output(body, model, reply, text, calls, reason))
        response = {
            "id": f"resp_{self._fake.number():032x}",
            "object": "response",
            "created_at": CREATED,
            "status": "incomplete" if reason else "completed",
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": body["model"],
            "output": output,
            **_echoed(body),
            "usage": reply.usage or self._usage(body, items, model, made),
        }
        if body.get("store") is not False:
            self._stored[response["id"]] = [*items, *output]
        headers = {"x-request-id": f"req_{self._fake.number():032x}"}
        if not body.get("stream"):
            return self._fake.whole(reply, response, headers)
        events = [
            (event["type"], {**event, "sequence_number": place}) for place, event in enumerate(self._events(response))
        ]
        return self._fake.streamed(reply, events, headers)

    def _output(
        self, body: dict[str, Any], model: Model, reply: Reply, text: str, calls: tuple[Call, ...], reason: str | None
    ) -> Iterator[dict[str, Any]]:
        if model.reasoning or reply.thinking:
            summary = [{"type": "summary_text", "text": reply.thinking}] if reply.thinking else []
            item = {"id": self._id("rs"), "type": "reasoning", "summary": summary}
            if ENCRYPTED in (body.get("include") or []):
                item["encrypted_content"] = f"encrypted-{self._fake.number():08x}"
            yield item
        if text or reply.refusal or not calls:
            part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
            refused = {"type": "refusal", "refusal": reply.refusal}
            yield {
                "id": self._id("msg"),
                "type": "message",
                "status": "incomplete" if reason else "completed",
                "content": [refused] if reply.refusal else [part],
                "role": "assistant",
            }
        for call in calls:
            yield {
                "id": self._id("fc"),
                "type": "function_call",
                "status": "completed",
                "arguments": arguments(call),
                "call_id": call.id or self._id("call"),
                "name": call.name,
            }

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._fake.number():032x}"

    def _usage(self, body: dict[str, Any], items: list[dict[str, Any]], model: Model, made: int) -> dict[str, Any]:
        prompt = json.dumps([body["model"], body.get("tools"), body.get("instructions"), items])
        prompt_size = tokens(prompt)
        made += REASONED if model.reasoning else 0
        cached = self._fake.cached(prompt, prompt_size)
        return {
            "input_tokens": prompt_size,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": REASONED if model.reasoning else 0},
            "total_tokens": prompt_size + made,
        }

    # Events.

    def _events(self, response: dict[str, Any]) -> Iterator[dict[str, Any]]:
        begun = {**response, "status": "in_progress", "output": [], "usage": None}
        begun["incomplete_details"] = None
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(response["output"]):
            at = {"item_id": item["id"], "output_index": index}
            blank: dict[str, dict[str, Any]] = {
                "message": {"content": [], "status": "in_progress"},
                "function_call": {"arguments": "", "status": "in_progress"},
                "reasoning": {"summary": []},
            }
            opened = {**item, **blank[item["type"]]}
            yield {"type": "response.output_item.added", "output_index": index, "item": opened}
            if item["type"] == "function_call":
                kind, items = "response.function_call_arguments", item["arguments"]
                for piece in self._pieces(items):
                    yield {"type": f"{kind}.delta", **at, "delta": piece}
                yield {"type": f"{kind}.done", **at, "arguments": items}
            for number, part in enumerate(item.get("content", [])):
                yield from self._part(part, {**at, "content_index": number})
            for number, part in enumerate(item.get("summary", [])):
                yield from self._summary(part, {**at, "summary_index": number})
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": f"response.{response['status']}", "response": response}

    def _part(self, part: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
        kind = part["type"]
        field = "refusal" if kind == "refusal" else "text"
        more: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
        yield {"type": "response.content_part.added", **at, "part": {**part, field: ""}}
        for piece in self._pieces(part[field]):
            yield {"type": f"response.{kind}.delta", **at, "delta": piece, **more}
        yield {"type": f"response.{kind}.done", **at, field: part[field], **more}
        yield {"type": "response.content_part.done", **at, "part": part}

    def _summary(self, part: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
        kind = "response.reasoning_summary"
        yield {"type": f"{kind}_part.added", **at, "part": {**part, "text": ""}}
        for piece in self._pieces(part["text"]):
            yield {"type": f"{kind}_text.delta", **at, "delta": piece}
        yield {"type": f"{kind}_text.done", **at, "text": part["text"]}
        yield {"type": f"{kind}_part.done", **at, "part": part}

    def _pieces(self, text: str) -> list[str]:
        size = self._fake.piece
        return [text[at : at + size] for at in range(0, len(text), size)]


def _echoed(body: dict[str, Any]) -> dict[str, Any]:
    usual: dict[str, Any] = {
        **dict.fromkeys(("instructions", "max_output_tokens", "previous_response_id")),
        "metadata": {},
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
    }
    return {name: body[name] if body.get(name) is not None else usual[name] for name in usual}


def _content(body: dict[str, Any], items: list[dict[str, Any]], reply: Reply) -> tuple[str, tuple[Call, ...]]:
    """Return text and calls: those of the reply, or made up."""
    calls, choice = reply.calls, body.get("tool_choice", "auto")
    if not calls and reply.text is None and not reply.refusal and choice not in ("auto", "none"):
        named = choice.get("name") if isinstance(choice, dict) else None
        tool = next(tool for tool in body["tools"] if named in (None, tool["name"]))
        calls = (Call(tool["name"], instance(tool.get("parameters") or {"type": "object"})),)
    if body.get("parallel_tool_calls") is False:
        calls = calls[:1]
    text = reply.text
    if text is None:
        text = "" if calls or reply.refusal else _made_up(body, items)
    return text, calls


def _made_up(body: dict[str, Any], items: list[dict[str, Any]]) -> str:
    given = (body.get("text") or {}).get("format") or {"type": "text"}
    if given["type"] == "json_schema":
        return json.dumps(instance(given["schema"]))
    if given["type"] == "json_object":
        return '{"answer": "x"}'
    said: dict[str, Any] = next((item for item in reversed(items) if item.get("role") == "user"), {})
    words = said.get("content", "")
    if isinstance(words, list):
        words = "".join(part.get("text", "[image]") for part in words)
    return f"You said: {words}"
