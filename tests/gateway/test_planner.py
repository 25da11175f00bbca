"""Plans: forward, translate, emulate, fall back or refuse; headers report every change."""

from pathlib import Path
from typing import Any

import pytest

from modelpact.gateway.plan.plan import Plan, apply_policy_header
from modelpact.needs.need import Needs
from modelpact.needs.requests import RequestApi
from modelpact.negotiation.verdict import Diagnostic, Policy
from tests.gateway.planners import SCHEMA, TOOLS, make_planner, missing, plan_for, plan_key

WORKLOADS = """
[workloads.plain]
model = "openai/text-only"
needs = ["tools"]
[workloads.falls]
model = "openai/text-only"
needs = ["tools"]
fallback = "anthropic/claude-opus-4-5"
[workloads.only-outages]
model = "openai/text-only"
needs = ["tools"]
fallback = "anthropic/claude-opus-4-5"
fallback_on = ["outage"]
[workloads.both-lack]
model = "openai/text-only"
needs = ["audio-input"]
fallback = "anthropic/claude-opus-4-5"
[workloads.unsure]
model = "local/finetune"
needs = ["image-input"]
"""
IMAGE: Any = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SEEN: Any = [{"role": "user", "content": [IMAGE]}]


def diagnostic(plan: Plan) -> Diagnostic:
    assert plan.diagnostic is not None
    return plan.diagnostic


def head(plan: Plan) -> dict[str, str]:
    return dict(plan.headers())


def test_the_same_api_is_forwarded(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path), "openai/gpt-4o", tools=TOOLS, stream=True)
    assert (plan.action, plan.verdict, plan.api) == ("forward", "yes", "openai-chat")
    assert head(plan) == {
        "modelpact-verdict": "yes",
        "modelpact-requested-model": "openai/gpt-4o",
        "modelpact-served-model": "openai/gpt-4o",
    }


def test_a_request_for_another_api_is_translated(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path), "claude-opus-4-5", tools=TOOLS)
    assert (plan.action, plan.verdict, plan.api) == ("carry", "labelled", "anthropic")
    assert head(plan)["modelpact-carried"] == "openai-chat -> anthropic"
    assert head(plan)["modelpact-requested-model"] == "claude-opus-4-5"
    assert head(plan)["modelpact-served-model"] == "anthropic/claude-opus-4-5"


def test_a_missing_capability_is_emulated_if_the_policy_allows_it(tmp_path: Path) -> None:
    """MP-N11: emulation is off by default."""
    planner = make_planner(tmp_path, WORKLOADS)
    refused = plan_for(planner, "openai/text-only", tools=TOOLS)
    assert (refused.action, refused.verdict) == ("refuse", "no")
    assert any("emulate" in hint for hint in diagnostic(refused).would_help)
    emulated = plan_for(planner, "openai/text-only", Policy(emulate=True), tools=TOOLS)
    assert (emulated.action, emulated.verdict) == ("carry", "labelled")
    assert head(emulated)["modelpact-emulated"].startswith("tool-calling: ")
    first = plan_for(planner, "workload/falls", Policy(emulate=True))
    assert (first.provider, first.substituted_for) == ("openai", "")


def test_the_declared_fallback_serves_and_is_named(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path, WORKLOADS), "workload/falls")
    assert (plan.action, plan.verdict) == ("carry", "labelled")
    assert plan.target == "anthropic/claude-opus-4-5"
    reported = head(plan)["modelpact-substituted"]
    assert reported == "openai/text-only -> anthropic/claude-opus-4-5: it lacks tool-calling"
    assert head(plan)["modelpact-requested-model"] == "workload/falls"


@pytest.mark.parametrize("name", ["plain", "only-outages", "both-lack"])
def test_a_request_without_a_fitting_fallback_is_refused(name: str, tmp_path: Path) -> None:
    """MP-A5: the fallback is negotiated like any other model."""
    plan = plan_for(make_planner(tmp_path, WORKLOADS), f"workload/{name}")
    assert plan.action == "refuse"
    assert diagnostic(plan).target == "openai/text-only"
    assert "modelpact-served-model" not in head(plan)


def test_a_request_can_turn_the_fallback_off(tmp_path: Path) -> None:
    policy = apply_policy_header(Policy(), "fallback=off")
    assert plan_for(make_planner(tmp_path, WORKLOADS), "workload/falls", policy).action == "refuse"


def test_a_refusal_lists_all_misses_with_their_requirers_and_a_suggestion(tmp_path: Path) -> None:
    planner = make_planner(tmp_path, WORKLOADS)
    refused = plan_for(planner, "workload/plain", messages=SEEN, tools=TOOLS, response_format=SCHEMA)
    result = diagnostic(refused)
    assert {name for name, _ in missing(refused)} == {"tool-calling", "image-input", "structured-output"}
    by = {item.capability: item.required_by for item in result.missing}
    assert "request: tools" in by["tool-calling"]
    assert len(by["tool-calling"]) == 2, "the workload needs it too"
    better = plan_for(planner, str(result.suggestion), messages=SEEN, tools=TOOLS, response_format=SCHEMA)
    assert better.verdict == "yes"


def test_a_parameter_that_does_not_apply_is_refused_or_dropped(tmp_path: Path) -> None:
    planner = make_planner(tmp_path)
    refused = plan_for(planner, "openai/gpt-5", temperature=0.2)
    assert missing(refused) == [("temperature", "unsupported")]
    suggested = str(diagnostic(refused).suggestion)
    assert plan_for(planner, suggested, temperature=0.2).action == "forward", "it takes the parameter"
    dropped = plan_for(planner, "openai/gpt-5", Policy(unsupported_params="drop"), temperature=0.2)
    assert (dropped.action, dropped.verdict, dropped.drops) == ("forward", "labelled", ("temperature",))
    assert head(dropped)["modelpact-dropped"] == "temperature"


