"""Preparing: the request stays as it is, twice is once, and a new turn asks for what is new."""

import copy
from typing import Any

import msgspec

from modelpact.conversation.message import Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonSchema, Reasoning, Request, Tool
from modelpact.conversation.response import Response
from modelpact.emulation.emulated_request import EmulatedRequest
from modelpact.emulation.emulator import Emulator, emulator_strategies

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
NOW = Tool("now")
ALL = list(emulator_strategies().labels)
HI = Message("user", (TextBlock("Hi"),))
SYSTEM = Message("system", (TextBlock("Be brief."),))


def ask(*messages: Message, **fields: Any) -> Request:
    return Request("m", messages or (HI,), **fields)


def prepare(capability: str, request: Request, **more: Any) -> EmulatedRequest:
    return Emulator(**more).prepare(request, [capability])


def answered(text: str, **fields: Any) -> Response:
    return Response((TextBlock(text),), **fields)


def received(work: EmulatedRequest, text: str) -> Response:
    response = work.process(answered(text))
    assert isinstance(response, Response)
    return response


FULL = ask(
    SYSTEM,
    HI,
    Message("assistant", (TextBlock("Hm."), ToolUseBlock("call_1", "now", {"a": [1]}))),
    Message("tool", (ToolResultBlock("call_1", (TextBlock("noon"),)),)),
    tools=(NOW,),
    output=JsonSchema(CITY),
    reasoning=Reasoning("low"),
    stop=("END",),
    stream=True,
    max_tokens=99,
)


def test_preparing_never_changes_the_request_and_twice_is_once() -> None:
    """MP-E4: applying twice changes nothing more and reports the same."""
    before = copy.deepcopy(FULL)
    emulator = Emulator()
    for names in [[name] for name in ALL] + [ALL, ALL[::-1], ALL[:3], ALL[3:]]:
        first = emulator.prepare(FULL, names, token_limit_param="max-output-tokens")
        second = emulator.prepare(first.request, names, token_limit_param="max-output-tokens")
        assert before == FULL
        assert second.request == first.request
        assert second.report == first.report
        assert msgspec.structs.replace(second, tool_schemas={}, output_schema=None) == (
            msgspec.structs.replace(first, tool_schemas={}, output_schema=None)
        )
        assert emulator.plan(FULL, names, token_limit_param="max-output-tokens") == first.report


def test_preparing_more_later_is_preparing_all() -> None:
    emulator = Emulator()
    for split in range(len(ALL)):
        first = emulator.prepare(FULL, ALL[:split]).request
        all_of_it = emulator.prepare(first, ALL)
        assert "Be brief." in all_of_it.request.messages[0].text
        assert "<tools>" in all_of_it.request.messages[0].text
        assert "Think step by step" in all_of_it.request.messages[0].text
        assert all_of_it.request.messages[0].text.count("Think step by step") == 1


def test_a_new_turn_on_prepared_messages_asks_for_what_is_new() -> None:
    """A prepared conversation that goes on with another schema is held to that one."""
    emulator = Emulator()
    first = emulator.prepare(ask(output=JsonSchema(CITY)), ["structured-output"]).request
    other = JsonSchema({"type": "integer"})
    second = emulator.prepare(msgspec.structs.replace(first, output=other), ["structured-output"])
    assert second.output == other
    assert received(second, "5").text == "5"
    assert '{"type":"integer"}' in second.request.messages[0].text


def test_marks_that_are_not_ours_are_no_excuse() -> None:
    """Metadata cannot talk the emulator out of its prompts, or break it."""
    marks: dict[str, Any] = dict.fromkeys([*ALL, "tool-history"], True)
    for odd in (marks, dict.fromkeys(ALL, "x"), dict.fromkeys(ALL, 5), "x", [1], None):
        forged = ask(
            Message("user", (TextBlock("Hi"),), {"modelpact": odd}),
            tools=(NOW,),
            output=JsonSchema(CITY),
            stop=("END",),
            max_tokens=5,
        )
        work = Emulator().prepare(forged, ALL, token_limit_param="max-completion-tokens")
        text = "".join(message.text for message in work.request.messages)
        assert "<tools>" in text
        assert "JSON Schema" in text
        assert "Think step by step" in text
        assert work.stops == ("END",)
        plain = Emulator().prepare(ask(Message("user", (TextBlock("Hi"),), {"modelpact": odd})), ALL)
        applied = {entry.capability for entry in plain.report.applied}
        assert applied <= {"reasoning", "streaming", "system-messages"}
