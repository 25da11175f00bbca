"""What providers declare about their models is checked, capped, recorded, or ignored."""

import asyncio
import threading
import time
from typing import Any

import pytest

from modelpact.conversation.request import Request
from modelpact.conversation.response import Response
from modelpact.ledger import Ledger
from modelpact.providers.port import MockProvider
from modelpact.sessions import ContextProvider, Session, SwitchRejected, provider_claims
from tests.conftest import catalog, fact, lineage
from tests.sessions.support import NEED, last, opened, small_catalog, types

UNLISTED = "openai/nobody-lists-this"


class Describing(MockProvider):
    """A provider that declares a value, or the result of a function."""

    def __init__(self, declared: Any) -> None:
        super().__init__()
        self.declared = declared
        self.described: list[str] = []

    def describe_capabilities(self, model: str) -> Any:
        self.described.append(model)
        return self.declared(model) if callable(self.declared) else self.declared


def needing(*needs: str) -> list[ContextProvider]:
    return [ContextProvider("x", needs=needs)]


def at(ledger: Ledger, declared: Any, **how: Any) -> tuple[Session, Describing]:
    port = Describing(declared)
    return opened(ledger, "anthropic/gpt-full", ports={"openai": port}, **how), port


def test_the_provider_is_asked_on_every_switch(ledger: Ledger) -> None:
    """S000-4-1: the session asks the provider to describe the model."""
    session, port = at(ledger, {})
    for _ in range(2):
        session.switch_model("openai/gpt-full")
    session.fit("openai/gpt-full")
    session.attach({"name": "sm"})
    assert port.described == ["gpt-full", "gpt-full"]


def test_a_declaration_fills_unknown_claims_and_is_labelled(ledger: Ledger) -> None:
    """MP-C6: S000-10-1, S000-10-2: declarations are hints."""
    session, _ = at(ledger, {"toolCalling": True, "contextWindow": 64_000})
    session.reload(context_providers=needing("tools", "context>=60k"))
    verdict = session.switch_model(UNLISTED).verdict
    assert [finding.outcome for finding in verdict.findings] == ["met", "met"]
    assert verdict.answer == "labelled"
    assert "only its provider says that it has context-window, tool-calling" in verdict.notes[-1]
    with pytest.raises(SwitchRejected):
        session.reload(context_providers=needing("context>=65k"))


@pytest.mark.parametrize(
    ("declared", "name", "beyond"),
    [
        ({"contextWindow": 2_000_000}, "contextWindow", "context>=300k"),
        ({"multimodal": {"video": True}}, "video-input", "video-input"),
    ],
)
def test_an_overstated_claim_is_capped_and_recorded(ledger: Ledger, declared: Any, name: str, beyond: str) -> None:
    """S000-10-2: contextWindow and multimodal are checked against known values."""
    known = small_catalog(still={"video_input": False})
    port = Describing(declared)
    session = opened(ledger, "anthropic/gpt-full", known=known, ports={"openai": port})
    session.switch_model("openai/gpt-still")
    capped = last(ledger, session, "capability.capped").payload
    assert capped["target"] == "openai/gpt-still"
    expected = (2_000_000, 200_000) if name == "contextWindow" else ("native", "unsupported")
    assert (capped["declared"], capped["known"]) == expected
    with pytest.raises(SwitchRejected):
        session.reload(context_providers=needing(beyond))


@pytest.mark.parametrize("name", ["streaming", "toolCalling", "structuredOutput", "reasoning"])
def test_a_declaration_does_not_override_a_known_absence(ledger: Ledger, name: str) -> None:
    known = small_catalog(weak=dict.fromkeys(("streaming", "tool_calling", "structured_output", "reasoning"), False))
    session = opened(
        ledger,
        "anthropic/gpt-full",
        known=known,
        ports={"openai": Describing({name: True})},
        context_providers=needing(NEED[name]),
    )
    with pytest.raises(SwitchRejected):
        session.switch_model("openai/gpt-weak")
    assert last(ledger, session, "capability.capped").payload["known"] == "unsupported"


def test_a_lower_declared_window_applies_unless_the_operator_overrules_it(ledger: Ledger) -> None:
    facts = [fact("openai/gpt-public", context_window=200_000, tool_calling=True)]
    known = catalog("", lineage("one", *facts), lineage("two", *facts))
    port = Describing({"contextWindow": 16_000})
    session = opened(ledger, "openai/gpt-public", known=known, ports={"openai": port})
    with pytest.raises(SwitchRejected):
        session.reload(context_providers=needing("context>=100k"))
    stated = opened(ledger, "openai/gpt-full", ports={"openai": port})
    stated.reload(context_providers=needing("context>=100k"))


