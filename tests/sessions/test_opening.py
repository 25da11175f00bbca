"""What a session is opened with, and what can be seen of it from outside."""

import pytest

from modelpact import Needs, need
from modelpact.dispatch.models import CallFailed, Models
from modelpact.ledger import Ledger
from modelpact.providers.adapters.errors import UpstreamError
from modelpact.providers.adapters.keys import MissingKey
from modelpact.providers.mock import MockProvider
from modelpact.providers.runtime import Runtime
from modelpact.sessions import Session, StateMachine, SwitchRejected
from tests.sessions.support import models_of, opened, small_catalog, types


def test_what_whoever_opens_it_needs_is_required_whatever_is_attached(ledger: Ledger) -> None:
    known = small_catalog(no_tools={"tool_calling": False})
    needs = Needs([need("tools", required_by="you")])
    with opened(ledger, known=known, needs=needs) as session:
        session.attach(StateMachine("plan"))
        session.detach()
        assert [one.required_by for one in session.needs] == [("you",)]
        with pytest.raises(SwitchRejected) as rejected:
            session.switch_model("openai/gpt-no_tools")
        assert rejected.value.diagnostic.missing[0].required_by == ("you",)
        resumed = Session.resume(session.id, ledger=ledger, models=models_of(ledger, known))
        assert resumed.needs == session.needs


def test_a_model_that_does_not_fit_is_refused_before_its_key_is_missed(ledger: Ledger) -> None:
    models = Models(Runtime(ledger), environment={})
    with Session.open("mock/demo", ledger=ledger, models=models, needs="reasoning") as session:
        with pytest.raises(SwitchRejected):
            session.switch_model("openai/gpt-4o-mini")
        assert types(ledger, session)[-1] == "session.rejected"
        with pytest.raises(MissingKey):
            session.switch_model("openai/gpt-5")
        assert session.target == "mock/demo"


def test_the_transcript_has_unanswered_messages_in_their_places(ledger: Ledger) -> None:
    gone = UpstreamError("openai answered 429", status=429, retry_after=7.0)
    port = MockProvider(["First.", gone, "Third."])
    session = opened(ledger, ports={"openai": port})
    session.send("One")
    with pytest.raises(CallFailed) as failed:
        session.send("Two")
    session.send("Three")
    said = [(one.turn, one.answered, one.message.text) for one in session.transcript]
    assert said == [
        (1, True, "One"),
        (1, True, "First."),
        (2, False, "Two"),
        (3, True, "Three"),
        (3, True, "Third."),
    ]
    cause = failed.value.__cause__
    assert isinstance(cause, UpstreamError)
    assert cause.retry_after == 7.0


def test_parameters_that_do_not_apply_are_told_as_long_as_they_stand(ledger: Ledger) -> None:
    known = small_catalog(cold={"temperature": False})
    session = opened(ledger, "openai/gpt-full", known=known, launch={"temperature": 0.5})
    before = session.params_affected
    assert before == ()
    session.switch_model("openai/gpt-cold")
    (lost,) = session.params_affected
    assert (lost.param_path, lost.source_layer) == (("temperature",), "launch")
