"""Search the catalog for models that meet a set of needs, and for one to suggest."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Literal

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import ClaimSource
from modelpact.catalog.facts import sorting_price
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.rules import ascii_lower
from modelpact.catalog.snapshot import INDEXED
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.negotiate import decide, negotiate
from modelpact.negotiation.verdict import DEFAULT_POLICY, Policy, Verdict
from modelpact.vocabulary.errors import InputError, brief

Order = Literal["name", "price"]


def find_models(
    needs: Needs | Iterable[Need | str] | str = (),
    *,
    provider: str | Sequence[str] | None = None,
    sort: Order = "name",
    retired: bool = False,
    catalog: Catalog | None = None,
) -> list[str]:
    """Return every `provider/model` that is known to meet all hard needs.

    `provider` narrows the search to one or several providers. Sorted by price, models that are
    free or have no known price come last.
    """
    catalog = catalog or default_catalog()
    needs = needs if isinstance(needs, Needs) else Needs(needs)
    providers = (provider,) if isinstance(provider, str) else tuple(provider or ())
    if not all(isinstance(name, str) for name in providers):
        raise InputError(f"provider: expected one or several names, not {brief(provider)}")
    if sort not in ("name", "price"):
        raise InputError(f"sort: expected name or price, not {brief(sort)}")
    hits = _matching(catalog, needs, providers, retired)
    if sort == "name":
        targets = [target for _, target in _indexed_targets(catalog, hits)]
        return sorted([*targets, *_unindexed_targets(catalog, needs, providers, retired)])
    priced = [(catalog.index.price(position), target) for position, target in _indexed_targets(catalog, hits)]
    priced += [
        (sorting_price(catalog.resolve(*catalog.split(target)).price), target)
        for target in _unindexed_targets(catalog, needs, providers, retired)
    ]
    return [target for _, target in sorted(priced, key=lambda entry: (entry[0] <= 0, *entry))]


def surely_meets(needs: Needs, claims: ClaimSource) -> bool:
    """Whether known claims meet every hard need, with nothing left to a probe."""
    verdict = decide(needs, claims, DEFAULT_POLICY)
    return verdict.ok and not any(
        finding.need.level == "hard" and finding.outcome == "probe-pending" for finding in verdict.findings
    )


def suggest(
    needs: Needs | Iterable[Need | str] | str,
    *,
    prefer_provider: str = "",
    exclude: Collection[str] = (),
    policy: Policy = DEFAULT_POLICY,
    catalog: Catalog | None = None,
    available_providers: Sequence[str] = (),
) -> Verdict | None:
    """Return the verdict of a model that satisfies the needs, or None.

    Models of `prefer_provider` come first, then those of `available_providers`, which the caller
    can call, then those that their own vendors serve. Within each group the cheapest comes first.
    The models in `exclude`, written `provider/model`, are never suggested.
    """
    catalog = catalog or default_catalog()
    needs = needs if isinstance(needs, Needs) else Needs(needs)
    excluded = frozenset(ascii_lower(target) for target in exclude)
    if prefer_provider:
        targets = find_models(needs, provider=prefer_provider, sort="price", catalog=catalog)
        verdict = _first_fitting(catalog, targets, needs, policy, excluded)
        provider = catalog.find_provider(prefer_provider)
        if verdict is None and provider is not None and provider.models:
            targets += [f"{prefer_provider}/{model}" for model in provider.models]
            verdict = _first_fitting(catalog, targets, needs, policy, excluded, available=True)
        if verdict is not None or (provider is not None and provider.kind == "local"):
            return verdict  # a suggestion never sends local work elsewhere
    if available_providers:
        targets = find_models(needs, provider=available_providers, sort="price", catalog=catalog)
        verdict = _first_fitting(catalog, targets, needs, policy, excluded, available=True)
        if verdict is not None:
            return verdict
    return _first_fitting(catalog, _vendor_targets(catalog, needs), needs, policy, excluded)


def _first_fitting(
    catalog: Catalog,
    targets: Iterable[str],
    needs: Needs,
    policy: Policy,
    excluded: frozenset[str],
    *,
    available: bool = False,
) -> Verdict | None:
    """Return the verdict of the first model that fits.

    A model that is not `available` to the caller must also be one to recommend.
    """
    for target in targets:
        if ascii_lower(target) in excluded:
            continue
        model = catalog.resolve(*catalog.split(target))
        if model.retired_by(catalog.today) or not (available or _is_recommendable(model)):
            continue
        if surely_meets(needs, model):
            verdict = negotiate(needs, model, policy)
            if verdict.ok:
                return verdict
    return None


def _is_recommendable(model: Resolution) -> bool:
    """Whether a model writes text, has a price, and is known to more than one lineage."""
    lineages = {row.lineage for record in model.records for row in record.votes}
    writes_text = model.claim("text-output").support == "native"
    return writes_text and len(lineages) > 1 and sorting_price(model.price) > 0


def _vendor_targets(catalog: Catalog, needs: Needs) -> list[str]:
    """Return the models that meet the needs and are served by their own vendor, by price."""
    hits = _matching(catalog, needs, (), retired=False)
    vendors = 0
    for provider in catalog.providers.all:
        if provider.serves == "own" and provider.kind == "cloud":
            vendors |= catalog.index.of_provider(provider.id)
    priced = [(catalog.index.price(position), target) for position, target in _indexed_targets(catalog, hits & vendors)]
    return [target for _, target in sorted(priced)]


def _matching(catalog: Catalog, needs: Needs, providers: tuple[str, ...], retired: bool) -> int:
    """Return the models of the index that meet all hard needs, as a bit set."""
    index = catalog.index
    hits = index.everything if retired else index.everything & ~index.retired
    if providers:
        names = [name for name in providers if name not in catalog.configured]
        known = [entry for name in names if (entry := catalog.find_provider(name)) is not None]
        hits &= reduce(or_, (index.of_provider(provider.id) for provider in known), 0)
    for need in needs:
        if need.level != "hard":
            continue
        kind = need.capability_info.kind
        if kind == "flag" and need.capability in INDEXED:
            hits &= index.having(need.capability, need.min_support)
        elif kind == "limit":
            hits &= index.at_least(need.capability, max(1, int(need.minimum or 1)))
        else:
            hits &= _filter(catalog, Needs([need]), hits)
    return _without_conflicts(catalog, needs, hits)


def _without_conflicts(catalog: Catalog, needs: Needs, hits: int) -> int:
    """Remove the models on which the hard needs exclude each other."""
    hard = Needs(need for need in needs if need.level == "hard")
    named = {need.capability for need in hard}
    for rule in catalog.rulebook.constraints:
        if hard.bases.issuperset(rule.excludes):
            constrained = hits & catalog.index.constrained_by(rule.name)
            hits &= ~constrained
            if not named.issuperset(rule.excludes):
                hits |= _filter(catalog, hard, constrained)
    return hits


def _filter(catalog: Catalog, needs: Needs, models: int) -> int:
    """Resolve each model of a bit set, and return those that meet the needs."""
    fitting = 0
    for position, target in _indexed_targets(catalog, models):
        if surely_meets(needs, catalog.resolve(target)):
            fitting |= 1 << position
    return fitting


def _indexed_targets(catalog: Catalog, hits: int) -> Iterator[tuple[int, str]]:
    """Yield positions and targets of a bit set, except models with an overlay or evidence.

    The index does not know overlays and evidence; `_unindexed_targets` yields those models.
    """
    unindexed = {*catalog.overlay, *catalog.evidence}
    names: list[str] = []
    current = ""
    for position, provider, within in catalog.index.locate(catalog.index.positions(hits)):
        if provider != current:
            current, names = provider, catalog.models.names(provider)
        name = names[within]
        if provider in catalog.configured:
            continue  # the operator gave this name to another provider
        if not unindexed or (provider, name.lower()) not in unindexed:
            yield position, f"{provider}/{name}"


def _unindexed_targets(catalog: Catalog, needs: Needs, providers: tuple[str, ...], retired: bool) -> Iterator[str]:
    """Yield the models with an overlay or evidence that meet the needs."""
    known = {catalog.find_provider(name) for name in providers} - {None}
    for name, model in sorted({*catalog.overlay, *catalog.evidence}):
        if not providers or name in providers or catalog.find_provider(name) in known:
            resolution = catalog.resolve(name, catalog.spelled(name, model))
            if not retired and resolution.retired_by(catalog.day):
                continue
            if surely_meets(needs, resolution):
                yield resolution.target