def raises(_: str) -> Any:
    raise RuntimeError("boom " + "-".join(("sk", "proj", "0123456789abcdefghij")))


async def crashes_later(_: str) -> Any:
    await asyncio.sleep(0)
    raise ValueError("later")


async def hangs(_: str) -> Any:
    await asyncio.sleep(60)


NONSENSE = [
    *("text", 17, [1], {"contextWindow": -1}, {"contextWindow": True}, {"streaming": "maybe"}),
    *({"warpDrive": True}, {"multimodal": {"smell": True}}, {"contextWindow": 10**40}),
    *({1: True}, raises, crashes_later, hangs, lambda _: time.sleep(30)),
]


@pytest.mark.parametrize("declared", NONSENSE, ids=[str(number) for number in range(len(NONSENSE))])
def test_an_invalid_or_failing_declaration_is_ignored(
    ledger: Ledger, declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_claims, "DESCRIBE_SECONDS", 0.1)
    session, _ = at(ledger, declared)
    session.switch_model("openai/gpt-full")
    payload = last(ledger, session, "capability.undescribed").payload
    assert payload["target"] == "openai/gpt-full"
    assert payload["problem"]
    assert "0123456789abcdefghij" not in payload["problem"]
    assert session.send("Hello").text == "You said: Hello"


async def describes(_: str) -> Any:
    return {"reasoning": True}


@pytest.mark.parametrize("declared", [None, {}, {"streaming": "probed"}, describes])
def test_an_empty_declaration_is_no_problem(ledger: Ledger, declared: Any) -> None:
    session, _ = at(ledger, declared)
    session.switch_model("openai/gpt-full")
    assert "capability.undescribed" not in types(ledger, session)


def test_a_declaration_does_not_stop_a_call(ledger: Ledger) -> None:
    class Both(Describing):
        async def complete(self, request: Request) -> Response:
            return await super().complete(request)

    session = opened(ledger, UNLISTED, ports={"openai": Both({"toolCalling": True})})
    assert session.send("Hello").text == "You said: Hello"


def leaves(_: str) -> Any:
    raise SystemExit(3)


def interrupts(_: str) -> Any:
    raise KeyboardInterrupt


async def leaves_later(_: str) -> Any:
    raise SystemExit(3)


async def cancels_itself(_: str) -> Any:
    raise asyncio.CancelledError


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def unspeakable(_: str) -> Any:
    raise Unspeakable


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (leaves, "SystemExit: 3"),
        (interrupts, "KeyboardInterrupt"),
        (leaves_later, "SystemExit: 3"),
        (cancels_itself, "CancelledError"),
        (unspeakable, "Unspeakable"),
    ],
)
def test_a_declaration_cannot_end_the_process(ledger: Ledger, declared: Any, problem: str) -> None:
    session, _ = at(ledger, declared)
    session.switch_model("openai/gpt-full")
    assert last(ledger, session, "capability.undescribed").payload["problem"] == problem
    assert session.send("Hello").text == "You said: Hello"


def test_a_property_that_raises_is_ignored(ledger: Ledger) -> None:
    class Broken(MockProvider):
        @property
        def describe_capabilities(self) -> Any:
            raise RuntimeError("not today")

    session = opened(ledger, "anthropic/gpt-full", ports={"openai": Broken()})
    session.switch_model("openai/gpt-full")
    problem = last(ledger, session, "capability.undescribed").payload["problem"]
    assert problem == "RuntimeError: not today"


async def blocks_its_loop(_: str) -> Any:
    BLOCKED.wait(20)


class Slow(dict[str, Any]):
    """Claims that take very long to read."""

    def items(self) -> Any:
        BLOCKED.wait(20)
        return super().items()

    def __iter__(self) -> Any:
        BLOCKED.wait(20)
        return super().__iter__()


BLOCKED = threading.Event()


@pytest.mark.parametrize("declared", [blocks_its_loop, Slow(streaming=True)])
def test_a_slow_declaration_does_not_block_other_sessions(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, declared: Any
) -> None:
    monkeypatch.setattr(provider_claims, "DESCRIBE_SECONDS", 0.1)
    BLOCKED.clear()
    try:
        session, _ = at(ledger, declared)
        session.switch_model("openai/gpt-full")
        problem = last(ledger, session, "capability.undescribed").payload["problem"]
        assert problem == "it did not describe itself within 0.1 seconds"
        assert opened(ledger).send("Hello").text == "You said: Hello"
        assert not BLOCKED.is_set()
    finally:
        BLOCKED.set()
