"""Parameters: which settings apply on a model, which are renamed, which will not apply."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact import InputError, Resolution, default_catalog, negotiate_parameters
from modelpact.negotiation.parameters import ParamFinding, params_affected
from modelpact.vocabulary.redaction import REDACTED
from tests.conftest import catalog

RULES = """
[defaults]
token_limit_param = "max-tokens"

[[rules]]
name = "no sampling"
match = { kind = "exact", model = "gpt-thinker" }
caps.temperature = false
caps.top_p = false
caps.n = false
caps.logprobs = false
caps.tool_calling = false
caps.streaming = false
caps.json_mode = "object"
caps.token_limit_param = "max-completion-tokens"
caps.max_output = 1000
caps.reasoning_effort = ["low", "high"]
caps.thinking_budget = false
caps.seed = true

[[rules]]
match = { kind = "prefix_any", prefixes = ["gemini-"] }
caps.token_limit_param = "max-output-tokens"
"""


@cache
def thinker() -> Resolution:
    return catalog(RULES).resolve("openai", "gpt-thinker")


def find(params: dict[str, Any], target: Resolution | None = None) -> ParamFinding:
    (finding,) = negotiate_parameters(params, target or thinker())
    return finding


@pytest.mark.parametrize(
    ("name", "value", "capability"),
    [
        ("temperature", 0.2, "temperature"),
        ("temperature", 0, "temperature"),
        ("top_p", 0.5, "top-p"),
        ("topP", 0.5, "top-p"),
        ("n", 2, "n"),
        ("logprobs", True, "logprobs"),
        ("top_logprobs", 5, "logprobs"),
        ("tools", [{"type": "function"}], "tool-calling"),
        ("stream", True, "streaming"),
        ("response_format", {"type": "json_schema"}, "structured-output"),
    ],
)
def test_an_unsupported_parameter_has_a_reason(name: str, value: object, capability: str) -> None:
    finding = find({name: value})
    assert (finding.action, finding.capability, finding.value) == ("unsupported", capability, value)
    assert "openai/gpt-thinker" in finding.reason
    assert "no sampling" in finding.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 1),
        ("temperature", 1.0),
        ("temperature", None),
        ("top_p", 1),
        ("n", 1),
        ("logprobs", False),
        ("stream", False),
        ("tools", []),
        ("tool_choice", "auto"),
        ("response_format", {"type": "text"}),
    ],
)
def test_neutral_values_apply_everywhere(name: str, value: object) -> None:
    assert find({name: value}).action == "applies"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 5),
        ("reasoning_effort", "low"),
        ("response_format", {"type": "json_object"}),
        ("user", "someone"),
        ("metadata", {"a": 1}),
    ],
)
def test_supported_and_unchecked_parameters_apply(name: str, value: object) -> None:
    assert find({name: value}).action == "applies"


def test_an_unknown_capability_makes_the_parameter_unknown() -> None:
    finding = find({"top_k": 5})
    assert (finding.action, finding.capability) == ("unknown", "top-k")


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"reasoning_effort": "medium"}, ("reasoning_effort",)),
        ({"reasoning": {"effort": "medium"}}, ("reasoning", "effort")),
        ({"output_config": {"effort": "medium"}}, ("output_config", "effort")),
    ],
)
def test_an_effort_the_model_does_not_accept_is_invalid(params: dict[str, Any], path: tuple[str, ...]) -> None:
    finding = find(params)
    assert (finding.action, finding.path) == ("invalid", path)
    assert "low, high" in finding.reason


def test_nested_parameters_are_looked_into() -> None:
    findings = negotiate_parameters(
        {
            "thinking": {"type": "enabled", "budget_tokens": 500},
            "generationConfig": {"topP": 0.5, "maxOutputTokens": 5},
        },
        thinker(),
    )
    actions = {".".join(finding.path): finding.action for finding in findings}
    assert actions["thinking.budget_tokens"] == "unsupported"
    assert actions["generationConfig.topP"] == "unsupported"
    assert actions["generationConfig.maxOutputTokens"] == "rename"


@pytest.mark.parametrize(
    ("provider", "model", "name", "rename"),
    [
        ("openai", "gpt-thinker", "max_tokens", "max_completion_tokens"),
        ("openai", "gpt-thinker", "max_completion_tokens", ""),
        ("gemini", "gemini-1", "max_tokens", "maxOutputTokens"),
        ("gemini", "gemini-1", "max_output_tokens", ""),
        ("gemini", "gemini-1", "maxOutputTokens", ""),
        ("openai", "gpt-other", "max_completion_tokens", ""),
    ],
)
def test_the_limit_of_the_answer_is_renamed_where_that_is_known(
    provider: str, model: str, name: str, rename: str
) -> None:
    """S004-4-1, MP-C2: a name that only the defaults assume renames nothing."""
    finding = find({name: 5}, catalog(RULES).resolve(provider, model))
    assert finding.action == ("rename" if rename else "applies")
    assert finding.rename_to == rename


@pytest.mark.parametrize("value", [0, -1, True, "5", 1.5, float("nan"), [5]], ids=str)
def test_a_token_limit_that_is_not_a_positive_integer_is_invalid(value: object) -> None:
    assert find({"max_completion_tokens": value}).action == "invalid"


def test_a_limit_beyond_the_longest_answer_is_invalid() -> None:
    assert find({"max_completion_tokens": 1000}).action == "applies"
    finding = find({"max_completion_tokens": 1001})
    assert (finding.action, finding.capability) == ("invalid", "max-output")
    assert "1,000" in finding.reason


def test_a_token_limit_of_null_applies() -> None:
    """Clients send `null` for what is not set; it asks for nothing."""
    assert find({"max_tokens": None}).action == "applies"


@pytest.mark.parametrize("value", [10**5_000, -(10**5_000)], ids=["huge", "hugely negative"])
def test_a_limit_too_long_to_print_is_invalid(value: int) -> None:
    assert find({"max_completion_tokens": value}).action == "invalid"


def test_later_layers_win_and_are_named() -> None:
    """S000-9-8: sourceLayer is defaultParams, launch or /params."""
    layers: dict[str, dict[str, Any]] = {
        "/params": {"temperature": 0.1},
        "defaultParams": {"temperature": 0.3, "top_p": 0.5, "seed": 5},
        "launch": {"temperature": 0.2, "n": 2},
    }
    affected = params_affected(layers, thinker())
    assert {param.param_path: (param.current_value, param.source_layer) for param in affected} == {
        ("temperature",): (0.1, "/params"),
        ("top_p",): (0.5, "defaultParams"),
        ("n",): (2, "launch"),
    }
    assert {param.active_model_id for param in affected} == {"gpt-thinker"}


def test_a_later_layer_can_reset_a_parameter_that_does_not_apply() -> None:
    layers: dict[str, dict[str, Any]] = {"defaultParams": {"temperature": 0.3}, "/params": {"temperature": 1}}
    assert params_affected(layers, thinker()) == ()


def test_renamed_and_unknown_parameters_are_not_affected() -> None:
    assert params_affected({"launch": {"max_tokens": 5, "top_k": 5}}, thinker()) == ()


def test_current_values_are_redacted() -> None:
    """S000-9-7: secrets never appear verbatim."""
    secret = "gh" + "p_" + "a1B2" * 8
    tools = [{"name": "fetch", "headers": {"Authorization": "abc"}, "note": secret}]
    (affected,) = params_affected({"launch": {"tools": tools}}, thinker())
    expected = {"name": "fetch", "headers": {"Authorization": REDACTED}, "note": REDACTED}
    assert affected.current_value == [expected]


@pytest.mark.parametrize("wrong", [None, 5, [], "temperature", {5: 1}], ids=str)
def test_parameters_that_are_not_an_object_are_an_input_error(wrong: Any) -> None:
    with pytest.raises(InputError):
        negotiate_parameters(wrong, thinker())


@pytest.mark.parametrize("wrong", [5, ["launch"], {"env": {}}, {"launch": 5}], ids=str)
def test_params_that_are_not_layers_are_an_input_error(wrong: Any) -> None:
    with pytest.raises(InputError):
        params_affected(wrong, thinker())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        *["temperature", "stop", "logit_bias", "response_format", "reasoning_effort", "thinking"],
        *["max_tokens", "tools", "n", "generationConfig", "whatever", "tool_choice"],
    ]
)


@given(st.dictionaries(NAMES | st.text(max_size=5), VALUES))
def test_every_parameter_gets_exactly_one_finding(params: dict[str, Any]) -> None:
    findings = negotiate_parameters(params, thinker())
    nested = ("reasoning", "thinking", "output_config", "generationConfig")
    expected = sum(len(value) if name in nested and isinstance(value, dict) else 1 for name, value in params.items())
    assert len(findings) == expected
    for finding in findings:
        assert bool(finding.reason) == (finding.action != "applies")


def test_a_nested_parameter_that_a_later_layer_removes_affects_nothing() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 500}}
    model = default_catalog().resolve("openai", "gpt-4o")
    assert params_affected({"launch": thinking}, model)
    assert params_affected({"launch": thinking, "/params": {"thinking": None}}, model) == ()
