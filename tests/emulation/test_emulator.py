"""The emulator: every emulation alone, on requests and on whole answers."""

from typing import Any

import pytest

from modelpact.conversation import openai_chat
from modelpact.conversation.message import Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice
from modelpact.conversation.response import Response
from modelpact.emulation.emulated_request import EmulatedRequest, EmulationFailed, RepairRequest
from modelpact.emulation.emulator import Emulator, emulator_strategies
from modelpact.emulation.strategies import PostProcessing, SystemPromptInjection
from modelpact.vocabulary.capability import CAPABILITIES
from modelpact.vocabulary.errors import InputError, UnknownCapability

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


def test_the_set_names_known_capabilities() -> None:
    assert all(name in CAPABILITIES for name in ALL)
    assert all(emulator_strategies().labels.values())


def test_structured_output() -> None:
    """MP-E2: the schema is in the prompt; JSON is found in prose and fences, and validated."""
    work = prepare("structured-output", ask(output=JsonSchema(CITY)))
    assert work.request.output is None
    assert '"required":["city"]' in work.request.messages[0].text
    (entry,) = work.report.applied
    assert isinstance(entry.strategy, SystemPromptInjection)
    assert (entry.fidelity, entry.extra_calls) == ("validated", 2)
    assert entry.extra_prompt_tokens == (len(entry.strategy.prompt) + 3) // 4
    assert entry.label == "schema in the prompt, answer checked against it"
    for text in ('{"city": "Rome"}', 'Sure:\n```json\n{"city": "Rome"}\n```', 'e.g. [1] {"city": "Rome"}'):
        assert received(work, text).text == '{"city": "Rome"}'


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("Rome", "no JSON"),
        ('{"city": 5}', "/city: 5 is not of type"),
        ('{"city": "Rome", "city": "Oslo"}', "occurs twice"),
        ('{"city": "Rome"', "not JSON"),
        ('{"town": {"city": "Rome"}', "not JSON"),
        ("[" * 9_999, "nested too deeply"),
        ("", "empty"),
    ],
)
def test_never_unvalidated_json(text: str, finding: str) -> None:
    """MP-E2: an error that carries the findings."""
    work = prepare("structured-output", ask(output=JsonSchema(CITY)), repairs=1)
    again = work.process(answered(text))
    assert isinstance(again, RepairRequest)
    assert finding in again.findings[0]
    with pytest.raises(EmulationFailed, match="structured-output could not be emulated") as raised:
        work.process(answered(text), again.attempt)
    assert raised.value.findings == again.findings
    assert raised.value.capability == "structured-output"


def test_asking_again_tells_what_was_wrong() -> None:
    """MP-E5: bounded repair with the validator's findings."""
    work = prepare("structured-output", ask(output=JsonSchema(CITY)))
    again = work.process(answered('{"city": 5}'))
    assert isinstance(again, RepairRequest)
    assert again.attempt == 2
    *before, bad, correction = again.request.messages
    assert tuple(before) == work.request.messages
    assert (bad.role, bad.text) == ("assistant", '{"city": 5}')
    assert correction.role == "user"
    assert again.findings[0] in correction.text


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_repair_is_bounded(repairs: int) -> None:
    work = prepare("json-object", ask(output=JsonObject()), repairs=repairs)
    attempt = 1
    for _ in range(repairs):
        again = work.process(answered("no"), attempt)
        assert isinstance(again, RepairRequest)
        attempt = again.attempt
    with pytest.raises(EmulationFailed, match=f"after {repairs + 1} response"):
        work.process(answered("no"), attempt)


@pytest.mark.parametrize("repairs", [-1, 11, True, "2", 1.5, None])
def test_repairs_are_a_small_number(repairs: Any) -> None:
    with pytest.raises(InputError, match="repairs"):
        Emulator(repairs=repairs)


def test_json_object() -> None:
    work = prepare("json-object", ask(output=JsonObject()))
    assert work.request.output is None
    assert received(work, 'So: [1], {"a": 1}').text == '{"a": 1}'
    again = work.process(answered("[1]"))
    assert isinstance(again, RepairRequest)
    assert again.findings == ("the answer is JSON, but not an object",)


def test_thinking() -> None:
    work = prepare("reasoning", ask(SYSTEM, HI, reasoning=Reasoning("high")))
    assert work.request.reasoning is None
    assert work.request.messages[0].text.startswith("Be brief.\nThink step by step")
    assert work.report.applied[0].fidelity == "best-effort"
    response = received(work, "<thinking>Hm.</thinking>Yes.")
    assert response.content == (ThinkingBlock("Hm."), TextBlock("Yes."))


def test_tool_calling() -> None:
    """MP-E3: tools are described in the prompt, and calls are parsed from the text."""
    earlier = (
        HI,
        Message("assistant", (ToolUseBlock("call_1", "now", {}),)),
        Message("tool", (ToolResultBlock("call_1", (TextBlock("noon"),)),)),
    )
    request = ask(*earlier, tools=(NOW,), tool_choice=ToolChoice("auto"), parallel_tool_calls=False)
    work = prepare("tool-calling", request)
    sent = work.request
    assert (sent.tools, sent.tool_choice, sent.parallel_tool_calls) == ((), None, None)
    assert [message.role for message in sent.messages] == ["system", "user", "assistant", "user"]
    response = received(work, 'Again:\n<tool_call>{"name": "now", "arguments": {}}</tool_call>')
    assert response.content == (TextBlock("Again:"), ToolUseBlock("call_2", "now", {}))
    assert response.stop_reason == "tool_use"
    prompt, history = work.report.applied
    assert prompt.fidelity == "validated"
    assert history.strategy == PostProcessing("2 earlier calls and results are written as text")


