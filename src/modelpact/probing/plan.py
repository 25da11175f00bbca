"""Probe plans: which calls a probe makes, and what they may cost."""

from collections.abc import Iterable
from typing import Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.request import Request
from modelpact.conversation.response import Usage
from modelpact.ledger.costs import price_cost
from modelpact.needs.token_estimate import request_tokens
from modelpact.probing.trials import ANSWER_TOKENS, Trial, baseline, trials
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError, UnknownName

APIS: Final = ("openai-chat", "anthropic", "mock")
"""The APIs over which probes can be made."""
ATTEMPTS: Final = 2
"""How often a trial may fail to have an effect before it counts as ignored: models vary.

The plan also counts two calls for a trial with a control, and for the plain call, which may need
the other token limit parameter.
"""
CONTEXT_WINDOW: Final = "context-window"
DEFAULT_WINDOW: Final = 8_192
"""Where the search for the context window begins if the catalog does not know it."""
WINDOW_CALLS: Final = 10
_UNLIMITED_TOKENS: Final = 1_024
"""Output tokens to expect of a request without a limit."""


class ProbePlan(msgspec.Struct, frozen=True):
    """The calls of a probe. Usage and money are upper estimates."""

    resolution: Resolution
    api: str
    baseline: Trial
    trials: tuple[Trial, ...]
    window: bool
    max_calls: int
    usage: Usage
    money: int | None
    """In nano-dollars; None if the price is not known."""

    @property
    def target(self) -> str:
        """The model that is probed."""
        return self.resolution.target

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities that the probe finds out about, each once."""
        names = [name for trial in self.trials for name in trial.proves]
        return tuple(dict.fromkeys([*names, *([CONTEXT_WINDOW] if self.window else [])]))

    @property
    def calls(self) -> int:
        """The number of calls if no trial is repeated."""
        return 1 + len(self.trials) + (WINDOW_CALLS if self.window else 0)


def plan_probe(resolution: Resolution, capabilities: Iterable[str] = (), *, context_window: bool = False) -> ProbePlan:
    """Plan the probe of a model: of these capabilities, or of all that can be tried.

    The context window is found by filling it, which is expensive, so you must ask for it.
    """
    api = _choose_api(resolution)
    all_trials = tuple(trials(resolution, api))
    wanted = {capability(name).id for name in capabilities}
    window = context_window or CONTEXT_WINDOW in wanted
    wanted.discard(CONTEXT_WINDOW)
    probeable = {name for trial in all_trials for name in trial.proves}
    for name in sorted(wanted - probeable):
        hint = f"{name} cannot be probed over {api}; these can: {', '.join(sorted(probeable))}"
        raise UnknownName("probe", name, probeable, hint)
    chosen = all_trials
    if wanted or (window and not context_window):
        chosen = tuple(trial for trial in all_trials if wanted.intersection(trial.proves))
    plain = baseline(resolution, api)
    usage = Usage()
    for trial in (plain, *chosen):
        for _ in range(ATTEMPTS):
            usage = usage + _expected_usage(trial.request)
    if window:
        usage = usage + _window_usage(resolution)
    price = resolution.price
    cost = None if price is None else price_cost(price, usage)
    max_calls = ATTEMPTS * (1 + len(chosen)) + (WINDOW_CALLS if window else 0)
    money = None if cost is None else cost.amount
    return ProbePlan(resolution, api, plain, chosen, window, max_calls, usage, money)


def _expected_usage(request: Request) -> Usage:
    """Return an upper estimate of what one call uses."""
    return Usage(request_tokens(request), request.max_tokens or _UNLIMITED_TOKENS)


def _window_usage(resolution: Resolution) -> Usage:
    """Expect two full windows: smaller prompts cost less, larger ones are rejected."""
    known = resolution.claim(CONTEXT_WINDOW).value
    size = known if isinstance(known, int) else DEFAULT_WINDOW
    return Usage(2 * size, WINDOW_CALLS * ANSWER_TOKENS)


def _choose_api(resolution: Resolution) -> str:
    provider = resolution.provider
    apis = () if provider is None else provider.apis
    for api in (resolution.api, *apis):
        if api in APIS:
            return api
    raise InputError(
        f"{resolution.target} cannot be probed: modelpact has no probes for "
        f"{', '.join(apis) or 'its API'}; it has them for {', '.join(APIS)}"
    )
