"""What OpenAI's models refuse beyond the shape of a request, in its words."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.openai_shapes import refusal


@dataclass(frozen=True)
class Model:
    """One model of the fake, and what it can do."""

    id: str
    context: int = 128_000
    output: int = 16_384
    reasoning: bool = False
    images: bool = True
    tools: bool = True
    schemas: bool = True
    dimensions: int = 0
    """Above zero for models that make embeddings."""
    ignores: tuple[str, ...] = ()
    """Fields that are taken, whatever they hold, and have no effect; also `system`."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Fields that are refused, and in which words."""


MODELS = (
    Model("gpt-4o"),
    Model("gpt-4o-mini"),
    Model("gpt-4.1", context=1_047_576, output=32_768),
    Model("gpt-5", context=400_000, output=128_000, reasoning=True),
    Model("gpt-5-mini", context=400_000, output=128_000, reasoning=True),
    Model("o3", context=200_000, output=100_000, reasoning=True),
    Model("gpt-3.5-turbo", context=16_385, output=4_096, images=False, schemas=False),
    Model("text-only", context=8_192, output=4_096, images=False, tools=False, schemas=False),
    Model("text-embedding-3-small", context=8_191, dimensions=1_536),
    Model("text-embedding-3-large", context=8_191, dimensions=3_072),
)
REASONED = 64
"""The tokens that the reasoning models think."""
_JSON = re.compile("json", re.IGNORECASE)


def tokens(text: str) -> int:
    """Count tokens: one for four characters."""
    return (len(text) + 3) // 4


def prompt_tokens(body: dict[str, Any]) -> int:
    """Count the tokens of a prompt; inlined images count as a fixed number."""
    text = json.dumps([body.get("messages"), body.get("tools")], ensure_ascii=False)
    return tokens(re.sub(r"data:[^\"]{1,100}[^\"]*", "x" * 3_060, text))


def check_model(body: dict[str, Any], model: Model) -> None:
    """Refuse what this model does not do."""
    if model.dimensions:
        raise refusal(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint.", "model", status=404
        )
    _check_sampling(body, model)
    _check_limit(body, model)
    _check_tools(body, model)
    _check_format(body, model)
    _check_messages(body, model)
    if body.get("stream_options") is not None and not body.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise refusal(message, "stream_options")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise refusal("'logprobs' must be true when 'top_logprobs' is set.", "top_logprobs")
    used = prompt_tokens(body)
    if used > model.context:
        raise refusal(
            f"This model's maximum context length is {model.context} tokens. However, your "
            f"messages resulted in {used} tokens. Please reduce the length of the messages.",
            "messages",
            "context_length_exceeded",
        )


def _check_sampling(body: dict[str, Any], model: Model) -> None:
    if not model.reasoning:
        for name in ("reasoning_effort", "verbosity"):
            if body.get(name) is not None:
                raise refusal(f"Unrecognized request argument supplied: {name}")
        return
    for name, usual in (("temperature", 1), ("top_p", 1), ("n", 1)):
        if body.get(name) not in (None, usual):
            raise refusal(
                f"Unsupported value: '{name}' does not support {body[name]} with this model. Only "
                f"the default ({usual}) value is supported.",
                name,
                "unsupported_value",
            )
    for name in ("presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias"):
        if body.get(name) not in (None, 0, False):
            raise unsupported(name)
    if body.get("stop") is not None:
        raise unsupported("stop")


def unsupported(name: str, instead: str = "") -> Exception:
    """Make the refusal of a parameter that a model does not have."""
    hint = f" Use '{instead}' instead." if instead else ""
    message = f"Unsupported parameter: '{name}' is not supported with this model.{hint}"
    return refusal(message, name, "unsupported_parameter")


def _check_limit(body: dict[str, Any], model: Model) -> None:
    old, new = body.get("max_tokens"), body.get("max_completion_tokens")
    if old is not None and new is not None:
        message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise refusal(message, "max_tokens", "invalid_parameter_combination")
    if model.reasoning and old is not None:
        raise unsupported("max_tokens", "max_completion_tokens")
    limit = old if old is not None else new
    if limit is not None and limit > model.output:
        name = "max_tokens" if old is not None else "max_completion_tokens"
        raise refusal(
            f"{name} is too large: {limit}. This model supports at most {model.output} completion "
            f"tokens, whereas you provided {limit}.",
            name,
            "invalid_value",
        )


