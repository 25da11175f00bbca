"""The stud specification (docs/spec/stud.md): levels, claims, context window, diagnostic."""

from typing import Any

import pytest

from modelpact import InputError, ModelpactError, Policy
from modelpact.catalog.catalog import Catalog
from modelpact.catalog.facts import Price
from modelpact.negotiation.stud import negotiate_json
from tests.conftest import catalog, fact, lineage

FLAGS = [*["streaming", "toolCalling", "structuredOutput"], *["multimodal", "reasoning", "promptCaching"]]
SEVEN = [*FLAGS, "contextWindow"]
RULES = """
[[rules]]
match = { kind = "prefix_any", prefixes = ["gpt-small"] }
caps.tool_calling = false
caps.temperature = false
caps.context_window = 8000
[[rules]]
match = { kind = "prefix_any", prefixes = ["gpt-big", "claude-big"] }
caps.tool_calling = true
caps.output_modalities = ["text"]
caps.context_window = 400000
"""


def small() -> Catalog:
    """Two OpenAI models and a Claude, priced, so that there is something to suggest."""
    price = Price(input=1, output=1)
    facts = [fact(f"{name}", price, seed=True) for name in ("openai/gpt-small", "openai/gpt-big")]
    facts.append(fact("anthropic/claude-big", price, seed=True))
    return catalog(RULES, lineage("one", *facts), lineage("two", *facts))


def ask(name: str, level: str, claims: dict[str, Any], *, unknown: str = "refuse", **more: Any) -> dict[str, Any]:
    requirement = {"name": name, "level": level, "requiredBy": "sm:review", **more}
    policy = Policy(unknown=unknown)  # type: ignore[arg-type]
    return negotiate_json({"requirements": [requirement], "claims": claims}, policy=policy)


def outcome(answer: dict[str, Any]) -> tuple[bool, list[str], list[str]]:
    return (
        answer["ok"],
        [miss["reason"] for miss in answer["missing"]],
        [warning["reason"] for warning in answer["warnings"]],
    )


@pytest.mark.parametrize("lacking", [False, "absent"])
@pytest.mark.parametrize("row", FLAGS)
def test_matrix_hard_miss(row: str, lacking: object) -> None:
    """S000-6-1, S000-5-1: a hard miss is `ProviderCapability/MissingCapability`."""
    answer = ask(row, "hard", {row: lacking})
    assert outcome(answer) == (False, ["unsupported"], [])
    assert answer["error"]["class"] == "ProviderCapability"
    assert answer["error"]["code"] == "MissingCapability"


@pytest.mark.parametrize("lacking", [False, "absent"])
@pytest.mark.parametrize("row", FLAGS)
def test_matrix_preferred_miss(row: str, lacking: object) -> None:
    """S000-6-2, S000-5-2: a preferred miss is the warning `preferred-unmet`."""
    answer = ask(row, "preferred", {row: lacking})
    assert outcome(answer) == (True, [], ["preferred-unmet"])
    assert "error" not in answer


@pytest.mark.parametrize("claim", [True, False, "hard", "preferred", "probed", "absent"])
@pytest.mark.parametrize("row", FLAGS)
def test_matrix_probed(row: str, claim: object) -> None:
    """S000-6-3, S000-5-3: a probed requirement is `probe-pending`, whatever the claim."""
    answer = ask(row, "probed", {row: claim})
    assert outcome(answer) == (True, [], ["probe-pending"])
    assert "error" not in answer


@pytest.mark.parametrize("level", ["hard", "preferred"])
@pytest.mark.parametrize("having", [True, "hard", "preferred"])
@pytest.mark.parametrize("row", FLAGS)
def test_matrix_met(row: str, having: object, level: str) -> None:
    """S000-6-10: as claims, `hard` and `preferred` mean supported."""
    answer = ask(row, level, {row: having})
    assert answer == {"ok": True, "missing": [], "warnings": []}


@pytest.mark.parametrize("row", FLAGS)
@pytest.mark.parametrize("claims", [{}, "probed"], ids=["silent", "probed"])
def test_matrix_unknown(row: str, claims: Any) -> None:
    """S000-6-11: an unknown hard need is refused or left to a probe, as policy says."""
    claimed = {row: claims} if claims == "probed" else {}
    assert outcome(ask(row, "hard", claimed)) == (False, ["unknown"], [])
    assert outcome(ask(row, "hard", claimed, unknown="probe")) == (True, [], ["probe-pending"])
    assert outcome(ask(row, "preferred", claimed)) == (True, [], ["probe-pending"])


