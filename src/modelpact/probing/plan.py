"""Plans: which calls a probe makes, and what they may cost."""

from collections.abc import Iterable
from typing import Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.request import Request
from modelpact.conversation.response import Usage
from modelpact.ledger.costs import price_cost
from modelpact.probing.trials import SHORT, Trial, baseline, trials
from modelpact.providers.models.model_provider import prompt_tokens
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, UnknownName

SPOKEN: Final = ("openai-chat", "anthropic", "mock")
ATTEMPTS: Final = 2
"""How often a trial without effect is made before that is believed; models have their moods.

One that is accepted has its control instead, and the plain call its other token limit.
"""
CONTEXT_WINDOW: Final = "context-window"
USUAL_WINDOW: Final = 8_192
"""Where the search for a window begins of which nothing is known."""
WINDOW_CALLS: Final = 10
_UNLIMITED: Final = 1_024
"""Tokens to expect of an answer that nothing but its question limits."""


class ProbePlan(msgspec.Struct, frozen=True):
    """The calls of a probe. The tokens and the money are the most that they are expected to be."""

    resolution: Resolution
    api: str
    first: Trial
    trials: tuple[Trial, ...]
    window: bool
    most_calls: int
    usage: Usage
    money: int | None
    """In nano-dollars; None where the price is not known."""

    @property
    def target(self) -> str:
        """The model that is probed."""
        return self.resolution.target

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What will be found out, each once."""
        names = [one for trial in self.trials for one in (trial.capability, *trial.shows)]
        return tuple(dict.fromkeys([*names, *([CONTEXT_WINDOW] if self.window else [])]))

    @property
    def calls(self) -> int:
        """How many calls there are if each is made once."""
        return 1 + len(self.trials) + (WINDOW_CALLS if self.window else 0)


def plan_probe(
    resolution: Resolution,
    capabilities: Iterable[str] = (),
    *,
    context_window: bool = False,
) -> ProbePlan:
    """Plan the probe of a model: of some capabilities, or of all that can be tried.

    The context window is found by filling it, which is not cheap: only where it is asked for.
    """
    api = _api(resolution)
    everything = tuple(trials(resolution, api))
    wanted = {capability(one).id for one in capabilities}
    window = context_window or CONTEXT_WINDOW in wanted
    wanted.discard(CONTEXT_WINDOW)
    can = {name for one in everything for name in (one.capability, *one.shows)}
    for name in sorted(wanted - can):
        hint = f"{name} cannot be probed over {api}; there are {', '.join(sorted(can))}"
        raise UnknownName("probe", name, can, hint)
    chosen = everything
    if wanted or (window and not context_window):
        chosen = tuple(one for one in everything if wanted & {one.capability, *one.shows})
    first = baseline(resolution, api)
    usage = Usage()
    for trial in (first, *chosen):
        for _ in range(ATTEMPTS):
            usage = usage + expected(trial.request)
    if window:
        usage = usage + _window_usage(resolution)
    price = resolution.price
    cost = None if price is None else price_cost(price, usage)
    most = ATTEMPTS * (1 + len(chosen)) + (WINDOW_CALLS if window else 0)
    money = None if cost is None else cost.amount
    return ProbePlan(resolution, api, first, chosen, window, most, usage, money)


def expected(request: Request) -> Usage:
    """Return what one call uses at most, roughly."""
    return Usage(prompt_tokens(request), request.max_tokens or _UNLIMITED)


def _window_usage(resolution: Resolution) -> Usage:
    """Expect the window to be filled twice: less and more are refused, or cost less."""
    known = resolution.claim(CONTEXT_WINDOW).value
    size = known if isinstance(known, int) else USUAL_WINDOW
    return Usage(2 * size, WINDOW_CALLS * SHORT)


def _api(resolution: Resolution) -> str:
    provider = resolution.provider
    apis = () if provider is None else provider.apis
    for api in (resolution.api, *apis):
        if api in SPOKEN:
            return api
    raise InputError(
        f"{resolution.target} cannot be called: no adapter speaks {', '.join(apis) or 'its API'}"
    )
