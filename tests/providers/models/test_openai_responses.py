"""The Responses API: what only its adapter does, and its clients with other upstream APIs."""

import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from modelpact.configuration import read_configuration
from modelpact.conversation import openai_chat, openai_responses
from modelpact.conversation.message import Message, TextBlock, ToolResultBlock
from modelpact.conversation.openai_responses import OpenAIResponsesStreamWriter
from modelpact.conversation.request import Reasoning, Request
from modelpact.conversation.response import collect
from modelpact.providers.models import NotTranslatable, OpenAIResponsesAdapter, adapter_for
from modelpact.providers.models.upstream import UpstreamError
from modelpact.wire import HttpRequest, HttpResponse, serve, write_event
from tests.fakes import Reply
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI
from tests.fakes.replies import Step
from tests.providers.models.adapter_fixtures import Adapter, ask, at, listed
from tests.providers.models.test_adapters import CALLS, WEATHER

openai: Any = importlib.import_module("openai")
pydantic: Any = importlib.import_module("pydantic")


@on_loop
async def test_reasoning_is_encrypted_and_can_be_sent_back() -> None:
    """The server stores nothing, so the reasoning is part of the next request."""
    request = ask("responses", model="gpt-5", tools=(WEATHER,), reasoning=Reasoning("low"))
    thought = Reply("", CALLS[:1], thinking="Where?")
    async with at("responses", [thought, thought, "Warm."]) as (port, fake):
        response = await port.complete(request)
        streamed = collect(await listed(port, request))
        assert streamed is not None
        assert (response.thinking, streamed.thinking) == ("Where?", "Where?")
        assert (response.usage.reasoning, streamed.usage.reasoning) == (64, 64)
        result = ToolResultBlock(streamed.tool_calls[0].id, (TextBlock("warm"),))
        more = (Message("assistant", streamed.content), Message("tool", (result,)))
        again = msgspec.structs.replace(request, messages=(*request.messages, *more))
        assert (await port.complete(again)).text == "Warm."
    assert [item["type"] for item in fake.bodies[2]["input"]] == [
        *("message", "reasoning", "function_call", "function_call_output")
    ]
    assert fake.bodies[2]["input"][1]["encrypted_content"].startswith("encrypted-")
    assert fake.bodies[0]["store"] is False


@on_loop
async def test_reasoning_that_was_not_encrypted_is_left_out() -> None:
    request = ask("responses", model="gpt-5", tools=(WEATHER,))
    async with at("responses", [Reply("", CALLS[:1]), "Warm."]) as (port, _):
        response = await port.complete(request)
        result = ToolResultBlock(response.tool_calls[0].id, (TextBlock("warm"),))
        more = (Message("assistant", response.content), Message("tool", (result,)))
        again = msgspec.structs.replace(request, messages=(*request.messages, *more))
        assert [loss.path for loss in port.losses(again)] == ["messages[1].content[0]"]
        assert (await port.complete(again)).text == "Warm."


@on_loop
async def test_a_request_of_this_api_is_sent_unchanged() -> None:
    body = {"model": "gpt-4o", "input": "Hi", "store": True}
    async with at("responses") as (port, fake):
        first = await port.complete(openai_responses.read_request(body))
        more = {**body, "previous_response_id": first.id, "metadata": {"a": "b"}}
        second = await port.complete(openai_responses.read_request(more))
        assert second.text == "You said: Hi"
        with pytest.raises(UpstreamError, match="previous_response_not_found"):
            await port.complete(openai_responses.read_request({**more, "previous_response_id": "x"}))
    assert fake.bodies[:2] == [body, more]


@on_loop
async def test_an_unsupported_request_is_not_sent() -> None:
    chat = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "stop": "END"}
    async with at("responses") as (port, fake):
        with pytest.raises(NotTranslatable, match="this API has no stop sequences"):
            await port.complete(openai_chat.read_request(chat))
        assert fake.requests == []
    for api in ("openai", "anthropic"):
        earlier = {"model": "m", "input": "Hi", "previous_response_id": "resp_1"}
        async with at(api) as (other, fake_):
            with pytest.raises(NotTranslatable, match="the earlier response is stored on another server"):
                await other.complete(openai_responses.read_request(earlier))
            assert fake_.requests == []


@on_loop
async def test_a_failed_response() -> None:
    def fail(body: dict[str, Any]) -> Any:
        error = {"code": "server_error", "message": "busy"}
        if "response" in body and body["type"] != "response.created":
            response = {**body["response"], "status": "failed", "error": error}
            return {"type": "response.failed", "response": response}
        return body if "type" in body else {**body, "status": "failed", "error": error}

    async with at("responses", [Reply("x", patch=fail), Reply("x", patch=fail)]) as (port, _):
        for asking in (port.complete(ask("responses")), listed(port, ask("responses"))):
            with pytest.raises(UpstreamError, match="stopped with an error: busy") as raised:
                await asking
            assert (raised.value.status, raised.value.code) == (500, "server_error")


@on_loop
async def test_a_provider_whose_first_api_it_is() -> None:
    async with FakeOpenAI(key="local-key") as fake:
        text = f"""
            [providers.vivgrid]
            base_url = "{fake.base_url}"
            api_key = {{ env = "HOUSE_KEY" }}
        """
        settings = read_configuration(text).providers["vivgrid"]
        port = adapter_for("vivgrid", settings, environment={"HOUSE_KEY": "local-key"})
        assert isinstance(port, OpenAIResponsesAdapter)
        assert repr(port) == f"<OpenAIResponsesAdapter vivgrid {fake.base_url}>"
        response = await port.complete(ask("responses"))
        await port.aclose()
    assert response.text == "You said: Hi"
    assert fake.bodies[0]["max_output_tokens"] == 4_000


