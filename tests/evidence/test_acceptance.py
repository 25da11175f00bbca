"""What answers prove: "streaming yes; seed no"."""

import msgspec

from modelpact.conversation.message import TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.response import Response, TextDelta, Usage
from modelpact.evidence import learn_from_response
from tests.evidence.requests import PLAIN, using_everything

PROSE = Response((TextBlock("Hello"),))


def names(response: Response, **more: object) -> list[str]:
    found = learn_from_response(using_everything(), response, "local", "m", **more)  # type: ignore[arg-type]
    assert all(one.support == "native" and one.origin == "use" for one in found)
    return [one.capability for one in found]


def test_a_request_that_went_well_proves_nothing_of_its_parameters() -> None:
    assert names(PROSE) == []


def test_pieces_prove_streaming() -> None:
    assert names(PROSE, events=[TextDelta("Hel"), TextDelta("lo")]) == ["streaming"]
    assert names(PROSE, events=[TextDelta("Hello")]) == []


def test_a_call_of_an_offered_tool_proves_tool_calling() -> None:
    assert names(Response((ToolUseBlock("1", "look", {}),))) == ["tool-calling"]
    assert names(Response((ToolUseBlock("1", "made-up", {}),))) == []
    called = Response((ToolUseBlock("1", "look", {}),))
    assert learn_from_response(PLAIN, called, "local", "m") == ()


def test_reasoning_is_seen_in_blocks_or_counted() -> None:
    assert names(Response((ThinkingBlock("hm"), TextBlock("Hello")))) == ["reasoning"]
    counted = msgspec.structs.replace(PROSE, usage=Usage(1, 9, reasoning=5))
    assert names(counted) == ["reasoning"]
