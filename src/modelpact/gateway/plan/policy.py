"""Policy of one request: the configuration's, the workload's, the key's, and its own headers.

Headers only ever make it stricter, unless the key allows more.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError, brief

HEADER: Final = "modelpact-policy"
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "unknown": ("refuse", "probe"),
    "emulate": ("off", "on"),
    "params": ("refuse", "drop"),
    "fallback": ("off", "on"),
    "lossy": ("off", "on"),
}
"""What a header may say of each: the stricter word first."""
LOOSENABLE: Final = tuple(_WORDS)


class RequestPolicy(msgspec.Struct, frozen=True):
    """What may be done about what is missing, for one request."""

    unknown: bool = False
    """Whether needs that were declared may be unknown; those of a request may, unless told not."""
    strict_unknown: bool = False
    """Whether what the request itself asks for must be known as well."""
    emulate: bool = False
    drop_params: bool = False
    fallback: bool = True
    lossy: bool = False


def base_policy(policy: Policy, lossy: bool) -> RequestPolicy:
    """Return the policy of a configuration or a workload."""
    return RequestPolicy(
        unknown=policy.unknown == "probe",
        emulate=policy.emulate,
        drop_params=policy.unsupported_params == "drop",
        lossy=lossy,
    )


def with_header(policy: RequestPolicy, header: str, loosen: Collection[str] = ()) -> RequestPolicy:
    """Apply `modelpact-policy: emulate=off, unknown=refuse`; raise where it may not be looser."""
    for part in header.split(","):
        name, equals, word = (one.strip().lower() for one in part.partition("="))
        if not (name or equals):
            continue
        words = _WORDS.get(name)
        if words is None or word not in words:
            known = "; ".join(f"{one}={'|'.join(said)}" for one, said in _WORDS.items())
            raise InputError(f"{HEADER}: {brief(part.strip())} is not one of {known}")
        policy = _changed(policy, name, loose=word == words[1], allowed=name in loosen)
    return policy


def _changed(policy: RequestPolicy, name: str, *, loose: bool, allowed: bool) -> RequestPolicy:
    field = {"params": "drop_params"}.get(name, name)
    if loose and not getattr(policy, field) and not allowed:
        raise InputError(f"{HEADER}: {name} can only be made stricter with this key")
    changed = msgspec.structs.replace(policy, **{field: loose})
    if name == "unknown":
        changed = msgspec.structs.replace(changed, strict_unknown=not loose)
    return changed
