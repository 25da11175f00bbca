"""Opening a session, and what you can read from it."""

import pytest

from modelpact import InputError, Needs, need
from modelpact.dispatch.model_caller import CallFailed, ModelCaller
from modelpact.ledger import Ledger
from modelpact.providers.models.credentials import MissingKey
from modelpact.providers.models.upstream import UpstreamError
from modelpact.providers.port import MockProvider
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import KeyMissing, Session, StateMachine, SwitchRejected, TargetUnreachable
from tests.sessions.support import last, models_of, opened, seen, small_catalog, stored, types


def test_needs_of_open_are_required_whatever_is_attached(ledger: Ledger) -> None:
    known = small_catalog(no_tools={"tool_calling": False})
    needs = Needs([need("tools", required_by="you")])
    with opened(ledger, known=known, needs=needs) as session:
        session.attach(StateMachine("plan"))
        session.detach()
        assert [need.required_by for need in session.needs] == [("you",)]
        with pytest.raises(SwitchRejected) as rejected:
            session.switch_model("openai/gpt-no_tools")
        assert rejected.value.diagnostic.missing[0].required_by == ("you",)
        resumed = Session.resume(session.id, ledger=ledger, models=models_of(ledger, known))
        assert resumed.needs == session.needs


def test_a_model_that_does_not_fit_is_rejected_before_its_key_is_checked(ledger: Ledger) -> None:
    models = ModelCaller(Runtime(ledger), environment={})
    with Session.open("mock/demo", ledger=ledger, models=models, needs="reasoning") as session:
        with pytest.raises(SwitchRejected):
            session.switch_model("openai/gpt-4o-mini")
        assert types(ledger, session)[-1] == "session.rejected"
        before = stored(ledger, session)
        with pytest.raises(MissingKey):
            session.switch_model("openai/gpt-5")
        assert session.target == "mock/demo"
        assert stored(ledger, session) == before


def test_a_missing_key_is_recorded_and_has_a_code(ledger: Ledger) -> None:
    """A rejected trigger is always recorded; its code says what to do."""
    models = ModelCaller(Runtime(ledger), environment={})
    with Session.open("mock/demo", ledger=ledger, models=models) as session:
        for trigger, act in (
            ("/model", lambda: session.switch_model("openai/gpt-5")),
            ("/provider", lambda: session.switch_provider("openai")),
            ("spawn", lambda: session.spawn("openai/gpt-5")),
        ):
            with pytest.raises(KeyMissing, match="set OPENAI_API_KEY") as caught:
                act()
            assert caught.value.code == "Session/MissingKey"
            assert caught.value.context["trigger"] == trigger
            payload = last(ledger, session, "session.rejected").payload
            assert (payload["trigger"], payload["code"]) == (trigger, "Session/MissingKey")
            assert payload["diagnostic"]["target"]["provider"] == "openai"
            assert payload["error"].startswith("openai: no key")
    with pytest.raises(KeyMissing):
        Session.open("openai/gpt-5", ledger=ledger, models=models, id="never")
    assert [event.type for event in ledger.events("session/never")][-1] == "session.rejected"


def test_an_unreachable_provider_has_a_code(ledger: Ledger) -> None:
    keys = dict.fromkeys(("GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"), "-".join("abc"))
    models = ModelCaller(Runtime(ledger), environment=keys)
    with Session.open("mock/demo", ledger=ledger, models=models) as session:
        before = seen(session), stored(ledger, session)
        for target, why in (
            ("gemini/gemini-2.5-pro", "no adapter for its API gemini"),
            ("bedrock/claude-x", "bedrock: no address: set base_url"),
        ):
            with pytest.raises(TargetUnreachable, match=why) as caught:
                session.switch_model(target)
            assert isinstance(caught.value, InputError)
            assert caught.value.code == "Session/Unreachable"
            assert (seen(session), stored(ledger, session)) == before
            payload = last(ledger, session, "session.rejected").payload
            assert (payload["code"], why in payload["error"]) == ("Session/Unreachable", True)


def test_the_transcript_includes_unanswered_messages_in_order(ledger: Ledger) -> None:
    gone = UpstreamError("openai answered 429", status=429, retry_after=7.0)
    port = MockProvider(["First.", gone, "Third."])
    session = opened(ledger, ports={"openai": port})
    session.send("One")
    with pytest.raises(CallFailed) as failed:
        session.send("Two")
    session.send("Three")
    entries = [(entry.turn, entry.answered, entry.message.text) for entry in session.transcript]
    assert entries == [
        (1, True, "One"),
        (1, True, "First."),
        (2, False, "Two"),
        (3, True, "Three"),
        (3, True, "Third."),
    ]
    cause = failed.value.__cause__
    assert isinstance(cause, UpstreamError)
    assert cause.retry_after == 7.0


def test_params_affected_lists_parameters_until_they_are_removed(ledger: Ledger) -> None:
    known = small_catalog(cold={"temperature": False})
    session = opened(ledger, "openai/gpt-full", known=known, launch={"temperature": 0.5})
    before = session.params_affected
    assert before == ()
    session.switch_model("openai/gpt-cold")
    (lost,) = session.params_affected
    assert (lost.param_path, lost.source_layer) == (("temperature",), "launch")
