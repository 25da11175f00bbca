"""Models: calls by provider name, each an invocation that is recorded and paid for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import TextDelta
from modelpact.dispatch.models import Called, CallFailed, Models
from modelpact.ledger.ledger import Ledger
from modelpact.providers.mock import MockProvider
from modelpact.providers.port import ProviderError
from modelpact.providers.runtime import Runtime

HELLO = Request("demo", (Message("user", (TextBlock("Hello"),)),))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:{tmp_path / 'ledger.db'}") as opened:
        yield opened


def models(ledger: Ledger, *script: str | Exception) -> Models:
    ports = {"mock": MockProvider(list(script))}
    return Models(Runtime(ledger), ports=ports, environment={})


def test_a_call_is_recorded_in_the_envelope_that_asked_for_it(ledger: Ledger) -> None:
    called = asyncio.run(models(ledger, "Hi").call("mock", HELLO, envelope="runs/1"))
    assert called.response.text == "Hi"
    assert [one.type for one in ledger.events("runs/1")] == [
        "capability.invoked",
        "capability.completed",
    ]


def test_a_stream_ends_with_the_whole_answer(ledger: Ledger) -> None:
    async def follow() -> list[object]:
        return [one async for one in models(ledger, "Hello you").stream("mock", HELLO)]

    *pieces, last = asyncio.run(follow())
    assert isinstance(last, Called)
    assert "".join(one.text for one in pieces if isinstance(one, TextDelta)) == "Hello you"
    assert last.response.text == "Hello you"


def test_a_failed_call_is_recorded_and_says_why(ledger: Ledger) -> None:
    broken = models(ledger, ProviderError("out of order", status=503))
    with pytest.raises(CallFailed, match="out of order") as caught:
        asyncio.run(broken.call("mock", HELLO))
    assert caught.value.invocation.state == "failed"


def test_who_can_be_authenticated_to(ledger: Ledger) -> None:
    """Seed 001 §B: the provider is supported and a credential is resolvable."""
    variable = "_".join(["OPENAI", "API", "KEY"])
    without = Models(Runtime(ledger), environment={})
    assert without.can_authenticate("mock")
    assert not without.can_authenticate("openai")
    assert not without.can_authenticate("nobody-knows")
    assert Models(Runtime(ledger), environment={variable: "k" * 8}).can_authenticate("openai")


def test_a_provider_is_registered_once(ledger: Ledger) -> None:
    for _ in range(2):
        calling = models(ledger, "a", "b")
        asyncio.run(calling.call("mock", HELLO))
        asyncio.run(calling.call("mock", HELLO))
    registered = [one for one in ledger.events("registry") if one.type == "provider.registered"]
    assert len(registered) == 1
