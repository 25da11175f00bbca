"""Sessions in either store: resumed from the last commit, also after kill -9."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from modelpact import Policy
from modelpact.conversation.message import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response
from modelpact.evidence import Observation, record
from modelpact.ledger import Event, Ledger, LedgerError, LedgerUncertain, Transaction
from modelpact.providers.port import MockProvider
from modelpact.sessions import (
    ContextProvider,
    Hook,
    LoadError,
    SecurityMode,
    Session,
    SessionClosed,
    SessionMoved,
    Stage,
    StateMachine,
    SwitchRejected,
    UnknownSession,
    UnreadableSession,
    list_sessions,
)
from tests.ledger.support import KILLED, finished, process
from tests.sessions.support import last, models_of, opened, seen, small_catalog, stored, trail

MACHINE = StateMachine("review", (Stage("draft", ("streaming:preferred",)),))


def test_a_resumed_session_has_its_whole_state(either: Ledger) -> None:
    call = Response((ToolUseBlock("1", "look", {"at": 1.5}),), stop_reason="tool_use")
    session = opened(
        either,
        ports={"openai": MockProvider(["hi", call, "done"])},
        default_params={"temperature": 0.25},
        machine=MACHINE,
        context_providers=[ContextProvider("docs", ("tool-hint",), 9_000)],
        hooks=[Hook("mask", "guard", "tokens", "preferred", ("reasoning:probed",))],
        security=SecurityMode("allowlist", True),
        policy=Policy(unknown="probe"),
    )
    session.set_params({"stop": ["END"]})
    session.send([Message("system", (TextBlock("Be brief"),)), "Hello"])
    session.send(Message("user", (TextBlock("What is"), ImageBlock(url="https://x.example/1"))))
    session.send(Message("tool", (ToolResultBlock("1", (TextBlock("a cat"),)),)))
    session.switch_model("anthropic/gpt-full")
    again = Session.resume(session.id, ledger=either, models=models_of(either))
    assert seen(again) == seen(session)
    assert again.switch_provider("openai").target == "openai/gpt-full"
    assert len(again.messages) == 7
    trail(either, session)


def test_the_newest_session_is_listed_first(either: Ledger) -> None:
    for name in ("one", "two", "three"):
        opened(either, id=name)
    Session.resume("one", ledger=either, models=models_of(either)).send("Hello")
    listed = list_sessions(either)
    assert [(summary.id, summary.messages) for summary in listed] == [("one", 2), ("three", 0), ("two", 0)]
    assert list_sessions(either, 1)[0].target == "openai/gpt-full"


def test_a_closed_session_can_be_resumed(either: Ledger) -> None:
    with opened(either, id="a") as session:
        pass
    with pytest.raises(SessionClosed):
        session.switch_model("anthropic/gpt-full")
    with pytest.raises(SessionClosed):
        session.send("Hello")
    session.close()
    again = Session.resume("a", ledger=either, models=models_of(either))
    assert again.send("Hello").text == "You said: Hello"
    kinds = [event.type for event in either.events("session/a")]
    assert kinds[2:4] == ["session.closed", "session.resumed"]
    with pytest.raises(UnknownSession):
        Session.resume("nobody", ledger=either, models=models_of(either))


def test_two_processes_do_not_overwrite_each_other(either: Ledger) -> None:
    first = opened(either, id="a")
    second = Session.resume("a", ledger=either, models=models_of(either))
    first.switch_model("anthropic/gpt-full")
    before = stored(either, first)
    with pytest.raises(SessionMoved):
        second.attach(MACHINE)
    assert second.machine is None
    first.send("Hello")
    with pytest.raises(SessionMoved):
        second.send("Hello")
    assert stored(either, first)[0] == before[0]


def test_a_stale_session_does_not_send_to_its_old_model(either: Ledger) -> None:
    """A process that has not seen a switch must not send to the model before it."""
    port = MockProvider()
    stale = opened(either, id="a", ports={"openai": port})
    other = Session.resume("a", ledger=either, models=models_of(either))
    other.switch_model("anthropic/gpt-full")
    before = stored(either, other)
    with pytest.raises(SessionMoved):
        stale.send("Hello")
    assert (port.requests, stored(either, other)) == ([], before)
    assert other.send("Hello").text == "You said: Hello"


class Meanwhile(MockProvider):
    """A model that runs a function while it answers."""

    happens: Callable[[], Any]

    async def complete(self, request: Request) -> Response:
        await asyncio.to_thread(self.happens)
        return await super().complete(request)


def test_an_answer_is_not_stored_if_the_session_moved(either: Ledger) -> None:
    port = Meanwhile()
    session = opened(either, id="a", ports={"openai": port})
    other = Session.resume("a", ledger=either, models=models_of(either))
    port.happens = lambda: other.switch_model("anthropic/gpt-full")
    with pytest.raises(SessionMoved):
        session.send("Hello")
    assert last(either, session, "session.failed").payload["code"] == "Session/Moved"
    assert [entry.answered for entry in other.transcript] == [False]


def test_a_switch_during_an_answer_in_the_same_process_is_allowed(ledger: Ledger) -> None:
    port = Meanwhile()
    session = opened(ledger, ports={"openai": port})
    port.happens = lambda: session.switch_model("anthropic/gpt-full")
    assert session.send("Hello").text == "You said: Hello"
    assert [entry.answered for entry in session.transcript] == [True, True]


def test_an_extension_of_another_contract_is_not_resumed(ledger: Ledger) -> None:
    """S000-8-3: an incompatible contract version fails at load time."""
    opened(ledger, id="a", machine=MACHINE)
    newer = '"name":"review","contract":"^2.0"'
    sql = 'UPDATE sessions SET state = REPLACE(state, \'"name":"review"\', ?)'
    ledger.write(lambda tx: tx.execute(sql, (newer,)))
    with pytest.raises(LoadError, match=r"load-time contract version: state-machine:review"):
        Session.resume("a", ledger=ledger, models=models_of(ledger))


def test_a_switch_is_one_commit(ledger: Ledger) -> None:
    session = opened(ledger, context_providers=[ContextProvider("x", needs=("seed:preferred",))])
    commits: list[int] = []
    write = ledger.write

    def counting(work: Any) -> Any:
        commits.append(1)
        return write(work)

    ledger.write = counting  # type: ignore[method-assign]
    session.switch_model("anthropic/gpt-full")
    assert len(commits) == 1
    times = [event.time for event in ledger.events(session.envelope)[-2:]]
    assert len(set(times)) == 1


def test_an_uncertain_commit_is_loaded_before_the_next_use(ledger: Ledger) -> None:
    session = opened(ledger)
    write = ledger.write

    def kept_but_not_heard_of(work: Any) -> Any:
        write(work)
        raise LedgerUncertain("the connection broke at the commit")

    ledger.write = kept_but_not_heard_of  # type: ignore[method-assign]
    with pytest.raises(LedgerUncertain):
        session.switch_model("anthropic/gpt-full")
    ledger.write = write  # type: ignore[method-assign]
    session.set_params({"temperature": 0.5})
    assert session.target == "anthropic/gpt-full"


def test_a_failing_store_loses_nothing(ledger: Ledger) -> None:
    session = opened(ledger)
    before = seen(session), stored(ledger, session)
    write = ledger.write

    def failing(work: Any) -> Any:
        def half(tx: Transaction) -> Any:
            work(tx)
            raise OSError("disk full")

        return write(half)

    ledger.write = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        session.switch_model("anthropic/gpt-full")
    assert (seen(session), stored(ledger, session)) == before


# A listener that throws.


def test_a_failing_listener_stops_neither_the_switch_nor_delivery(ledger: Ledger) -> None:
    """S000-9-9: the diagnostic is on the event bus; a listener that raises changes nothing."""
    events: list[Event] = []

    def broken(_: Event) -> None:
        raise RuntimeError("no")

    ledger.bus.subscribe(broken)
    ledger.bus.subscribe(events.append, "session.")
    session = opened(ledger, known=small_catalog(weak={"seed": False}))
    session.reload(context_providers=[ContextProvider("x", needs=("seed:preferred",))])
    session.switch_model("gpt-weak")
    session.send("Hello")
    assert session.target == "openai/gpt-weak"
    assert [event.type for event in events] == [
        *("session.opened", "session.reloaded", "session.switched", "session.downgraded"),
        *("session.turn", "session.answered"),
    ]
    assert [event.sequence for event in events] == sorted(event.sequence for event in events)
    assert ledger.bus.failures == len(trail(ledger, session)) + len(ledger.events("registry"))
    switched = next(event for event in events if event.type == "session.switched")
    assert switched.payload["diagnostic"] == last(ledger, session, "session.switched").payload["diagnostic"]


def test_a_listener_that_would_deadlock_gets_an_error(ledger: Ledger) -> None:
    """The committing thread calls listeners; a trigger in one would wait for its own thread."""
    session = opened(ledger)
    before = session.target
    errors: list[str] = []

    def switches(_: Event) -> None:
        for wait in (lambda: session.switch_model("gpt-weak"), lambda: ledger.append()):
            with pytest.raises(LedgerError) as refused:
                wait()
            errors.append(str(refused.value))

    stop = ledger.bus.subscribe(switches, "session.params")
    session.set_params({"temperature": 0.5})
    stop()
    assert session.target == before
    assert len(errors) == 2
    assert all("Ledger.submit" in error for error in errors)
    assert ledger.bus.failures == 0


# Kill -9.

CRASHING = """
import sys
from modelpact.ledger import Ledger
from tests.sessions.support import models_of, opened
from modelpact.providers.port import MockProvider
from modelpact.sessions import Session

