"""The abp specification (docs/spec/abp.md), emulation: strategies, defaults, engine, report."""

import json

import msgspec
import pytest

from modelpact.conversation.message import Conversation, Message, TextBlock
from modelpact.emulation.strategies import (
    Disabled,
    EmulationConfig,
    EmulationEngine,
    EmulationEntry,
    EmulationReport,
    EmulationStrategy,
    PostProcessing,
    SystemPromptInjection,
    apply_emulation,
    can_emulate,
    default_strategies,
    default_strategy,
    read_config,
)
from modelpact.vocabulary.dialects import ABP
from modelpact.vocabulary.errors import InputError, UnknownName

THINK = "Think step by step before answering."


def conversation(*messages: Message) -> Conversation:
    return Conversation(list(messages or [Message("user", (TextBlock("Hi"),))]))


def texts(chat: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in chat.messages]


@pytest.mark.parametrize(
    ("strategy", "wire"),
    [
        (SystemPromptInjection("p"), {"type": "system_prompt_injection", "prompt": "p"}),
        (PostProcessing("d"), {"type": "post_processing", "detail": "d"}),
        (Disabled("r"), {"type": "disabled", "reason": "r"}),
    ],
)
def test_tagged_json(strategy: EmulationStrategy, wire: dict[str, str]) -> None:
    """S002-7-2: JSON with the tag `type`, in snake case."""
    assert msgspec.to_builtins(strategy) == wire
    assert msgspec.convert(wire, EmulationStrategy) == strategy


@pytest.mark.parametrize(
    ("capability", "strategy"),
    [
        ("extended_thinking", SystemPromptInjection(THINK)),
        ("structured_output_json_schema", PostProcessing("Parse and validate JSON from text response")),
        ("code_execution", Disabled("Cannot safely emulate sandboxed code execution")),
        ("tool_read", Disabled("No emulation available for ToolRead")),
        ("streaming", Disabled("No emulation available for Streaming")),
        ("hooks_pre_tool_use", Disabled("No emulation available for HooksPreToolUse")),
    ],
)
def test_default_strategy_table(capability: str, strategy: EmulationStrategy) -> None:
    """S002-9-1..4, S002-11-4: the default strategy of each capability."""
    assert default_strategy(capability) == strategy


def test_all_other_capabilities_are_disabled() -> None:
    """S002-9-4: all others are `Disabled`."""
    rest = set(ABP.ids) - {"extended_thinking", "structured_output_json_schema"}
    assert all(isinstance(default_strategy(name), Disabled) for name in rest)


@pytest.mark.parametrize("capability", list(ABP.ids))
def test_can_emulate(capability: str) -> None:
    """S002-9-5: the default strategy is not `Disabled`."""
    strategy = default_strategy(capability)
    assert can_emulate(capability) is not isinstance(strategy, Disabled)


def test_what_the_defaults_offer_to_negotiation() -> None:
    assert default_strategies().labels == {
        "reasoning": f"system_prompt_injection: {THINK}",
        "structured-output": "post_processing: Parse and validate JSON from text response",
    }


def test_injection_prepends_a_system_message() -> None:
    """S002-7-5, S002-7-3: without a system message, a new one is put first."""
    chat = conversation()
    EmulationEngine.with_defaults().apply(["extended_thinking"], chat)
    assert texts(chat) == [("system", THINK), ("user", "Hi")]


def test_injection_appends_to_the_system_message() -> None:
    """S002-7-4: appended to the system message, as a text block of a newline and the prompt."""
    chat = conversation(Message("user", (TextBlock("Hi"),)), Message("system", (TextBlock("Be brief."),), {"a": 1}))
    EmulationEngine.with_defaults().apply(["extended_thinking"], chat)
    content = (TextBlock("Be brief."), TextBlock(f"\n{THINK}"))
    assert chat.messages[1] == Message("system", content, {"a": 1})
    assert len(chat.messages) == 2


@pytest.mark.parametrize("capability", ["structured_output_json_schema", "code_execution", "tool_bash"])
def test_post_processing_and_disabled_change_nothing(capability: str) -> None:
    """S002-7-6, S002-7-7: PostProcessing and Disabled do not change the conversation."""
    chat = conversation()
    EmulationEngine.with_defaults().apply([capability], chat)
    assert chat == conversation()


def test_the_example_of_the_engine() -> None:
    """S002-8-1: one entry and no warning."""
    report = EmulationEngine.with_defaults().apply(["extended_thinking"], conversation())
    assert len(report.applied) == 1
    assert report.warnings == ()


def test_config_overrides_come_before_defaults() -> None:
    """S002-8-2, S002-8-3, S002-11-5: configuration first, then `default_strategy()`."""
    config = EmulationConfig()
    config.set("code_execution", SystemPromptInjection("Simulate code execution step by step."))
    config.set("extended_thinking", Disabled("not here"))
    chat = conversation()
    report = EmulationEngine(config).apply(
        ["code_execution", "extended_thinking", "structured_output_json_schema"], chat
    )
    assert texts(chat)[0] == ("system", "Simulate code execution step by step.")
    assert [entry.capability for entry in report.applied] == ["code_execution", "structured_output_json_schema"]
    assert report.warnings == ("Capability ExtendedThinking not emulated: not here",)
    assert apply_emulation(config, ["code_execution"], conversation()).applied == (
        EmulationEntry("code_execution", SystemPromptInjection("Simulate code execution step by step.")),
    )


