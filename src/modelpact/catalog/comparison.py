"""Compares two models: the capabilities that a switch loses, gains or changes."""

from typing import Final, Literal

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.catalog.resolution import Resolution
from modelpact.vocabulary.capability import CAPABILITIES

DifferenceKind = Literal["lost", "less", "unsure", "other", "more", "gained"]

_ORDER: Final[tuple[DifferenceKind, ...]] = ("lost", "less", "unsure", "other", "more", "gained")


class ClaimDifference(msgspec.Struct, frozen=True):
    """A capability that two models do not share alike."""

    capability: str
    kind: DifferenceKind
    before: Claim
    after: Claim


def compare_models(before: Resolution, after: Resolution) -> list[ClaimDifference]:
    """Return the differences between two models, losses first."""
    differences = []
    for info in CAPABILITIES.values():
        old, new = before.claim(info.id), after.claim(info.id)
        kind = _difference_kind(old, new)
        if kind is not None:
            differences.append(ClaimDifference(info.id, kind, old, new))
    return sorted(differences, key=lambda difference: _ORDER.index(difference.kind))


def _difference_kind(before: Claim, after: Claim) -> DifferenceKind | None:
    if before.support != after.support:
        absent = ("unsupported", "unknown")
        had, has = before.support not in absent, after.support not in absent
        if had and after.support == "unknown":
            return "unsure"
        if had != has:
            return "lost" if had else "gained"
        return "other" if had else None
    if not before.known or before.value == after.value:
        return None
    if isinstance(before.value, int) and isinstance(after.value, int):
        return "less" if after.value < before.value else "more"
    return "other"