class Deadly(MockProvider):
    describing = False
    async def complete(self, request):
        if request.messages[-1].text == "die":
            die()
        return await super().complete(request)
    def describe_capabilities(self, model):
        if self.describing:
            die()

url, where = sys.argv[1:]
ledger = Ledger.open(url)
port = Deadly()
session = opened(ledger, ports={"openai": port, "anthropic": port}, id="a")
session.send("Hello")
session.set_params({"temperature": 0.5})
say("ready")
if where == "in a turn":
    session.send("die")
elif where == "before the commit":
    port.describing = True
    session.switch_model("anthropic/gpt-full")
else:
    ledger.bus.subscribe(lambda event: die(), "session.switched")
    session.switch_model("anthropic/gpt-full")
"""


@pytest.mark.parametrize("where", ["in a turn", "before the commit", "after the commit"])
def test_after_kill_9_the_session_is_as_last_committed(url: str, where: str) -> None:
    with process(CRASHING, url, where) as started:
        assert finished(started, KILLED) == ["ready"]
    with Ledger.open(url) as ledger:
        session = Session.resume("a", ledger=ledger, models=models_of(ledger))
        target = "anthropic/gpt-full" if where == "after the commit" else "openai/gpt-full"
        assert session.target == target
        assert session.params == {"temperature": 0.5}
        assert [message.text for message in session.messages] == ["Hello", "You said: Hello"]
        unanswered = ["die"] if where == "in a turn" else []
        assert [message.text for message in session.unanswered] == unanswered
        assert session.send("again").text == "You said: again"
        trail(ledger, session)


def test_an_unreadable_row_is_listed_and_skipped(ledger: Ledger) -> None:
    for name in ("good", "bad"):
        opened(ledger, id=name)
    ledger.write(lambda tx: tx.execute("UPDATE sessions SET state = '{}' WHERE id = 'bad'"))
    assert {summary.id: summary.readable for summary in list_sessions(ledger)} == {"bad": False, "good": True}
    with pytest.raises(UnreadableSession, match=r"session bad cannot be read"):
        Session.resume("bad", ledger=ledger, models=models_of(ledger))


def test_a_rejection_by_evidence_says_how_to_drop_it(ledger: Ledger) -> None:
    session = opened(ledger, machine={"name": "sm", "needs": ["tools"]})
    seen_missing = Observation("vllm", "x", "tool-calling", "unsupported", origin="use")
    record(ledger, seen_missing)
    with pytest.raises(SwitchRejected, match=r"`modelpact probe vllm/x --forget` drops it"):
        session.switch_model("vllm/x")
