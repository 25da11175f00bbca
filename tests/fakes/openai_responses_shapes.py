"""What OpenAI's Responses API takes."""

from tests.fakes.openai_shapes import told_of
from tests.fakes.validation import Either, Flag, Many, Number, One, Open, Shape, Tagged, Text, Thing, Whole, Wrong

_STATUS = One("in_progress", "completed", "incomplete", null=True)
_INPUT_PARTS: dict[str, Shape] = {
    "input_text": Thing({"type": One("input_text"), "text": Text()}, ["type", "text"]),
    "input_image": Thing(
        {
            "type": One("input_image"),
            "image_url": Text(null=True),
            "file_id": Text(null=True),
            "detail": One("auto", "low", "high", "original"),
        },
        ["type"],
    ),
    "input_file": Thing(
        {
            "type": One("input_file"),
            "file_id": Text(null=True),
            "file_data": Text(),
            "file_url": Text(),
            "filename": Text(),
        },
        ["type"],
    ),
}
_OUTPUT_PARTS: dict[str, Shape] = {
    "output_text": Thing(
        {"type": One("output_text"), "text": Text(), "annotations": Many(Open()), "logprobs": Many(Open(), null=True)},
        ["type", "text"],
    ),
    "refusal": Thing({"type": One("refusal"), "refusal": Text()}, ["type", "refusal"]),
}


def _message(role: str, parts: dict[str, Shape]) -> Thing:
    fields = {
        "type": One("message"),
        "id": Text(),
        "status": _STATUS,
        "role": One(role),
        "phase": One("commentary", "final_answer", null=True),
        "content": Either(Text(), Many(Tagged(parts))),
    }
    return Thing(fields, ["role", "content"])


_MESSAGE = Tagged(
    {
        "assistant": _message("assistant", _OUTPUT_PARTS),
        "system": _message("system", _INPUT_PARTS),
        "developer": _message("developer", _INPUT_PARTS),
        "user": _message("user", _INPUT_PARTS),
    },
    tag="role",
)
_TEXTS = Many(Thing({"type": Text(), "text": Text()}, ["type", "text"]), null=True)
_ITEM = Tagged(
    {
        "message": _MESSAGE,
        "function_call": Thing(
            {
                "type": One("function_call"),
                "id": Text(),
                "call_id": Text(least=1, most=64),
                "name": Text(least=1, most=64),
                "arguments": Text(),
                "status": _STATUS,
            },
            ["call_id", "name", "arguments"],
        ),
        "function_call_output": Thing(
            {
                "type": One("function_call_output"),
                "id": Text(null=True),
                "call_id": Text(least=1, most=64),
                "output": Either(Text(), Many(Tagged(_INPUT_PARTS))),
                "status": _STATUS,
            },
            ["call_id", "output"],
        ),
        "reasoning": Thing(
            {
                "type": One("reasoning"),
                "id": Text(),
                "summary": _TEXTS,
                "content": _TEXTS,
                "encrypted_content": Text(null=True),
                "status": _STATUS,
            },
            ["id", "summary"],
        ),
        "item_reference": Thing({"type": One("item_reference"), "id": Text()}, ["id"]),
        "web_search_call": Open(),
    },
    default="message",
)
_FUNCTION = Thing(
    {
        "type": One("function"),
        "name": Text(least=1, most=64),
        "description": Text(null=True),
        "parameters": Open(null=True),
        "strict": Flag(null=True),
    },
    ["name", "parameters"],
)
_FORMAT = Tagged(
    {
        "text": Thing({"type": One("text")}),
        "json_object": Thing({"type": One("json_object")}),
        "json_schema": Thing(
            {
                "type": One("json_schema"),
                "name": Text(least=1, most=64),
                "description": Text(),
                "schema": Open(),
                "strict": Flag(null=True),
            },
            ["name", "schema"],
        ),
    }
)
RESPONSES = Thing(
    {
        "model": Text(),
        "input": Either(Text(), Many(_ITEM)),
        "background": Flag(null=True),
        "conversation": Either(Text(), Open(), null=True),
        "include": Many(
            One(
                "file_search_call.results",
                "web_search_call.action.sources",
                "message.input_image.image_url",
                "computer_call_output.output.image_url",
                "code_interpreter_call.outputs",
                "reasoning.encrypted_content",
                "message.output_text.logprobs",
            ),
            null=True,
        ),
        "instructions": Text(null=True),
        "max_output_tokens": Whole(16, null=True),
        "max_tool_calls": Whole(1, null=True),
        "metadata": Open(null=True),
        "parallel_tool_calls": Flag(null=True),
        "previous_response_id": Text(null=True),
        "prompt": Open(null=True),
        "prompt_cache_key": Text(null=True),
        "prompt_cache_retention": One("in_memory", "24h", null=True),
        "reasoning": Thing(
            {
                "effort": One("none", "minimal", "low", "medium", "high", "xhigh", null=True),
                "summary": One("auto", "concise", "detailed", null=True),
            },
            null=True,
        ),
        "safety_identifier": Text(null=True),
        "service_tier": One("auto", "default", "flex", "priority", "scale", null=True),
        "store": Flag(null=True),
        "stream": Flag(null=True),
        "stream_options": Thing({"include_obfuscation": Flag()}, null=True),
        "temperature": Number(0, 2, null=True),
        "text": Thing({"format": _FORMAT, "verbosity": One("low", "medium", "high", null=True)}),
        "tool_choice": Either(
            One("none", "auto", "required"),
            Tagged(
                {
                    "function": Thing({"type": One("function"), "name": Text()}, ["name"]),
                    "web_search": Thing({"type": One("web_search")}),
                    "allowed_tools": Open(),
                }
            ),
        ),
        "tools": Many(Tagged({"function": _FUNCTION, "web_search": Open()})),
        "top_logprobs": Whole(0, 20, null=True),
        "top_p": Number(0, 1, null=True),
        "truncation": One("auto", "disabled", null=True),
        "user": Text(),
    },
    ["model"],
)


def check_responses(body: dict[str, object]) -> None:
    """Check a body, and refuse it in the API's words."""
    try:
        RESPONSES.check(body, ())
    except Wrong as wrong:
        raise told_of(wrong) from None
