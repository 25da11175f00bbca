"""Verdicts: the answer for one set of needs against one model, a finding per need."""

from typing import Any, Literal

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.needs.need import Need
from modelpact.vocabulary.errors import InputError

Outcome = Literal["met", "emulated", "missing", "preferred-unmet", "probe-pending"]
Reason = Literal[
    "", "unsupported", "unknown", "below-minimum", "below-support", "conflict", "probed"
]
Answer = Literal["yes", "labelled", "no"]
UnknownRule = Literal["refuse", "probe"]
"""For a need that nobody knows to be met: refuse it, or accept it with a warning."""


class PolicySettings(msgspec.Struct, frozen=True):
    """The policy that a configuration or a session sets."""

    unknown: UnknownRule = "refuse"
    """The rule for declared needs that are unknown."""
    emulate: bool = False
    """Whether modelpact emulates what a model lacks, where it can."""
    unsupported_params: Literal["refuse", "drop"] = "refuse"
    """What to do with parameters that do not apply to the model."""

    def __post_init__(self) -> None:
        if (
            self.unknown not in ("refuse", "probe")
            or not isinstance(self.emulate, bool)
            or self.unsupported_params not in ("refuse", "drop")
        ):
            raise InputError(
                "policy: unknown is refuse or probe, emulate true or false, "
                "unsupported_params refuse or drop"
            )


class Policy(PolicySettings, frozen=True):
    """What to do about needs that are unknown or not met, in one negotiation.

    The additional fields are for requests through the gateway; a request header can change them.
    """

    unknown_in_request: UnknownRule = "probe"
    """The rule for unknown needs that were read off a request and are not declared."""
    fallback: bool = True
    """Whether the declared fallback may answer."""
    lossy: bool = False
    """Whether a request may be sent without the parts that the provider's API cannot express."""

    def __post_init__(self) -> None:
        PolicySettings.__post_init__(self)
        if (
            self.unknown_in_request not in ("refuse", "probe")
            or not isinstance(self.fallback, bool)
            or not isinstance(self.lossy, bool)
        ):
            raise InputError(
                "policy: unknown_in_request is refuse or probe, fallback and lossy true or false"
            )

    @classmethod
    def of(cls, settings: PolicySettings) -> "Policy":
        """Return the policy that some settings describe, with the defaults for requests."""
        return cls(settings.unknown, settings.emulate, settings.unsupported_params)

    @property
    def settings(self) -> PolicySettings:
        """The part that a configuration or a session can set."""
        return PolicySettings(self.unknown, self.emulate, self.unsupported_params)


class Finding(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of one need.

    `label` says how a met need is met where that is not natively, and on a miss how emulation
    would have met it. `conflicts` names what the need cannot be had together with.
    """

    need: Need
    claim: Claim
    outcome: Outcome
    reason: Reason = ""
    label: str = ""
    conflicts: tuple[str, ...] = ()

    @property
    def capability(self) -> str:
        """The capability that the finding is about."""
        return self.need.capability

    def sentence(self) -> str:
        """Say why, for people."""
        claim, need = self.claim, self.need
        if self.reason == "conflict":
            return f"cannot be had together with {' and '.join(self.conflicts)} on this model"
        if self.reason == "below-minimum":
            return f"has {shown(claim.value)}, needs {shown(need.minimum)}"
        if self.reason == "below-support":
            detail = f": {claim.reason}" if claim.reason else ""
            return f"is only {claim.support}{detail}; the need asks for {need.min_support}"
        if self.reason == "unsupported":
            return "is not supported" + (f" ({claim.reason})" if claim.reason else "")
        if self.reason == "unknown":
            if claim.assumed is None:
                return "is not known of this model"
            what = shown(claim.value) if claim.value is not None else claim.assumed
            return f"is not known of this model; {what} is only assumed"
        if self.reason == "probed":
            return "is checked when it is used"
        return self.label or "is met"


class ParamAffected(msgspec.Struct, frozen=True, rename="camel"):
    """A parameter that will not apply on the destination model. The value is redacted."""

    param_path: tuple[str, ...]
    reason: str
    active_model_id: str
    current_value: Any
    source_layer: Literal["defaultParams", "launch", "/params"]


class Missing(msgspec.Struct, frozen=True, rename="camel"):
    """A capability that the session needs and the target lacks, and who needs it."""

    capability: str
    required_by: tuple[str, ...]
    reason: str
    message: str = ""


class Diagnostic(msgspec.Struct, frozen=True, rename="camel"):
    """What a person needs to know of a request or a switch that was refused or warned of."""

    target: str
    missing: tuple[Missing, ...]
    previous: str | None = None
    suggestion: str | None = None
    params_affected: tuple[ParamAffected, ...] = ()
    untranslatable: str = ""
    """The parts of a request that the provider's API cannot express."""
    would_help: tuple[str, ...] = ()
    """The changes of policy or configuration under which a refused request would be served."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The findings for every merged need, and their sum."""

    target: str
    findings: tuple[Finding, ...]
    ok: bool
    notes: tuple[str, ...] = ()
    """What else there is to know of the model: that nobody lists it, that it is retired."""

    def __bool__(self) -> bool:
        return self.ok

    @property
    def answer(self) -> Answer:
        """`yes`, `labelled` (yes, and here is what differs) or `no`."""
        if not self.ok:
            return "no"
        plain = all(one.outcome == "met" and not one.label for one in self.findings)
        return "yes" if plain and not self.notes else "labelled"

    @property
    def missing(self) -> tuple[Finding, ...]:
        """The hard needs that are not met."""
        return tuple(one for one in self.findings if one.outcome == "missing")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Preferred needs that are not met, and what only use will show."""
        return tuple(
            one for one in self.findings if one.outcome in ("preferred-unmet", "probe-pending")
        )

    @property
    def emulated(self) -> tuple[Finding, ...]:
        """The needs that modelpact itself will make up for."""
        return tuple(one for one in self.findings if one.outcome == "emulated")

    @property
    def diagnostic(self) -> Diagnostic | None:
        """What a rejected or warned verdict carries; `diagnose` adds what the session knows."""
        if self.ok and not self.warnings:
            return None
        return Diagnostic(
            self.target,
            tuple(
                Missing(one.capability, one.need.required_by, one.reason, one.sentence())
                for one in self.missing
            ),
        )


def shown(value: object) -> str:
    """Write a value for people: numbers with their thousands."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "nothing" if value is None else str(value)
