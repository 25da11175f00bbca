"""The official SDKs, synchronous and asynchronous, behind one interface."""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
import pytest

from tests.fakes import Call, Fail, Reply, cut
from tests.gateway.support import RunningGateway

# By name: the tests are about what the SDKs do, not about their types.
openai: Any = importlib.import_module("openai")
anthropic: Any = importlib.import_module("anthropic")

MORE = """
[policy]
unknown = "probe"
[workloads.emulated]
model = "openai/text-only"
needs = []
policy = { emulate = true }
[workloads.substituted]
model = "openai/text-only"
needs = ["tools"]
fallback = "openai/gpt-4o"
[workloads.carried-away]
model = "openai/text-only"
needs = ["tools"]
fallback = "anthropic/claude-opus-4-5"
"""
"""What the tests of clients have in the gateway's configuration."""
LOSSY = "[gateway]\nlossy = true\n"
"""For what only one of the APIs can say: it is left out, with a label."""
WEATHER: Any = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CALLS = (Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))


class City(pydantic.BaseModel):
    """A city and its inhabitants."""

    name: str
    people: int


class SDK:
    """One of the SDKs, in one of its two ways."""

    def __init__(self, gateway: RunningGateway, blocking: bool, upstream: str) -> None:
        self.gateway = gateway
        self.blocking = blocking
        self.upstream = upstream
        """Whose model answers: `openai` or `anthropic`."""
        self.fake: Any = gateway.openai if upstream == "openai" else gateway.anthropic
        self.model = "gpt-4o" if upstream == "openai" else "claude-opus-4-5"

    def client(self, **more: Any) -> Any:
        """Make a client."""
        raise NotImplementedError

    def call(self, work: Callable[[Any], Any], **more: Any) -> Any:
        """Do one thing with a client, and wait for it where it is to be waited for."""
        if self.blocking:
            with self.client(**more) as client:
                return work(client)

        async def run() -> Any:
            async with self.client(**more) as client:
                return await _awaited(work(client))

        return asyncio.run(asyncio.wait_for(run(), 60))

    def raw(self, find: Callable[[Any], Any], **fields: Any) -> tuple[Any, Mapping[str, str]]:
        """Call a method for its answer and the head of it."""

        def work(client: Any) -> Any:
            return find(client).with_raw_response.create(**fields)

        if self.blocking:
            with self.client() as client:
                answer = work(client)
                return answer.parse(), answer.headers

        async def run() -> Any:
            async with self.client() as client:
                answer = await work(client)
                return await _awaited(answer.parse()), answer.headers

        result: tuple[Any, Mapping[str, str]] = asyncio.run(asyncio.wait_for(run(), 60))
        return result

    def events(self, find: Callable[[Any], Any], **fields: Any) -> list[Any]:
        """Call a method for a stream and read it to its end."""
        if self.blocking:
            with self.client() as client:
                return list(find(client).create(stream=True, **fields))

        async def run() -> list[Any]:
            async with self.client() as client:
                return [event async for event in await find(client).create(stream=True, **fields)]

        return asyncio.run(asyncio.wait_for(run(), 60))

    def final(self, stream: Callable[[Any], Any], take: str) -> Any:
        """Open one of the SDK's own streams and take what it adds up to."""
        if self.blocking:
            with self.client() as client, stream(client) as events:
                for _ in events:
                    pass
                return getattr(events, take)()

        async def run() -> Any:
            async with self.client() as client, stream(client) as events:
                async for _ in events:
                    pass
                return await getattr(events, take)()

        return asyncio.run(asyncio.wait_for(run(), 60))


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


class OpenAISDK(SDK):
    def client(self, **more: Any) -> Any:
        client_class = openai.OpenAI if self.blocking else openai.AsyncOpenAI
        options = {"api_key": self.gateway.key, "max_retries": 0, **more}
        return client_class(base_url=f"{self.gateway.url}/v1", **options)


class AnthropicSDK(SDK):
    def client(self, **more: Any) -> Any:
        client_class = anthropic.Anthropic if self.blocking else anthropic.AsyncAnthropic
        options = {"api_key": self.gateway.key, "max_retries": 0, **more}
        return client_class(base_url=self.gateway.url, **options)


def check_errors(sdk: SDK, library: Any, ask: Callable[..., Any]) -> None:
    """Have an upstream fail in every way; `library` is the SDK's module, with a class for each."""
    sdk.fake.script.add(Fail(429, retry_after=3), Fail(500), Fail(400, "Too odd."), Fail(403))
    with pytest.raises(library.RateLimitError) as limited:
        ask(sdk)
    assert float(limited.value.response.headers["retry-after"]) == 3
    with pytest.raises(library.InternalServerError):
        ask(sdk)
    with pytest.raises(library.BadRequestError, match="Too odd"):
        ask(sdk)
    with pytest.raises(library.PermissionDeniedError):
        ask(sdk)
    with pytest.raises(library.NotFoundError, match="write PROVIDER/MODEL"):
        ask(sdk, model="nobodys")


def check_errors_in_streams(sdk: SDK, library: Any, read: Callable[..., Any]) -> None:
    """Have a stream fail before its first event, and in the midst of them."""
    sdk.fake.script.add(Fail(429), Reply("x" * 200, fault=cut(8)))
    with pytest.raises(library.RateLimitError):
        read(sdk)
    with pytest.raises(library.APIError, match="the upstream failed"):
        read(sdk)
