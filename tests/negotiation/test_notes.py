"""Notes on the model itself, labels on findings, and conflicts between parameters."""

import pytest

import modelpact as mp


def test_a_model_that_no_catalog_lists_is_never_a_plain_yes() -> None:
    """MP-N19: a model that no catalog lists is never a plain yes."""
    verdict = mp.negotiate("tools", "openai/gpt-4oo")
    assert verdict.answer == "labelled"
    assert any("did you mean gpt-4o" in note for note in verdict.notes)


def test_an_unknown_provider_is_never_a_yes() -> None:
    verdict = mp.negotiate("tools", "nope/gpt-4o")
    assert not verdict
    assert verdict.findings[0].reason == "unknown"
    assert "the catalog does not know the provider nope" in verdict.notes


def test_a_retired_model_is_noted() -> None:
    """MP-N19: a retired model is never a plain yes."""
    catalog = mp.default_catalog()
    retired = next(
        find_model
        for find_model in mp.find_models("tools", provider="openai", retired=True)
        if catalog.resolve(find_model).retired_by(catalog.day)
    )
    assert mp.negotiate("tools", retired).notes


def test_a_listed_model_has_no_notes() -> None:
    assert mp.negotiate("tools", "openai/gpt-5").notes == ()


def test_a_window_wider_than_the_longest_prompt_is_labelled() -> None:
    (finding,) = mp.negotiate("context>=300k", "openai/gpt-5").findings
    assert finding.outcome == "met"
    assert "272,000" in finding.label


def test_a_verdict_is_truthy_exactly_when_it_is_ok() -> None:
    assert mp.negotiate("tools", "openai/gpt-5")
    assert not mp.negotiate("temperature", "openai/gpt-5")


def test_a_policy_is_checked() -> None:
    with pytest.raises(mp.InputError):
        mp.Policy(unknown="maybe")  # type: ignore[arg-type]
    with pytest.raises(mp.InputError):
        mp.negotiate("tools", "openai/gpt-5", {})  # type: ignore[arg-type]


def test_resolve_takes_a_target_in_one_piece() -> None:
    assert mp.resolve("openai/gpt-5").target == mp.resolve("openai", "gpt-5").target


def actions(params: dict[str, object], target: str) -> dict[str, str]:
    return {".".join(parameter.path): parameter.action for parameter in mp.negotiate_parameters(params, target)}


def test_parameters_that_exclude_each_other_are_conflicts() -> None:
    finding = actions({"temperature": 0.5, "top_p": 0.9}, "anthropic/claude-haiku-4-5")
    assert finding == {"temperature": "conflict", "top_p": "conflict"}


def test_thinking_with_a_temperature_is_a_conflict() -> None:
    params = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "temperature": 0.5}
    assert actions(params, "anthropic/claude-sonnet-4-5")["temperature"] == "conflict"


@pytest.mark.parametrize(
    ("target", "temperature", "action"),
    [
        ("anthropic/claude-sonnet-4-5", 1.7, "invalid"),
        ("anthropic/claude-sonnet-4-5", 0.7, "applies"),
        ("openai/gpt-4o", 1.7, "applies"),
        ("openai/gpt-4o", 3, "invalid"),
    ],
)
def test_values_out_of_an_apis_range(target: str, temperature: float, action: str) -> None:
    assert actions({"temperature": temperature}, target) == {"temperature": action}


def test_settings_are_renamed_for_the_api() -> None:
    (finding,) = mp.negotiate_parameters({"stop": ["END"]}, "anthropic/claude-sonnet-4-5")
    assert (finding.action, finding.rename_to) == ("rename", "stop_sequences")


def test_an_unknown_parameter_does_not_apply() -> None:
    assert actions({"num_predict": 5}, "openai/gpt-4o") == {"num_predict": "unknown"}
