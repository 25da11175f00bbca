"""Offers: models that a session could switch to, each with how it would fit."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from modelpact.dispatch.model_caller import ModelCaller
from modelpact.needs.need import Needs
from modelpact.negotiation.verdict import Verdict
from modelpact.sessions.session import Session
from modelpact.vocabulary.errors import ModelpactError

DEMO: Final = "mock/demo"
"""The model that is there without a key, a server or a configuration."""

_LOOKED_AT: Final = 300
_RANKS: Final = {"yes": 0, "labelled": 1, "no": 2}


class Candidate(msgspec.Struct, frozen=True):
    """A model, and the verdict on it."""

    target: str
    verdict: Verdict


def reachable_providers(models: ModelCaller) -> tuple[str, ...]:
    """Return the providers that can be called: configured ones, those with a key, the mock."""
    return tuple(name for name in models.supported_providers() if can_reach(models, name))


def can_reach(models: ModelCaller, provider: str) -> bool:
    """Tell whether there is a way to a provider; nothing is sent."""
    try:
        models.port(provider)
    except ModelpactError:
        return False
    return True


def first_model(models: ModelCaller) -> str:
    """Return the model to begin with: the first that is configured and can be called, or a mock."""
    return next(_named(models), DEMO)


def configured_candidates(
    session: Session, models: ModelCaller, needs: Needs | None = None
) -> list[Candidate]:
    """Return the models that are named here and can be called, those that fit first.

    `needs` stand in for those of the session: what a trigger that was rejected would require.
    """
    return _judged(session, dict.fromkeys((*_named(models), DEMO, session.target)), needs)


def find_candidates(
    session: Session, models: ModelCaller, text: str, limit: int = 40
) -> list[Candidate]:
    """Return models whose name begins with a text or has it inside, those that fit first.

    With a provider before a slash they are that provider's, whether it can be called or not; else
    they are those of the providers that can be called.
    """
    wanted = text.strip().lower()
    provider, slash, start = wanted.partition("/")
    if slash and models.knows(provider):
        names: Iterable[str] = _models_of(models, provider)
    elif wanted:
        start = wanted
        names = (one for name in reachable_providers(models) for one in _models_of(models, name))
    else:
        return configured_candidates(session, models)[:limit]
    names = list(dict.fromkeys(names))
    begun = [one for one in names if one.lower().partition("/")[2].startswith(start)]
    inside = [one for one in names if start in one.lower() and one not in set(begun)]
    return _judged(session, (begun + inside)[:_LOOKED_AT])[:limit]


def _named(models: ModelCaller) -> Iterator[str]:
    """Yield the targets that the configuration names, of providers that can be called."""
    configuration = models.configuration
    named = [one.model for one in configuration.workloads.values()]
    named += [one.fallback for one in configuration.workloads.values() if one.fallback]
    named += [f"{provider}/{model}" for provider, model in configuration.models]
    for target in named:
        if can_reach(models, target.partition("/")[0]):
            yield target


def _models_of(models: ModelCaller, provider: str) -> Iterator[str]:
    for whose, model in models.configuration.models:
        if whose == provider:
            yield f"{provider}/{model}"
    known = models.catalog.find_provider(provider)
    if known is not None:
        for name in known.models:
            yield f"{provider}/{name}"
        for name in models.catalog.models.names(known.id):
            yield f"{provider}/{name}"


def _judged(
    session: Session, targets: Iterable[str], needs: Needs | None = None
) -> list[Candidate]:
    found = [Candidate(one, session.fit(one, needs)) for one in targets]
    return sorted(found, key=lambda one: _RANKS[one.verdict.answer])
