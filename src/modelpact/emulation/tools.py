"""Emulated tool calling: describe tools in the prompt, and parse calls from the text."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import (
    Block,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from modelpact.conversation.request import Tool, ToolChoice
from modelpact.emulation.json_text import NoJson, find_json, json_at
from modelpact.emulation.validation import Schema
from modelpact.vocabulary.errors import InputError, brief

_OPEN: Final = "<tool_call>"
_JSON_NEXT: Final = re.compile(r"\s*(?:[{`\[]|$)")
_INVENTED_RESULT: Final = "<tool_result"
_CLOSE: Final = re.compile(r"\s*</tool_call>")
_MAX_CALLS: Final = 128
_MAX_FINDINGS: Final = 10


class ToolSpec(msgspec.Struct, frozen=True):
    """The tools that the model may call, and how many of them it may or must call."""

    tools: tuple[Tool, ...]
    choice: ToolChoice | None = None
    parallel: bool = True
    before: int = 0
    """How many calls the conversation already has; new ids continue from there."""


class ParsedToolCalls(msgspec.Struct, frozen=True):
    """A response's text, the tool calls in it, and what is wrong with them."""

    text: str
    calls: tuple[ToolUseBlock, ...] = ()
    findings: tuple[str, ...] = ()


def tool_schemas(spec: ToolSpec) -> dict[str, Schema]:
    """Compile the schema of every tool; errors name the tool."""
    schemas: dict[str, Schema] = {}
    for tool in spec.tools:
        if tool.name in schemas:
            raise InputError(f"tools: there are two tools named {tool.name!r:.80}")
        where = f"tools.{tool.name:.80}.parameters"
        schemas[tool.name] = Schema(tool.parameters or {"type": "object"}, where)
    choice = spec.choice
    if choice is not None and choice.mode == "required" and not schemas:
        raise InputError("tool_choice: a tool must be called, but there are none")
    if choice is not None and choice.mode == "tool" and choice.name not in schemas:
        raise InputError(f"tool_choice: there is no tool {choice.name!r:.80}")
    return schemas


def tools_prompt(spec: ToolSpec) -> str:
    """Describe the tools and how to call them."""
    described = "\n".join(
        _json(
            {
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "parameters": tool.parameters or {"type": "object"},
            }
        )
        for tool in spec.tools
    )
    lines = [
        "You can call tools. Each line between <tools> and </tools> is a tool with the JSON Schema of its arguments.",
        f"<tools>\n{described}\n</tools>",
        "To call a tool, write this at the end of your answer and nothing after it:",
        '<tool_call>{"name": "the tool", "arguments": {}}</tool_call>',
        "The result then arrives between <tool_result> and </tool_result>.",
    ]
    if spec.parallel:
        lines.append("For several calls at once, write several <tool_call> after one another.")
    else:
        lines.append("Call at most one tool at a time.")
    choice = spec.choice
    if choice is not None and choice.mode == "required":
        lines.append("You must call a tool now.")
    elif choice is not None and choice.mode == "tool":
        lines.append(f"You must call the tool {choice.name} now.")
    return "\n".join(lines)


def text_before_calls(text: str) -> str:
    """Return the text of a response before its first tool call."""
    start = _next_call(text, 0)
    return text if start < 0 else text[:start].rstrip()


def parse_tool_calls(text: str, spec: ToolSpec, schemas: Mapping[str, Schema]) -> ParsedToolCalls:
    """Parse the calls at the end of a response, and check each against the schema of its tool.

    A result that the model invented after a call is ignored. Any other text there is a finding,
    since the model may not have intended a call.
    """
    start = _next_call(text, 0)
    findings: list[str] = []
    calls: list[ToolUseBlock] = []
    while start >= 0:
        if len(calls) == _MAX_CALLS:
            findings.append(f"there are more than {_MAX_CALLS} tool calls")
            break
        if len(findings) >= _MAX_FINDINGS:
            findings.append("and more")
            break
        value, end, problem = _parse_call(text, start + len(_OPEN))
        if problem:
            findings.append(problem)
        else:
            call_id = f"call_{spec.before + len(calls) + 1}"
            call, call_findings = _check_call(value, call_id, schemas)
            findings.extend(call_findings)
            if call is not None:
                calls.append(call)
        start = _next_call(text, end)
        between = text[end : start if start >= 0 else len(text)]
        between = between.removeprefix("</tool_call>").strip(" \t\r\n`")
        if between and not between.startswith(_INVENTED_RESULT):
            findings.append("there is text after a tool call; a call must end the answer")
    findings.extend(_choice_findings(spec, calls, bool(findings)))
    return ParsedToolCalls(text_before_calls(text), tuple(calls), tuple(findings))


