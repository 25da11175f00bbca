"""Fallbacks of workloads: on a missing capability, an outage, 429 or 5xx, if declared."""

import pytest

from tests.fakes import Fail
from tests.gateway.conftest import Serve
from tests.gateway.planners import TOOLS

MORE = """
[gateway]
lossy = true
[workloads.sure]
model = "openai/gpt-4o"
needs = ["tools"]
fallback = "anthropic/claude-opus-4-5"
fallback_on = ["capability", "outage", "429", "5xx"]
[workloads.strict]
model = "openai/gpt-4o"
needs = ["tools"]
fallback = "anthropic/claude-opus-4-5"
[workloads.small]
model = "openai/gpt-4.1"
needs = []
fallback = "openai/gpt-3.5-turbo"
fallback_on = ["429"]
[workloads.lacks]
model = "openai/text-only"
needs = []
fallback = "anthropic/claude-opus-4-5"
"""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "kind"), [(429, "429"), (500, "5xx"), (503, "5xx")])
def test_the_fallback_answers_on_a_declared_failure(serve: Serve, status: int, kind: str, stream: bool) -> None:
    gateway = serve(MORE)
    gateway.openai.script.add(Fail(status))
    answer = gateway.chat("workload/sure", stream=stream)
    assert (answer.status, answer.text) == (200, "You said: Hi")
    assert answer.headers["modelpact-verdict"] == "labelled"
    assert answer.headers["modelpact-requested-model"] == "workload/sure"
    assert answer.headers["modelpact-served-model"] == "anthropic/claude-opus-4-5"
    reported = answer.headers["modelpact-substituted"]
    assert reported.startswith(f"openai/gpt-4o -> anthropic/claude-opus-4-5: {kind}: ")
    assert [state for state, _ in gateway.settled()] == ["failed", "completed"]
    decided = [event.payload for event in gateway.events("negotiation.decided")]
    assert decided[-1]["substituted"]["from"] == "openai/gpt-4o"


def test_the_fallback_answers_on_an_outage(serve: Serve) -> None:
    gateway = serve(MORE.replace("[gateway]", "[gateway]\n"))
    upstream = gateway.gateway.state.upstreams.find("openai", "openai-chat")
    upstream.urls["openai-chat"] = "http://127.0.0.1:9/v1/chat/completions"
    answer = gateway.chat("workload/sure")
    assert answer.status == 200
    assert "outage: " in answer.headers["modelpact-substituted"]


def test_an_undeclared_failure_is_passed_on(serve: Serve) -> None:
    gateway = serve(MORE)
    for status in (429, 500):
        gateway.openai.script.add(Fail(status))
        assert gateway.chat("workload/strict").status == status
    gateway.openai.script.add(Fail(400, "no"))
    assert gateway.chat("workload/sure").status == 400, "it would be as wrong elsewhere"
    assert not gateway.anthropic.requests


def test_a_request_can_turn_the_fallback_off(serve: Serve) -> None:
    gateway = serve(MORE)
    gateway.openai.script.add(Fail(429))
    assert gateway.chat("workload/sure", {"modelpact-policy": "fallback=off"}).status == 429


def test_the_fallback_is_negotiated_with_the_request(serve: Serve) -> None:
    """MP-A5: the fallback is negotiated with the length of this prompt."""
    gateway = serve(MORE)
    gateway.openai.script.add(Fail(429))
    long = [{"role": "user", "content": "word " * 20_000}]
    assert gateway.chat("workload/small", messages=long).status == 429
    gateway.openai.script.add(Fail(429))
    answer = gateway.chat("workload/small")
    assert answer.headers["modelpact-served-model"] == "openai/gpt-3.5-turbo"


def test_the_second_failure_is_passed_on_if_both_fail(serve: Serve) -> None:
    gateway = serve(MORE)
    gateway.openai.script.add(Fail(500))
    gateway.anthropic.script.add(Fail(529))
    answer = gateway.chat("workload/sure")
    assert (answer.status, answer.json["error"]["code"]) == (529, "overloaded_error")
    assert answer.headers["modelpact-served-model"] == "anthropic/claude-opus-4-5"
    assert [state for state, _ in gateway.settled()] == ["failed", "failed"]


def test_a_rejection_by_the_fallback_teaches_about_the_fallback(serve: Serve) -> None:
    gateway = serve(MORE)
    gateway.openai.script.add(Fail(500))
    gateway.anthropic.script.add(Fail(400, "tools: this model does not support tools", "invalid_request_error"))
    assert gateway.chat("workload/sure", tools=TOOLS).status == 400
    catalog = gateway.gateway.state.models.catalog
    assert catalog.resolve("openai", "gpt-4o").claim("tool-calling").support == "native"


def test_a_missing_capability_is_reported(serve: Serve) -> None:
    gateway = serve(MORE)
    answer = gateway.chat("workload/lacks", tools=TOOLS)
    assert answer.status == 200
    assert "it lacks tool-calling" in answer.headers["modelpact-substituted"]
    assert gateway.chat("workload/lacks").headers["modelpact-served-model"] == "openai/text-only"


@pytest.mark.parametrize(
    ("models", "status"),
    [
        (("openai/*",), 429),
        (("openai/*", "anthropic/*"), 200),
        (("workload/sure",), 200),
        (("openai/*", "workload/*"), 200),
    ],
)
@pytest.mark.parametrize("by_header", [False, True])
def test_the_fallback_needs_a_key_that_allows_it(
    serve: Serve, models: tuple[str, ...], status: int, by_header: bool
) -> None:
    """A key that has the workload's name has all of it; others get only models that are theirs."""
    gateway = serve(MORE)
    secret = gateway.new_key(models=(*models, "openai/gpt-4o") if by_header else models)
    gateway.openai.script.add(Fail(429))
    if by_header:
        answer = gateway.chat("openai/gpt-4o", {"modelpact-workload": "sure"}, secret)
    else:
        answer = gateway.chat("workload/sure", key=secret)
    assert answer.status == status
    assert len(gateway.anthropic.bodies) == (1 if status == 200 else 0)


@pytest.mark.parametrize("name", ["capability", "lacks"])
def test_the_fallback_for_a_capability_needs_a_key_that_allows_it(serve: Serve, name: str) -> None:
    gateway = serve(MORE)
    secret = gateway.new_key(models=("openai/*",) if name == "capability" else ("workload/lacks",))
    answer = gateway.chat("workload/lacks", key=secret, tools=TOOLS)
    assert answer.status == (422 if name == "capability" else 200)