def test_an_invalid_value_is_refused_not_dropped(tmp_path: Path) -> None:
    policy = Policy(unsupported_params="drop")
    refused = plan_for(make_planner(tmp_path), "openai/gpt-5", policy, reasoning_effort="extreme")
    assert missing(refused) == [("reasoning-effort", "invalid")]


def test_a_parameter_is_renamed_for_the_model(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path), "openai/gpt-5", max_tokens=10)
    assert plan.renames == (("max_tokens", "max_completion_tokens"),)
    assert head(plan)["modelpact-renamed"] == "max_tokens=max_completion_tokens"


def test_an_unknown_parameter_passes_with_a_warning(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path), "local/finetune", reasoning_effort="low")
    assert (plan.action, plan.verdict) == ("forward", "labelled")
    assert "reasoning_effort: whether " in head(plan)["modelpact-warnings"]


def test_a_restricted_capability_is_a_warning(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path), "local/finetune", tools=TOOLS)
    assert plan.verdict == "labelled"
    assert "tool-calling: " in head(plan)["modelpact-warnings"]
    assert "--enable-auto-tool-choice" in head(plan)["modelpact-warnings"]


def test_unknown_needs_are_refused_if_declared_and_probed_if_requested(tmp_path: Path) -> None:
    """MP-N5, MP-A1: the default refuses unknown needs of a workload and probes those of a
    request.
    """
    planner = make_planner(tmp_path, WORKLOADS)
    assert plan_for(planner, "local/finetune", messages=SEEN).verdict == "labelled"
    assert missing(plan_for(planner, "workload/unsure")) == [("image-input", "unknown")]
    assert plan_for(planner, "workload/unsure", Policy(unknown="probe")).verdict == "labelled"


def test_a_strict_header_refuses_unknown_needs_of_the_request(tmp_path: Path) -> None:
    planner = make_planner(tmp_path, WORKLOADS)
    strict = apply_policy_header(Policy(unknown="probe"), "unknown=refuse")
    for name in ("local/finetune", "workload/unsure"):
        assert missing(plan_for(planner, name, strict, messages=SEEN)) == [("image-input", "unknown")]


def test_requests_with_equal_keys_share_one_plan(tmp_path: Path) -> None:
    planner = make_planner(tmp_path)
    assert plan_for(planner, "gpt-4o", max_tokens=5) is plan_for(planner, "gpt-4o", max_tokens=900)
    assert plan_for(planner, "gpt-4o", tools=TOOLS) is not plan_for(planner, "gpt-4o")


def test_an_oversize_request_is_negotiated_with_its_size(tmp_path: Path) -> None:
    from modelpact.needs.need import Needs

    planner = make_planner(
        tmp_path, '[workloads.long]\nmodel = "openai/gpt-4o"\nneeds = []\nfallback = "openai/gpt-4.1"\n'
    )
    refused = planner.oversize_plan(plan_key(planner, "gpt-4o"), Needs("context>=500k"))
    assert missing(refused) == [("context-window", "below-minimum")]
    assert str(diagnostic(refused).suggestion)
    other = planner.oversize_plan(plan_key(planner, "workload/long"), Needs("context>=500k"))
    assert other.target == "openai/gpt-4.1"


def test_headers_are_printable_ascii_of_limited_length(tmp_path: Path) -> None:
    plan = plan_for(make_planner(tmp_path), "local/é\n" + "x" * 2_000)
    assert all(value.isascii() and value.isprintable() for _, value in plan.headers())
    assert max(len(value) for _, value in plan.headers()) <= 1_000


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "openai-responses"])
def test_a_chat_with_an_embedding_model_is_refused(tmp_path: Path, api: RequestApi) -> None:
    planner = make_planner(tmp_path)
    body: dict[str, Any] = {"input": "Hi"} if api == "openai-responses" else {}
    refused = plan_for(planner, "openai/text-embedding-3-small", api=api, **body)
    assert missing(refused) == [("text-output", "unsupported")]
    assert refused.diagnostic is not None
    place = "input" if api == "openai-responses" else "messages"
    assert refused.diagnostic.missing[0].required_by == (f"request: {place}",)
    assert refused.diagnostic.suggestion is not None
    embedded = plan_for(planner, "openai/text-embedding-3-small", api="embeddings", input="Hi")
    assert embedded.verdict == "yes"
    assert plan_for(planner, "local/finetune").action == "forward", "of this one nobody knows"


def test_a_suggestion_that_needs_a_key_says_so(tmp_path: Path) -> None:
    """At hand comes first; where only others would do, they are named with what is missing."""
    planner = make_planner(tmp_path)
    elsewhere = planner.oversize_plan(plan_key(planner, "gpt-4o"), Needs("max-output>=1000000"))
    assert elsewhere.diagnostic is not None
    better = str(elsewhere.diagnostic.suggestion)
    assert better.partition("/")[0] not in ("openai", "anthropic")
    assert elsewhere.diagnostic.would_help == (f"a key for {better} on this gateway",)
    with_keys = planner.plan(plan_key(planner, "openai/text-only", tools=TOOLS))
    assert with_keys.diagnostic is not None
    assert str(with_keys.diagnostic.suggestion).startswith("openai/")
    assert all("a key for" not in hint for hint in with_keys.diagnostic.would_help)


def test_a_model_that_no_catalog_lists_is_never_a_plain_yes(tmp_path: Path) -> None:
    """MP-N19: an unlisted model is labelled in the gateway too."""
    plan = plan_for(make_planner(tmp_path), "openai/gpt-4o-nobody-lists-this")
    assert plan.verdict == "labelled"
    assert any("no public catalog lists this model" in warning for warning in plan.warnings)