def write_calls_as_text(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Write earlier calls and results as text, for a model without tool calling."""
    names: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                names[block.id] = block.name
    return tuple(_write_message(message, names) for message in messages)


def _next_call(text: str, position: int) -> int:
    """Return where the next call begins, or -1.

    A tag that is followed neither by JSON nor by a closing tag is part of the text.
    """
    last_close = text.rfind("</tool_call>")
    start = text.find(_OPEN, position)
    while start >= 0:
        if start < last_close or _JSON_NEXT.match(text, start + len(_OPEN)):
            return start
        start = text.find(_OPEN, start + len(_OPEN))
    return -1


def _parse_call(text: str, start: int) -> tuple[Any, int, str]:
    """Parse the JSON of one call; a closing tag inside a string does not end it."""
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = json_at(text, start)
    except NoJson as first:
        close = text.find("</tool_call>", start)
        end_of_call = len(text) if close < 0 else close
        try:
            return find_json(text[start:end_of_call]).value, end_of_call, ""
        except NoJson:
            return None, end_of_call, f"a tool call cannot be read: {first}"
    closing = _CLOSE.match(text, end)
    return value, closing.end() if closing else end, ""


def _check_call(value: Any, call_id: str, schemas: Mapping[str, Schema]) -> tuple[ToolUseBlock | None, list[str]]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None, ['a tool call is {"name": …, "arguments": {…}}']
    name = value["name"]
    unknown = sorted(set(value) - {"name", "arguments"})
    if unknown:
        return None, [f"a tool call has no {brief(unknown[0])}; it has name and arguments"]
    if name not in schemas:
        known = ", ".join(schemas)
        return None, [f"there is no tool {name!r:.80}; there are {known:.300}"]
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        return None, [f"the arguments of {name} are not an object"]
    findings = schemas[name].findings(arguments)
    if findings:
        return None, [f"the arguments of {name} are not valid: {finding}" for finding in findings]
    return ToolUseBlock(call_id, name, arguments), []


def _choice_findings(spec: ToolSpec, calls: list[ToolUseBlock], broken: bool) -> list[str]:
    choice = spec.choice
    findings: list[str] = []
    if not spec.parallel and len(calls) > 1:
        findings.append("only one tool may be called at a time")
    if choice is None or broken:
        return findings
    if choice.mode == "required" and not calls:
        findings.append("a tool must be called")
    if choice.mode == "tool" and [call.name for call in calls] != [choice.name] * max(1, len(calls)):
        findings.append(f"the tool {choice.name} must be called")
    return findings


def _write_message(message: Message, names: Mapping[str, str]) -> Message:
    if not any(isinstance(block, (ToolUseBlock, ToolResultBlock)) for block in message.content):
        return message
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            arguments = block.raw if block.raw and block.input is None else block.input
            call = _json({"name": block.name, "arguments": arguments})
            content.append(TextBlock(f"<tool_call>{call}</tool_call>"))
        elif isinstance(block, ToolResultBlock):
            content.extend(_write_result(block, names))
        else:
            content.append(block)
    role = "user" if message.role == "tool" else message.role
    return Message(role, tuple(content), message.metadata)


def _write_result(block: ToolResultBlock, names: Mapping[str, str]) -> list[Block]:
    text = "".join(part.text for part in block.content if isinstance(part, TextBlock))
    result: dict[str, Any] = {"name": names.get(block.tool_use_id, ""), "content": text}
    if block.is_error:
        result["is_error"] = True
    written: list[Block] = [TextBlock(f"<tool_result>{_json(result)}</tool_result>")]
    written += [part for part in block.content if isinstance(part, (ImageBlock, OtherBlock))]
    return written


def _json(value: Any) -> str:
    """Write JSON that cannot contain a tag."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"tools: a value cannot be written as JSON: {error}") from None
    return text.replace("<", "\\u003c")
