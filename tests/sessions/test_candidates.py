"""Models that a session could switch to, each with its verdict."""

import pytest

from modelpact import Needs
from modelpact.configuration import Configuration, read_configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger import Ledger
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import (
    Session,
    StateMachine,
    SwitchRejected,
    configured_candidates,
    find_candidates,
    first_model,
)
from modelpact.sessions.candidates import reachable_providers

CONFIGURED = """
[providers.local]
kind = "vllm"
base_url = "http://127.0.0.1:9/v1"

[models."local/tuned"]
tool_calling = false

[workloads.first]
model = "openai/gpt-5"

[workloads.second]
model = "mock/second"
"""


def models_with(ledger: Ledger, configuration: Configuration, **environment: str) -> ModelCaller:
    return ModelCaller(Runtime(ledger), configuration=configuration, environment=environment)


def test_reachable_providers(ledger: Ledger) -> None:
    configured = read_configuration(CONFIGURED)
    assert reachable_providers(models_with(ledger, Configuration())) == ("mock",)
    providers = reachable_providers(models_with(ledger, configured, ANTHROPIC_API_KEY="-".join("abc")))
    assert set(providers) == {"local", "anthropic", "mock"}


def test_the_first_model_is_one_that_can_be_called(ledger: Ledger) -> None:
    configured = read_configuration(CONFIGURED)
    assert first_model(models_with(ledger, Configuration())) == "mock/demo"
    assert first_model(models_with(ledger, configured)) == "mock/second"
    with_key = models_with(ledger, configured, OPENAI_API_KEY="-".join("abc"))
    assert first_model(with_key) == "openai/gpt-5"


def test_models_that_fit_come_first(ledger: Ledger) -> None:
    models = models_with(ledger, read_configuration(CONFIGURED))
    with Session.open("mock/demo", ledger=ledger, models=models, needs="tools") as session:
        near = configured_candidates(session, models)
        assert [(candidate.target, candidate.verdict.ok) for candidate in near] == [
            ("mock/second", True),
            ("mock/demo", True),
            ("local/tuned", False),
        ]
        assert find_candidates(session, models, "") == near
        answers = [candidate.verdict.answer for candidate in find_candidates(session, models, "openai/gpt-")]
        assert answers == sorted(answers, key=["yes", "labelled", "no"].index)
        assert "yes" in answers


def test_names_match_by_prefix_and_substring(ledger: Ledger) -> None:
    models = models_with(ledger, read_configuration(CONFIGURED), OPENAI_API_KEY="-".join("abc"))
    with Session.open("mock/demo", ledger=ledger, models=models) as session:
        assert [candidate.target for candidate in find_candidates(session, models, "tun")] == ["local/tuned"]
        assert [candidate.target for candidate in find_candidates(session, models, "local/une")] == ["local/tuned"]
        targets = [candidate.target for candidate in find_candidates(session, models, "gpt-4o-mini", limit=5)]
        assert len(targets) == 5
        assert all(target.startswith("openai/") for target in targets)
        assert find_candidates(session, models, "nothing-has-this-name") == []


def test_finding_candidates_records_nothing(ledger: Ledger) -> None:
    models = models_with(ledger, Configuration())
    with Session.open("mock/demo", ledger=ledger, models=models) as session:
        before = ledger.events(session.envelope)
        assert find_candidates(session, models, "openai/")
        assert ledger.events(session.envelope) == before


def test_neither_the_rejected_model_nor_the_one_in_use_is_suggested(ledger: Ledger) -> None:
    """S000-9-4: the suggestion is a model that fits; it is not the one in use."""
    models = models_with(ledger, Configuration())
    with Session.open("mock/demo", ledger=ledger, models=models, needs="tools") as session:
        with pytest.raises(SwitchRejected) as rejected:
            session.switch_model("mock/small")
        assert rejected.value.diagnostic.previous == "mock/demo"
        assert rejected.value.diagnostic.suggestion not in ("mock/demo", "mock/small")
        assert "the session stays on mock/demo as it was" in str(rejected.value)
    with Session.open("mock/small", ledger=ledger, models=models) as session:
        with pytest.raises(SwitchRejected) as rejected:
            session.attach(StateMachine("plan"))
        assert rejected.value.diagnostic.suggestion == "mock/demo"
        would = Needs(finding.need for finding in rejected.value.verdict.findings)
        assert [
            (candidate.target, candidate.verdict.ok) for candidate in configured_candidates(session, models, would)
        ] == [("mock/demo", True), ("mock/small", False)]
