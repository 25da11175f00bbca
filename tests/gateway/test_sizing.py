"""The size of a prompt: a quick estimate, and an exact count near the model's limit."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.catalog.catalog import default_catalog
from modelpact.gateway.plan import sizing as counting
from modelpact.gateway.plan.plan import PROMPT_TOKENS_HEADER, Plan
from modelpact.gateway.plan.sizing import TokenEstimate, count_prompt, encoding_of, estimate, token_counter
from tests.gateway.conftest import Serve
from tests.gateway.processes import Upstream, chat_body, started
from tests.gateway.support import HI, RunningGateway

COUNT = "/v1/messages/count_tokens"
PLAN = Plan("forward", "yes", "openai/gpt-4o", "openai", "gpt-4o", context_window=1_000, encoding="o200k_base")
NO_ENCODING = msgspec.structs.replace(PLAN, provider="anthropic", model="claude", encoding="")


def looked_at(plan: Plan, text: str, **more: Any) -> TokenEstimate:
    body = {"model": plan.model, "messages": [{"role": "user", "content": text}], **more}
    return asyncio.run(estimate(plan, msgspec.json.encode(body), body))


def test_each_model_has_its_vocabulary() -> None:
    family = default_catalog().names.family
    named = {
        "gpt-4o-2024-08-06": "o200k_base",
        "gpt-4.1-mini": "o200k_base",
        "openai/gpt-5": "o200k_base",
        "o3-mini": "o200k_base",
        "gpt-oss-120b": "o200k_base",
        "gpt-4": "cl100k_base",
        "gpt-4-turbo": "cl100k_base",
        "gpt-3.5-turbo": "cl100k_base",
        "claude-opus-4-5": "",
        "gemini-2.5-pro": "",
        "mistral-large-latest": "",
    }
    assert {name: encoding_of(family(name), "somewhere") for name in named} == named
    assert encoding_of(family("text-embedding-3-small"), "openai") == "cl100k_base"
    assert encoding_of(family("text-embedding-3-small"), "elsewhere") == ""


def test_known_texts_have_known_token_counts() -> None:
    for encoding, text, tokens in (
        ("cl100k_base", "tiktoken is great!", 6),
        ("o200k_base", "tiktoken is great!", 6),
        ("cl100k_base", "お誕生日おめでとう", 9),
        ("o200k_base", "お誕生日おめでとう", 8),
    ):
        result = token_counter(encoding)
        assert result is not None
        assert result.count(text) == tokens


@given(st.text(st.sampled_from("aB1 \n\t.,'é日😀-"), max_size=200), st.integers(1, 40))
def test_slices_of_a_text_have_as_many_tokens_as_the_whole(text: str, size: int) -> None:
    whole = token_counter("o200k_base")
    assert whole is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_SLICE", size)
        parts = list(counting._slices(text))
    assert "".join(parts) == text
    assert sum(map(whole.count, parts)) == whole.count(text)


def test_a_short_prompt_is_estimated_by_its_length() -> None:
    assert looked_at(PLAN, "Hi").headers == ()


def test_a_prompt_below_the_limit_is_estimated() -> None:
    result = looked_at(PLAN, "word " * 480)
    assert result.headers == ((PROMPT_TOKENS_HEADER, f"{result.usage.input} estimated"),)


def test_a_prompt_near_the_limit_is_counted() -> None:
    """Eight letters a token: the estimate alone would have refused it."""
    result = looked_at(PLAN, "a" * 6_000)
    tokens = 6_000 // 8 + 1 + 3 * 2  # the text, its role, what frames it
    assert result.headers == ((PROMPT_TOKENS_HEADER, f"{tokens} counted with o200k_base"),)
    assert result.usage.input == tokens


def test_the_count_decides_where_the_estimate_would_fit() -> None:
    text = "1 a? " * 700
    assert len(text) / 4 < 1_000
    (missed,) = looked_at(PLAN, text).too_long
    assert missed.capability == "context-window"
    assert missed.required_by == ("request: messages, counted with o200k_base",)


def test_the_requested_output_needs_room_too() -> None:
    assert not looked_at(PLAN, "a" * 6_000, max_tokens=200).too_long
    assert looked_at(PLAN, "a" * 6_000, max_tokens=300).too_long


def test_models_without_a_public_vocabulary_are_estimated() -> None:
    result = looked_at(NO_ENCODING, "a" * 3_900)
    assert result.headers[0][1].endswith(" estimated")
    (missed,) = looked_at(NO_ENCODING, "a" * 6_000).too_long
    assert missed.required_by == ("request: messages, estimated",)


def test_prompts_are_estimated_without_the_tokens_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    token_counter.cache_clear()
    try:
        assert count_prompt({"messages": []}, "o200k_base") is None
        (missed,) = looked_at(PLAN, "a" * 6_000).too_long
        assert missed.required_by == ("request: messages, estimated",)
    finally:
        token_counter.cache_clear()


def test_media_are_reported_as_estimated() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": [image]}]}
    plan = msgspec.structs.replace(PLAN, context_window=1_200)
    result = asyncio.run(estimate(plan, msgspec.json.encode(body), body))
    assert result.headers[0][1].endswith("counted with o200k_base, media estimated")


def test_the_response_says_how_the_prompt_was_counted(tmp_path: Path) -> None:
    with Upstream("one").in_thread() as upstream:
        (tmp_path / "modelpact.toml").write_text(
            f'[providers.here]\nkind = "openai"\nbase_url = "{upstream.base_url}"\n'
            '[models."here/gpt-4o"]\ncontext_window = 1000\n'
        )
        with started(tmp_path) as gateway:
            body = chat_body("here/gpt-4o")
            body["messages"][0]["content"] = "a" * 6_000
            status, headers, _ = gateway.ask("POST", "/v1/chat/completions", body)
            assert status == 200
            assert headers[PROMPT_TOKENS_HEADER].endswith(" counted with o200k_base")
            body["messages"][0]["content"] = "a" * 9_000
            status, _, answer = gateway.ask("POST", "/v1/chat/completions", body)
            assert (status, answer["error"]["code"]) == (422, "capability_not_provided")
            (missed,) = answer["error"]["modelpact"]["diagnostic"]["missing"]
            assert missed["requiredBy"] == ["request: messages, counted with o200k_base"]
            assert len(upstream.seen) == 1, "nothing was sent"


def test_count_tokens_of_claude_is_an_estimate(gateway: RunningGateway) -> None:
    """`client.messages.count_tokens`: nothing is sent, and nothing recorded."""
    body: Any = {"model": "claude-opus-4-5", "messages": HI, "system": "word " * 400}
    answer = gateway.ask(COUNT, body)
    assert (answer.status, list(answer.json)) == (200, ["input_tokens"])
    assert 500 <= answer.json["input_tokens"] <= 520
    assert answer.headers[PROMPT_TOKENS_HEADER] == f"{answer.json['input_tokens']} estimated"
    tools = [{"name": "weather", "description": "word " * 400, "input_schema": {}}]
    longer = gateway.ask(COUNT, {**body, "tools": tools})
    assert longer.json["input_tokens"] > 1_000
    assert (gateway.anthropic.requests, gateway.events()) == ([], [])


def test_count_tokens_counts_with_a_public_vocabulary(gateway: RunningGateway) -> None:
    """Also what the model has no room for: that is what one wants to know."""
    for letters in (4_000, 2_400_000):
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "a" * letters}]}
        answer = gateway.ask(COUNT, body)
        assert answer.json == {"input_tokens": letters // 8 + 1 + 3 * 2}
        assert answer.headers[PROMPT_TOKENS_HEADER].endswith(" counted with o200k_base")


def test_count_tokens_errors_have_anthropics_format(serve: Serve) -> None:
    gateway = serve()
    limited = gateway.new_key("b", models=("gpt-4o",))
    fields = {"model": "claude-opus-4-5", "messages": HI}
    for body, key, status, kind in (
        ({**fields, "messages": []}, None, 400, "invalid_request_error"),
        ({**fields, "model": "nobody-has-it"}, None, 404, "not_found_error"),
        (fields, "wrong", 401, "authentication_error"),
        (fields, limited, 403, "permission_error"),
    ):
        answer = gateway.ask(COUNT, body, key=key)
        assert (answer.status, answer.json["type"]) == (status, "error")
        assert answer.json["error"]["type"] == kind
