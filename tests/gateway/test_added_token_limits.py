"""A token limit that only the provider's API requires is added and reported."""

from pathlib import Path
from typing import Any

import pytest

from modelpact.conversation.anthropic import DEFAULT_MAX_TOKENS
from tests.gateway.conftest import Serve
from tests.gateway.planners import make_planner, plan_for
from tests.gateway.support import HI, Answer, RunningGateway

BODY = {"modelpact-report": "body"}
LONGEST = 64_000
"""What the catalog knows of Claude Opus 4.5."""
BODIES: dict[str, dict[str, Any]] = {"/v1/chat/completions": {"messages": HI}, "/v1/responses": {"input": "Hi"}}


def ask(gateway: RunningGateway, path: str, **more: Any) -> Answer:
    return gateway.ask(path, {"model": "claude-opus-4-5", **BODIES[path], **more}, BODY)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_limit_is_added_for_anthropic(gateway: RunningGateway, path: str, stream: bool) -> None:
    """Anthropic requires `max_tokens`; it is the model's own, in head and report, and no loss."""
    answer = ask(gateway, path, stream=stream)
    assert answer.status == 200, answer.content
    assert gateway.anthropic.bodies[-1]["max_tokens"] == LONGEST
    assert answer.headers["modelpact-added"] == f"max_tokens={LONGEST}"
    assert "modelpact-lossy" not in answer.headers
    body = [event for _, event in answer.events] if stream else [answer.json]
    (report,) = [event["modelpact"] for event in body if "modelpact" in event]
    assert report["added"] == {"max_tokens": LONGEST}
    assert gateway.events("negotiation.decided")[-1].payload["added"] == {"max_tokens": LONGEST}


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/v1/chat/completions", "max_tokens"),
        ("/v1/chat/completions", "max_completion_tokens"),
        ("/v1/responses", "max_output_tokens"),
    ],
)
def test_the_limit_of_the_request_is_used(gateway: RunningGateway, path: str, limit: str) -> None:
    answer = ask(gateway, path, **{limit: 50})
    assert answer.status == 200, answer.content
    assert gateway.anthropic.bodies[-1]["max_tokens"] == 50
    assert "modelpact-added" not in answer.headers
    assert answer.json["modelpact"]["added"] == {}


def test_a_null_limit_is_replaced(gateway: RunningGateway) -> None:
    answer = ask(gateway, "/v1/chat/completions", max_tokens=None)
    assert answer.headers["modelpact-added"] == f"max_tokens={LONGEST}"


def test_the_default_limit_is_used_if_the_models_is_unknown(tmp_path: Path) -> None:
    planner = make_planner(tmp_path, '[providers.own]\nkind = "anthropic"\nbase_url = "http://127.0.0.1:9"\n')
    result = plan_for(planner, "own/nobody-knows-it")
    assert dict(result.headers())["modelpact-added"] == f"max_tokens={DEFAULT_MAX_TOKENS}"
    assert result.data()["added"] == {"max_tokens": DEFAULT_MAX_TOKENS}


def test_a_long_prompt_lowers_the_added_limit(gateway: RunningGateway) -> None:
    """Prompt and limit together must fit the window, or Anthropic refuses both."""
    prompt = "word " * 120_000
    messages = [{"role": "user", "content": prompt}]
    answer = ask(gateway, "/v1/chat/completions", messages=messages)
    assert answer.status == 200, answer.content
    sent = gateway.anthropic.bodies[-1]["max_tokens"]
    assert DEFAULT_MAX_TOKENS <= sent < 200_000 - len(prompt) // 4
    assert answer.headers["modelpact-added"] == f"max_tokens={sent}"
    assert answer.json["modelpact"]["added"] == {"max_tokens": sent}


def test_an_image_counts_the_same_whatever_its_length(gateway: RunningGateway) -> None:
    url = f"data:image/png;base64,{'A' * 800_000}"
    parts = [{"type": "image_url", "image_url": {"url": url}}]
    answer = ask(gateway, "/v1/chat/completions", messages=[{"role": "user", "content": parts}])
    assert answer.headers["modelpact-added"] == f"max_tokens={LONGEST}"


def test_no_limit_is_added_for_the_same_api_or_other_providers(gateway: RunningGateway) -> None:
    assert "modelpact-added" not in gateway.chat("gpt-4o").headers
    assert "modelpact-added" not in gateway.message("claude-opus-4-5").headers
    assert "modelpact-added" not in gateway.chat("mock/demo").headers


def test_a_limit_is_added_for_a_fallback(serve: Serve) -> None:
    gateway = serve(
        '[workloads.falls]\nmodel = "openai/text-only"\nneeds = ["tools"]\nfallback = "anthropic/claude-opus-4-5"\n'
    )
    answer = gateway.chat("workload/falls")
    assert (answer.status, answer.headers["modelpact-added"]) == (200, f"max_tokens={LONGEST}")
