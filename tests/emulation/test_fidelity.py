"""What emulation must leave as it is: every block, every id, every refusal."""

from modelpact.conversation.message import Message, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.request import JsonSchema, Request, Tool
from modelpact.conversation.response import Response, collect
from modelpact.emulation.emulated_request import EmulationFailed, RepairRequest
from modelpact.emulation.emulator import Emulator

USER = Message("user", (TextBlock("Go."),))
WHOLE = Response(
    (
        ThinkingBlock("hm", "signed"),
        TextBlock("A", {"anthropic": {"citations": [1]}}),
        ToolUseBlock("t1", "now", {}),
        TextBlock("B"),
        OtherBlock("anthropic", {"type": "redacted_thinking", "data": "x"}),
    ),
    "tool_use",
    id="msg_1",
    extra={"service_tier": "standard"},
)


def test_an_emulated_stream_is_the_whole_answer_in_pieces() -> None:
    work = Emulator().prepare(Request("m", (USER,), stream=True), ["streaming"])
    received = work.process(WHOLE)
    assert isinstance(received, Response)
    assert collect(list(work.stream_events(received))) == WHOLE


def test_stop_sequences_leave_what_comes_before_them_as_it_is() -> None:
    work = Emulator().prepare(Request("m", (USER,), stop=("END",)), ["stop-sequences"])
    assert work.process(WHOLE) == WHOLE
    cut = work.process(Response((ThinkingBlock("hm", "s"), TextBlock("A", {"x": {}}), TextBlock("BENDC"))))
    assert isinstance(cut, Response)
    assert cut.content == (ThinkingBlock("hm", "s"), TextBlock("A", {"x": {}}), TextBlock("B"))
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", "END")


def test_a_refusal_is_passed_on_and_not_argued_with() -> None:
    output = JsonSchema({"type": "object"})
    work = Emulator().prepare(Request("m", (USER,), output=output), ["structured-output"])
    refused = Response((TextBlock("No."),), "refusal")
    assert work.process(refused) == refused


def test_a_number_that_may_have_been_cut_off_is_not_an_answer() -> None:
    output = JsonSchema({"type": "integer"})
    work = Emulator().prepare(Request("m", (USER,), output=output), ["structured-output"])
    assert isinstance(work.process(Response((TextBlock("12"),), "length")), RepairRequest)
    assert isinstance(work.process(Response((TextBlock("12"),))), Response)


def test_new_calls_never_take_an_id_of_the_history() -> None:
    history = Message("assistant", (ToolUseBlock("call_2", "now", {}),))
    request = Request("m", (USER, history, USER), tools=(Tool("now"),))
    work = Emulator().prepare(request, ["tool-calling"])
    answer = work.process(Response((TextBlock('<tool_call>{"name": "now"}</tool_call>'),)))
    assert isinstance(answer, Response)
    assert [call.id for call in answer.tool_calls] == ["call_3"]


def test_a_failure_knows_what_it_may_have_cost() -> None:
    assert EmulationFailed("json-object", ("x",), 3).usage.input == 0
