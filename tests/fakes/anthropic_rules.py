"""What Anthropic's models refuse beyond the shape of a request, in its words."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.anthropic_shapes import refusal


@dataclass(frozen=True)
class Model:
    """One model of the fake, and what it can do."""

    id: str
    context: int = 200_000
    output: int = 64_000
    thinking: bool = True
    effort: bool = False
    schemas: bool = True
    images: bool = True
    one_sampler: bool = False
    """Takes temperature or top_p, not both."""
    ignores: tuple[str, ...] = ()
    """Fields that are taken, whatever they hold, and have no effect; also `system`."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Fields that are refused, and in which words."""


MODELS = (
    Model("claude-opus-4-5", effort=True, one_sampler=True),
    Model("claude-sonnet-4-5", one_sampler=True),
    Model("claude-haiku-4-5", one_sampler=True),
    Model("claude-sonnet-4-20250514", schemas=False),
    Model("claude-3-5-haiku-20241022", output=8_192, thinking=False, schemas=False),
    Model("claude-text", context=100_000, output=4_096, thinking=False, schemas=False, images=False),
)
SIGNATURE = "fake-signature-"
"""Signatures of the fake begin so; others are refused."""


def tokens(text: str) -> int:
    """Count tokens: one for four characters."""
    return (len(text) + 3) // 4


def prompt_tokens(body: dict[str, Any]) -> int:
    """Count the tokens of a prompt; inlined images count as a fixed number."""
    parts = [body.get("system"), body["messages"], body.get("tools")]
    text = json.dumps([part for part in parts if part], ensure_ascii=False)
    return tokens(re.sub(r'"data": "[^"]{200,}"', "x" * 6_000, text))


