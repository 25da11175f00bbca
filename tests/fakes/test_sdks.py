"""The official SDKs work against the fakes, blocking and not, whole and streamed."""

import importlib
from typing import Any

import pytest

from tests.fakes import Call, Fail, Reply
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI

# By name: the tests are about what the SDKs do, not about their types.
openai: Any = importlib.import_module("openai")
anthropic: Any = importlib.import_module("anthropic")
pydantic: Any = importlib.import_module("pydantic")

# The SDK warns of models as they age; the fake's are as good as new.
pytestmark = pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")

HI: Any = [{"role": "user", "content": "Hi"}]
WEATHER: Any = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CALLS = (Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))


def test_openai_blocking() -> None:
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    with (
        FakeOpenAI(["Hello", Reply(calls=CALLS)], key="sk-x").in_thread() as fake,
        openai.OpenAI(api_key="sk-x", base_url=fake.base_url, max_retries=0) as client,
    ):
        answer = client.chat.completions.create(model="gpt-4o", messages=HI)
        assert answer.choices[0].message.content == "Hello"
        assert answer.usage is not None
        assert answer.usage.total_tokens > 0
        answer = client.chat.completions.create(model="gpt-4o", messages=HI, tools=tools)
        assert [tool_call.function.arguments for tool_call in answer.choices[0].message.tool_calls] == [
            '{"city": "Rome"}',
            '{"city": "Oslo"}',
        ]
        assert next(one.id for one in client.models.list()) == "gpt-4o"
        vectors = client.embeddings.create(model="text-embedding-3-small", input="x")
        assert len(vectors.data[0].embedding) == 1_536


def test_openai_errors_have_their_classes() -> None:
    script = [Fail(429, retry_after=1), Fail(500)]
    with (
        FakeOpenAI(script, key="sk-x").in_thread() as fake,
        openai.OpenAI(api_key="sk-x", base_url=fake.base_url, max_retries=0) as client,
    ):
        create = client.chat.completions.create
        with pytest.raises(openai.RateLimitError):
            create(model="gpt-4o", messages=HI)
        with pytest.raises(openai.InternalServerError):
            create(model="gpt-4o", messages=HI)
        with pytest.raises(openai.BadRequestError, match="top_k") as raised:
            create(model="gpt-4o", messages=HI, extra_body={"top_k": 1})
        assert raised.value.type == "invalid_request_error"
        with pytest.raises(openai.NotFoundError):
            create(model="gpt-9", messages=HI)


@on_loop
async def test_openai_streams_and_parses() -> None:
    async with (
        FakeOpenAI([Reply(calls=CALLS)]) as fake,
        openai.AsyncOpenAI(api_key="x", base_url=fake.base_url, max_retries=0) as client,
    ):
        tool: Any = {"name": "weather", "parameters": WEATHER, "strict": True}
        async with client.chat.completions.stream(
            model="gpt-4o",
            messages=HI,
            tools=[{"type": "function", "function": tool}],
            stream_options={"include_usage": True},
        ) as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_completion()
        calls = final.choices[0].message.tool_calls
        assert [call.function.parsed_arguments for call in calls] == [{"city": "Rome"}, {"city": "Oslo"}]
        assert final.usage is not None


def test_openai_responses_blocking() -> None:
    tools: Any = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]
    with (
        FakeOpenAI(["Hello", Reply(calls=CALLS), "Again"], key="sk-x").in_thread() as fake,
        openai.OpenAI(api_key="sk-x", base_url=fake.base_url, max_retries=0) as client,
    ):
        create = client.responses.create
        first = create(model="gpt-4o", input="Hi")
        assert (first.output_text, first.status) == ("Hello", "completed")
        assert first.usage.total_tokens > 0
        answer = create(model="gpt-4o", input=HI, tools=tools)
        assert [item.arguments for item in answer.output] == ['{"city": "Rome"}', '{"city": "Oslo"}']
        again = create(model="gpt-4o", input="?", previous_response_id=first.id)
        assert again.output_text == "Again"
        with pytest.raises(openai.BadRequestError, match="Unknown parameter: 'top_k'") as raised:
            create(model="gpt-4o", input="Hi", extra_body={"top_k": 1})
        assert raised.value.code == "unknown_parameter"
        with pytest.raises(openai.BadRequestError, match="'resp_0' not found"):
            create(model="gpt-4o", input="Hi", previous_response_id="resp_0")
        with pytest.raises(openai.NotFoundError):
            create(model="gpt-9", input="Hi")


@on_loop
async def test_openai_responses_streams_and_parses() -> None:
    class City(pydantic.BaseModel):  # type: ignore[misc]
        city: str

    script = [Reply("Hello there", thinking="Hm"), Reply(calls=CALLS)]
    async with (
        FakeOpenAI(script) as fake,
        openai.AsyncOpenAI(api_key="x", base_url=fake.base_url, max_retries=0) as client,
    ):
        async with client.responses.stream(model="gpt-5", input="Hi") as stream:
            kinds = [chunk.type async for chunk in stream]
            final = await stream.get_final_response()
        assert "response.reasoning_summary_text.delta" in kinds
        assert (final.output_text, final.output[0].summary[0].text) == ("Hello there", "Hm")
        assert final.usage.output_tokens_details.reasoning_tokens > 0
        tool: Any = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
        async with client.responses.stream(model="gpt-4o", input="Hi", tools=[tool]) as stream:
            final = await stream.get_final_response()
        assert [item.parsed_arguments for item in final.output] == [{"city": "Rome"}, {"city": "Oslo"}]
        answer = await client.responses.parse(model="gpt-4o", input="Hi", text_format=City)
        assert answer.output_parsed == City(city="x")
        ask: Any = {"model": "gpt-4o", "input": "Hi", "text_format": City}
        async with client.responses.stream(**ask) as stream:
            assert (await stream.get_final_response()).output_parsed == City(city="x")


def test_anthropic_blocking() -> None:
    tools: Any = [{"name": "weather", "input_schema": WEATHER}]
    with (
        FakeAnthropic(["Hello", Reply("So", CALLS)], key="sk-ant").in_thread() as fake,
        anthropic.Anthropic(api_key="sk-ant", base_url=fake.base_url, max_retries=0) as client,
    ):
        ask: Any = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": HI}
        answer = client.messages.create(**ask)
        assert answer.content[0].text == "Hello"
        answer = client.messages.create(**ask, tools=tools)
        assert [block.input for block in answer.content if block.type == "tool_use"] == [
            {"city": "Rome"},
            {"city": "Oslo"},
        ]
        assert client.messages.count_tokens(model=ask["model"], messages=HI).input_tokens > 0
        with pytest.raises(anthropic.BadRequestError, match="Extra inputs are not permitted"):
            client.messages.create(**ask, extra_body={"n": 2})
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(**{**ask, "model": "claude-9"})


@on_loop
async def test_anthropic_streams() -> None:
    async with (
        FakeAnthropic([Reply("Hello there", thinking="Hm"), Fail(529)]) as fake,
        anthropic.AsyncAnthropic(api_key="x", base_url=fake.base_url, max_retries=0) as client,
    ):
        ask: Any = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 2_000,
            "messages": HI,
            "thinking": {"type": "enabled", "budget_tokens": 1_024},
        }
        async with client.messages.stream(**ask) as stream:
            pieces = [text async for text in stream.text_stream]
            final = await stream.get_final_message()
        assert "".join(pieces) == "Hello there"
        assert final.content[0].signature.startswith("fake-signature")
        with pytest.raises(anthropic.APIStatusError) as raised:
            await client.messages.create(**ask)
        assert raised.value.status_code == 529