def test_emulation_report_example() -> None:
    """S002-10-3, S002-8-4, S002-7-1: exactly."""
    example = json.loads("""
{
  "applied": [
    {
      "capability": "extended_thinking",
      "strategy": {
        "type": "system_prompt_injection",
        "prompt": "Think step by step before answering."
      }
    }
  ],
  "warnings": [
    "Capability CodeExecution not emulated: Cannot safely emulate sandboxed code execution"
  ]
}
""")
    engine = EmulationEngine.with_defaults()
    report = engine.apply(["extended_thinking", "code_execution"], conversation())
    assert json.loads(msgspec.json.encode(report)) == example
    assert msgspec.convert(example, EmulationReport) == report


@pytest.mark.parametrize(
    ("capabilities", "empty", "unemulatable"),
    [
        ([], True, False),
        (["extended_thinking"], False, False),
        (["code_execution"], False, True),
        (["extended_thinking", "tool_grep"], False, True),
    ],
)
def test_report_methods(capabilities: list[str], empty: bool, unemulatable: bool) -> None:
    """S002-8-5, S002-8-6: `is_empty()` and `has_unemulatable()`."""
    report = EmulationEngine.with_defaults().apply(capabilities, conversation())
    assert (report.is_empty(), report.has_unemulatable()) == (empty, unemulatable)


def test_applying_twice_changes_nothing_more_and_reports_the_same() -> None:
    """S002-7-8, MP-E4: applying twice changes nothing more and reports the same."""
    for start in (conversation(), conversation(Message("system", (TextBlock("Be brief."),)))):
        engine = EmulationEngine.with_defaults()
        first = engine.apply(list(ABP.ids), start)
        once = start.copy()
        assert engine.apply(list(ABP.ids), start) == first
        assert start == once


def test_a_capability_asked_for_twice_counts_once() -> None:
    chat = conversation()
    report = EmulationEngine.with_defaults().apply(["extended_thinking"] * 3, chat)
    assert len(report.applied) == 1
    assert len(chat.messages[0].content) == 1


def test_two_prompts_are_both_injected() -> None:
    config = EmulationConfig({"tool_bash": SystemPromptInjection("No shell.")})
    chat = conversation()
    EmulationEngine(config).apply(["extended_thinking", "tool_bash"], chat)
    assert list(chat.messages[0].content) == [TextBlock(THINK), TextBlock("\nNo shell.")]


def test_a_plan_reports_the_same_and_changes_nothing() -> None:
    """MP-E4: a dry plan changes nothing."""
    engine = EmulationEngine.with_defaults()
    chat = conversation()
    plan = engine.plan(list(ABP.ids))
    assert chat == conversation()
    assert plan == engine.apply(list(ABP.ids), chat)


@pytest.mark.parametrize("bad", ["telepathy", "ExtendedThinking", "reasoning", "", 5, None, ["x"]])
def test_an_unknown_capability_leaves_the_conversation_untouched(bad: object) -> None:
    """MP-E8: wrong input is an error and leaves the conversation untouched."""
    chat = conversation()
    with pytest.raises(UnknownName, match="abp capability"):
        EmulationEngine.with_defaults().apply(["extended_thinking", bad], chat)  # type: ignore[list-item]
    assert chat == conversation()


def test_a_text_is_no_list_of_capabilities() -> None:
    with pytest.raises(InputError, match="expected a list"):
        EmulationEngine.with_defaults().apply("extended_thinking", conversation())


def test_an_unknown_capability_has_no_strategy() -> None:
    for call in (default_strategy, can_emulate):
        with pytest.raises(UnknownName, match="did you mean extended_thinking"):
            call("extended_thinkin")
    with pytest.raises(UnknownName):
        EmulationConfig().set("telepathy", Disabled("no"))
    with pytest.raises(InputError, match="expected a strategy, not str"):
        EmulationConfig().set("streaming", "no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"other": {}},
        {"strategies": []},
        {"strategies": {"telepathy": {"type": "disabled", "reason": "x"}}},
        {"strategies": {"streaming": "disabled"}},
        {"strategies": {"streaming": {"type": "magic"}}},
        {"strategies": {"streaming": {"type": "disabled"}}},
        {"strategies": {"streaming": {"type": "disabled", "reason": 5}}},
        {"strategies": {"streaming": {"type": "disabled", "reason": "x", "prompt": "y"}}},
        {"strategies": {"streaming": {"type": "disabled", "reason": "\ud800"}}},
    ],
    ids=str,
)
def test_a_config_that_is_none(data: object) -> None:
    with pytest.raises(InputError):
        read_config(data)


def test_a_config_is_read() -> None:
    config = read_config({"strategies": {"streaming": {"type": "post_processing", "detail": "d"}}})
    assert config.strategies == {"streaming": PostProcessing("d")}
    assert read_config({}).strategies == {}
