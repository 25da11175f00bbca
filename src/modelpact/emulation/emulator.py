"""The emulator: a set of emulations that goes beyond the default table of `strategies`.

Policy turns it on. The report lists every change to the prompt, with its cost and its fidelity.
"""

from collections.abc import Iterable
from typing import Final

from modelpact.conversation.request import Request, TokenLimitParam
from modelpact.emulation.emulated_request import EmulatedRequest
from modelpact.emulation.preparation import LABELS, Preparation
from modelpact.emulation.report import EmulatorReport
from modelpact.negotiation.negotiate import Strategies
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import InputError

_PROVIDED_BY: Final = {
    "json-mode": "structured-output",
    "discriminator-enum": "structured-output",
    "tool-choice": "tool-calling",
    "parallel-tool-calls": "tool-calling",
}
"""Capabilities that the emulation of another capability provides too."""

_STRATEGIES: Final = Strategies(
    {**LABELS, **{name: LABELS[base] for name, base in _PROVIDED_BY.items()}}
)


class Emulator:
    """Prepares requests for models that lack capabilities.

    `repairs` is how often the model may be asked to correct a response.
    """

    __slots__ = ("repairs",)

    def __init__(self, *, repairs: int = 2) -> None:
        if isinstance(repairs, bool) or not isinstance(repairs, int) or not 0 <= repairs <= 10:
            raise InputError("repairs: expected an integer from 0 to 10")
        self.repairs = repairs

    def plan(
        self,
        request: Request,
        capabilities: Iterable[str],
        *,
        token_limit_param: TokenLimitParam | None = None,
    ) -> EmulatorReport:
        """Return the report that `prepare` would give."""
        return self.prepare(request, capabilities, token_limit_param=token_limit_param).report

    def prepare(
        self,
        request: Request,
        capabilities: Iterable[str],
        *,
        token_limit_param: TokenLimitParam | None = None,
    ) -> EmulatedRequest:
        """Return the request to send, its report, and how to process the response.

        `capabilities` are those that the model lacks. Preparing a prepared request changes nothing
        more and reports the same. The original request is never changed.
        """
        if isinstance(capabilities, str):
            raise InputError("capabilities: expected a list of names")
        ids = (capability(name).id for name in capabilities)
        missing = list(dict.fromkeys(_PROVIDED_BY.get(name, name) for name in ids))
        return Preparation(request, missing, self.repairs).run(token_limit_param)


def emulator_strategies() -> Strategies:
    """Return the capabilities that the emulator provides, for negotiation."""
    return _STRATEGIES
