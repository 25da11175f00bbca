"""What OpenAI's models refuse at `/responses` beyond the shape of a request, in its words."""

import json
import re
from typing import Any

from tests.fakes.openai_rules import Model, check_strict, unsupported
from tests.fakes.openai_shapes import refusal

ENCRYPTED = "reasoning.encrypted_content"


def check_model(body: dict[str, Any], model: Model, items: list[dict[str, Any]]) -> None:
    """Refuse what this model does not do."""
    if model.dimensions:
        raise refusal(f"The requested model '{model.id}' is not supported with the Responses API.", "model")
    if model.reasoning:
        for name in ("temperature", "top_p", "top_logprobs"):
            if body.get(name) not in (None, 0 if name == "top_logprobs" else 1):
                raise unsupported(name)
    else:
        if (body.get("reasoning") or {}).get("effort") is not None:
            raise unsupported("reasoning.effort")
        if ENCRYPTED in (body.get("include") or []):
            raise refusal("Encrypted content is not supported with this model.", "include")
    limit = body.get("max_output_tokens")
    if limit is not None and limit > model.output:
        raise refusal(
            f"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= "
            f"{model.output}, but got {limit} instead.",
            "max_output_tokens",
            "integer_above_max_value",
        )
    if body.get("stream_options") is not None and not body.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise refusal(message, "stream_options")
    _check_tools(body, model)
    _check_format(body, model, items)


def _check_tools(body: dict[str, Any], model: Model) -> None:
    tools = [tool for tool in body.get("tools") or [] if tool["type"] == "function"]
    if tools and not model.tools:
        raise unsupported("tools")
    for place, tool in enumerate(tools):
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", tool["name"]):
            where = f"tools[{place}].name"
            raise refusal(
                f"Invalid '{where}': string does not match pattern. Expected a string that matches "
                "the pattern '^[a-zA-Z0-9_-]+$'.",
                where,
                "invalid_value",
            )
        schema = tool["parameters"] or {}
        message = f"Invalid schema for function '{tool['name']}': "
        where = f"tools[{place}].parameters"
        if schema and schema.get("type") != "object":
            kind = schema.get("type")
            message += f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
            raise refusal(message, where, "invalid_function_parameters")
        if tool.get("strict"):
            check_strict(schema, message, where, "invalid_function_parameters")
    choice = body.get("tool_choice")
    named = choice.get("name") if isinstance(choice, dict) else None
    if named is not None and named not in {tool["name"] for tool in tools}:
        raise refusal(f"Tool choice '{named}' not found in 'tools' parameter.", "tool_choice")
    if choice == "required" and not body.get("tools"):
        message = "Tool choice 'required' must be specified with 'tools' parameter."
        raise refusal(message, "tool_choice")


def _check_format(body: dict[str, Any], model: Model, items: list[dict[str, Any]]) -> None:
    text_format = (body.get("text") or {}).get("format") or {"type": "text"}
    if text_format["type"] == "json_object" and "json" not in json.dumps(items).lower():
        raise refusal(
            "Response input messages must contain the word 'json' in some form to use "
            "'text.format' of type 'json_object'.",
            "input",
        )
    if text_format["type"] != "json_schema":
        return
    if not model.schemas:
        raise refusal(
            f"Invalid parameter: 'text.format' of type 'json_schema' is not supported with model version `{model.id}`.",
            "text.format",
        )
    if text_format.get("strict"):
        message = f"Invalid schema for response_format '{text_format['name']}': "
        check_strict(text_format["schema"], message, "text.format.schema", "invalid_json_schema")
