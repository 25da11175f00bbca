"""Reports: what a probe found, beside what the catalog said."""

from typing import Any

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.catalog.resolution import Resolution
from modelpact.evidence.observation import Observation, shortened
from modelpact.probing.trials import Verdict

_HAVE = ("native", "emulated", "restricted")


class ProbeResult(msgspec.Struct, frozen=True):
    """What was found of one capability."""

    capability: str
    verdict: Verdict
    detail: str
    claimed: Claim
    """What the catalog and the operator say, earlier evidence left aside."""
    value: int | str | None = None

    @property
    def supported(self) -> bool | None:
        """Whether the model has it; None where the probe could not tell."""
        return None if self.verdict == "inconclusive" else self.verdict == "supported"

    @property
    def found(self) -> int | str | tuple[str, ...] | None:
        """The value that was found; the levels that the catalog lists still hold where any does."""
        said = self.claimed.value
        levels = said if isinstance(said, tuple) and self.claimed.support == "native" else None
        return self.value if self.value is not None or not self.supported else levels

    @property
    def contradicts(self) -> bool:
        """Whether the catalog says otherwise."""
        if self.supported is None or not self.claimed.known:
            return False
        if self.supported != (self.claimed.support in _HAVE):
            return True
        return self.value is not None and self.value != self.claimed.value


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe found, what it cost, and the hash of all that was asked and answered."""

    target: str
    provider: str
    model: str
    envelope: str
    results: tuple[ProbeResult, ...]
    calls: int
    spent: int | None
    """In nano-dollars; None where the price is not known."""
    stopped: str
    """Why the probe ended early, or an empty text."""
    answered: bool
    """Whether the model answered a plain call at all."""
    transcript: bytes
    """Canonical JSON of the requests and answers."""
    hash: str

    @property
    def contradictions(self) -> tuple[ProbeResult, ...]:
        """The results that the catalog says otherwise."""
        return tuple(one for one in self.results if one.contradicts)

    @property
    def learned(self) -> tuple[Observation, ...]:
        """What is worth recording: everything that was found out."""
        return tuple(
            Observation(
                self.provider,
                self.model,
                one.capability,
                "native" if one.supported else "unsupported",
                one.found,
                "probe",
                shortened(one.detail),
                self.hash,
            )
            for one in self.results
            if one.supported is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "target": self.target,
            "results": [
                {
                    "capability": one.capability,
                    "verdict": one.verdict,
                    "detail": one.detail,
                    "value": one.value,
                    "claimed": msgspec.to_builtins(one.claimed),
                    "contradicts": one.contradicts,
                }
                for one in self.results
            ],
            "contradictions": [one.capability for one in self.contradictions],
            "calls": self.calls,
            "spentNanoUsd": self.spent,
            "stopped": self.stopped or None,
            "envelope": self.envelope,
            "transcript": self.hash,
        }


def claimed(resolution: Resolution, name: str) -> Claim:
    """Return what a result is compared with."""
    return resolution.without_evidence(name)
