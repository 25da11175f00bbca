"""Answers that cannot be poisoned, dodged or told apart by spelling."""

import pytest

import modelpact as mp
from modelpact.configuration import read_configuration
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.errors import InvalidNeed


def test_a_need_that_is_constructed_directly_is_validated_before_negotiation() -> None:
    with pytest.raises(InvalidNeed):
        negotiate([mp.Need("context-window", minimum=100000.0)], "openai/gpt-4o")  # type: ignore[arg-type]
    assert negotiate("context>=100000", "openai/gpt-4o").ok
    assert negotiate([mp.Need("tools")], "openai/gpt-4o").findings[0].capability == "tool-calling"


def test_modifying_a_trace_does_not_change_the_resolution() -> None:
    model = mp.resolve("openai", "gpt-5")
    before = model.claim("computer-use").support
    for entry in model.trace:
        for value in entry.fields.values():
            if isinstance(value, list):
                value.append("computer-use")
    again = mp.default_catalog().extended().resolve("openai", "gpt-5")
    assert again.claim("computer-use").support == before
    with pytest.raises(AttributeError):
        model.constraints = ()  # type: ignore[misc]


def test_strategies_are_immutable() -> None:
    strategies = mp.Strategies({"reasoning": "thinking"})
    with pytest.raises(TypeError):
        strategies.labels["tool-calling"] = "faked"  # type: ignore[index]


@pytest.mark.parametrize("spelled", ["structured-output", "json-mode", "json-mode>=object"])
def test_a_constraint_also_applies_to_a_choice_that_implies_the_capability(spelled: str) -> None:
    """Claude has no JSON object mode, so JSON of any kind stands on its schema mode."""
    target = "anthropic/claude-haiku-4-5"
    assert negotiate(spelled, target).ok
    verdict = negotiate(f"citations,{spelled}", target)
    assert {miss.reason for miss in verdict.missing} == {"conflict"}
    assert target not in find_models(f"citations,{spelled}", provider="anthropic")


OVERLAY = """
[providers.openai]
kind = "ollama"
[models."anthropic/Claude-Opus-4-5"]
tool_calling = false
"""


def test_an_overlay_applies_regardless_of_letter_case() -> None:
    catalog = read_configuration(OVERLAY).catalog()
    for name in ("claude-opus-4-5", "Claude-Opus-4-5", "CLAUDE-OPUS-4-5"):
        assert not negotiate("tools", f"anthropic/{name}", catalog=catalog).ok
    targets = find_models("tools", provider="anthropic", catalog=catalog)
    assert not [target for target in targets if target.lower() == "anthropic/claude-opus-4-5"]


def test_a_provider_name_that_the_operator_reassigned_is_not_searched() -> None:
    catalog = read_configuration(OVERLAY).catalog()
    assert find_models("tools", provider="openai", catalog=catalog) == []


def test_a_path_of_an_unknown_vendor_is_not_the_vendors_model() -> None:
    assert not negotiate("tools,reasoning", "openrouter/acme/gpt-5").ok
    assert negotiate("tools,reasoning", "openrouter/openai/gpt-5").ok


def test_a_secret_in_a_parameter_is_not_repeated_in_the_reason() -> None:
    secret = "s" + "k-ant-" + "a1" * 16
    model = mp.resolve("openai", "gpt-5")
    from modelpact.negotiation.parameters import params_affected

    (affected,) = params_affected({"launch": {"reasoning_effort": secret}}, model)
    assert secret not in str(affected)
