"""The header `modelpact-policy`: a request changes the policy it is planned under.

A header can only make the policy stricter, unless the client's key allows more.
"""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError, brief

POLICY_HEADER: Final = "modelpact-policy"


class _Setting(msgspec.Struct, frozen=True):
    """One part of the policy: the words for it in the header, and the fields that they set."""

    strict_word: str
    loose_word: str
    strict: dict[str, Any]
    loose: dict[str, Any]


def _switch(field: str) -> _Setting:
    return _Setting("off", "on", {field: False}, {field: True})


_SETTINGS: Final = {
    "unknown": _Setting(
        "refuse",
        "probe",
        {"unknown": "refuse", "unknown_in_request": "refuse"},
        {"unknown": "probe", "unknown_in_request": "probe"},
    ),
    "emulate": _switch("emulate"),
    "params": _Setting(
        "refuse", "drop", {"unsupported_params": "refuse"}, {"unsupported_params": "drop"}
    ),
    "fallback": _switch("fallback"),
    "lossy": _switch("lossy"),
}
LOOSENABLE: Final = tuple(_SETTINGS)
"""The parts of the policy that a key may allow its requests to loosen."""


def apply_policy_header(policy: Policy, header: str, loosen: Collection[str] = ()) -> Policy:
    """Apply `modelpact-policy: emulate=off, unknown=refuse` to a policy.

    Raise `InputError` where a part would become looser and is not in `loosen`.
    """
    for part in header.split(","):
        name, equals, word = (text.strip().lower() for text in part.partition("="))
        if not (name or equals):
            continue
        setting = _SETTINGS.get(name)
        if setting is None or word not in (setting.strict_word, setting.loose_word):
            known = "; ".join(
                f"{each}={setting.strict_word}|{setting.loose_word}"
                for each, setting in _SETTINGS.items()
            )
            raise InputError(f"{POLICY_HEADER}: {brief(part.strip())} is not one of {known}")
        if word == setting.strict_word:
            policy = msgspec.structs.replace(policy, **setting.strict)
            continue
        loosened = msgspec.structs.replace(policy, **setting.loose)
        if loosened != policy and name not in loosen:
            raise InputError(f"{POLICY_HEADER}: {name} can only be made stricter with this key")
        policy = loosened
    return policy
