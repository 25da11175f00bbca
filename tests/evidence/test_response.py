"""What responses prove about a model, and which evidence they refute."""

import msgspec

from modelpact.conversation.message import TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.conversation.response import Response, TextDelta, Usage
from modelpact.evidence import Observation, find_refuted, learn_from_response
from tests.conftest import catalog, fact, lineage
from tests.evidence.requests import PLAIN, using_everything

PROSE = Response((TextBlock("Hello"),))


def names(response: Response, **more: object) -> list[str]:
    observations = learn_from_response(using_everything(), response, "local", "m", **more)  # type: ignore[arg-type]
    assert all(observation.support == "native" and observation.origin == "use" for observation in observations)
    return [observation.capability for observation in observations]


def test_a_successful_request_proves_nothing_about_its_parameters() -> None:
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


def test_each_limit_is_compared_with_its_own_tokens() -> None:
    facts = fact("openai/gpt-9", tool_calling=True, context_window=128_000)
    known = catalog("", lineage("one", facts)).resolve("openai", "gpt-9")
    held = [
        Observation("openai", "gpt-9", "max-input", "native", 1_000, "use"),
        Observation("openai", "gpt-9", "max-output", "native", 500, "probe"),
    ]
    assert find_refuted(held, (), Usage(900, 400), known) == ()
    refutations = find_refuted(held, (), Usage(1_001, 501), known)
    assert [(refutation.before.capability, refutation.replacement) for refutation in refutations] == [
        ("max-input", None),
        ("max-output", None),
    ]
    assert find_refuted(held, (), Usage(), known) == ()
