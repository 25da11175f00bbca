"""Turns: sync, async and streamed, their cost and storage, and failures at the point of use."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelpact import InputError, Policy
from modelpact.conversation.message import ImageBlock, Message, TextBlock, ToolUseBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import Finish, Response, StreamEvent, TextDelta
from modelpact.dispatch.model_caller import CallFailed
from modelpact.ledger import Ledger
from modelpact.providers.models.upstream import UpstreamError
from modelpact.providers.port import MockProvider, ProviderError
from modelpact.sessions import (
    CapabilityMissing,
    ContextProvider,
    ParamsRefused,
    Session,
    SessionBusy,
    SwitchRejected,
    Turn,
)
from tests.sessions.support import FULL, last, models_of, opened, small_catalog, trail, types

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
UNLISTED = "openai/nobody-lists-this"


def test_a_turn_is_stored_and_its_events_are_linked(ledger: Ledger) -> None:
    session = opened(ledger)
    turn = session.send("Hello")
    assert turn.text == "You said: Hello"
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert types(ledger, session)[-4:] == [
        *("session.turn", "capability.invoked", "capability.completed", "session.answered")
    ]
    chain = [event.type for event in ledger.cause_chain(last(ledger, session, "session.answered").id)]
    assert chain[:4] == [*("session.answered", "capability.completed", "capability.invoked", "session.turn")]
    assert chain[-1] == "negotiation.decided"
    assert {line.unit for line in turn.cost} >= {"tokens.input", "tokens.output"}
    assert turn.invocations[0].envelope == session.envelope


def test_a_request_includes_the_earlier_messages(ledger: Ledger) -> None:
    port = MockProvider(["one", "two"])
    session = opened(ledger, ports={"openai": port})
    session.send([Message("system", (TextBlock("Be brief"),)), "first"])
    session.send(Message("user", (TextBlock("second"),)))
    assert [message.text for message in port.requests[1].messages] == [*("Be brief", "first", "one", "second")]


def test_sync_inside_and_outside_a_loop_and_async(ledger: Ledger) -> None:
    """The same session from sync code, from a running loop, and from two loops in turn."""
    session = opened(ledger)

    async def inside() -> list[str]:
        return [session.send("a").text, (await session.asend("b")).text]

    assert asyncio.run(inside()) == ["You said: a", "You said: b"]
    assert asyncio.run(inside()) == ["You said: a", "You said: b"]
    assert session.send("c").text == "You said: c"
    assert len(session.messages) == 10


def test_a_stream_ends_with_the_turn(ledger: Ledger) -> None:
    session = opened(ledger)

    async def follow() -> list[Any]:
        async with session:
            return [event async for event in session.stream("Hello")]

    *events, turn = asyncio.run(follow())
    assert isinstance(turn, Turn)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text
    assert len(session.messages) == 2


def test_a_long_stream_costs_no_more_events_than_a_short_one(ledger: Ledger) -> None:
    long = "word " * 20_000
    session = opened(ledger, ports={"openai": MockProvider([long])})
    before = len(trail(ledger, session))

    async def follow() -> list[Any]:
        return [event async for event in session.stream("Hello")]

    *events, turn = asyncio.run(follow())
    assert sum(isinstance(event, TextDelta) for event in events) > 10_000
    assert isinstance(events.pop(), Finish)  # the end that comes when it is settled
    assert turn.text == long
    assert types(ledger, session)[before:] == [
        *("session.turn", "capability.invoked", "capability.completed", "session.answered")
    ]
    settled = last(ledger, session, "capability.completed")
    assert settled.payload["partials"]["count"] == len(events)
    stored_text = session.transcript[-1].message.text
    again = Session.resume(session.id, ledger=ledger, models=models_of(ledger))
    assert stored_text == again.messages[-1].text == long


def test_the_partials_of_a_stopped_response_are_counted(ledger: Ledger) -> None:
    session = opened(ledger, ports={"openai": MockProvider(["a long answer " * 200])})

    async def leave() -> None:
        events = session.stream("Hello")
        async for _ in events:
            break
        await events.aclose()

    asyncio.run(leave())
    cancelled = last(ledger, session, "capability.cancelled")
    assert cancelled.payload["partials"]["count"] >= 1
    assert cancelled.payload["partials"]["digest"].startswith("sha256:")
    assert "capability.partial" not in types(ledger, session)


def test_an_abandoned_stream_is_cancelled_and_unanswered(ledger: Ledger) -> None:
    session = opened(ledger, ports={"openai": MockProvider(["a long answer " * 200])})

    async def leave() -> None:
        events = session.stream("Hello")
        async for _ in events:
            break
        await events.aclose()

    asyncio.run(leave())
    assert [message.text for message in session.unanswered] == ["Hello"]
    assert session.messages == ()
    assert "capability.cancelled" in types(ledger, session)
    assert last(ledger, session, "session.failed").payload["error"] == "the caller went away"
    with pytest.raises(ProviderError, match="script"):
        session.send("the session is free again")


def test_one_turn_at_a_time(ledger: Ledger) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(MockProvider):
        async def complete(self, request: Request) -> Response:
            entered.set()
            await asyncio.to_thread(leave.wait, 20)
            return await super().complete(request)

    session = opened(ledger, ports={"openai": Slow()})
    first = threading.Thread(target=session.send, args=("one",))
    first.start()
    assert entered.wait(20)
    with pytest.raises(SessionBusy):
        session.send("two")
    session.switch_model("anthropic/gpt-full")
    leave.set()
    first.join(20)
    assert [message.text for message in session.messages] == ["one", "You said: one"]
    assert session.target == "anthropic/gpt-full"


def test_a_failed_message_is_stored_but_not_sent_again(ledger: Ledger) -> None:
    port = MockProvider([ProviderError("out of order", status=503), "fine"])
    session = opened(ledger, ports={"openai": port})
    with pytest.raises(CallFailed, match="out of order"):
        session.send("first")
    assert [message.text for message in session.unanswered] == ["first"]
    assert session.send("second").text == "fine"
    assert [message.text for message in port.requests[1].messages] == ["second"]
    assert [message.text for message in session.unanswered] == ["first"]
    again = Session.resume(session.id, ledger=ledger, models=models_of(ledger))
    assert (again.messages, again.unanswered) == (session.messages, session.unanswered)


@pytest.mark.parametrize("raised", [RuntimeError("boom"), SystemExit(3)])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_port_that_raises_fails_only_its_call(ledger: Ledger, raised: BaseException, streamed: bool) -> None:
    """Whatever a port raises is a failed call, and no invocation stays open."""

    class Crashing(MockProvider):
        async def complete(self, request: Request) -> Response:
            raise raised

        async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
            async for event in super().stream(request):
                yield event
                raise raised

    async def follow(session: Session) -> None:
        async for _ in session.stream("first"):
            pass

    session = opened(ledger, ports={"openai": Crashing()})
    with pytest.raises(CallFailed, match=f"the port crashed: {type(raised).__name__}"):
        asyncio.run(follow(session)) if streamed else session.send("first")
    assert types(ledger, session)[-2:] == ["capability.failed", "session.failed"]
    assert [message.text for message in session.unanswered] == ["first"]
    session.switch_model("anthropic/gpt-full")
    assert session.send("second").text == "You said: second"


def test_an_interrupt_in_a_port_does_not_stop_the_shared_loop(ledger: Ledger) -> None:
    class Interrupting(MockProvider):
        async def complete(self, request: Request) -> Response:
            raise KeyboardInterrupt

    session = opened(ledger, ports={"openai": Interrupting()})
    with pytest.raises(KeyboardInterrupt):
        session.send("first")
    other = opened(ledger, "anthropic/gpt-full")
    assert other.send("Hello").text == "You said: Hello"


# Parameters.


def test_parameters_that_do_not_apply_are_refused_before_anything_is_sent(ledger: Ledger) -> None:
    port = MockProvider()
    known = small_catalog(cold={"temperature": False})
    session = opened(ledger, "openai/gpt-cold", known=known, ports={"openai": port}, launch={"temperature": 0.3})
    with pytest.raises(ParamsRefused) as caught:
        session.send("Hello")
    assert caught.value.code == "Session/UnsupportedParams"
    message = str(caught.value)
    assert "openai/gpt-cold does not take what is set: temperature=0.3 (from launch)" in message
    assert 'remove them with set_params({"temperature": None})' in message
    assert port.requests == []
    assert session.unanswered == ()
    assert "session.turn" not in types(ledger, session)
    session.set_params({"temperature": None})
    assert session.send("Hello").warnings == ()


def test_parameters_that_do_not_apply_are_dropped_with_a_warning(ledger: Ledger) -> None:
    port = MockProvider()
    session = opened(
        ledger,
        "openai/gpt-cold",
        known=small_catalog(cold={"temperature": False}),
        ports={"openai": port},
        launch={"temperature": 0.3, "top_k": 3, "x_own": 1},
        policy=Policy(unsupported_params="drop"),
    )
    turn = session.send("Hello")
    assert port.requests[0].temperature is None
    assert port.requests[0].top_k == 3
    assert turn.warnings[0].startswith("temperature was dropped: openai/gpt-cold has no temp")
    assert turn.warnings[1].startswith("x_own is sent: modelpact does not know")
    assert last(ledger, session, "session.answered").payload["warnings"] == list(turn.warnings)


def test_the_layers_of_parameters(ledger: Ledger) -> None:
    session = opened(ledger, default_params={"temperature": 0.1, "top_k": 1}, launch={"temperature": 0.2})
    assert session.params == {"temperature": 0.2, "top_k": 1}
    session.set_params({"temperature": 0.3, "stop_sequences": ["END"]})
    assert session.params == {"temperature": 0.3, "top_k": 1, "stop_sequences": ["END"]}
    session.unset_params(["temperature"])
    assert session.params["temperature"] == 0.2
    with pytest.raises(InputError, match="'seed' is not set; set is stop_sequences"):
        session.unset_params(["seed"])
    assert session.layers == {
        "defaultParams": {"temperature": 0.1, "top_k": 1},
        "launch": {"temperature": 0.2},
        "/params": {"stop_sequences": ["END"]},
    }


# The point of use.

USES: dict[str, tuple[dict[str, Any], dict[str, Any], Any, str]] = {
    "tool-calling": ({"tool_calling": False}, {"tools": [TOOL]}, "Hi", "ProviderCapability/MissingToolCalling"),
    "structured-output": (
        {"structured_output": False},
        {"response_format": SCHEMA},
        "Hi",
        "ProviderCapability/MissingStructuredOutput",
    ),
    "reasoning": (
        {"reasoning": False},
        {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
        "Hi",
        "ProviderCapability/MissingReasoning",
    ),
    "image-input": (
        {"image_input": False},
        {},
        Message("user", (ImageBlock(data="AAAA", media_type="image/png"),)),
        "ProviderCapability/MissingMultimodal",
    ),
}


@pytest.mark.parametrize("name", USES)
def test_a_known_absence_fails_before_sending(ledger: Ledger, name: str) -> None:
    """S000-5-3: a miss of a probed capability shows at the point of use."""
    lacking, params, sent, code = USES[name]
    port = MockProvider()
    session = opened(
        ledger,
        "openai/gpt-weak",
        known=small_catalog(weak=lacking),
        ports={"openai": port},
        context_providers=[ContextProvider("x", needs=(f"{name}:probed",))],
        launch=params,
    )
    with pytest.raises(CapabilityMissing) as caught:
        session.send(sent)
    assert caught.value.code == code
    assert caught.value.axis == "runtime"
    for param in params:
        assert f"take {param} out of the parameters" in str(caught.value)
        assert "(from launch)" in str(caught.value)
    assert port.requests == []


def test_missing_streaming_fails_before_sending(ledger: Ledger) -> None:
    session = opened(ledger, "openai/gpt-weak", known=small_catalog(weak={"streaming": False}))

    async def follow() -> None:
        async for _ in session.stream("Hello"):
            pass

    with pytest.raises(CapabilityMissing) as caught:
        asyncio.run(follow())
    assert caught.value.code == "ProviderCapability/MissingStreaming"
    assert session.send("Hello").text == "You said: Hello"


@pytest.mark.parametrize("name", USES)
def test_a_rejection_is_evidence_for_the_next_negotiation(ledger: Ledger, name: str) -> None:
    """S000-5-3: the failure shows at the point of use, and is remembered."""
    _, params, sent, code = USES[name]
    supports = {"streaming", "tool-calling", "structured-output", "reasoning", "image-input"}
    port = MockProvider(supports=supports - {name})
    session = opened(ledger, UNLISTED, ports={"openai": port}, launch=params)
    with pytest.raises(CapabilityMissing) as caught:
        session.send(sent)
    assert caught.value.code == code
    assert isinstance(caught.value.__cause__, CallFailed)
    needs = [ContextProvider("x", needs=(name,))]
    verdict = session.spawn().fit(UNLISTED)
    assert verdict.ok
    for again in (session, Session.resume(session.id, ledger=ledger, models=models_of(ledger))):
        with pytest.raises(SwitchRejected) as rejected:
            again.reload(context_providers=needs)
        assert rejected.value.diagnostic.missing[0].reason == "unsupported"
        finding = rejected.value.verdict.missing[0]
        assert finding.claim.evidence is not None
        assert finding.claim.evidence.layer == "evidence"
    cause = ledger.event(str(ledger.events("evidence/openai")[-1].cause))
    assert cause is not None
    assert cause.type == "capability.failed"


def test_a_rejected_prompt_teaches_the_window(ledger: Ledger) -> None:
    words = "This model's maximum context length is 8192 tokens. Reduce the length of the messages."
    port = MockProvider([UpstreamError(words, status=400, code="context_length_exceeded")])
    session = opened(ledger, UNLISTED, ports={"openai": port})
    with pytest.raises(CapabilityMissing) as caught:
        session.send("long")
    assert caught.value.code == "ProviderCapability/ContextWindowTooSmall"
    with pytest.raises(SwitchRejected):
        session.reload(context_providers=[ContextProvider("x", tokens=10_000)])
    session.reload(context_providers=[ContextProvider("x", tokens=8_000)])


def test_a_response_teaches_what_it_proves(ledger: Ledger) -> None:
    content = (TextBlock("I will look."), ToolUseBlock("1", "look", {}))
    port = MockProvider([Response(content, stop_reason="tool_use")])
    session = opened(ledger, UNLISTED, ports={"openai": port}, launch={"tools": [TOOL]})

    async def follow() -> None:
        async for _ in session.stream("Look"):
            pass

    asyncio.run(follow())
    session.reload(context_providers=[ContextProvider("x", needs=("tools", "streaming"))])
    assert [finding.outcome for finding in session.fit(UNLISTED).findings] == ["met", "met"]


def test_an_outage_teaches_nothing(ledger: Ledger) -> None:
    port = MockProvider([ProviderError("overloaded", status=529)])
    session = opened(ledger, UNLISTED, ports={"openai": port})
    with pytest.raises(CallFailed):
        session.send("Hello")
    assert ledger.read("SELECT COUNT(*) FROM evidence") == [(0,)]


# Emulation.


def test_emulation_if_policy_and_need_allow_it(ledger: Ledger) -> None:
    answer_text = '{"name": "Ada"}'
    port = MockProvider([answer_text], supports={"system-messages"})
    known = small_catalog(bare={name: False for name in FULL if FULL[name] is True})
    session = opened(
        ledger,
        "openai/gpt-bare",
        known=known,
        ports={"openai": port},
        policy=Policy(emulate=True),
        context_providers=[ContextProvider("x", needs=("structured-output>=emulated",))],
        launch={"response_format": SCHEMA},
    )
    turn = session.send("Who?")
    assert turn.text == answer_text
    assert any("structured-output is emulated" in warning for warning in turn.warnings)
    with pytest.raises(SwitchRejected):
        session.reload(context_providers=[ContextProvider("x", needs=("structured-output",))])


def test_an_emulated_stream(ledger: Ledger) -> None:
    port = MockProvider(["in one piece"], supports=set())
    session = opened(
        ledger,
        "openai/gpt-mute",
        known=small_catalog(mute={"streaming": False}),
        ports={"openai": port},
        policy=Policy(emulate=True),
    )

    async def follow() -> list[Any]:
        return [event async for event in session.stream("Hello")]

    turn = asyncio.run(follow())[-1]
    assert turn.text == "in one piece"
    assert any("streaming is emulated" in warning for warning in turn.warnings)
    assert trail(ledger, session)[-1].type == "session.answered"
