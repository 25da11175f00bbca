"""What Anthropic's Messages take, and its words for what they do not."""

from typing import Any

from tests.fakes.replies import Fail
from tests.fakes.server import Refusal
from tests.fakes.validation import Either, Flag, Many, Number, One, Open, Shape, Tagged, Text, Thing, Whole, Wrong

_CACHE = Thing({"type": One("ephemeral"), "ttl": One("5m", "1h")}, ["type"], null=True)
_IMAGE_TYPES = One("image/jpeg", "image/png", "image/gif", "image/webp")


def _block(kind: str, fields: dict[str, Shape], required: list[str]) -> Thing:
    return Thing({"type": One(kind), **fields}, required)


TEXT = _block("text", {"text": Text(), "cache_control": _CACHE, "citations": Many(Open(), null=True)}, ["text"])
_IMAGE = _block(
    "image",
    {
        "source": Tagged(
            {
                "base64": Thing(
                    {"type": One("base64"), "media_type": _IMAGE_TYPES, "data": Text()}, ["media_type", "data"]
                ),
                "url": Thing({"type": One("url"), "url": Text()}, ["url"]),
                "file": Thing({"type": One("file"), "file_id": Text()}, ["file_id"]),
            },
            step=True,
        ),
        "cache_control": _CACHE,
    },
    ["source"],
)
_DOCUMENT = _block(
    "document",
    {
        "source": Open(),
        "cache_control": _CACHE,
        "citations": Open(null=True),
        "context": Text(null=True),
        "title": Text(null=True),
    },
    ["source"],
)
_BLOCKS: dict[str, Shape] = {
    "text": TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
    "thinking": _block("thinking", {"thinking": Text(), "signature": Text()}, ["thinking", "signature"]),
    "redacted_thinking": _block("redacted_thinking", {"data": Text()}, ["data"]),
    "tool_use": _block(
        "tool_use",
        {"id": Text(), "name": Text(least=1), "input": Open(), "cache_control": _CACHE},
        ["id", "name", "input"],
    ),
    "tool_result": _block(
        "tool_result",
        {
            "tool_use_id": Text(),
            "content": Either(Text(), Many(Tagged({"text": TEXT, "image": _IMAGE, "document": _DOCUMENT}, step=True))),
            "is_error": Flag(),
            "cache_control": _CACHE,
        },
        ["tool_use_id"],
    ),
}
_MESSAGE = Thing(
    {"role": One("user", "assistant"), "content": Either(Text(), Many(Tagged(_BLOCKS, step=True)))}, ["role", "content"]
)
_SERVER_TOOLS = (
    "bash_20250124",
    "code_execution_20250825",
    "computer_20250124",
    "text_editor_20250728",
    "web_fetch_20250910",
    "web_search_20250305",
)
"""Tools that the API runs itself or knows; their settings are not looked at."""
_TOOL = Tagged(
    {
        **{kind: Open() for kind in _SERVER_TOOLS},
        "custom": Thing(
            {
                "type": One("custom"),
                "name": Text(least=1, most=128),
                "description": Text(),
                "input_schema": Open(),
                "cache_control": _CACHE,
                "strict": Flag(),
            },
            ["name", "input_schema"],
        ),
    },
    default="custom",
    step=True,
)
_ALONE = {"disable_parallel_tool_use": Flag()}
MESSAGES = Thing(
    {
        "model": Text(least=1),
        "messages": Many(_MESSAGE),
        "max_tokens": Whole(1),
        "system": Either(Text(), Many(TEXT)),
        "metadata": Thing({"user_id": Text(most=256, null=True)}),
        "stop_sequences": Many(Text()),
        "stream": Flag(),
        "temperature": Number(0, 1),
        "top_k": Whole(0),
        "top_p": Number(0, 1),
        "tools": Many(_TOOL),
        "tool_choice": Tagged(
            {
                "auto": Thing({"type": One("auto"), **_ALONE}),
                "any": Thing({"type": One("any"), **_ALONE}),
                "tool": Thing({"type": One("tool"), "name": Text(), **_ALONE}, ["name"]),
                "none": Thing({"type": One("none")}),
            },
            step=True,
        ),
        "thinking": Tagged(
            {
                "enabled": Thing(
                    {"type": One("enabled"), "budget_tokens": Whole(1_024), "display": One("summarized", "omitted")},
                    ["budget_tokens"],
                ),
                "disabled": Thing({"type": One("disabled")}),
                "adaptive": Thing({"type": One("adaptive"), "display": One("summarized", "omitted")}),
            },
            step=True,
        ),
        "output_config": Thing(
            {
                "effort": One("low", "medium", "high", "xhigh", "max", null=True),
                "format": Thing({"type": One("json_schema"), "schema": Open()}, ["type", "schema"], null=True),
            }
        ),
        "service_tier": One("auto", "standard_only"),
        "container": Text(null=True),
        "inference_geo": Text(null=True),
        "cache_control": _CACHE,
    },
    ["model", "max_tokens", "messages"],
)
COUNT = Thing(
    {
        name: shape
        for name, shape in MESSAGES.fields.items()
        if name in ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")
    },
    ["model", "messages"],
)
_NOUNS = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "object": "dictionary",
}


def refusal(message: str, kind: str = "invalid_request_error", status: int = 400) -> Refusal:
    """Make a refusal in Anthropic's shape."""
    return Refusal(Fail(status, message, kind))


def check(shape: Shape, body: dict[str, Any]) -> None:
    """Check a body, and refuse it in Anthropic's words."""
    for message in body.get("messages") or []:
        if isinstance(message, dict) and message.get("role") == "system":
            raise refusal(
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
    try:
        shape.check(body, ())
    except Wrong as wrong:
        raise refusal(_told(wrong)) from None


def _told(wrong: Wrong) -> str:
    where = ".".join(str(step) for step in wrong.path)
    if wrong.kind == "unknown":
        return f"{where}: Extra inputs are not permitted"
    if wrong.kind == "missing":
        return f"{where}: Field required"
    if wrong.kind == "type":
        nouns = [_NOUNS.get(part, part) for part in wrong.expected.split(" or ")]
        return f"{where}: Input should be a valid {nouns[-1]}"
    if wrong.kind == "value":
        quoted = [f"'{one}'" for one in wrong.expected]
        listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
        if where.endswith("type") and len(quoted) > 1:
            tags = ", ".join(quoted)
            parent = ".".join(str(step) for step in wrong.path[:-1])
            return (
                f"{parent}: Input tag '{wrong.found}' found using 'type' does not match any of the "
                f"expected tags: {tags}"
            )
        return f"{where}: Input should be {listed}"
    if wrong.kind == "below":
        return f"{where}: Input should be greater than or equal to {wrong.expected}"
    if wrong.kind == "above":
        return f"{where}: Input should be less than or equal to {wrong.expected}"
    rank = "at least" if wrong.kind == "short" else "at most"
    things = "character" if wrong.noun == "string" else "item"
    many = "" if wrong.expected == 1 else "s"
    return f"{where}: {wrong.noun.capitalize()} should have {rank} {wrong.expected} {things}{many}"
