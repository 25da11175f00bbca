"""The fake of Anthropic refuses what Anthropic refuses, in its words."""

import json
from typing import Any

import pytest

from modelpact.emulation.validation import Schema
from tests.fakes import Call, Fail, Reply
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.client import events, post
from tests.fakes.loops import on_loop
from tests.fakes.test_openai_fake import PERSON

VERSION = {"anthropic-version": "2023-06-01"}
HI = {"role": "user", "content": "Hi"}
TOOL = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]}
THINKING = {"type": "enabled", "budget_tokens": 1_024}
IMAGE = {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]}


def ask(**fields: Any) -> dict[str, Any]:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 2_000, "messages": [HI], **fields}
    return {name: value for name, value in body.items() if value is not None}


def result(identity: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": identity, "content": "warm"}
    return {"role": "user", "content": [block]}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (ask(n=1), 400, "n: Extra inputs are not permitted"),
        (ask(max_tokens=None), 400, "max_tokens: Field required"),
        (ask(temperature="hot"), 400, "temperature: Input should be a valid number"),
        (ask(temperature=1.5), 400, "temperature: Input should be less than or equal to 1"),
        (ask(max_tokens=0), 400, "max_tokens: Input should be greater than or equal to 1"),
        (ask(messages=[]), 400, "messages: at least one message is required"),
        (
            ask(messages=[{"role": "user", "content": [{"type": "text"}]}]),
            400,
            "messages.0.content.0.text.text: Field required",
        ),
        (ask(messages=[{**HI, "name": "me"}]), 400, "messages.0.name: Extra inputs are not permitted"),
        (
            ask(messages=[{"role": "system", "content": "x"}]),
            400,
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
            'parameter, not "system" as an input message role.',
        ),
        (
            ask(max_tokens=100_000),
            400,
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
        ),
        (ask(tools=[{"name": "f"}]), 400, "tools.0.custom.input_schema: Field required"),
        (
            ask(thinking=THINKING, tools=[TOOL], tool_choice={"type": "any"}),
            400,
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        (ask(thinking=THINKING, temperature=0.5), 400, "`temperature` may only be set to 1 when thinking is enabled."),
        (
            ask(thinking={"type": "enabled", "budget_tokens": 10}),
            400,
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            ask(temperature=0.5, top_p=0.5),
            400,
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        ),
        (ask(model="claude-9"), 404, "model: claude-9"),
        (
            ask(model="claude-text", messages=[IMAGE]),
            400,
            "messages.0.content.0: this model does not support image input",
        ),
        (ask(output_config={"effort": "low"}), 400, "This model does not support the effort parameter."),
        (
            ask(messages=[HI, CALLED, HI], tools=[TOOL]),
            400,
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "t1. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message.",
        ),
        (
            ask(messages=[HI, CALLED, result("t2")], tools=[TOOL]),
            400,
            "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t2. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous "
            "message.",
        ),
    ],
)
@on_loop
async def test_refusals(body: dict[str, Any], status: int, message: str) -> None:
    async with FakeAnthropic() as fake:
        got, answer, headers = await post(fake, "/v1/messages", body, VERSION)
    kind = "not_found_error" if status == 404 else "invalid_request_error"
    assert (got, answer["error"]) == (status, {"type": kind, "message": message})
    assert answer["type"] == "error"
    assert answer["request_id"] == headers["request-id"]


@on_loop
async def test_thinking_must_come_back_signed() -> None:
    thought = {"type": "thinking", "thinking": "Hm", "signature": "forged"}
    turn = {"role": "assistant", "content": [thought, *CALLED["content"]]}
    async with FakeAnthropic() as fake:
        forged = ask(messages=[HI, turn, result("t1")], tools=[TOOL], thinking=THINKING)
        _, answer, _ = await post(fake, "/v1/messages", forged, VERSION)
        assert "Invalid `signature` in `thinking` block" in answer["error"]["message"]
        bare = ask(messages=[HI, CALLED, result("t1")], tools=[TOOL], thinking=THINKING)
        _, answer, _ = await post(fake, "/v1/messages", bare, VERSION)
        assert "Expected `thinking` or `redacted_thinking`" in answer["error"]["message"]