@pytest.mark.parametrize(
    ("level", "claim", "expected"),
    [
        ("hard", 7_999, (False, ["below-minimum"], [])),
        ("hard", 8_000, (True, [], [])),
        ("hard", 8_001, (True, [], [])),
        ("preferred", 7_999, (True, [], ["preferred-unmet"])),
        ("preferred", 8_000, (True, [], [])),
        ("probed", 7_999, (True, [], ["probe-pending"])),
        ("probed", 8_000, (True, [], [])),
    ],
)
def test_matrix_context_window(level: str, claim: int, expected: object) -> None:
    """S000-6-4..7: the claimed number is compared with the minimum."""
    assert outcome(ask("contextWindow", level, {"contextWindow": claim}, minimum=8_000)) == expected


@pytest.mark.parametrize("minimum", [{}, {"minimum": 8_000}], ids=["no minimum", "minimum"])
@pytest.mark.parametrize("unknown", ["refuse", "probe"])
@pytest.mark.parametrize("level", ["hard", "preferred", "probed"])
def test_a_probed_context_window_is_always_deferred(level: str, unknown: str, minimum: dict[str, int]) -> None:
    """S000-6-9: a `probed` claim is always deferred, whatever the level."""
    answer = ask("contextWindow", level, {"contextWindow": "probed"}, unknown=unknown, **minimum)
    assert outcome(answer) == (True, [], ["probe-pending"])


@pytest.mark.parametrize("level", ["hard", "preferred", "probed"])
def test_a_requirement_may_carry_no_minimum(level: str) -> None:
    """S000-6-8: a requirement may carry a minimum; without one any number meets it."""
    assert outcome(ask("contextWindow", level, {"contextWindow": 1})) == (True, [], [])


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ({"image": True}, True),
        ({"image": False, "audio": "hard"}, True),
        ({"video": True, "image": "absent"}, True),
        ({"image": False, "audio": False, "video": False}, False),
        ({}, False),
    ],
)
def test_multimodal_may_be_claimed_by_kinds(kinds: dict[str, Any], expected: bool) -> None:
    """S000-2-6: image, audio, video; any of them makes a model multimodal."""
    assert ask("multimodal", "hard", {"multimodal": kinds})["ok"] is expected


def test_negotiation_reports_every_missing_need() -> None:
    """S000-4-3: a rejection lists everything that is missing."""
    requirements = [{"name": name, "level": "hard", "requiredBy": "sm"} for name in FLAGS]
    answer = negotiate_json({"requirements": requirements, "claims": dict.fromkeys(FLAGS, False)})
    assert [miss["capability"] for miss in answer["missing"]] == FLAGS


def test_wire_shape_of_a_rejection() -> None:
    """MP-J1: ok, missing, warnings, diagnostic, error with class, code and context."""
    answer = negotiate_json(
        {
            "requirements": [
                {"name": "toolCalling", "level": "hard", "requiredBy": ["sm:a", "cp:b"]},
                {"name": "promptCaching", "level": "preferred"},
            ],
            "target": "openai/gpt-small",
            "previous": "openai/gpt-big",
        },
        catalog=small(),
    )
    missing = [{"capability": "toolCalling", "requiredBy": ["sm:a", "cp:b"], "reason": "unsupported"}]
    target = {"provider": "openai", "model": "gpt-small"}
    assert answer == {
        "ok": False,
        "missing": missing,
        "warnings": [{"name": "promptCaching", "reason": "probe-pending"}],
        "diagnostic": {
            "target": target,
            "missing": missing,
            "previous": {"provider": "openai", "model": "gpt-big"},
            "suggestion": {"provider": "openai", "model": "gpt-big"},
        },
        "error": {
            "class": "ProviderCapability",
            "code": "MissingCapability",
            "context": {"target": target, "missing": missing},
        },
    }


