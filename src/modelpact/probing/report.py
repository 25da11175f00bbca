"""Probe reports: what a probe found, beside what the catalog claims."""

from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.evidence.observation import Observation, detail_line
from modelpact.probing.trials import TrialVerdict

_SUPPORTED: Final = ("native", "emulated", "restricted")


class ProbeResult(msgspec.Struct, frozen=True):
    """What a probe found about one capability."""

    capability: str
    verdict: TrialVerdict
    detail: str
    claimed: Claim
    """What the catalog and the operator claim, without evidence."""
    value: int | str | None = None

    @property
    def supported(self) -> bool | None:
        """Whether the model has the capability; None if the probe could not tell."""
        return None if self.verdict == "inconclusive" else self.verdict == "supported"

    @property
    def observed_value(self) -> int | str | tuple[str, ...] | None:
        """The value to record. Levels in the catalog stay if the probe confirms the capability."""
        if self.value is not None or not self.supported:
            return self.value
        claimed = self.claimed.value
        return claimed if isinstance(claimed, tuple) and self.claimed.support == "native" else None

    @property
    def contradicts(self) -> bool:
        """Whether the catalog claims something else."""
        if self.supported is None or not self.claimed.known:
            return False
        if self.supported != (self.claimed.support in _SUPPORTED):
            return True
        return self.value is not None and self.value != self.claimed.value


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe found and what it cost, with the transcript of its calls."""

    target: str
    provider: str
    model: str
    envelope: str
    results: tuple[ProbeResult, ...]
    calls: int
    spent: int | None
    """In nano-dollars; None if the price is not known."""
    stopped: str
    """Why the probe ended early; empty if it did not."""
    answered: bool
    """Whether the model answered the plain call."""
    transcript: bytes
    """Canonical JSON of the requests and answers."""
    hash: str

    @property
    def contradictions(self) -> tuple[ProbeResult, ...]:
        """The results that contradict the catalog."""
        return tuple(result for result in self.results if result.contradicts)

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The conclusive results as observations, ready to be recorded."""
        return tuple(
            Observation(
                self.provider,
                self.model,
                result.capability,
                "native" if result.supported else "unsupported",
                result.observed_value,
                "probe",
                detail_line(result.detail),
                self.hash,
            )
            for result in self.results
            if result.supported is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "target": self.target,
            "results": [
                {
                    "capability": result.capability,
                    "verdict": result.verdict,
                    "detail": result.detail,
                    "value": result.value,
                    "claimed": msgspec.to_builtins(result.claimed),
                    "contradicts": result.contradicts,
                }
                for result in self.results
            ],
            "contradictions": [result.capability for result in self.contradictions],
            "calls": self.calls,
            "spentNanoUsd": self.spent,
            "stopped": self.stopped or None,
            "envelope": self.envelope,
            "transcript": self.hash,
        }
