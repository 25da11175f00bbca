"""What the fake of OpenAI answers where its script does not say."""

import hashlib
import json
from typing import Any

from tests.fakes.replies import Call, Reply
from tests.fakes.schema_examples import instance

CREATED = 1_767_225_600


def content(body: dict[str, Any], reply: Reply) -> tuple[str, tuple[Call, ...], str, str]:
    """Return text, calls, refusal and finish reason: those of the reply, or made up."""
    calls = reply.calls
    choice = body.get("tool_choice", "auto")
    if not calls and reply.text is None and not reply.refusal and choice not in ("auto", "none"):
        calls = (_forced(body, choice),)
    if body.get("parallel_tool_calls") is False:
        calls = calls[:1]
    text = reply.text
    if text is None:
        text = "" if calls or reply.refusal else _made_up(body)
    stops = body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.partition(stop)[0] if stop else text
    named = isinstance(choice, dict)
    return text, calls, reply.refusal, "tool_calls" if calls and not named else "stop"


def _forced(body: dict[str, Any], choice: Any) -> Call:
    functions = [tool["function"] for tool in body["tools"] if tool["type"] == "function"]
    if isinstance(choice, dict) and "function" in choice:
        functions = [function for function in functions if function["name"] == choice["function"]["name"]]
    chosen = functions[0]
    return Call(chosen["name"], instance(chosen.get("parameters") or {"type": "object"}))


def _made_up(body: dict[str, Any]) -> str:
    response_format = body.get("response_format") or {"type": "text"}
    if response_format["type"] == "json_schema":
        return json.dumps(instance(response_format["json_schema"]["schema"]))
    if response_format["type"] == "json_object":
        return '{"answer": "x"}'
    last: dict[str, Any] = next((message for message in reversed(body["messages"]) if message["role"] == "user"), {})
    words = last.get("content", "")
    if isinstance(words, list):
        words = "".join(part.get("text", "[image]") for part in words)
    return f"You said: {words}"


def arguments(call: Call) -> str:
    """Return the arguments of a call as text."""
    return json.dumps(call.input) if call.arguments is None else call.arguments


def vector_of(text: str, size: int) -> list[float]:
    """Return numbers that only the text decides, of length one."""
    raw = hashlib.shake_256(text.encode()).digest(size)
    numbers = [byte - 127.5 for byte in raw]
    length = sum(number * number for number in numbers) ** 0.5
    return [number / length for number in numbers]
