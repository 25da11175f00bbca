"""What the emulator reports: each change with its cost and fidelity, repairs, and failures."""

from typing import Literal

import msgspec

from modelpact.conversation.request import Request
from modelpact.conversation.response import Usage
from modelpact.emulation.strategies import EmulationStrategy
from modelpact.vocabulary.errors import ModelpactError

EmulationFidelity = Literal["exact", "validated", "best-effort", "translation"]


class AppliedEmulation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change: to the prompt, to the response, or to a parameter's name.

    `exact`: the same result as natively. `validated`: the result is checked, and a wrong one is an
    error. `best-effort`: the model may not comply. `translation`: the same under another name.
    """

    capability: str
    strategy: EmulationStrategy
    label: str
    fidelity: EmulationFidelity
    extra_prompt_tokens: int = 0
    """An estimate: four characters a token."""
    extra_calls: int = 0
    """The most further calls that repairs may take."""


class EmulatorReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that differs from a request to a model that has all capabilities natively."""

    applied: tuple[AppliedEmulation, ...] = ()
    warnings: tuple[str, ...] = ()
    calls_made_again: int = 0

    def is_empty(self) -> bool:
        """Whether nothing was applied and there are no warnings."""
        return not self.applied and not self.warnings

    def has_unemulatable(self) -> bool:
        """Whether a requested capability could not be emulated."""
        return bool(self.warnings)


class RepairRequest(msgspec.Struct, frozen=True):
    """The request to send next, since the response failed its check."""

    request: Request
    findings: tuple[str, ...]
    attempt: int


class EmulationFailed(ModelpactError):
    """No response passed its check; `findings` says what was wrong with the last one."""

    def __init__(self, capability: str, findings: tuple[str, ...], attempts: int) -> None:
        self.capability = capability
        self.findings = findings
        self.usage = Usage()
        """The usage of the responses that failed; the sender of the requests fills it in."""
        tries = f"{attempts} response{'s' if attempts != 1 else ''}"
        super().__init__(f"{capability} could not be emulated after {tries}: {'; '.join(findings)}")


class StreamCutOff(ModelpactError):
    """A stream broke off before its end."""

    def __init__(self) -> None:
        super().__init__("the stream ended before its end: what arrived is not a whole response")
