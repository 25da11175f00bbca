"""Plans: what the gateway does with a request, and what its response headers say about that.

Each is made under a policy. The header `modelpact-policy` of a request can only make the policy
stricter, unless the client's key allows more.
"""

from collections.abc import Collection
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.facts import Price
from modelpact.catalog.provider import Api
from modelpact.configuration.config import Configuration, Workload
from modelpact.needs.requests import RequestFeatures
from modelpact.negotiation.verdict import Answer, Diagnostic, Policy, missing_data
from modelpact.vocabulary.errors import InputError, brief
from modelpact.wire.headers import RawHeaders

Action = Literal["forward", "carry", "refuse"]
"""What to do with a request.

`forward` sends its body on. `carry` translates it to another API or emulates a capability. `refuse`
sends nothing.
"""
HeaderTuples = tuple[tuple[str, str], ...]
"""Names and values of headers that a plan adds to responses."""

RESPONSE_HEADERS: Final = (
    "modelpact-verdict",
    "modelpact-requested-model",
    "modelpact-served-model",
    "modelpact-emulated",
    "modelpact-carried",
    "modelpact-substituted",
    "modelpact-dropped",
    "modelpact-renamed",
    "modelpact-added",
    "modelpact-warnings",
    "modelpact-lossy",
    "modelpact-invocation",
    "modelpact-cost-usd",
    "modelpact-event",
    "modelpact-prompt-tokens",
)
"""The headers that the gateway sets. It does not pass on headers of these names from upstreams."""
PROMPT_TOKENS_HEADER: Final = "modelpact-prompt-tokens"
_NO_HEADERS: Final = RawHeaders()
_MAX_HEADER_LENGTH: Final = 1_000
POLICY_HEADER: Final = "modelpact-policy"
_SWITCH: Final = {"off": False, "on": True}
_SETTINGS: Final[dict[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    "unknown": (("unknown", "unknown_in_request"), {"refuse": "refuse", "probe": "probe"}),
    "emulate": (("emulate",), _SWITCH),
    "params": (("unsupported_params",), {"refuse": "refuse", "drop": "drop"}),
    "fallback": (("fallback",), _SWITCH),
    "lossy": (("lossy",), _SWITCH),
}
"""The parts of the policy: the fields of each, and the words for their values, the strict first."""
LOOSENABLE: Final = tuple(_SETTINGS)
"""The parts of the policy that a key may allow its requests to loosen."""


class PlanKey(msgspec.Struct, frozen=True):
    """Everything that a plan depends on. Requests with equal keys share one plan."""

    name: str
    """The model as the client named it."""
    workload: str
    features: RequestFeatures
    policy: Policy


class Plan(msgspec.Struct, frozen=True, eq=False):
    """What the gateway does with requests of one key.

    Plans are compared by identity, so that a memo can be keyed by the plan itself.
    """

    action: Action
    verdict: Answer
    requested: str
    """The model as the client named it."""
    provider: str = ""
    model: str = ""
    api: Api | Literal[""] = ""
    """The API that the provider is called with."""
    emulate: tuple[tuple[str, str], ...] = ()
    """Capabilities that modelpact emulates, and how."""
    api_translation: str = ""
    """The client's API and the provider's, if the request is translated between them."""
    substituted_for: str = ""
    """The requested model, if the declared fallback is called instead."""
    substitution_reason: str = ""
    """Why the fallback is called."""
    renames: tuple[tuple[str, str], ...] = ()
    drops: tuple[str, ...] = ()
    added: tuple[tuple[str, int], ...] = ()
    """Parameters that the provider's API requires and the client's API does not."""
    warnings: tuple[str, ...] = ()
    diagnostic: Diagnostic | None = None
    """Why the request is refused."""
    context_window: int | None = None
    max_output: int | None = None
    encoding: str = ""
    """The tokenizer vocabulary of the model, where it is public."""
    profile: str = ""
    """The linter profile for the schema that the response must follow, where there is one."""
    price: Price | None = None
    policy: Policy = Policy()
    workload: Workload | None = None
    provider_kind: str = ""
    """The provider's id in the catalog: `vllm` for a configured provider of that kind."""
    head: RawHeaders = _NO_HEADERS
    """`headers()`, written once for all responses."""

    @property
    def target(self) -> str:
        """The provider and model that are called."""
        return f"{self.provider}/{self.model}"

    def headers(self) -> HeaderTuples:
        """Return the headers that every response under this plan has."""
        pairs = [("modelpact-verdict", self.verdict), ("modelpact-requested-model", self.requested)]
        if self.action != "refuse":
            pairs.append(("modelpact-served-model", self.target))
        if self.emulate:
            emulated = "; ".join(f"{name}: {how}" for name, how in self.emulate)
            pairs.append(("modelpact-emulated", emulated))
        if self.api_translation:
            pairs.append(("modelpact-carried", self.api_translation))
        if self.substituted_for:
            substitution = f"{self.substituted_for} -> {self.target}: {self.substitution_reason}"
            pairs.append(("modelpact-substituted", substitution))
        if self.drops:
            pairs.append(("modelpact-dropped", ", ".join(self.drops)))
        if self.renames:
            renamed = ", ".join(f"{old}={new}" for old, new in self.renames)
            pairs.append(("modelpact-renamed", renamed))
        if self.added:
            added = ", ".join(f"{name}={value}" for name, value in self.added)
            pairs.append(("modelpact-added", added))
        if self.warnings:
            pairs.append(("modelpact-warnings", "; ".join(self.warnings)))
        return tuple((name, header_safe(value)) for name, value in pairs)

    def with_head(self) -> "Plan":
        """Return the plan with its headers written."""
        return msgspec.structs.replace(self, head=RawHeaders.encode(self.headers()))

    def data(self) -> dict[str, Any]:
        """Return the plan as JSON: for `/v1/negotiate`, errors, reports and the ledger."""
        data: dict[str, Any] = {
            "verdict": self.verdict,
            "plan": self.action,
            "requestedModel": self.requested,
            "servedModel": self.target if self.action != "refuse" else None,
            "emulated": [{"capability": name, "how": how} for name, how in self.emulate],
            "carried": self.api_translation or None,
            "substituted": None,
            "dropped": list(self.drops),
            "renamed": dict(self.renames),
            "added": dict(self.added),
            "warnings": list(self.warnings),
        }
        if self.substituted_for:
            data["substituted"] = {"from": self.substituted_for, "because": self.substitution_reason}
        if self.diagnostic is not None:
            data["diagnostic"] = diagnostic_data(self.diagnostic)
        return data


def diagnostic_data(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as the gateway's JSON has it."""
    data: dict[str, Any] = {"target": diagnostic.target, "missing": missing_data(diagnostic.missing)}
    if diagnostic.untranslatable:
        data["cannotBeTold"] = diagnostic.untranslatable
    data["previous"] = diagnostic.previous
    data["suggestion"] = diagnostic.suggestion
    data["wouldHelp"] = list(diagnostic.would_help)
    return data


def header_safe(text: str) -> str:
    """Return a text that fits in a header: visible ASCII on one line, at most 1,000 characters."""
    plain = "".join(character if " " <= character <= "~" else "?" for character in text)
    if len(plain) <= _MAX_HEADER_LENGTH:
        return plain
    return f"{plain[: _MAX_HEADER_LENGTH - 3]}..."


def configured_policy(configuration: Configuration, policy: Policy) -> Policy:
    """Return the policy of requests: that of the configuration or a workload, and `lossy`."""
    return msgspec.structs.replace(policy, lossy=configuration.gateway.lossy)


def apply_policy_header(policy: Policy, header: str, loosen: Collection[str] = ()) -> Policy:
    """Apply `modelpact-policy: emulate=off, unknown=refuse` to a policy.

    Raise `InputError` where a part would become looser and is not in `loosen`.
    """
    for part in header.split(","):
        name, equals, word = (text.strip().lower() for text in part.partition("="))
        if not (name or equals):
            continue
        fields, words = _SETTINGS.get(name, ((), {}))
        if word not in words:
            known = "; ".join(f"{each}={'|'.join(words)}" for each, (_, words) in _SETTINGS.items())
            raise InputError(f"{POLICY_HEADER}: {brief(part.strip())} is not one of {known}")
        changed = msgspec.structs.replace(policy, **dict.fromkeys(fields, words[word]))
        loosens = word != next(iter(words)) and changed != policy
        if loosens and name not in loosen:
            raise InputError(f"{POLICY_HEADER}: {name} can only be made stricter with this key")
        policy = changed
    return policy
