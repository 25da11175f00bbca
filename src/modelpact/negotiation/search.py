"""Search: which models meet a set of needs, and which one to suggest."""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Literal

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import ClaimSource
from modelpact.catalog.facts import sorting_price
from modelpact.catalog.index import INDEXED
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.rules import ascii_lower
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.negotiate import DEFAULT_POLICY, decide, negotiate
from modelpact.negotiation.verdict import Policy, Verdict
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

    `provider` narrows the search to one provider or several. By price, what costs nothing by the
    token or has no known price comes last.
    """
    catalog = catalog or default_catalog()
    needs = needs if isinstance(needs, Needs) else Needs(needs)
    providers = (provider,) if isinstance(provider, str) else tuple(provider or ())
    if not all(isinstance(one, str) for one in providers):
        raise InputError(f"provider is a name or several, not {brief(provider)}")
    if sort not in ("name", "price"):
        raise InputError(f"sort is name or price, not {brief(sort)}")
    hits = _matching(catalog, needs, providers, retired)
    if sort == "name":
        found = [target for _, target in _named(catalog, hits)]
        return sorted([*found, *_operator_models(catalog, needs, providers, retired)])
    priced = [(catalog.index.price(place), target) for place, target in _named(catalog, hits)]
    priced += [
        (sorting_price(catalog.resolve(*catalog.split(target)).price), target)
        for target in _operator_models(catalog, needs, providers, retired)
    ]
    return [target for _, target in sorted(priced, key=lambda one: (one[0] <= 0, *one))]


def surely_meets(needs: Needs, claims: ClaimSource) -> bool:
    """Tell whether every hard need is met by what is known, with nothing left to a probe."""
    verdict = decide(needs, claims, DEFAULT_POLICY)
    return verdict.ok and not any(
        one.need.level == "hard" and one.outcome == "probe-pending" for one in verdict.findings
    )


def suggest(
    needs: Needs | Iterable[Need | str] | str,
    *,
    avoid: str = "",
    in_force: str = "",
    policy: Policy = DEFAULT_POLICY,
    catalog: Catalog | None = None,
    among: Sequence[str] = (),
) -> Verdict | None:
    """Return the verdict for a model that really satisfies the needs, or None.

    The provider of the model to `avoid` comes first, then those `among` which the caller can call,
    then vendors of their own models; then the price. The model `in_force` is no suggestion: whoever
    asks has it already. It is never applied by itself.
    """
    catalog = catalog or default_catalog()
    needs = needs if isinstance(needs, Needs) else Needs(needs)
    same = avoid.partition("/")[0]
    had = frozenset(ascii_lower(one) for one in (avoid, in_force))
    if same:
        here = find_models(needs, provider=same, sort="price", catalog=catalog)
        found = _first_good(catalog, here, needs, policy, had)
        provider = catalog.find_provider(same)
        if found is None and provider is not None and provider.models:
            along = [*here, *(f"{same}/{model}" for model in provider.models)]
            found = _first_good(catalog, along, needs, policy, had, at_hand=True)
        if found is not None or (provider is not None and provider.kind == "local"):
            return found  # what runs at home is not sent elsewhere by a suggestion
    if among:
        near = find_models(needs, provider=among, sort="price", catalog=catalog)
        found = _first_good(catalog, near, needs, policy, had, at_hand=True)
        if found is not None:
            return found
    return _first_good(catalog, _of_vendors(catalog, needs), needs, policy, had)


def _first_good(
    catalog: Catalog,
    targets: Iterable[str],
    needs: Needs,
    policy: Policy,
    had: frozenset[str],
    *,
    at_hand: bool = False,
) -> Verdict | None:
    for target in targets:
        if ascii_lower(target) in had:
            continue
        one = catalog.resolve(*catalog.split(target))
        if one.retired_by(catalog.today) or not (at_hand or _recommendable(one)):
            continue
        if surely_meets(needs, one):
            verdict = negotiate(needs, one, policy)
            if verdict.ok:
                return verdict
    return None


def _recommendable(one: Resolution) -> bool:
    """Tell whether a model that writes text is priced and known to more than one source."""
    sources = {row.lineage for record in one.records for row in record.votes}
    writes = one.claim("text-output").support == "native"
    return writes and len(sources) > 1 and sorting_price(one.price) > 0


def _of_vendors(catalog: Catalog, needs: Needs) -> list[str]:
    hits = _matching(catalog, needs, (), retired=False)
    own = 0
    for provider in catalog.providers.listed:
        if provider.serves == "own" and provider.kind == "cloud":
            own |= catalog.index.of_provider(provider.id)
    priced = [(catalog.index.price(place), name) for place, name in _named(catalog, hits & own)]
    return [name for _, name in sorted(priced)]


def _matching(catalog: Catalog, needs: Needs, providers: tuple[str, ...], retired: bool) -> int:
    index = catalog.index
    hits = index.everything if retired else index.everything & ~index.retired
    if providers:
        listed = [name for name in providers if name not in catalog.configured]
        known = [one for name in listed if (one := catalog.find_provider(name)) is not None]
        hits &= reduce(or_, (index.of_provider(one.id) for one in known), 0)
    for need in needs:
        if need.level != "hard":
            continue
        kind = need.capability_info.kind
        if kind == "flag" and need.capability in INDEXED:
            hits &= index.having(need.capability, need.min_support)
        elif kind == "limit":
            hits &= index.at_least(need.capability, max(1, int(need.minimum or 1)))
        else:
            hits &= _those_that_meet(catalog, Needs([need]), hits)
    return _without_conflicts(catalog, needs, hits)


def _without_conflicts(catalog: Catalog, needs: Needs, hits: int) -> int:
    """Leave out the models on which the hard needs exclude each other."""
    hard = Needs(need for need in needs if need.level == "hard")
    plain = {need.capability for need in hard}
    for rule in catalog.rulebook.constraints:
        if hard.bases.issuperset(rule.excludes):
            doubtful = hits & catalog.index.constrained_by(rule.name)
            hits &= ~doubtful
            if not plain.issuperset(rule.excludes):
                hits |= _those_that_meet(catalog, hard, doubtful)
    return hits


def _those_that_meet(catalog: Catalog, needs: Needs, models: int) -> int:
    """Ask each of some models."""
    kept = 0
    for place, target in _named(catalog, models):
        if surely_meets(needs, catalog.resolve(target)):
            kept |= 1 << place
    return kept


def _named(catalog: Catalog, hits: int) -> Iterator[tuple[int, str]]:
    """Yield places and names, but for models that an operator or evidence speaks of."""
    spoken_of = {*catalog.overlay, *catalog.evidence}
    names: list[str] = []
    current = ""
    for place, provider, within in catalog.index.locate(catalog.index.places(hits)):
        if provider != current:
            current, names = provider, catalog.models.names(provider)
        name = names[within]
        if provider in catalog.configured:
            continue  # the operator gave this name to another provider
        if not spoken_of or (provider, name.lower()) not in spoken_of:
            yield place, f"{provider}/{name}"


def _operator_models(
    catalog: Catalog, needs: Needs, providers: tuple[str, ...], retired: bool
) -> Iterator[str]:
    """Yield the models that the index cannot answer for: an operator or evidence speaks of them."""
    wanted = {catalog.find_provider(name) for name in providers} - {None}
    for name, model in sorted({*catalog.overlay, *catalog.evidence}):
        if not providers or name in providers or catalog.find_provider(name) in wanted:
            one = catalog.resolve(name, catalog.spelled(name, model))
            if (retired or not one.retired_by(catalog.day)) and surely_meets(needs, one):
                yield one.target
