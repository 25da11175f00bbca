"""Candidates: models that a session could switch to, each with its verdict."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from modelpact.dispatch.model_caller import ModelCaller
from modelpact.needs.need import Needs
from modelpact.negotiation.verdict import Verdict
from modelpact.sessions.session import Session
from modelpact.vocabulary.errors import ModelpactError

DEMO: Final = "mock/demo"
"""The model that works without a key, a server or a configuration."""

_MAX_JUDGED: Final = 300
_RANKS: Final = {"yes": 0, "labelled": 1, "no": 2}


class Candidate(msgspec.Struct, frozen=True):
    """A model, and how it would fit the session."""

    target: str
    verdict: Verdict


def reachable_providers(models: ModelCaller) -> tuple[str, ...]:
    """Return the providers that can be called: configured ones, those with a key, the mock."""
    return tuple(name for name in models.supported_providers() if can_reach(models, name))


def can_reach(models: ModelCaller, provider: str) -> bool:
    """Tell whether a provider has an address and a key. Nothing is sent."""
    try:
        models.port(provider)
    except ModelpactError:
        return False
    return True


def first_model(models: ModelCaller) -> str:
    """Return the model to start with: the first configured one that can be called, or a mock."""
    return next(_configured_targets(models), DEMO)


def configured_candidates(session: Session, models: ModelCaller, needs: Needs | None = None) -> list[Candidate]:
    """Return the configured models that can be called, those that fit first.

    `needs` replace those of the session, for instance with those of a rejected trigger.
    """
    targets = dict.fromkeys((*_configured_targets(models), DEMO, session.target))
    return _judge(session, targets, needs)


def find_candidates(session: Session, models: ModelCaller, text: str, limit: int = 40) -> list[Candidate]:
    """Return the models with a name that starts with a text or contains it, those that fit first.

    `PROVIDER/TEXT` searches the models of that provider. A text alone searches all providers that
    can be called. An empty text gives the configured models.
    """
    query = text.strip().lower()
    provider, slash, start = query.partition("/")
    if slash and models.knows(provider):
        targets: Iterable[str] = _provider_targets(models, provider)
    elif query:
        start = query
        targets = (target for name in reachable_providers(models) for target in _provider_targets(models, name))
    else:
        return configured_candidates(session, models)[:limit]
    listed = list(dict.fromkeys(targets))
    prefixed = [target for target in listed if target.lower().partition("/")[2].startswith(start)]
    others = set(listed) - set(prefixed)
    containing = [target for target in listed if start in target.lower() and target in others]
    return _judge(session, (prefixed + containing)[:_MAX_JUDGED])[:limit]


def _configured_targets(models: ModelCaller) -> Iterator[str]:
    """Yield the models that the configuration names, of providers that can be called."""
    configuration = models.configuration
    workloads = configuration.workloads.values()
    targets = [workload.model for workload in workloads]
    targets += [workload.fallback for workload in workloads if workload.fallback]
    targets += [f"{provider}/{model}" for provider, model in configuration.models]
    for target in targets:
        if can_reach(models, target.partition("/")[0]):
            yield target


def _provider_targets(models: ModelCaller, provider: str) -> Iterator[str]:
    for owner, model in models.configuration.models:
        if owner == provider:
            yield f"{provider}/{model}"
    known = models.catalog.find_provider(provider)
    if known is not None:
        for name in known.models:
            yield f"{provider}/{name}"
        for name in models.catalog.models.names(known.id):
            yield f"{provider}/{name}"


def _judge(session: Session, targets: Iterable[str], needs: Needs | None = None) -> list[Candidate]:
    candidates = [Candidate(target, session.fit(target, needs)) for target in targets]
    return sorted(candidates, key=lambda candidate: _RANKS[candidate.verdict.answer])
