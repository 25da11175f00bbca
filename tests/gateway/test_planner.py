"""Plans: forward, translate, emulate, fall back or refuse; headers report every change."""

from pathlib import Path
from typing import Any

import pytest

from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.policy import apply_policy_header
from modelpact.needs.need import Needs
from modelpact.needs.requests import RequestApi
from modelpact.negotiation.verdict import Diagnostic, Policy
from tests.gateway.planners import SCHEMA, TOOLS, missing, plan, plan_key, planner

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


def head(made: Any) -> dict[str, str]:
    return dict(made.headers())


def test_the_same_api_is_forwarded(tmp_path: Path) -> None:
    made = plan(planner(tmp_path), "openai/gpt-4o", tools=TOOLS, stream=True)
    assert (made.action, made.answer, made.api) == ("forward", "yes", "openai-chat")
    assert head(made) == {
        "modelpact-verdict": "yes",
        "modelpact-requested-model": "openai/gpt-4o",
        "modelpact-served-model": "openai/gpt-4o",
    }


def test_a_request_for_another_api_is_translated(tmp_path: Path) -> None:
    made = plan(planner(tmp_path), "claude-opus-4-5", tools=TOOLS)
    assert (made.action, made.answer, made.api) == ("carry", "labelled", "anthropic")
    assert head(made)["modelpact-carried"] == "openai-chat -> anthropic"
    assert head(made)["modelpact-requested-model"] == "claude-opus-4-5"
    assert head(made)["modelpact-served-model"] == "anthropic/claude-opus-4-5"


def test_a_missing_capability_is_emulated_if_the_policy_allows_it(tmp_path: Path) -> None:
    """MP-N11: emulation is off by default."""
    made = planner(tmp_path, WORKLOADS)
    refused = plan(made, "openai/text-only", tools=TOOLS)
    assert (refused.action, refused.answer) == ("refuse", "no")
    assert any("emulate" in one for one in diagnostic(refused).would_help)
    emulated = plan(made, "openai/text-only", Policy(emulate=True), tools=TOOLS)
    assert (emulated.action, emulated.answer) == ("carry", "labelled")
    assert head(emulated)["modelpact-emulated"].startswith("tool-calling: ")
    first = plan(made, "workload/falls", Policy(emulate=True))
    assert (first.provider, first.substituted_for) == ("openai", "")


def test_the_declared_fallback_serves_and_is_named(tmp_path: Path) -> None:
    made = plan(planner(tmp_path, WORKLOADS), "workload/falls")
    assert (made.action, made.answer) == ("carry", "labelled")
    assert made.target == "anthropic/claude-opus-4-5"
    told = head(made)["modelpact-substituted"]
    assert told == "openai/text-only -> anthropic/claude-opus-4-5: it lacks tool-calling"
    assert head(made)["modelpact-requested-model"] == "workload/falls"


@pytest.mark.parametrize("name", ["plain", "only-outages", "both-lack"])
def test_a_request_without_a_fitting_fallback_is_refused(name: str, tmp_path: Path) -> None:
    """MP-A5: the fallback is negotiated like any other model."""
    made = plan(planner(tmp_path, WORKLOADS), f"workload/{name}")
    assert made.action == "refuse"
    assert diagnostic(made).target == "openai/text-only"
    assert "modelpact-served-model" not in head(made)


def test_a_request_can_turn_the_fallback_off(tmp_path: Path) -> None:
    policy = apply_policy_header(Policy(), "fallback=off")
    assert plan(planner(tmp_path, WORKLOADS), "workload/falls", policy).action == "refuse"


def test_a_refusal_lists_all_misses_with_their_requirers_and_a_suggestion(
    tmp_path: Path,
) -> None:
    made = planner(tmp_path, WORKLOADS)
    refused = plan(made, "workload/plain", messages=SEEN, tools=TOOLS, response_format=SCHEMA)
    found = diagnostic(refused)
    assert {name for name, _ in missing(refused)} == {
        "tool-calling",
        "image-input",
        "structured-output",
    }
    by = {item.capability: item.required_by for item in found.missing}
    assert "request: tools" in by["tool-calling"]
    assert len(by["tool-calling"]) == 2, "the workload needs it too"
    better = plan(made, str(found.suggestion), messages=SEEN, tools=TOOLS, response_format=SCHEMA)
    assert better.answer == "yes"


def test_a_parameter_that_does_not_apply_is_refused_or_dropped(tmp_path: Path) -> None:
    made = planner(tmp_path)
    refused = plan(made, "openai/gpt-5", temperature=0.2)
    assert missing(refused) == [("temperature", "unsupported")]
    suggested = str(diagnostic(refused).suggestion)
    assert plan(made, suggested, temperature=0.2).action == "forward", "it takes the parameter"
    dropped = plan(made, "openai/gpt-5", Policy(unsupported_params="drop"), temperature=0.2)
    assert (dropped.action, dropped.answer, dropped.drops) == (
        "forward",
        "labelled",
        ("temperature",),
    )
    assert head(dropped)["modelpact-dropped"] == "temperature"


