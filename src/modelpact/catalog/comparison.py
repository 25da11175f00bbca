"""Comparison: of two models, of two snapshots, and of the lineages of one snapshot."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.claim import Claim, Vote
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.snapshot import SnapshotModels
from modelpact.vocabulary.capability import CAPABILITIES

DifferenceKind = Literal["lost", "less", "unsure", "other", "more", "gained"]
_ORDER: Final[tuple[DifferenceKind, ...]] = ("lost", "less", "unsure", "other", "more", "gained")


class ClaimDifference(msgspec.Struct, frozen=True):
    """A capability that two models do not share alike."""

    capability: str
    kind: DifferenceKind
    before: Claim
    after: Claim


class LineageConflict(msgspec.Struct, frozen=True):
    """One capability of one model on which the lineages disagree."""

    target: str
    capability: str
    votes: tuple[Vote, ...]
    taken: Claim


class CatalogChange(msgspec.Struct, frozen=True):
    """A change of one model, or of one of its capabilities, between two snapshots."""

    target: str
    kind: str
    capability: str = ""
    before: Claim | None = None
    after: Claim | None = None


def compare_models(before: Resolution, after: Resolution) -> list[ClaimDifference]:
    """Return the differences between two models, losses first."""
    differences = []
    for info in CAPABILITIES.values():
        old, new = before.claim(info.id), after.claim(info.id)
        kind = _difference_kind(old, new)
        if kind is not None:
            differences.append(ClaimDifference(info.id, kind, old, new))
    return sorted(differences, key=lambda difference: _ORDER.index(difference.kind))


def conflicts(catalog: Catalog, *, provider: str | None = None) -> Iterator[LineageConflict]:
    """Yield every disagreement between lineages, by provider and model."""
    for target, name, votes in _votes(catalog, provider):
        if len({(vote.support, vote.value) for vote in votes}) > 1:
            taken = catalog.resolve(*catalog.split(target)).claim(name)
            yield LineageConflict(target, name, votes, taken)


def changes(before: Catalog, after: Catalog) -> Iterator[CatalogChange]:
    """Yield models that were added or removed and claims that changed, by provider and model."""
    old, new = set(_targets(before.models)), set(_targets(after.models))
    for provider, model in sorted(old | new):
        target = f"{provider}/{model}"
        if (provider, model) not in old:
            yield CatalogChange(target, "added")
        elif (provider, model) not in new:
            yield CatalogChange(target, "removed")
        else:
            yield from _claim_changes(target, before, after)


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


def _votes(catalog: Catalog, provider: str | None) -> Iterator[tuple[str, str, tuple[Vote, ...]]]:
    for name in catalog.models.providers if provider is None else (provider,):
        for model in catalog.models.names(name):
            record = catalog.models.find(name, model)
            if record is None or len(record.votes) < 2:
                continue
            for capability in record.capabilities():
                votes = record.votes_on(capability, catalog.lineages)
                yield f"{name}/{model}", capability, votes


def _targets(models: SnapshotModels) -> Iterator[tuple[str, str]]:
    for provider in models.providers:
        for model in models.names(provider):
            yield provider, model


def _claim_changes(target: str, before: Catalog, after: Catalog) -> Iterator[CatalogChange]:
    key = before.split(target)
    for old, new in zip(before.resolve(*key), after.resolve(*key), strict=True):
        if (old.support, old.value, old.assumed) != (new.support, new.value, new.assumed):
            yield CatalogChange(target, "changed", old.capability, old, new)
