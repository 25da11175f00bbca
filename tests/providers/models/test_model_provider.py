"""Models as providers of the contract: recorded, called, priced and settled, on both stores."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from modelpact.catalog.catalog import default_catalog
from modelpact.conversation.message import TextBlock
from modelpact.conversation.response import Response, StreamEvent, Usage, collect
from modelpact.ledger import Attribution, CostLine, Ledger
from modelpact.ledger.costs import price_cost
from modelpact.providers import MockProvider
from modelpact.providers.contract import ContractError, Invocation
from modelpact.providers.models import CHAT, ModelProvider
from modelpact.providers.models.json_codec import read_event, read_response
from modelpact.providers.runtime.runtime import Partial, Runtime
from tests.fakes import Fail, Reply, cut, hang
from tests.fakes.loops import on_loop
from tests.fakes.replies import Script
from tests.providers.models.adapter_fixtures import MODELS, Fake, at

both = pytest.mark.parametrize("api", ["openai", "anthropic"])


@asynccontextmanager
async def running(
    url: str, api: str, script: Script = (), **how: Any
) -> AsyncIterator[tuple[Runtime, ModelProvider, Fake]]:
    ledger = Ledger.open(url)
    try:
        async with at(api, script, **how) as (port, fake):
            provider = ModelProvider(api, port)
            runtime = Runtime(ledger, transports={api: provider})
            runtime.registry.register(provider.registration)
            yield runtime, provider, fake
    finally:
        ledger.close()


def chat(api: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hi"}]
    return {"model": MODELS[api], "messages": messages, "max_tokens": 50, **fields}


def record(runtime: Runtime, invocation: Invocation) -> dict[str, Any]:
    """Return the cost record of the event that settled an invocation."""
    assert invocation.settled_by is not None
    event = runtime.ledger.event(invocation.settled_by)
    assert event is not None
    record: dict[str, Any] = event.payload["cost"]
    return record


def lines(record: dict[str, Any]) -> dict[str, int]:
    return {line["unit"]: line["amount"] for line in record["lines"]}


@both
@on_loop
async def test_a_chat_is_recorded_called_priced_and_settled(api: str, url: str) -> None:
    async with running(url, api) as (runtime, _, fake):
        done = await runtime.invoke(api, CHAT, chat(api))
        assert done.state == "completed"
        response = read_response(done.output)
        assert response.text == "You said: Hi"
        cost = record(runtime, done)
        price = default_catalog().resolve(api, MODELS[api]).price
        assert price is not None
        money = price_cost(price, response.usage)
        assert money is not None
        assert money.amount > 0
        assert lines(cost) == {
            "tokens.input": response.usage.input,
            "tokens.output": response.usage.output,
            "currency": money.amount,
        }
        assert "estimate" not in cost or cost["estimate"] is False
        assert len(fake.requests) == 1


@both
@on_loop
async def test_the_estimate_and_the_model_are_recorded_before_the_call(api: str, url: str) -> None:
    async with running(url, api) as (runtime, __, _):
        attribution = Attribution(worker="ada")
        done = await runtime.invoke(api, CHAT, chat(api), attribution=attribution)
        assert done.attribution == Attribution(provider=api, model=MODELS[api], capability=CHAT, worker="ada")
        opened = runtime.ledger.event(done.event)
        assert opened is not None
        estimated = {line["unit"]: line["amount"] for line in opened.payload["estimate"]}
        assert estimated["tokens.output"] == 50
        assert estimated["tokens.input"] > 0
        assert estimated["currency"] >= lines(record(runtime, done))["currency"]
        assert record(runtime, done)["attribution"]["model"] == MODELS[api]


@both
@on_loop
async def test_a_stream(api: str, url: str) -> None:
    async with running(url, api) as (runtime, __, _):
        opened = await runtime.invoke(api, CHAT, chat(api), semantics="streaming")
        pieces: list[StreamEvent] = []
        done: Any = None
        async for piece in runtime.stream(opened):
            if isinstance(piece, Partial):
                pieces.append(read_event(piece.content))
            else:
                done = piece
        assert done.state == "completed"
        response = read_response(done.output)
        assert "".join(getattr(piece, "text", "") for piece in pieces) == response.text == "You said: Hi"
        assert lines(record(runtime, done))["tokens.input"] == response.usage.input > 0


@both
@on_loop
async def test_rejections_are_settled_with_their_reason(api: str, url: str) -> None:
    async with running(url, api, [Fail(429, retry_after=3)]) as (runtime, _, __):
        done = await runtime.invoke(api, CHAT, chat(api))
        assert done.state == "failed"
        assert done.error is not None
        assert "429" in done.error
        assert not done.error.startswith("unreachable")
        assert set(lines(record(runtime, done))) == {"time"}
        assert _flags(runtime) == []


@both
@on_loop
async def test_a_stream_that_is_cut_off_is_charged(api: str, url: str) -> None:
    for fault in (cut(3), cut(3, clean=True), hang(3)):
        async with running(url, api, [fault]) as (runtime, __, _):
            opened = await runtime.invoke(api, CHAT, chat(api), semantics="streaming")
            *_, done = [piece async for piece in runtime.stream(opened)]
            assert isinstance(done, Invocation)
            assert done.state == "failed"
            assert done.error is not None
            assert done.error.startswith(("cut_off: ", "timeout: "))
            cost = record(runtime, done)
            assert cost["estimate"] is True
            assert lines(cost)["tokens.input"] > 0
            assert _flags(runtime) == []


@both
@on_loop
async def test_a_call_that_times_out_is_charged_as_an_estimate(api: str, url: str) -> None:
    async with running(url, api, [hang(-1)]) as (runtime, _, __):
        done = await runtime.invoke(api, CHAT, chat(api))
        cost = record(runtime, done)
        assert (done.state, cost["estimate"]) == ("failed", True)
        assert set(lines(cost)) == {"tokens.input", "currency"}


@on_loop
async def test_losses_are_in_the_output(url: str) -> None:
    async with running(url, "openai") as (runtime, _, fake):
        done = await runtime.invoke("openai", CHAT, chat("openai", top_k=5))
        assert [item["path"] for item in done.output["losses"]] == ["top_k"]
        fine = await runtime.invoke("openai", CHAT, chat("openai"))
        assert "losses" not in fine.output
        assert "top_k" not in fake.bodies[0]


@on_loop
async def test_an_unsupported_request_fails_and_is_not_sent(url: str) -> None:
    async with running(url, "anthropic") as (runtime, _, fake):
        done = await runtime.invoke("anthropic", CHAT, chat("anthropic", output={"type": "json_object"}))
        assert done.state == "failed"
        assert done.error is not None
        assert "nothing was sent" in done.error
        assert fake.requests == []


@on_loop
async def test_usage_is_estimated_if_the_provider_reports_none(url: str) -> None:
    def hide(body: dict[str, Any]) -> None:
        del body["usage"]

    async with running(url, "openai", [Reply("Hello", patch=hide)]) as (runtime, _, __):
        done = await runtime.invoke("openai", CHAT, chat("openai"))
        cost = record(runtime, done)
        assert done.state == "completed"
        assert cost["estimate"] is True
        assert lines(cost)["tokens.output"] > 0
        assert _flags(runtime) == []


@on_loop
async def test_invalid_input_is_rejected_before_anything_is_recorded(url: str) -> None:
    async with running(url, "openai") as (runtime, __, fake):
        listed: list[Any] = [{"model": "gpt-4o"}, chat("openai", temperature="hot"), [], None]
        for bad in listed:
            with pytest.raises(ContractError, match="urn:modelpact:model:chat"):
                await runtime.invoke("openai", CHAT, bad)
        assert fake.requests == []
        assert runtime.invocations() == []


@on_loop
async def test_the_mock_as_a_provider_of_the_contract(url: str) -> None:
    ledger = Ledger.open(url)
    mock = MockProvider([Response((TextBlock("x"),), usage=Usage(3, 2)), "y"])
    provider = ModelProvider("mock", mock)
    runtime = Runtime(ledger, transports={"mock": provider})
    runtime.registry.register(provider.registration)
    value = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    done = await runtime.invoke("mock", CHAT, value)
    assert lines(record(runtime, done)) == {"tokens.input": 3, "tokens.output": 2}
    opened = await runtime.invoke("mock", CHAT, value, semantics="streaming")
    *pieces, last = [piece async for piece in runtime.stream(opened)]
    assert isinstance(last, Invocation)
    assert last.state == "completed"
    assert collect(read_event(piece.content) for piece in pieces if isinstance(piece, Partial)) is None
    ledger.close()


def test_the_estimate_of_an_image_does_not_grow_with_its_bytes() -> None:
    provider = ModelProvider("openai", MockProvider())

    def estimate(size: int) -> tuple[CostLine, ...]:
        image = {"type": "image", "data": "a" * size, "media_type": "image/png"}
        messages = [{"role": "user", "content": [image]}]
        return provider.estimate({"model": "gpt-4o", "messages": messages})

    assert estimate(10) == estimate(1_000_000)
    assert provider.estimate({"nonsense": True}) == ()


def _flags(runtime: Runtime) -> list[Any]:
    return [event for event in runtime.ledger.events("registry") if event.type == "provider.flagged"]
