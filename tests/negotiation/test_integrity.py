"""Answers that cannot be poisoned, dodged or told apart by spelling."""

import pytest

import modelpact as mp
from modelpact.configuration import read_configuration
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.errors import InvalidNeed


def test_a_need_made_by_hand_is_checked_before_it_is_asked_of_anyone() -> None:
    with pytest.raises(InvalidNeed):
        negotiate([mp.Need("context-window", minimum=100000.0)], "openai/gpt-4o")  # type: ignore[arg-type]
    assert negotiate("context>=100000", "openai/gpt-4o").ok
    assert negotiate([mp.Need("tools")], "openai/gpt-4o").findings[0].capability == "tool-calling"


def test_what_a_resolution_shows_cannot_change_what_it_knows() -> None:
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


def test_strategies_cannot_change_after_they_were_handed_in() -> None:
    strategies = mp.Strategies({"reasoning": "thinking"})
    with pytest.raises(TypeError):
        strategies.labels["tool-calling"] = "faked"  # type: ignore[index]


@pytest.mark.parametrize("spelled", ["structured-output", "json-mode", "json-mode>=object"])
def test_a_constraint_is_not_dodged_through_a_choice(spelled: str) -> None:
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


def test_an_overlay_holds_whatever_the_case_of_the_name() -> None:
    catalog = read_configuration(OVERLAY).catalog()
    for name in ("claude-opus-4-5", "Claude-Opus-4-5", "CLAUDE-OPUS-4-5"):
        assert not negotiate("tools", f"anthropic/{name}", catalog=catalog).ok
    targets = find_models("tools", provider="anthropic", catalog=catalog)
    assert not [target for target in targets if target.lower() == "anthropic/claude-opus-4-5"]


def test_a_name_that_the_operator_gave_away_is_not_searched_under() -> None:
    catalog = read_configuration(OVERLAY).catalog()
    assert find_models("tools", provider="openai", catalog=catalog) == []


def test_a_strangers_path_is_not_the_vendors_model() -> None:
    assert not negotiate("tools,reasoning", "openrouter/acme/gpt-5").ok
    assert negotiate("tools,reasoning", "openrouter/openai/gpt-5").ok


def test_a_secret_in_a_parameter_is_not_repeated_in_the_reason() -> None:
    secret = "s" + "k-ant-" + "a1" * 16
    model = mp.resolve("openai", "gpt-5")
    from modelpact.negotiation.parameters import params_affected

    (affected,) = params_affected({"launch": {"reasoning_effort": secret}}, model)
    assert secret not in str(affected)
