"""The model caller: every call is an invocation with its cost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelpact.conversation.message import Message, TextBlock, ToolUseBlock
from modelpact.conversation.request import Request, Tool
from modelpact.conversation.response import Response, TextDelta
from modelpact.dispatch.model_caller import CallFailed, ModelCaller, ModelResult
from modelpact.evidence import read_evidence
from modelpact.ledger.ledger import Ledger
from modelpact.providers.port import MockProvider, ProviderError
from modelpact.providers.runtime.runtime import Runtime

HELLO = Request("demo", (Message("user", (TextBlock("Hello"),)),))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as opened:
        yield opened


def models(ledger: Ledger, *script: str | Exception) -> ModelCaller:
    ports = {"mock": MockProvider(list(script))}
    return ModelCaller(Runtime(ledger), ports=ports, environment={})


def test_a_call_is_recorded_in_the_envelope_that_asked_for_it(ledger: Ledger) -> None:
    called = asyncio.run(models(ledger, "Hi").call("mock", HELLO, envelope="runs/1"))
    assert called.response.text == "Hi"
    assert [event.type for event in ledger.events("runs/1")] == ["capability.invoked", "capability.completed"]


def test_a_stream_ends_with_the_result(ledger: Ledger) -> None:
    async def follow() -> list[object]:
        return [event async for event in models(ledger, "Hello you").stream("mock", HELLO)]

    *pieces, last = asyncio.run(follow())
    assert isinstance(last, ModelResult)
    assert "".join(event.text for event in pieces if isinstance(event, TextDelta)) == "Hello you"
    assert last.response.text == "Hello you"


def test_a_failed_call_is_recorded_and_says_why(ledger: Ledger) -> None:
    broken = models(ledger, ProviderError("out of order", status=503))
    with pytest.raises(CallFailed, match="out of order") as caught:
        asyncio.run(broken.call("mock", HELLO))
    assert caught.value.invocation.state == "failed"


def test_can_authenticate(ledger: Ledger) -> None:
    """S001-B9: the provider is supported and a credential can be resolved."""
    variable = "_".join(["OPENAI", "API", "KEY"])
    without = ModelCaller(Runtime(ledger), environment={})
    assert without.can_authenticate("mock")
    assert not without.can_authenticate("openai")
    assert not without.can_authenticate("nobody-knows")
    assert ModelCaller(Runtime(ledger), environment={variable: "k" * 8}).can_authenticate("openai")


def test_a_provider_is_registered_once(ledger: Ledger) -> None:
    for _ in range(2):
        calling = models(ledger, "a", "b")
        asyncio.run(calling.call("mock", HELLO))
        asyncio.run(calling.call("mock", HELLO))
    registered = [event for event in ledger.events("registry") if event.type == "provider.registered"]
    assert len(registered) == 1


def test_a_rejection_becomes_evidence(ledger: Ledger) -> None:
    ports = {"mock": MockProvider(supports=["streaming"])}
    calling = ModelCaller(Runtime(ledger), ports=ports, environment={})
    asking = Request("demo", HELLO.messages, stop=("x",))
    assert calling.catalog.resolve("mock/demo").claim("stop-sequences").support == "native"
    for _ in range(2):
        with pytest.raises(CallFailed) as caught:
            asyncio.run(calling.call("mock", asking, envelope="runs/1"))
    assert caught.value.status == 400
    assert [observation.capability for observation in caught.value.learned] == ["stop-sequences"]
    assert isinstance(caught.value.__cause__, ProviderError)
    (event,) = ledger.events("evidence/mock")
    assert event.cause == ledger.events("runs/1")[1].id
    ((layer,),) = read_evidence(ledger).values()
    assert layer.fields == {"stop_sequences": False}
    known = calling.catalog.extended(evidence=read_evidence(ledger)).resolve("mock/demo")
    assert known.claim("stop-sequences").support == "unsupported"


def test_outages_teach_nothing(ledger: Ledger) -> None:
    broken = models(ledger, ProviderError("does not support tools", status=503))
    asking = Request("demo", HELLO.messages, tools=(Tool("look"),))
    with pytest.raises(CallFailed):
        asyncio.run(broken.call("mock", asking))
    assert read_evidence(ledger) == {}


def test_a_response_teaches_only_what_is_not_known(ledger: Ledger) -> None:
    call = Response((ToolUseBlock("1", "look", {}),), "tool_use")
    asking = Request("demo", HELLO.messages, tools=(Tool("look"),))
    for provider, learned in (("mock", {}), ("vllm", {"tool_calling": True})):
        calling = ModelCaller(Runtime(ledger), ports={provider: MockProvider([call])}, environment={})
        asyncio.run(calling.call(provider, asking))
        fields = [dict(layer.fields) for layers in read_evidence(ledger).values() for layer in layers]
        assert fields == ([learned] if learned else [])
