"""The adapters with strict fake servers: requests are accepted and responses are read."""

import json
from typing import Any

import msgspec
import pytest

from modelpact.conversation import anthropic, openai_chat
from modelpact.conversation.message import ImageBlock, Message, TextBlock, ToolResultBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice
from modelpact.conversation.response import Response, Usage, collect
from modelpact.providers.models import NotTranslatable, OpenAIChatAdapter
from tests.fakes import Call, Reply
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI
from tests.fakes.replies import Step
from tests.providers.models.adapter_fixtures import APIS, ask, at, listed

WEATHER = Tool(
    "weather",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    "The weather of a city",
)
CALLS = (Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))
both = pytest.mark.parametrize("api", APIS)


def same(response: Response | None) -> Any:
    """Return what a whole response and a stream have in common; ids differ each time."""
    assert response is not None
    content = [
        msgspec.structs.replace(block, id="", extra={}) if hasattr(block, "input") else block
        for block in response.content
    ]
    return content, response.stop_reason, response.stop_sequence, response.model


@both
@on_loop
async def test_a_text(api: str) -> None:
    async with at(api) as (port, fake):
        response = await port.complete(ask(api))
        streamed = collect(await listed(port, ask(api)))
    assert response.text == "You said: Hi"
    assert response.stop_reason == "end"
    assert response.usage.input > 0
    assert response.usage.output > 0
    assert same(streamed) == same(response)
    assert streamed is not None
    assert streamed.usage == response.usage
    assert "stream" not in fake.bodies[0]
    assert fake.bodies[1]["stream"] is True


@both
@on_loop
async def test_parallel_calls_and_their_results(api: str) -> None:
    script: list[Step] = [Reply("Let me look.", CALLS), Reply("Let me look.", CALLS), "Warm in Rome."]
    request = ask(api, tools=(WEATHER,), tool_choice=ToolChoice("auto"))
    async with at(api, script) as (port, _):
        response = await port.complete(request)
        streamed = collect(await listed(port, request))
        assert [call.input for call in response.tool_calls] == [{"city": "Rome"}, {"city": "Oslo"}]
        assert response.stop_reason == "tool_use"
        assert same(streamed) == same(response)
        results = [Message("tool", (ToolResultBlock(call.id, (TextBlock("warm"),)),)) for call in response.tool_calls]
        turn = Message("assistant", response.content)
        more = msgspec.structs.replace(request, messages=(*request.messages, turn, *results))
        assert (await port.complete(more)).text == "Warm in Rome."


@both
@on_loop
async def test_a_forced_call(api: str) -> None:
    request = ask(api, tools=(WEATHER,), tool_choice=ToolChoice("tool", "weather"))
    async with at(api) as (port, _):
        (call,) = (await port.complete(request)).tool_calls
    assert (call.name, call.input) == ("weather", {"city": "x"})


@both
@on_loop
async def test_structured_output(api: str) -> None:
    request = ask(api, output=JsonSchema(WEATHER.parameters, strict=True))
    async with at(api) as (port, _):
        response = await port.complete(request)
        streamed = collect(await listed(port, request))
    assert json.loads(response.text) == {"city": "x"}
    assert same(streamed) == same(response)


@both
@on_loop
async def test_an_image(api: str) -> None:
    image = Message("user", (TextBlock("What?"), ImageBlock(data="aGk=", media_type="image/png")))
    async with at(api) as (port, _):
        request = msgspec.structs.replace(ask(api), messages=(image,))
        assert (await port.complete(request)).text.startswith("You said: What?")


@both
@on_loop
async def test_a_limit(api: str) -> None:
    async with at(api, ["x" * 400, "x" * 400]) as (port, _):
        request = ask(api, max_tokens=16)
        response = await port.complete(request)
        assert response.stop_reason == "length"
        assert same(collect(await listed(port, request))) == same(response)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@on_loop
async def test_stops(api: str) -> None:
    async with at(api, ["one END two"]) as (port, _):
        response = await port.complete(ask(api, stop=("END",)))
        assert response.text == "one "
    if api == "anthropic":
        assert (response.stop_reason, response.stop_sequence) == ("stop_sequence", "END")


@both
@on_loop
async def test_a_refusal(api: str) -> None:
    refusing = Reply(refusal="I will not.")
    async with at(api, [refusing, refusing]) as (port, _):
        response = await port.complete(ask(api))
        streamed = collect(await listed(port, ask(api)))
    assert (response.text, response.stop_reason) == ("I will not.", "refusal")
    assert same(streamed) == same(response)


@on_loop
async def test_thinking_is_signed_and_can_be_sent_back() -> None:
    budget = Reasoning(budget_tokens=1_024)
    request = ask("anthropic", tools=(WEATHER,), reasoning=budget)
    thought = Reply("", CALLS[:1], thinking="Where?")
    script: list[Step] = [thought, thought, "Warm."]
    async with at("anthropic", script) as (port, _):
        response = await port.complete(request)
        streamed = collect(await listed(port, request))
        assert response.thinking == "Where?"
        assert same(streamed) == same(response)
        assert streamed is not None
        result = ToolResultBlock(streamed.tool_calls[0].id, (TextBlock("warm"),))
        more = (Message("assistant", streamed.content), Message("tool", (result,)))
        again = msgspec.structs.replace(request, messages=(*request.messages, *more))
        assert (await port.complete(again)).text == "Warm."