def _check_tools(body: dict[str, Any], model: Model) -> None:
    tools = body.get("tools")
    if tools is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body and body[name] != "none":
                raise refusal(f"'{name}' is only allowed when 'tools' are specified.", name)
        return
    if not model.tools:
        raise refusal("tools is not supported in this model.", "tools", "unsupported_parameter")
    named = set()
    for place, tool in enumerate(tools):
        if tool["type"] != "function":
            continue
        function, where = tool["function"], f"tools[{place}].function"
        named.add(function["name"])
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", function["name"]):
            raise refusal(
                f"Invalid '{where}.name': string does not match pattern. Expected a string that "
                "matches the pattern '^[a-zA-Z0-9_-]+$'.",
                f"{where}.name",
                "invalid_value",
            )
        schema = function.get("parameters", {})
        message = f"Invalid schema for function '{function['name']}': "
        if schema and schema.get("type") != "object":
            kind = schema.get("type")
            written = "None" if kind is None else kind
            raise refusal(
                f"{message}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{written}\"'.",
                f"{where}.parameters",
                "invalid_function_parameters",
            )
        if function.get("strict"):
            check_strict(schema, message, f"{where}.parameters", "invalid_function_parameters")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] == "function":
        name = choice["function"]["name"]
        if name not in named:
            message = f"Tool choice '{name}' not found in 'tools' parameter."
            raise refusal(message, "tool_choice")


def _check_format(body: dict[str, Any], model: Model) -> None:
    response_format = body.get("response_format") or {"type": "text"}
    if response_format["type"] == "json_object" and not _JSON.search(json.dumps(body["messages"])):
        raise refusal(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            "messages",
        )
    if response_format["type"] != "json_schema":
        return
    if not model.schemas:
        raise refusal(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this "
            "model. Learn more about supported models at the Structured Outputs guide: "
            "https://platform.openai.com/docs/guides/structured-outputs",
            "response_format",
        )
    inner = response_format["json_schema"]
    if "schema" not in inner:
        where = "response_format.json_schema.schema"
        raise refusal(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    if inner.get("strict"):
        message = f"Invalid schema for response_format '{inner['name']}': "
        if inner["schema"].get("type") != "object":
            kind = inner["schema"].get("type", "None")
            message += f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
            raise refusal(message, "response_format", "invalid_json_schema")
        check_strict(inner["schema"], message, "response_format", "invalid_json_schema")


def check_strict(schema: Any, message: str, param: str, code: str, at: tuple[Any, ...] = ()) -> None:
    """Refuse schemas that strict mode does not take."""
    if not isinstance(schema, dict):
        return
    place = f"In context={at!r}, "
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            what = "'additionalProperties' is required to be supplied and to be false."
            raise refusal(f"{message}{place}{what}", param, code)
        for name in schema.get("properties", {}):
            if name not in schema.get("required", []):
                what = (
                    "'required' is required to be supplied and to be an array including every key "
                    f"in properties. Missing '{name}'."
                )
                raise refusal(f"{message}{place}{what}", param, code)
    for name in ("allOf", "oneOf", "not"):
        if name in schema:
            raise refusal(f"{message}{place}'{name}' is not permitted.", param, code)
    for name, inner in schema.get("properties", {}).items():
        check_strict(inner, message, param, code, (*at, "properties", name))
    check_strict(schema.get("items"), message, param, code, (*at, "items"))
    for place_, inner in enumerate(schema.get("anyOf", [])):
        check_strict(inner, message, param, code, (*at, "anyOf", str(place_)))
    for name, inner in schema.get("$defs", {}).items():
        check_strict(inner, message, param, code, (*at, "$defs", name))


def _check_messages(body: dict[str, Any], model: Model) -> None:
    open_calls: list[str] = []
    for place, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise refusal(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    f"messages.[{place}].role",
                )
            open_calls.remove(message["tool_call_id"])
            continue
        _check_answered(open_calls)
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        if message["role"] == "assistant" and not (
            message.get("content") is not None or open_calls or message.get("function_call")
        ):
            told = f"Invalid value for 'content': expected a string, got null. messages[{place}]"
            raise refusal(told, f"messages.[{place}].content")
        if isinstance(message.get("content"), list) and not model.images:
            for number, part in enumerate(message["content"]):
                if part["type"] == "image_url":
                    raise refusal(
                        "Invalid content type. image_url is only supported by certain models.",
                        f"messages.[{place}].content.[{number}].type",
                    )
    _check_answered(open_calls)


def _check_answered(open_calls: list[str]) -> None:
    if open_calls:
        raise refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_calls)}",
            "messages",
        )