# Clients of the Responses API before upstreams that speak another: each answer is translated.


class City(pydantic.BaseModel):  # type: ignore[misc]
    city: str


@asynccontextmanager
async def translated(port: Adapter, model: str) -> AsyncIterator[Any]:
    """Yield the official client of a server that translates to another API."""

    async def answer(incoming: HttpRequest) -> HttpResponse:
        request_body = json.loads(await incoming.body())
        request: Request = msgspec.structs.replace(openai_responses.read_request(request_body), model=model)
        if not request.stream:
            whole = openai_responses.write_response(
                await port.complete(request), created=7, request_body=request_body
            ).body
            return HttpResponse(200, {"content-type": "application/json"}, json.dumps(whole).encode())
        return HttpResponse(200, {"content-type": "text/event-stream"}, events(request, request_body))

    async def events(request: Request, request_body: dict[str, Any]) -> AsyncIterator[bytes]:
        writer = OpenAIResponsesStreamWriter("resp_1", request.model, created=7, request_body=request_body)
        async for event in port.stream(request):
            for line in writer.feed(event):
                yield write_event(json.dumps(line), line["type"])

    async with await serve(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        async with openai.AsyncOpenAI(api_key="x", base_url=url, max_retries=0) as client:
            yield client


upstreams = pytest.mark.parametrize("api", ["openai", "anthropic", "responses"])
HI: dict[str, Any] = {"model": "any", "input": "Hi", "max_output_tokens": 2_000}
TOOL: dict[str, Any] = {"type": "function", "name": "weather", "strict": True}
TOOL["parameters"] = WEATHER.parameters


@upstreams
@on_loop
async def test_a_client_gets_a_whole_response(api: str) -> None:
    script: list[Step] = ["Hello", Reply("Let me look.", CALLS)]
    async with at(api, script) as (port, _), translated(port, ask(api).model) as client:
        response = await client.responses.create(**HI, instructions="Be brief.", temperature=0.5)
        assert (response.output_text, response.status) == ("Hello", "completed")
        assert (response.instructions, response.temperature) == ("Be brief.", 0.5)
        assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
        response = await client.responses.create(**HI, tools=[TOOL])
        calls = [item for item in response.output if item.type == "function_call"]
        assert [json.loads(tool_call.arguments) for tool_call in calls] == [{"city": "Rome"}, {"city": "Oslo"}]


@upstreams
@on_loop
async def test_a_client_gets_a_stream(api: str) -> None:
    script: list[Step] = ["Hello there", Reply("Let me look.", CALLS), Reply(refusal="No.")]
    async with at(api, script) as (port, _), translated(port, ask(api).model) as client:
        async with client.responses.stream(**HI) as stream:
            parts = [item.delta async for item in stream if item.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        assert "".join(parts) == final.output_text == "Hello there"
        assert len(parts) > 1
        assert final.usage.output_tokens > 0
        async with client.responses.stream(**HI, tools=[TOOL]) as stream:
            final = await stream.get_final_response()
        calls = [item for item in final.output if item.type == "function_call"]
        assert [tool_call.parsed_arguments for tool_call in calls] == [{"city": "Rome"}, {"city": "Oslo"}]
        kinds = [item.type async for item in await client.responses.create(**HI, stream=True)]
        assert kinds[-1] in ("response.completed", "response.incomplete")


@upstreams
@on_loop
async def test_every_event_matches_the_types_of_the_client(api: str) -> None:
    declared = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)
    script: list[Step] = [Reply("So", CALLS), Reply("x" * 400), Reply(refusal="No.")]
    async with at(api, script) as (port, _):
        for limit in (2_000, 16, 2_000):
            writer = OpenAIResponsesStreamWriter("resp_1", "m", created=7, request_body={**HI, "tools": [TOOL]})
            async for event in port.stream(ask(api, tools=(WEATHER,), max_tokens=limit)):
                for line in writer.feed(event):
                    assert declared.validate_python(line).type == line["type"]


@upstreams
@on_loop
async def test_a_client_parses_structured_output(api: str) -> None:
    async with at(api) as (port, _), translated(port, ask(api).model) as client:
        response = await client.responses.parse(**HI, text_format=City)
        assert response.output_parsed == City(city="x")
        async with client.responses.stream(**HI, text_format=City) as stream:
            final = await stream.get_final_response()
        assert final.output_parsed == City(city="x")


@upstreams
@on_loop
async def test_a_client_can_send_back_the_output(api: str) -> None:
    script: list[Step] = [Reply("Let me look.", CALLS[:1]), "Warm."]
    async with at(api, script) as (port, _), translated(port, ask(api).model) as client:
        messages: list[Any] = [{"role": "user", "content": "?"}]
        response = await client.responses.create(**{**HI, "tools": [TOOL], "input": messages})
        messages += [item.to_dict() for item in response.output]
        call = next(item for item in response.output if item.type == "function_call")
        messages.append({"type": "function_call_output", "call_id": call.call_id, "output": "warm"})
        response = await client.responses.create(**{**HI, "tools": [TOOL], "input": messages})
        assert response.output_text == "Warm."
