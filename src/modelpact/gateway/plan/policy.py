"""The policy that a request is planned under, and the header `modelpact-policy` that changes it.

A header can only make the policy stricter, unless the client's key allows more.
"""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError, brief

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
