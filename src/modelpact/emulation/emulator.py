"""The emulator: the named set of emulations that do the work, turned on by policy.

It goes beyond the default table of `strategies`. Every change to the prompt is an entry of its
own in the report, with what it costs and how faithful it is.
"""

from collections.abc import Iterable
from typing import Final

from modelpact.conversation.request import Request, TokenLimitParam
from modelpact.emulation.preparation import LABELS, Preparation
from modelpact.emulation.report import EmulatedRequestReport
from modelpact.emulation.work import EmulatedRequest
from modelpact.negotiation.negotiate import Strategies
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError


def emulator_strategies() -> Strategies:
    """Return what the set can emulate, for negotiation."""
    return _STRATEGIES


_CARRIED_BY: Final = {
    "json-mode": "structured-output",
    "discriminator-enum": "structured-output",
    "tool-choice": "tool-calling",
    "parallel-tool-calls": "tool-calling",
}
"""Capabilities that come with the emulation of another."""

_STRATEGIES: Final = Strategies(
    {**LABELS, **{name: LABELS[base] for name, base in _CARRIED_BY.items()}}
)


class Emulator:
    """Prepares requests for models that lack something, and makes sense of their answers."""

    __slots__ = ("repairs",)

    def __init__(self, *, repairs: int = 2) -> None:
        if isinstance(repairs, bool) or not isinstance(repairs, int) or not 0 <= repairs <= 10:
            raise InputError("repairs: expected a number from 0 to 10")
        self.repairs = repairs

    def plan(
        self,
        request: Request,
        capabilities: Iterable[str],
        *,
        token_limit_param: TokenLimitParam | None = None,
    ) -> EmulatedRequestReport:
        """Return the report that `prepare` would give; the request stays as it is anyway."""
        return self.prepare(request, capabilities, token_limit_param=token_limit_param).report

    def prepare(
        self,
        request: Request,
        capabilities: Iterable[str],
        *,
        token_limit_param: TokenLimitParam | None = None,
    ) -> EmulatedRequest:
        """Return the work: the request as it is to be sent, the report, and the answer's handling.

        `capabilities` are those to make up for. Preparing a prepared request changes nothing more
        and reports the same. The request that is handed in is never changed.
        """
        if isinstance(capabilities, str):
            raise InputError("capabilities: expected a list of names")
        named = (capability(name).id for name in capabilities)
        wanted = list(dict.fromkeys(_CARRIED_BY.get(name, name) for name in named))
        return Preparation(request, wanted, self.repairs).run(token_limit_param)
