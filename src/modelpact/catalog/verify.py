"""Verification: all checks of the data files, and warnings about valid but suspect data."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from modelpact.catalog.build import LINEAGES, build, read_lineages
from modelpact.catalog.catalog import Catalog
from modelpact.catalog.rules import Rule
from modelpact.catalog.snapshot import BUNDLED, decode
from modelpact.catalog.sources import SOURCES, Sources, read_sources
from modelpact.vocabulary.errors import CatalogError, Problem

_BARE_VERSION: Final = re.compile(r"(?<![\d.])(?<!\d-)\d+$")


class Verification(msgspec.Struct, frozen=True):
    """The result of a verification: errors, which forbid use, and warnings."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    models: int = 0
    rules: int = 0


def verify(
    sources_dir: Path = SOURCES, lineages_dir: Path = LINEAGES, snapshot: Path | None = BUNDLED
) -> Verification:
    """Check the sources and lineages, and that the snapshot was built from them."""
    try:
        sources = read_sources(sources_dir)
        lineages = read_lineages(lineages_dir)
    except CatalogError as error:
        return Verification(error.problems)
    data = build(sources, lineages)
    errors = []
    if snapshot is not None and (not snapshot.is_file() or snapshot.read_bytes() != data):
        message = "was not built from these sources; run `modelpact catalog build`"
        errors.append(Problem(snapshot.name, "", message))
    catalog = Catalog(decode(data, "the built snapshot"))
    warnings = [*source_warnings(sources), *effect_warnings(catalog)]
    count = len(sources.rules) + len(sources.corrections) + len(sources.constraints)
    return Verification(tuple(errors), tuple(warnings), catalog.index.size, count)


def source_warnings(sources: Sources) -> Iterator[Problem]:
    """Yield warnings about the text of the rules: risky prefixes, unsorted arrays, no source."""
    risky: set[str] = set()
    for table in ("rules", "corrections", "constraints"):
        for rule in getattr(sources, table):
            where = f"{table.removesuffix('s')} {rule.name!r}"
            risky.update(risky_prefixes(rule))
            for field, value in rule.caps.items():
                if isinstance(value, list) and not _is_sorted(field, value):
                    yield Problem("rules", f"{where}: caps.{field}", "the array is not sorted")
            if not rule.source:
                yield Problem("rules", where, "has no source")
    if risky:
        prefixes = ", ".join(sorted(risky))
        first = min(risky)
        message = f"risky, since {first} also matches {first}5: {prefixes}"
        yield Problem("rules", f"{len(risky)} prefixes end in a bare number", message)


def risky_prefixes(rule: Rule) -> list[str]:
    """Return the prefixes that end in a bare version number: `gpt-4` also matches `gpt-45`."""
    if rule.kind != "prefix_any":
        return []
    return [prefix for prefix in rule.patterns if _BARE_VERSION.search(prefix)]


def _is_sorted(field: str, value: list[str]) -> bool:
    if field in ("input_modalities", "output_modalities"):
        return "text" not in value or value[0] == "text"
    if field == "reasoning_effort":
        return True
    return value == sorted(value)


def effect_warnings(catalog: Catalog) -> Iterator[Problem]:
    """Yield a warning for each rule that decides nothing on any model of the snapshot."""
    matched: set[tuple[str, str]] = set()
    decisive: set[tuple[str, str]] = set()
    for provider, model in _all_models(catalog):
        resolution = catalog.resolve(provider, model)
        for constraint in resolution.constraints:
            matched.add(("constraint", constraint.name))
        for entry in resolution.trace:
            matched.add((entry.layer, entry.rule))
        for claim in resolution:
            if claim.evidence is not None:
                decisive.add((claim.evidence.layer, claim.evidence.rule))
    for kind, rules in (
        ("rule", catalog.rulebook.rules),
        ("correction", catalog.rulebook.corrections),
    ):
        for rule in rules:
            key = (kind, rule.name)
            if key not in matched:
                yield Problem("rules", f"{kind} {rule.name!r}", "matches no model of the snapshot")
            elif key not in decisive:
                message = "has no effect: later layers overrule everything that it states"
                yield Problem("rules", f"{kind} {rule.name!r}", message)
    for rule in catalog.rulebook.constraints:
        if ("constraint", rule.name) not in matched:
            where = f"constraint {rule.name!r}"
            yield Problem("rules", where, "matches no model of the snapshot")


def _all_models(catalog: Catalog) -> Iterable[tuple[str, str]]:
    for provider in catalog.models.providers:
        for model in catalog.models.names(provider):
            yield provider, model
    for entry in catalog.providers.all:
        if entry.kind != "cloud":
            yield entry.id, "any-model"
        for model in entry.models:
            yield entry.id, model
