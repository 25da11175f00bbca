"""What OpenAI's Chat Completions and Embeddings take, and their words for what they do not."""

from typing import Any

from tests.fakes.replies import Fail
from tests.fakes.server import Refusal
from tests.fakes.validation import (
    Either,
    Flag,
    Many,
    Number,
    One,
    Open,
    Path,
    Shape,
    Tagged,
    Text,
    Thing,
    Whole,
    Wrong,
    json_type,
)

_TEXT_PART = Thing({"type": One("text"), "text": Text()}, ["type", "text"])
_PARTS = Tagged(
    {
        "text": _TEXT_PART,
        "image_url": Thing(
            {
                "type": One("image_url"),
                "image_url": Thing({"url": Text(), "detail": One("auto", "low", "high")}, ["url"]),
            },
            ["type", "image_url"],
        ),
        "input_audio": Thing(
            {
                "type": One("input_audio"),
                "input_audio": Thing({"data": Text(), "format": One("wav", "mp3")}, ["data", "format"]),
            },
            ["type", "input_audio"],
        ),
        "file": Thing(
            {"type": One("file"), "file": Thing({"file_data": Text(), "file_id": Text(), "filename": Text()})},
            ["type", "file"],
        ),
    }
)
_SAID = Tagged({"text": _TEXT_PART, "refusal": Thing({"type": One("refusal"), "refusal": Text()}, ["type", "refusal"])})
_CALLS = Many(
    Tagged(
        {
            "function": Thing(
                {
                    "id": Text(),
                    "type": One("function"),
                    "function": Thing({"name": Text(most=64), "arguments": Text()}, ["name", "arguments"]),
                },
                ["id", "type", "function"],
            ),
            "custom": Thing(
                {
                    "id": Text(),
                    "type": One("custom"),
                    "custom": Thing({"name": Text(), "input": Text()}, ["name", "input"]),
                },
                ["id", "type", "custom"],
            ),
        }
    ),
    least=1,
)


def _said(role: str, part: Shape) -> Thing:
    content = Either(Text(), Many(part, least=1))
    fields = {"role": One(role), "content": content, "name": Text()}
    return Thing(fields, ["role", "content"])


MESSAGE = Tagged(
    {
        "system": _said("system", _TEXT_PART),
        "developer": _said("developer", _TEXT_PART),
        "user": _said("user", _PARTS),
        "assistant": Thing(
            {
                "role": One("assistant"),
                "content": Either(Text(), Many(_SAID, least=1), null=True),
                "refusal": Text(null=True),
                "name": Text(),
                "audio": Thing({"id": Text()}, ["id"], null=True),
                "tool_calls": _CALLS,
                "function_call": Open(null=True),
                "annotations": Many(Open()),
            },
            ["role"],
        ),
        "tool": Thing(
            {"role": One("tool"), "content": Either(Text(), Many(_TEXT_PART, least=1)), "tool_call_id": Text()},
            ["role", "content", "tool_call_id"],
        ),
    },
    tag="role",
)
_FUNCTION = Thing(
    {"name": Text(least=1, most=64), "description": Text(null=True), "parameters": Open(), "strict": Flag(null=True)},
    ["name"],
)
_NAMED = Thing({"name": Text()}, ["name"])
_SCHEMA = Thing(
    {"name": Text(least=1, most=64), "description": Text(), "schema": Open(), "strict": Flag(null=True)}, ["name"]
)
_EFFORT = One("none", "minimal", "low", "medium", "high", "xhigh", null=True)
CHAT = Thing(
    {
        "model": Text(),
        "messages": Many(MESSAGE, least=1),
        "audio": Thing({"voice": Text(), "format": Text()}, ["voice", "format"], null=True),
        "frequency_penalty": Number(-2, 2, null=True),
        "function_call": Either(Text(), Open()),
        "functions": Many(_FUNCTION, least=1),
        "logit_bias": Open(null=True),
        "logprobs": Flag(null=True),
        "max_completion_tokens": Whole(1, null=True),
        "max_tokens": Whole(1, null=True),
        "metadata": Open(null=True),
        "modalities": Many(One("text", "audio"), least=1, null=True),
        "n": Whole(1, 128, null=True),
        "parallel_tool_calls": Flag(),
        "prediction": Open(null=True),
        "presence_penalty": Number(-2, 2, null=True),
        "prompt_cache_key": Text(),
        "prompt_cache_retention": One("in_memory", "24h", null=True),
        "reasoning_effort": _EFFORT,
        "response_format": Tagged(
            {
                "text": Thing({"type": One("text")}),
                "json_object": Thing({"type": One("json_object")}),
                "json_schema": Thing({"type": One("json_schema"), "json_schema": _SCHEMA}, ["json_schema"]),
            }
        ),
        "safety_identifier": Text(),
        "seed": Whole(null=True),
        "service_tier": One("auto", "default", "flex", "priority", "scale", null=True),
        "stop": Either(Text(), Many(Text(), most=4), null=True),
        "store": Flag(null=True),
        "stream": Flag(null=True),
        "stream_options": Thing({"include_usage": Flag(), "include_obfuscation": Flag()}, null=True),
        "temperature": Number(0, 2, null=True),
        "tool_choice": Either(
            One("none", "auto", "required"),
            Tagged(
                {
                    "function": Thing({"type": One("function"), "function": _NAMED}, ["function"]),
                    "custom": Thing({"type": One("custom"), "custom": _NAMED}, ["custom"]),
                    "allowed_tools": Thing({"type": One("allowed_tools"), "allowed_tools": Open()}, ["allowed_tools"]),
                }
            ),
        ),
        "tools": Many(
            Tagged(
                {
                    "function": Thing({"type": One("function"), "function": _FUNCTION}, ["type", "function"]),
                    "custom": Thing({"type": One("custom"), "custom": Open()}, ["custom"]),
                }
            ),
            least=1,
            most=128,
        ),
        "top_logprobs": Whole(0, 20, null=True),
        "top_p": Number(0, 1, null=True),
        "user": Text(),
        "verbosity": One("low", "medium", "high", null=True),
        "web_search_options": Open(),
    },
    ["messages"],
)
EMBEDDINGS = Thing(
    {
        "model": Text(),
        "input": Either(Text(least=1), Many(Either(Text(), Whole(0), Many(Whole(0))), least=1)),
        "dimensions": Whole(1),
        "encoding_format": One("float", "base64"),
        "user": Text(),
    },
    ["input"],
)