@on_loop
async def test_cached_tokens_are_part_of_the_input() -> None:
    system = {"type": "text", "text": "x" * 8_000, "cache_control": {"type": "ephemeral"}}
    request = anthropic.read_request(
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 100,
            "system": [system],
            "messages": [{"role": "user", "content": "Hi"}],
        }
    )
    async with at("anthropic") as (port, _):
        first, second = (await port.complete(request)).usage, (await port.complete(request)).usage
    assert first.cache_write == second.cache_read > 1_024
    assert first.input == second.input > first.cache_write
    async with at("openai") as (port, _):
        long = ask("openai", "x" * 8_000)
        await port.complete(long)
        used = (await port.complete(long)).usage
        assert 1_024 <= used.cache_read <= used.input


@on_loop
async def test_reasoning_tokens_are_counted() -> None:
    request = ask("openai", model="gpt-5", reasoning=Reasoning("low"), token_limit_param="max-completion-tokens")
    async with at("openai") as (port, _):
        used = (await port.complete(request)).usage
        assert used.reasoning == 64
        assert used.output > used.reasoning
        streamed = collect(await listed(port, request))
        assert streamed is not None
        assert streamed.usage == used


@on_loop
async def test_the_token_limit_has_the_name_that_the_model_expects() -> None:
    def limit_for(model: str) -> str | None:
        return "max-completion-tokens" if model == "gpt-5" else None

    async with at("openai", token_limit_names=limit_for) as (port, fake):
        await port.complete(ask("openai", model="gpt-5"))
        await port.complete(ask("openai"))
    assert [sorted(body)[0] for body in fake.bodies] == ["max_completion_tokens", "max_tokens"]


@on_loop
async def test_streams_request_usage_beside_the_options_of_the_caller() -> None:
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_obfuscation": False},
    }
    async with at("openai") as (port, fake):
        await listed(port, openai_chat.read_request(body))
        await port.complete(openai_chat.read_request(body))
        options = {"include_obfuscation": False, "include_usage": True}
        assert fake.bodies[0]["stream_options"] == options
        assert "stream_options" not in fake.bodies[1]
    async with at("openai", request_usage=False) as (port, fake):
        streamed = collect(await listed(port, ask("openai")))
        assert "stream_options" not in fake.bodies[0]
        assert streamed is not None
        assert streamed.usage == Usage()


@on_loop
async def test_headers_of_the_caller() -> None:
    async with at("anthropic", headers={"Anthropic-Beta": "x-1"}) as (port, fake):
        await port.complete(ask("anthropic"))
        sent = fake.requests[0].headers
        assert (sent["anthropic-beta"], sent["anthropic-version"]) == ("x-1", "2023-06-01")
        assert "authorization" not in sent
    async with FakeOpenAI() as server:
        bare = OpenAIChatAdapter(server.base_url)
        await bare.complete(ask("openai"))
        assert "authorization" not in server.requests[0].headers
        await bare.aclose()


# What cannot be carried.


@on_loop
async def test_an_unsupported_request_is_not_sent() -> None:
    async with at("anthropic") as (port, fake):
        with pytest.raises(NotTranslatable, match=r"nothing was sent: output: this API") as raised:
            await port.complete(ask("anthropic", output=JsonObject()))
        with pytest.raises(NotTranslatable, match="temperatures from 0 to 1"):
            await listed(port, ask("anthropic", temperature=1.5))
        assert fake.requests == []
        assert [loss.path for loss in raised.value.losses] == ["output"]


@on_loop
async def test_several_choices_are_unsupported() -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "n": 2}
    async with at("openai") as (port, fake):
        with pytest.raises(NotTranslatable, match="n: only one response is read"):
            await port.complete(openai_chat.read_request(body))
        assert fake.requests == []


@on_loop
async def test_losses_are_reported() -> None:
    async with at("openai") as (port, _):
        request = ask("openai", top_k=5)
        assert [(loss.path, loss.fidelity) for loss in port.losses(request)] == [("top_k", "lossy")]
        assert (await port.complete(request)).text == "You said: Hi"


@both
def test_a_request_of_another_api_is_translated(api: str) -> None:
    async def test() -> None:
        read = openai_chat.read_request if api == "anthropic" else anthropic.read_request
        request: Request = read(
            {
                "model": ask(api).model,
                "max_tokens": 50,
                "temperature": 0.5,
                "messages": [{"role": "user", "content": "Hi"}],
            }
        )
        async with at(api) as (port, _):
            assert (await port.complete(request)).text == "You said: Hi"

    on_loop(test)()