def test_the_diagnostic_has_five_fields() -> None:
    """S000-9-1..5: target, missing, previous, suggestion, paramsAffected."""
    secret = "sk-" + "a1" * 12
    answer = negotiate_json(
        {
            "requirements": [{"name": "toolCalling", "level": "hard", "requiredBy": "sm"}],
            "target": "openai/gpt-small",
            "previous": "openai/gpt-big",
            "params": {"defaultParams": {"temperature": 0.2, "top_p": 0.5}, "/params": {"temperature": secret}},
        },
        catalog=small(),
    )
    diagnostic = answer["diagnostic"]
    assert set(diagnostic) == {"target", "missing", "previous", "suggestion", "paramsAffected"}
    (affected,) = diagnostic["paramsAffected"]
    assert affected.pop("reason")
    assert affected == {
        "paramPath": ("temperature",),
        "activeModelId": "gpt-small",
        "currentValue": "[REDACTED]",
        "sourceLayer": "/params",
    }


def test_params_affected_are_reported_with_warnings_too() -> None:
    """S000-9-6: paramsAffected for preferred-unmet and probe-pending too."""
    for level in ("preferred", "probed"):
        answer = negotiate_json(
            {
                "requirements": [{"name": "toolCalling", "level": level}],
                "target": "openai/gpt-small",
                "params": {"launch": {"temperature": 0.2}},
            },
            catalog=small(),
        )
        assert answer["ok"]
        assert "error" not in answer
        assert [param["sourceLayer"] for param in answer["diagnostic"]["paramsAffected"]] == ["launch"]
        assert "suggestion" not in answer["diagnostic"]


@pytest.mark.parametrize("target", ["nobody/nothing", "nobody/gpt-nothing"])
@pytest.mark.parametrize("row", SEVEN)
def test_an_unknown_pair_is_all_probed(row: str, target: str) -> None:
    """S000-2-2: all seven capabilities of an unknown pair are probed."""
    request = {"requirements": [{"name": row, "level": "preferred"}], "target": target}
    assert outcome(negotiate_json(request)) == (True, [], ["probe-pending"])


REQUIRED = {"requirements": [{"name": "streaming", "level": "hard"}]}


@pytest.mark.parametrize(
    "request_",
    [
        None,
        [],
        {},
        {"claims": {}},
        REQUIRED,
        {**REQUIRED, "claims": {}, "target": "a/b"},
        {**REQUIRED, "claims": {}, "extra": 1},
        {**REQUIRED, "claims": None},
        {**REQUIRED, "claims": ["streaming"]},
        {**REQUIRED, "claims": {"bogus": True}},
        {**REQUIRED, "claims": {"streaming": 1}},
        {**REQUIRED, "claims": {"streaming": "native"}},
        {**REQUIRED, "claims": {"streaming": None}},
        {**REQUIRED, "claims": {"contextWindow": True}},
        {**REQUIRED, "claims": {"contextWindow": "hard"}},
        {**REQUIRED, "claims": {"contextWindow": 1.5}},
        {**REQUIRED, "claims": {"contextWindow": float("nan")}},
        {**REQUIRED, "claims": {"contextWindow": -1}},
        {**REQUIRED, "claims": {"multimodal": {"smell": True}}},
        {**REQUIRED, "claims": {"multimodal": {"image": 1}}},
        {**REQUIRED, "target": "nothing"},
        {**REQUIRED, "target": 5},
        {**REQUIRED, "target": "a/b", "previous": 5},
        {"requirements": {}, "claims": {}},
    ],
    ids=str,
)
def test_invalid_requests_are_input_errors(request_: Any) -> None:
    """MP-J1, S000-6-10: anything else is an input error."""
    with pytest.raises(InputError):
        negotiate_json(request_)


@pytest.mark.parametrize("params", [5, ["launch"], "launch", {"launch": 5}, {"env": {}}], ids=str)
def test_params_that_are_no_layers_are_an_input_error(params: Any) -> None:
    """S000-9-8: parameters come in the layers defaultParams, launch and /params."""
    request = {
        "requirements": [{"name": "toolCalling", "level": "preferred"}],
        "target": "openai/gpt-small",
        "params": params,
    }
    with pytest.raises(InputError):
        negotiate_json(request, catalog=small())


@pytest.mark.parametrize("place", ["claim", "requirement"])
def test_a_number_too_long_to_print_is_an_input_error(place: str) -> None:
    huge = 10**5_000
    claims = {"contextWindow": huge if place == "claim" else 1}
    with pytest.raises(ModelpactError):
        ask("contextWindow", "hard", claims, minimum=huge if place == "requirement" else 1)
