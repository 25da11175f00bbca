"""A resumed session is negotiated with its model as it is known now."""

import asyncio
from typing import Any

import pytest

from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence import Observation, forget, record
from modelpact.ledger import Ledger
from modelpact.providers.port import MockProvider
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import ContextProvider, KeyMissing, NoLongerFits, Session, StateMachine, TargetUnreachable
from tests.sessions.support import last, models_of, opened, seen, small_catalog, stored, types

SUGGESTED = "openai/gpt-suggested"
NO_TOOLS = Observation("openai", "gpt-suggested", "tool-calling", "unsupported", origin="use")
BY_NOW = small_catalog(full={"tool_calling": False}, other={})
"""The catalog after a change of the configuration: `gpt-full` has no tools."""


def resumed(ledger: Ledger, name: str, **how: Any) -> Session:
    return Session.resume(name, ledger=ledger, models=models_of(ledger, **how))


def test_a_session_resumes_if_its_model_still_fits(ledger: Ledger) -> None:
    with opened(ledger, machine=StateMachine("plan")) as session:
        session.send("One")
    again = resumed(ledger, session.id)
    assert again.refusal is None
    assert types(ledger, again)[-2:] == ["session.resumed", "negotiation.decided"]
    decided = last(ledger, again, "negotiation.decided")
    assert (decided.payload["trigger"], decided.payload["answer"]) == ("resume", "yes")
    assert again.send("Two").text == "You said: Two"


def test_a_model_that_no_longer_fits_is_sent_nothing(either: Ledger) -> None:
    with opened(either, machine=StateMachine("plan"), id="a") as session:
        session.send("One")
        session.set_params({"temperature": 0.5})
    before = seen(session), stored(either, session)
    port = MockProvider()
    again = resumed(either, "a", known=BY_NOW, openai=port)
    assert (seen(again), stored(either, again)) == before
    refusal = again.refusal
    assert isinstance(refusal, NoLongerFits)
    assert refusal.code == "Session/ModelNoLongerFits"
    assert [missing.capability for missing in refusal.diagnostic.missing] == ["tool-calling"]
    assert refusal.diagnostic.missing[0].required_by == ("state-machine:plan",)
    assert refusal.diagnostic.suggestion not in (None, "openai/gpt-full")
    payload = last(either, again, "session.rejected").payload
    assert (payload["trigger"], payload["code"]) == ("resume", "Session/ModelNoLongerFits")
    assert payload["diagnostic"]["missing"][0]["capability"] == "toolCalling"

    async def follow() -> None:
        async for _ in again.stream("Two"):
            pass

    for ask in (lambda: again.send("Two"), lambda: asyncio.run(follow())):
        with pytest.raises(NoLongerFits, match="nothing is sent until a model that fits is chosen"):
            ask()
    assert (port.requests, stored(either, again)) == ([], before[1])
    again.switch_model("anthropic/gpt-other")
    assert again.refusal is None
    assert again.send("Two").text == "You said: Two"
    assert [message.text for message in again.messages][:3] == ["One", "You said: One", "Two"]


def test_new_evidence_counts_until_it_is_dropped(ledger: Ledger) -> None:
    with opened(ledger, SUGGESTED, machine=StateMachine("plan"), id="a"):
        pass
    record(ledger, NO_TOOLS)
    again = resumed(ledger, "a")
    assert isinstance(again.refusal, NoLongerFits)
    assert again.refusal.evidence_hint
    with pytest.raises(NoLongerFits):
        again.send("Hello")
    forget(ledger, SUGGESTED)
    assert again.send("Hello").text == "You said: Hello"
    assert again.refusal is None


def test_a_session_fits_again_when_less_is_required(ledger: Ledger) -> None:
    with opened(ledger, machine=StateMachine("plan"), id="a"):
        pass
    again = resumed(ledger, "a", known=BY_NOW)
    assert again.refusal is not None
    again.detach()
    assert again.send("Hello").text == "You said: Hello"
    assert again.refusal is None


def test_a_lost_preferred_capability_is_recorded_on_resume(ledger: Ledger) -> None:
    wish = ContextProvider("x", needs=("tools:preferred",))
    with opened(ledger, context_providers=[wish], id="a"):
        pass
    again = resumed(ledger, "a", known=BY_NOW)
    assert again.refusal is None
    diagnostic = last(ledger, again, "session.resumed").payload["diagnostic"]
    assert diagnostic["warnings"] == [{"name": "toolCalling", "reason": "preferred-unmet"}]


def test_the_provider_is_asked_again_on_resume(ledger: Ledger) -> None:
    class Declaring(MockProvider):
        def describe_capabilities(self, model: str) -> dict[str, Any]:
            return {"toolCalling": True}

    port = Declaring()
    machine = StateMachine("plan")
    with opened(ledger, "vllm/mine", ports={"vllm": port}, machine=machine, id="a"):
        pass
    assert resumed(ledger, "a", vllm=port).refusal is None


def test_a_session_without_its_key_resumes_but_sends_nothing(ledger: Ledger) -> None:
    models = ModelCaller(Runtime(ledger), environment={"OPENAI_API_KEY": "-".join("abc")})
    with Session.open("openai/gpt-5", ledger=ledger, models=models, id="a"):
        pass
    keyless = ModelCaller(Runtime(ledger), environment={})
    again = Session.resume("a", ledger=ledger, models=keyless)
    assert isinstance(again.refusal, KeyMissing)
    with pytest.raises(KeyMissing, match="set OPENAI_API_KEY"):
        again.send("Hello")
    assert again.unanswered == ()
    assert last(ledger, again, "session.rejected").payload["code"] == "Session/MissingKey"
    again.switch_model("mock/demo")
    assert again.send("Hello").text == "You said: Hello"


def test_a_provider_that_is_no_longer_configured(ledger: Ledger) -> None:
    with opened(ledger, "vllm/mine", id="a"):
        pass
    ledger.write(lambda tx: tx.execute("UPDATE sessions SET state = REPLACE(state, 'vllm/', 'gone/')"))
    again = resumed(ledger, "a")
    assert isinstance(again.refusal, TargetUnreachable)
    assert again.refusal.code == "Session/Unreachable"
    with pytest.raises(TargetUnreachable, match="unknown provider 'gone'"):
        again.send("Hello")
