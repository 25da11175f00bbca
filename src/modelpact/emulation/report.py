"""Reports of emulations that do the work: what was done, what it costs, how faithful it is."""

from typing import Literal

import msgspec

from modelpact.conversation.request import Request
from modelpact.conversation.response import Usage
from modelpact.emulation.strategies import EmulationStrategy
from modelpact.vocabulary.errors import ModelpactError

Faithfulness = Literal["exact", "validated", "best-effort", "translation"]


class AppliedEmulation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change: to the prompt, to the response, or to a parameter's name.

    `exact`: the same result as natively. `validated`: checked before it is handed on, or an error.
    `best-effort`: the model may not do it. `translation`: the same thing under another name.
    """

    capability: str
    strategy: EmulationStrategy
    label: str
    fidelity: Faithfulness
    extra_prompt_tokens: int = 0
    """An estimate: four characters a token."""
    extra_calls: int = 0
    """At most so many further calls, when the answer has to be asked for again."""


class EmulatedRequestReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that differs from asking a model that can do it all natively."""

    applied: tuple[AppliedEmulation, ...] = ()
    warnings: tuple[str, ...] = ()
    calls_made_again: int = 0

    def is_empty(self) -> bool:
        """Tell whether nothing was applied and nothing warned of."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Tell whether a requested capability could not be emulated."""
        return bool(self.warnings)


class AskAgain(msgspec.Struct, frozen=True):
    """The answer was not good enough: whoever calls the model should send this request."""

    request: Request
    findings: tuple[str, ...]
    attempt: int


class EmulationFailed(ModelpactError):
    """The answer stayed wrong: what was found is in `findings`. No unchecked answer is given."""

    def __init__(self, capability: str, findings: tuple[str, ...], attempts: int) -> None:
        self.capability = capability
        self.findings = findings
        self.usage = Usage()
        """What the answers that could not be used have cost, where dispatch counted it."""
        tries = f"{attempts} answer{'s' if attempts != 1 else ''}"
        super().__init__(f"{capability} could not be emulated after {tries}: {'; '.join(findings)}")


class StreamCutOff(ModelpactError):
    """A stream ended before its end."""

    def __init__(self) -> None:
        super().__init__("the stream ended before its end; what arrived is not a whole answer")


def token_estimate(text: str) -> int:
    """Estimate how many tokens a text has: four characters each, rounded up."""
    return (len(text) + 3) // 4
