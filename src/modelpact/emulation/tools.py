"""Tool calling for models without it: tools in the prompt, calls read from the text."""

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
_MADE_UP: Final = "<tool_result"
_CLOSE: Final = re.compile(r"\s*</tool_call>")
_MOST_CALLS: Final = 128
_MOST_FINDINGS: Final = 10


class ToolSpec(msgspec.Struct, frozen=True):
    """The tools that may be called, and whether one must or only one may be."""

    tools: tuple[Tool, ...]
    choice: ToolChoice | None = None
    parallel: bool = True
    before: int = 0
    """How many calls the conversation already has: new ids count on from there."""


class ParsedToolCalls(msgspec.Struct, frozen=True):
    """What was read from an answer: its text, the calls in it, and what is wrong with them."""

    text: str
    calls: tuple[ToolUseBlock, ...] = ()
    findings: tuple[str, ...] = ()


def tool_schemas(spec: ToolSpec) -> dict[str, Schema]:
    """Compile every tool's schema; what cannot be asked for is an error that names the tool."""
    schemas: dict[str, Schema] = {}
    for tool in spec.tools:
        if tool.name in schemas:
            raise InputError(f"tools: {tool.name!r:.80} stands there twice")
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
        "You can call tools. Each line between <tools> and </tools> is a tool with the JSON Schema "
        "of its arguments.",
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


def spoken(text: str) -> str:
    """Return the text of an answer before its first tool call."""
    start = _next_call(text, 0)
    return text if start < 0 else text[:start].rstrip()


def _next_call(text: str, place: int) -> int:
    """Return where the next call begins, or -1.

    A tag that neither JSON nor a closing tag follows is text that speaks of the tag.
    """
    last_close = text.rfind("</tool_call>")
    start = text.find(_OPEN, place)
    while start >= 0:
        if start < last_close or _JSON_NEXT.match(text, start + len(_OPEN)):
            return start
        start = text.find(_OPEN, start + len(_OPEN))
    return -1


def read_calls(text: str, spec: ToolSpec, schemas: Mapping[str, Schema]) -> ParsedToolCalls:
    """Read the calls from an answer, each checked against its tool's schema.

    Calls end an answer. A result that the model made up after them is left out; other text there
    makes it doubtful that a call was meant, so it is a finding.
    """
    start = _next_call(text, 0)
    findings: list[str] = []
    calls: list[ToolUseBlock] = []
    while start >= 0:
        if len(calls) == _MOST_CALLS:
            findings.append(f"there are more than {_MOST_CALLS} tool calls")
            break
        if len(findings) >= _MOST_FINDINGS:
            findings.append("and more")
            break
        value, end, problem = _one_call(text, start + len(_OPEN))
        if problem:
            findings.append(problem)
        else:
            identity = f"call_{spec.before + len(calls) + 1}"
            call, wrong = _checked(value, identity, schemas)
            findings.extend(wrong)
            if call is not None:
                calls.append(call)
        start = _next_call(text, end)
        between = text[end : start if start >= 0 else len(text)]
        between = between.removeprefix("</tool_call>").strip(" \t\r\n`")
        if between and not between.startswith(_MADE_UP):
            findings.append("text stands after a tool call; a call must end the answer")
    findings.extend(_choice_findings(spec, calls, bool(findings)))
    return ParsedToolCalls(spoken(text), tuple(calls), tuple(findings))


def _one_call(text: str, place: int) -> tuple[Any, int, str]:
    """Parse the JSON of one call; a closing tag inside a string does not end it."""
    while place < len(text) and text[place].isspace():
        place += 1
    try:
        value, end = json_at(text, place)
    except NoJson as first:
        close = text.find("</tool_call>", place)
        stop = len(text) if close < 0 else close
        try:
            return find_json(text[place:stop]).value, stop, ""
        except NoJson:
            return None, stop, f"a tool call cannot be read: {first}"
    closing = _CLOSE.match(text, end)
    return value, closing.end() if closing else end, ""


def _checked(
    value: Any, identity: str, schemas: Mapping[str, Schema]
) -> tuple[ToolUseBlock | None, list[str]]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None, ['a tool call is {"name": …, "arguments": {…}}']
    name = value["name"]
    strange = sorted(set(value) - {"name", "arguments"})
    if strange:
        return None, [f"a tool call has no {brief(strange[0])}; it has name and arguments"]
    if name not in schemas:
        known = ", ".join(schemas)
        return None, [f"there is no tool {name!r:.80}; there are {known:.300}"]
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        return None, [f"the arguments of {name} are not an object"]
    wrong = schemas[name].findings(arguments)
    if wrong:
        return None, [f"the arguments of {name} are not valid: {one}" for one in wrong]
    return ToolUseBlock(identity, name, arguments), []


def _choice_findings(spec: ToolSpec, calls: list[ToolUseBlock], broken: bool) -> list[str]:
    choice = spec.choice
    found: list[str] = []
    if not spec.parallel and len(calls) > 1:
        found.append("only one tool may be called at a time")
    if choice is None or broken:
        return found
    if choice.mode == "required" and not calls:
        found.append("a tool must be called")
    if choice.mode == "tool" and [call.name for call in calls] != [choice.name] * max(
        1, len(calls)
    ):
        found.append(f"the tool {choice.name} must be called")
    return found


def written_out(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Write earlier calls and results as text, for a model that has no blocks for them."""
    names: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                names[block.id] = block.name
    return tuple(_plain(message, names) for message in messages)


def _plain(message: Message, names: Mapping[str, str]) -> Message:
    if not any(isinstance(block, (ToolUseBlock, ToolResultBlock)) for block in message.content):
        return message
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            arguments = block.raw if block.raw and block.input is None else block.input
            call = _json({"name": block.name, "arguments": arguments})
            content.append(TextBlock(f"<tool_call>{call}</tool_call>"))
        elif isinstance(block, ToolResultBlock):
            content.extend(_result(block, names))
        else:
            content.append(block)
    role = "user" if message.role == "tool" else message.role
    return Message(role, tuple(content), message.metadata)


def _result(block: ToolResultBlock, names: Mapping[str, str]) -> list[Block]:
    text = "".join(one.text for one in block.content if isinstance(one, TextBlock))
    told: dict[str, Any] = {"name": names.get(block.tool_use_id, ""), "content": text}
    if block.is_error:
        told["is_error"] = True
    written: list[Block] = [TextBlock(f"<tool_result>{_json(told)}</tool_result>")]
    written += [one for one in block.content if isinstance(one, (ImageBlock, OtherBlock))]
    return written


def _json(value: Any) -> str:
    """Write JSON in which no tag of ours can appear."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"tools: a value cannot be written as JSON: {error}") from None
    return text.replace("<", "\\u003c")