@on_loop
async def test_keys_and_versions() -> None:
    async with FakeAnthropic(key="sk-ant-right") as fake:
        status, answer, _ = await post(fake, "/v1/messages", ask(), VERSION)
        assert (status, answer["error"]["type"]) == (401, "authentication_error")
        key = {"x-api-key": "sk-ant-right"}
        status, answer, _ = await post(fake, "/v1/messages", ask(), key)
        assert answer["error"]["message"] == "anthropic-version: header is required"
        assert (await post(fake, "/v1/messages", ask(), {**key, **VERSION}))[0] == 200
        bearer = {"authorization": "Bearer sk-ant-right", **VERSION}
        assert (await post(fake, "/v1/messages", ask(), bearer))[0] == 200


@on_loop
async def test_a_prompt_that_is_too_long() -> None:
    body = ask(messages=[{"role": "user", "content": "x" * 900_000}])
    async with FakeAnthropic() as fake:
        status, answer, _ = await post(fake, "/v1/messages", body, VERSION)
    assert status == 400
    assert answer["error"]["message"].startswith("prompt is too long: 225")


@on_loop
async def test_scripted_errors() -> None:
    async with FakeAnthropic([Fail(529), Fail(429, retry_after=7)]) as fake:
        status, answer, _ = await post(fake, "/v1/messages", ask(), VERSION)
        assert (status, answer["error"]["type"]) == (529, "overloaded_error")
        status, _, headers = await post(fake, "/v1/messages", ask(), VERSION)
        assert (status, headers["retry-after"]) == (429, "7")


@on_loop
async def test_structured_output_matches_its_schema() -> None:
    schema = json.loads(json.dumps(PERSON))
    del schema["$defs"]["tag"]["minLength"]
    config = {"format": {"type": "json_schema", "schema": schema}}
    async with FakeAnthropic() as fake:
        _, answer, _ = await post(fake, "/v1/messages", ask(output_config=config), VERSION)
        assert Schema(schema, "x").findings(json.loads(answer["content"][0]["text"])) == []
        config = {"format": {"type": "json_schema", "schema": PERSON}}
        _, answer, _ = await post(fake, "/v1/messages", ask(output_config=config), VERSION)
        assert "property 'minLength' is not supported" in answer["error"]["message"]


@on_loop
async def test_the_cache_is_written_then_read() -> None:
    system = [{"type": "text", "text": "x" * 8_000, "cache_control": {"type": "ephemeral"}}]
    seen = []
    async with FakeAnthropic() as fake:
        for _ in range(2):
            _, answer, _ = await post(fake, "/v1/messages", ask(system=system), VERSION)
            seen.append(answer["usage"])
    assert seen[0]["cache_creation_input_tokens"] == seen[1]["cache_read_input_tokens"] > 1_024
    assert seen[0]["cache_read_input_tokens"] == seen[1]["cache_creation_input_tokens"] == 0
    assert seen[0]["input_tokens"] == seen[1]["input_tokens"] < 100


@on_loop
async def test_streams_have_the_events_of_the_real_one() -> None:
    calls = (Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))
    async with FakeAnthropic([Reply("Let me see.", calls)]) as fake:
        streamed = await events(fake, "/v1/messages", ask(stream=True, tools=[TOOL]), VERSION)
    kinds = [one["type"] for one in streamed]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    assert streamed[-2]["delta"]["stop_reason"] == "tool_use"


@on_loop
async def test_tokens_can_be_counted() -> None:
    async with FakeAnthropic() as fake:
        body = {"model": "claude-sonnet-4-5", "messages": [HI]}
        _, answer, _ = await post(fake, "/v1/messages/count_tokens", body, VERSION)
        assert answer["input_tokens"] > 0
        status, _, _ = await post(fake, "/v1/messages/count_tokens", ask(), VERSION)
        assert status == 400