def refusal(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> Refusal:
    """Make a refusal in OpenAI's shape."""
    return Refusal(Fail(status, message, "invalid_request_error", code), param)


def check(shape: Shape, body: dict[str, Any]) -> None:
    """Check a body, and refuse it in OpenAI's words."""
    if not body.get("model"):
        raise refusal("you must provide a model parameter")
    try:
        shape.check(body, ())
    except Wrong as wrong:
        if wrong.kind == "unknown" and len(wrong.path) == 1:
            message = f"Unrecognized request argument supplied: {wrong.path[0]}"
            raise refusal(message) from None
        raise told_of(wrong) from None


def told_of(wrong: Wrong) -> Refusal:
    """Tell what is wrong in OpenAI's words."""
    where = written(wrong.path)
    article = "an" if wrong.noun[:1] in "aio" else "a"
    if wrong.kind == "unknown":
        return refusal(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
    if wrong.kind == "missing":
        message = f"Missing required parameter: '{where}'."
        return refusal(message, where, "missing_required_parameter")
    if wrong.kind == "type":
        words = [f"{'an' if part[0] in 'aio' else 'a'} {part}" for part in wrong.expected.split(" or ")]
        expected = words[0] if len(words) == 1 else f"one of {' or '.join(words)}"
        got = json_type(wrong.found)
        got = "null" if got == "null" else f"{'an' if got[0] in 'aio' else 'a'} {got}"
        message = f"Invalid type for '{where}': expected {expected}, but got {got} instead."
        return refusal(message, where, "invalid_type")
    if wrong.kind == "value":
        quoted = [f"'{one}'" for one in wrong.expected]
        listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}, and {quoted[-1]}"
        message = f"Invalid value: '{wrong.found}'. Supported values are: {listed}."
        return refusal(message, where, "invalid_value")
    if wrong.kind in ("below", "above"):
        sign, word = (">=", "minimum") if wrong.kind == "below" else ("<=", "maximum")
        message = (
            f"Invalid '{where}': {wrong.noun} {wrong.kind} {word} value. Expected a value "
            f"{sign} {wrong.expected}, but got {wrong.found} instead."
        )
        return refusal(message, where, f"{wrong.noun}_{wrong.kind}_{word[:3]}_value")
    if wrong.kind == "short" and wrong.found == 0:
        message = (
            f"Invalid '{where}': empty {wrong.noun}. Expected {article} {wrong.noun} with minimum "
            f"length {wrong.expected}, but got an empty {wrong.noun} instead."
        )
        return refusal(message, where, f"empty_{wrong.noun}")
    size, word = ("short", "minimum") if wrong.kind == "short" else ("long", "maximum")
    message = (
        f"Invalid '{where}': {wrong.noun} too {size}. Expected {article} {wrong.noun} with {word} "
        f"length {wrong.expected}, but got {article} {wrong.noun} with length {wrong.found} "
        "instead."
    )
    rank = "below_min" if size == "short" else "above_max"
    return refusal(message, where, f"{wrong.noun}_{rank}_length")


def written(path: Path) -> str:
    """Write a place as OpenAI does: `messages[0].content`."""
    got = ""
    for step in path:
        got += f"[{step}]" if isinstance(step, int) else f".{step}" if got else step
    return got