def test_an_invalid_value_is_refused_not_dropped(tmp_path: Path) -> None:
    policy = Policy(unsupported_params="drop")
    refused = plan(planner(tmp_path), "openai/gpt-5", policy, reasoning_effort="extreme")
    assert missing(refused) == [("reasoning-effort", "invalid")]


def test_a_parameter_is_renamed_for_the_model(tmp_path: Path) -> None:
    made = plan(planner(tmp_path), "openai/gpt-5", max_tokens=10)
    assert made.renames == (("max_tokens", "max_completion_tokens"),)
    assert head(made)["modelpact-renamed"] == "max_tokens=max_completion_tokens"


def test_an_unknown_parameter_passes_with_a_warning(tmp_path: Path) -> None:
    made = plan(planner(tmp_path), "local/finetune", reasoning_effort="low")
    assert (made.action, made.answer) == ("forward", "labelled")
    assert "reasoning_effort: whether " in head(made)["modelpact-warnings"]


def test_a_restricted_capability_is_a_warning(tmp_path: Path) -> None:
    made = plan(planner(tmp_path), "local/finetune", tools=TOOLS)
    assert made.answer == "labelled"
    assert "tool-calling: " in head(made)["modelpact-warnings"]
    assert "--enable-auto-tool-choice" in head(made)["modelpact-warnings"]


def test_unknown_needs_are_refused_if_declared_and_probed_if_requested(tmp_path: Path) -> None:
    """MP-N5, MP-A1: the default refuses unknown needs of a workload and probes those of a
    request.
    """
    made = planner(tmp_path, WORKLOADS)
    assert plan(made, "local/finetune", messages=SEEN).answer == "labelled"
    assert missing(plan(made, "workload/unsure")) == [("image-input", "unknown")]
    assert plan(made, "workload/unsure", Policy(unknown="probe")).answer == "labelled"


def test_a_strict_header_refuses_unknown_needs_of_the_request(tmp_path: Path) -> None:
    made = planner(tmp_path, WORKLOADS)
    strict = apply_policy_header(Policy(unknown="probe"), "unknown=refuse")
    for name in ("local/finetune", "workload/unsure"):
        assert missing(plan(made, name, strict, messages=SEEN)) == [("image-input", "unknown")]


def test_requests_with_equal_keys_share_one_plan(tmp_path: Path) -> None:
    made = planner(tmp_path)
    assert plan(made, "gpt-4o", max_tokens=5) is plan(made, "gpt-4o", max_tokens=900)
    assert plan(made, "gpt-4o", tools=TOOLS) is not plan(made, "gpt-4o")


def test_an_oversize_request_is_negotiated_with_its_size(tmp_path: Path) -> None:
    from modelpact.needs.need import Needs

    made = planner(
        tmp_path,
        '[workloads.long]\nmodel = "openai/gpt-4o"\nneeds = []\nfallback = "openai/gpt-4.1"\n',
    )
    refused = made.oversize_plan(plan_key(made, "gpt-4o"), Needs("context>=500k"))
    assert missing(refused) == [("context-window", "below-minimum")]
    assert str(diagnostic(refused).suggestion)
    other = made.oversize_plan(plan_key(made, "workload/long"), Needs("context>=500k"))
    assert other.target == "openai/gpt-4.1"


def test_headers_are_printable_ascii_of_limited_length(tmp_path: Path) -> None:
    made = plan(planner(tmp_path), "local/é\n" + "x" * 2_000)
    assert all(value.isascii() and value.isprintable() for _, value in made.headers())
    assert max(len(value) for _, value in made.headers()) <= 1_000


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "openai-responses"])
def test_a_chat_with_an_embedding_model_is_refused(tmp_path: Path, api: RequestApi) -> None:
    made = planner(tmp_path)
    body: dict[str, Any] = {"input": "Hi"} if api == "openai-responses" else {}
    refused = plan(made, "openai/text-embedding-3-small", api=api, **body)
    assert missing(refused) == [("text-output", "unsupported")]
    assert refused.diagnostic is not None
    place = "input" if api == "openai-responses" else "messages"
    assert refused.diagnostic.missing[0].required_by == (f"request: {place}",)
    assert refused.diagnostic.suggestion is not None
    embedded = plan(made, "openai/text-embedding-3-small", api="embeddings", input="Hi")
    assert embedded.answer == "yes"
    assert plan(made, "local/finetune").action == "forward", "of this one nobody knows"


def test_a_suggestion_that_needs_a_key_says_so(tmp_path: Path) -> None:
    """At hand comes first; where only others would do, they are named with what is missing."""
    made = planner(tmp_path)
    elsewhere = made.oversize_plan(plan_key(made, "gpt-4o"), Needs("max-output>=1000000"))
    assert elsewhere.diagnostic is not None
    better = str(elsewhere.diagnostic.suggestion)
    assert better.partition("/")[0] not in ("openai", "anthropic")
    assert elsewhere.diagnostic.would_help == (f"a key for {better} on this gateway",)
    here = made.plan(plan_key(made, "openai/text-only", tools=TOOLS))
    assert here.diagnostic is not None
    assert str(here.diagnostic.suggestion).startswith("openai/")
    assert all("a key for" not in one for one in here.diagnostic.would_help)