def test_earlier_calls_without_tools_are_reported_too() -> None:
    """MP-E1: each change to the prompt is a report entry of its own."""
    call = Message("assistant", (ToolUseBlock("call_1", "now", {}),))
    for fields in ({}, {"tools": (NOW,), "tool_choice": ToolChoice("none")}):
        work = prepare("tool-calling", ask(HI, call, **fields))
        assert [type(entry.strategy) for entry in work.report.applied] == [PostProcessing]
        assert received(work, "<tool_call>?").text == "<tool_call>?"


def test_a_schema_is_not_asked_of_an_answer_that_calls() -> None:
    request = ask(tools=(NOW,), output=JsonSchema(CITY))
    work = Emulator().prepare(request, ["tool-calling", "structured-output"])
    assert received(work, '<tool_call>{"name": "now"}</tool_call>').tool_calls
    assert received(work, '{"city": "Rome"}').text == '{"city": "Rome"}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "runs at its provider"),
        (
            {"tools": [{"type": "function", "function": {"name": "x"}}], "tool_choice": {"type": "allowed_tools"}},
            "cannot be emulated",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 5}}}},
            "not a JSON Schema",
        ),
        ({"stop": ""}, "not empty"),
    ],
)
def test_what_cannot_be_emulated_is_an_error(body: dict[str, Any], message: str) -> None:
    request = openai_chat.read_request({"model": "m", "messages": [], **body})
    with pytest.raises(InputError, match=message):
        Emulator().prepare(request, ALL)


def test_stop_sequences() -> None:
    work = prepare("stop-sequences", ask(stop=("END", ".")))
    assert work.request.stop == ()
    assert work.report.applied[0].fidelity == "exact"
    response = received(work, "One. Two END")
    assert (response.text, response.stop_reason, response.stop_sequence) == ("One", "stop_sequence", ".")
    plain = answered("One", stop_reason="length")
    assert work.process(plain) == plain


def test_nothing_comes_after_a_stop() -> None:
    """Natively the model would not have gone on to call a tool."""
    call = ToolUseBlock("1", "now", {})
    work = prepare("stop-sequences", ask(stop=(".",)))
    cut = work.process(Response((TextBlock("A. B"), call), "tool_use"))
    assert isinstance(cut, Response)
    assert (cut.content, cut.stop_reason) == ((TextBlock("A"),), "stop_sequence")
    expected = Response((TextBlock("A"), call), "tool_use")
    assert work.process(expected) == expected
    both = Emulator().prepare(ask(stop=(".",), tools=(NOW,)), ["tool-calling", "stop-sequences"])
    written = received(both, 'A. B <tool_call>{"name": "now"}</tool_call>')
    assert (written.content, written.stop_reason) == ((TextBlock("A"),), "stop_sequence")
    inside = received(both, 'A <tool_call>{"name": "now", "arguments": {"x": "."}}</tool_call>')
    assert inside.tool_calls[0].input == {"x": "."}


def test_system_messages() -> None:
    late = Message("system", (TextBlock("French!"),))
    work = prepare("system-messages", ask(SYSTEM, HI, late, HI))
    assert [message.role for message in work.request.messages] == ["user", "user"]
    assert work.request.messages[0].text == "Instructions:\nBe brief.\nFrench!\n\nHi"
    alone = prepare("system-messages", ask(SYSTEM))
    assert [message.role for message in alone.request.messages] == ["user"]


def test_token_limit_param_is_a_translation() -> None:
    """MP-E1: renaming the token limit is a translation, labelled as such."""
    request = ask(max_tokens=9)
    work = Emulator().prepare(request, ["token-limit-param"], token_limit_param="max-completion-tokens")
    assert work.request.token_limit_param == "max-completion-tokens"
    (entry,) = work.report.applied
    assert entry.fidelity == "translation"
    assert entry.strategy == PostProcessing("max-tokens is passed as max-completion-tokens")
    assert (entry.extra_prompt_tokens, entry.extra_calls) == (0, 0)


def test_streaming_is_not_asked_of_the_provider() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    work = prepare("streaming", openai_chat.read_request(body))
    sent = openai_chat.write_request(work.request).body
    assert "stream" not in sent
    assert "stream_options" not in sent
    assert work.report.applied[0].fidelity == "exact"


def test_nothing_is_applied_that_was_not_asked_for() -> None:
    """MP-E1: the report never claims an emulation that was not applied."""
    for name in set(ALL) - {"reasoning"}:
        work = prepare(name, ask())
        assert work.report.is_empty()
        assert work.request == ask()


def test_what_the_set_does_not_have_is_a_warning() -> None:
    report = Emulator().plan(ask(), ["image-input", "reasoning"])
    assert report.warnings == ("Capability image-input not emulated: no emulation of the set provides it",)
    assert report.has_unemulatable()
    assert not report.is_empty()


@pytest.mark.parametrize("bad", ["telepathy", "", 5, None])
def test_unknown_capabilities_are_errors(bad: Any) -> None:
    with pytest.raises(InputError):
        Emulator().prepare(ask(), [bad])
    with pytest.raises(UnknownCapability):
        Emulator().prepare(ask(), ["telepathy"])
    with pytest.raises(InputError, match="a list"):
        Emulator().prepare(ask(), "streaming")


def test_an_answer_that_is_too_long_is_refused() -> None:
    """A response of 10 MB is refused."""
    work = prepare("structured-output", ask(output=JsonSchema(CITY)))
    with pytest.raises(EmulationFailed, match="10,000,000 characters"):
        work.process(answered("x" * 10_000_000))


def test_native_blocks_keep_their_order() -> None:
    call = ToolUseBlock("1", "now", {})
    response = Response((ThinkingBlock("own", "sig"), TextBlock("Hi"), call), "tool_use")
    assert prepare("reasoning", ask()).process(response) == response
