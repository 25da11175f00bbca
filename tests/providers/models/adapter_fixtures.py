"""Each adapter connected to its fake server, so that tests run for all of them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import StreamEvent
from modelpact.providers.models import AnthropicAdapter, ApiKey, OpenAIChatAdapter, OpenAIResponsesAdapter
from modelpact.wire import Timeouts
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import FakeOpenAI
from tests.fakes.replies import Script

APIS = ["openai", "responses", "anthropic"]
KEY = "-".join(("sk", "ant", "0123456789abcdef", "the-right-key"))
MODELS = {"openai": "gpt-4o", "responses": "gpt-4o", "anthropic": "claude-sonnet-4-5"}
Adapter = OpenAIChatAdapter | OpenAIResponsesAdapter | AnthropicAdapter
ADAPTERS: dict[str, type[Adapter]] = {
    "openai": OpenAIChatAdapter,
    "responses": OpenAIResponsesAdapter,
    "anthropic": AnthropicAdapter,
}
Fake = FakeOpenAI | FakeAnthropic
QUICK = Timeouts(connect=2.0, write=2.0, first_byte=0.5, between_bytes=0.5)


@asynccontextmanager
async def at(
    api: str,
    script: Script = (),
    *,
    key: str = KEY,
    timeouts: Timeouts = QUICK,
    tls: ssl.SSLContext | None = None,
    **how: Any,
) -> AsyncIterator[tuple[Adapter, Fake]]:
    """Yield an adapter and its fake, which accepts only the right key."""
    kind: type[Fake] = FakeAnthropic if api == "anthropic" else FakeOpenAI
    serving = kind(script, key=KEY)
    serving.tls = tls
    async with serving as fake:
        port = ADAPTERS[api](fake.base_url, ApiKey(key), timeouts=timeouts, **how)
        try:
            yield port, fake
        finally:
            await port.aclose()


def ask(api: str, text: str = "Hi", **fields: Any) -> Request:
    """Return a plain request for the default model of the fake."""
    fields = {"max_tokens": 4_000, **fields}
    model = fields.pop("model", MODELS[api])
    return Request(model, (Message("user", (TextBlock(text),)),), **fields)


async def listed(adapter: Adapter, request: Request) -> list[StreamEvent]:
    """Return all events of a stream."""
    return [event async for event in adapter.stream(request)]
