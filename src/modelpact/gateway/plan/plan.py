"""Plans: what is done with requests that ask the same question."""

from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.facts import Price
from modelpact.catalog.provider import Api
from modelpact.configuration.config import Workload
from modelpact.gateway.plan.policy import RequestPolicy
from modelpact.needs.requests import RequestFeatures
from modelpact.wire import RawHeaders

How = Literal["forward", "carry", "refuse"]
HeaderPairs = tuple[tuple[str, str], ...]
NO_LINES: Final = RawHeaders()
_LONGEST: Final = 1_000
TOLD: Final = (
    *("verdict", "requested-model", "served-model", "emulated", "carried", "substituted"),
    *("dropped", "renamed", "added", "warnings", "lossy", "invocation", "cost-usd", "event"),
    "prompt-tokens",
)
"""The headers of answers, after `modelpact-`; those of upstreams are not passed on."""


class PlanKey(msgspec.Struct, frozen=True):
    """What a plan depends on: many requests ask the same."""

    name: str
    """The model as the client named it."""
    workload: str
    asked: RequestFeatures
    policy: RequestPolicy


class Plan(msgspec.Struct, frozen=True):
    """What is done: forwarded as it is, carried through the conversation model, or refused."""

    how: How
    answer: Literal["yes", "labelled", "no"]
    requested: str
    provider: str = ""
    model: str = ""
    api: Api | Literal[""] = ""
    """The API that is spoken to the provider."""
    emulate: tuple[tuple[str, str], ...] = ()
    """Capabilities that are made up for, and how."""
    carried: str = ""
    """From which API to which, where they differ."""
    substituted_for: str = ""
    """The model that was asked for, where the declared fallback is called instead."""
    because: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    drops: tuple[str, ...] = ()
    added: tuple[tuple[str, int], ...] = ()
    """Parameters that the provider's API requires and the client's can do without."""
    warnings: tuple[str, ...] = ()
    diagnostic: dict[str, Any] | None = None
    """Why it is refused."""
    window: int | None = None
    longest_output: int | None = None
    encoding: str = ""
    """The vocabulary that the model's tokens are counted with, where it is public."""
    profile: str = ""
    """The linter's profile for the schema that the answer is to be held to, where there is one."""
    price: Price | None = None
    policy: RequestPolicy = RequestPolicy()
    workload: Workload | None = None
    head: RawHeaders = NO_LINES
    """What every answer under this plan says in its head, as it is sent."""

    @property
    def target(self) -> str:
        """The provider and model that are called."""
        return f"{self.provider}/{self.model}"

    def headers(self) -> HeaderPairs:
        """Return what every answer under this plan says in its head."""
        found = [("modelpact-verdict", self.answer), ("modelpact-requested-model", self.requested)]
        if self.how != "refuse":
            found.append(("modelpact-served-model", self.target))
        if self.emulate:
            found.append(
                ("modelpact-emulated", "; ".join(f"{n}: {how}" for n, how in self.emulate))
            )
        if self.carried:
            found.append(("modelpact-carried", self.carried))
        if self.substituted_for:
            told = f"{self.substituted_for} -> {self.target}: {self.because}"
            found.append(("modelpact-substituted", told))
        if self.drops:
            found.append(("modelpact-dropped", ", ".join(self.drops)))
        if self.renames:
            found.append(
                ("modelpact-renamed", ", ".join(f"{old}={new}" for old, new in self.renames))
            )
        if self.added:
            found.append(("modelpact-added", ", ".join(f"{n}={value}" for n, value in self.added)))
        if self.warnings:
            found.append(("modelpact-warnings", "; ".join(self.warnings)))
        return tuple((name, header_safe(value)) for name, value in found)

    def with_head(self) -> "Plan":
        """Return the plan with its headers written."""
        return msgspec.structs.replace(self, head=RawHeaders.encode(self.headers()))

    def data(self) -> dict[str, Any]:
        """Return the plan for programs and records."""
        found: dict[str, Any] = {
            "verdict": self.answer,
            "plan": self.how,
            "requestedModel": self.requested,
            "servedModel": self.target if self.how != "refuse" else None,
            "emulated": [{"capability": name, "how": how} for name, how in self.emulate],
            "carried": self.carried or None,
            "substituted": None,
            "dropped": list(self.drops),
            "renamed": dict(self.renames),
            "added": dict(self.added),
            "warnings": list(self.warnings),
        }
        if self.substituted_for:
            found["substituted"] = {"from": self.substituted_for, "because": self.because}
        if self.diagnostic is not None:
            found["diagnostic"] = self.diagnostic
        return found


def header_safe(text: str) -> str:
    """Return a text as a header may have it: visible ASCII on one line, not endless."""
    plain = "".join(one if " " <= one <= "~" else "?" for one in text)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."