def blocks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every block with its place, tools and system first."""
    for place, tool in enumerate(body.get("tools", [])):
        yield f"tools.{place}", tool
    if isinstance(body.get("system"), list):
        for place, one in enumerate(body["system"]):
            yield f"system.{place}", one
    for number, message in enumerate(body["messages"]):
        if isinstance(message["content"], list):
            for place, block in enumerate(message["content"]):
                yield f"messages.{number}.content.{place}", block


def check_model(body: dict[str, Any], model: Model) -> None:
    """Refuse what this model does not do."""
    if not body["messages"]:
        raise refusal("messages: at least one message is required")
    if body["max_tokens"] > model.output:
        raise refusal(
            f"max_tokens: {body['max_tokens']} > {model.output}, which is the maximum allowed "
            f"number of output tokens for {model.id}"
        )
    _check_blocks(body, model)
    _check_thinking(body, model)
    _check_tools(body)
    _check_turns(body)
    _check_output(body, model)
    if model.one_sampler and "temperature" in body and "top_p" in body:
        raise refusal("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    used = prompt_tokens(body)
    if used > model.context:
        raise refusal(f"prompt is too long: {used} tokens > {model.context} maximum")


def _check_blocks(body: dict[str, Any], model: Model) -> None:
    marked = 0
    for where, one in blocks(body):
        marked += one.get("cache_control") is not None
        if one.get("type") == "text" and not one["text"]:
            raise refusal(f"{where.partition('.')[0]}: text content blocks must be non-empty")
        if one.get("type") == "image" and not model.images:
            raise refusal(f"{where}: this model does not support image input")
    if marked > 4:
        raise refusal(f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")
    for place, message in enumerate(body["messages"]):
        last = place == len(body["messages"]) - 1
        if not message["content"] and not (last and message["role"] == "assistant"):
            raise refusal(
                f"messages.{place}: all messages must have non-empty content except for the "
                "optional final assistant message"
            )
    if any(not stop_sequence.strip() for stop_sequence in body.get("stop_sequences", [])):
        raise refusal("stop_sequences: each stop sequence must contain non-whitespace")
    final = body["messages"][-1]
    if final["role"] == "assistant":
        content = final["content"]
        text = content if isinstance(content, str) else (content[-1].get("text", "") if content else "")
        if text != text.rstrip():
            raise refusal("messages: final assistant content cannot end with trailing whitespace")


def _check_thinking(body: dict[str, Any], model: Model) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] == "disabled":
        return
    if not model.thinking:
        raise refusal(f"thinking: {model.id} does not support thinking")
    if thinking["type"] == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        raise refusal(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our "
            "documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
        )
    if body.get("temperature", 1) != 1:
        raise refusal("`temperature` may only be set to 1 when thinking is enabled.")
    if "top_k" in body:
        raise refusal("`top_k` must be unset when thinking is enabled.")
    if body.get("top_p", 1) < 0.95:
        raise refusal("`top_p` must be greater than or equal to 0.95 when thinking is enabled.")
    if body.get("tool_choice", {"type": "auto"})["type"] in ("any", "tool"):
        raise refusal("Thinking may not be enabled when tool_choice forces tool use.")
    last = [message for message in body["messages"] if message["role"] == "assistant"][-1:]
    for message in last:
        place = body["messages"].index(message)
        calls = isinstance(message["content"], list) and any(
            block["type"] == "tool_use" for block in message["content"]
        )
        first = message["content"][0]["type"] if calls else "thinking"
        if first not in ("thinking", "redacted_thinking"):
            raise refusal(
                f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{first}`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block (preceeding the lastmost set of `tool_use` and "
                "`tool_result` blocks)."
            )


def _check_tools(body: dict[str, Any]) -> None:
    names = [tool.get("name", "") for tool in body.get("tools", [])]
    for place, tool in enumerate(body.get("tools", [])):
        if tool.get("type", "custom") != "custom":
            continue
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            raise refusal(f"tools.{place}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["input_schema"].get("type") != "object":
            kind = "Field required" if "type" not in tool["input_schema"] else ""
            problem = kind or "Input should be 'object'"
            raise refusal(f"tools.{place}.custom.input_schema.type: {problem}")
    if len(set(names)) != len(names):
        raise refusal("tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice is not None and not names and choice["type"] != "none":
        raise refusal("tool_choice may only be specified while providing tools.")
    if choice is not None and choice["type"] == "tool" and choice["name"] not in names:
        raise refusal(f"Tool '{choice['name']}' not found in provided tools")
    uses = any(one.get("type") in ("tool_use", "tool_result") for _, one in blocks(body))
    if uses and not names:
        raise refusal("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _check_turns(body: dict[str, Any]) -> None:
    """Each call is answered in the next message, and only calls are."""
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        listed = message["content"] if isinstance(message["content"], list) else []
        answered = [entry["tool_use_id"] for entry in listed if entry["type"] == "tool_result"]
        for number, entry in enumerate(listed):
            if entry["type"] == "tool_result" and entry["tool_use_id"] not in waiting:
                raise refusal(
                    f"messages.{place}.content.{number}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {entry['tool_use_id']}. Each `tool_result` block must "
                    "have a corresponding `tool_use` block in the previous message."
                )
            if entry["type"] == "thinking" and not entry["signature"].startswith(SIGNATURE):
                raise refusal(f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block")
        missing = [pending for pending in waiting if pending not in answered]
        if missing:
            raise refusal(
                f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        waiting = [entry["id"] for entry in listed if entry["type"] == "tool_use"]
    if waiting:
        raise refusal(
            f"messages.{len(body['messages']) - 1}: `tool_use` ids were found without "
            f"`tool_result` blocks immediately after: {', '.join(waiting)}."
        )


def _check_output(body: dict[str, Any], model: Model) -> None:
    config = body.get("output_config", {})
    if config.get("effort") is not None and not model.effort:
        raise refusal("This model does not support the effort parameter.")
    form = config.get("format")
    if form is None:
        return
    if not model.schemas:
        raise refusal(f"output_config.format: {model.id} does not support output formats")
    _check_closed(form["schema"], "output_config.format.schema")


def _check_closed(schema: Any, where: str) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise refusal(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    for name in ("minimum", "maximum", "minLength", "maxLength", "multipleOf"):
        if name in schema:
            kind = schema.get("type")
            raise refusal(f"{where}: For '{kind}' type, property '{name}' is not supported")
    for inner in (*schema.get("properties", {}).values(), schema.get("items")):
        _check_closed(inner, where)
    for inner in (*schema.get("anyOf", []), *schema.get("$defs", {}).values()):
        _check_closed(inner, where)
