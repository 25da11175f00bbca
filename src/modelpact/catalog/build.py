"""Build the snapshot from its sources, always the same bytes; verify sources and snapshot."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.facts import FLAGS, OTHERS, Lineage, ModelFacts, Price, VoteRow, sorting_price, vote_row
from modelpact.catalog.lineages.rows import Clause, is_clause, matches
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.rules import Rule
from modelpact.catalog.snapshot import (
    BUNDLED,
    FORMAT,
    INDEXED,
    LIMITS,
    IndexContent,
    SnapshotContent,
    decode,
    encode,
    limit_value,
    pack,
    pack_table,
)
from modelpact.catalog.sources import SOURCES, Sources, read_sources
from modelpact.catalog.statement import statement_problems
from modelpact.vocabulary.capability import satisfies
from modelpact.vocabulary.errors import CatalogError, Problem, brief

LINEAGES: Final = SOURCES / "lineages"
_DATE: Final = re.compile(r"20\d\d-[01]\d-[0-3]\d")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
_BARE_VERSION: Final = re.compile(r"(?<![\d.])(?<!\d-)\d+$")


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a lineage file: what it states about one model."""

    provider: str
    model: str
    caps: dict[str, Any] = {}
    price: Price | None = None
    released: str = ""
    retires: str = ""
    status: str = ""
    base: str = ""
    match: Clause | None = None


class LineageFacts(msgspec.Struct, frozen=True):
    """One lineage and all its facts."""

    lineage: Lineage
    facts: tuple[Fact, ...]


class Verification(msgspec.Struct, frozen=True):
    """The result of a verification: errors, which forbid use, and warnings."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    models: int = 0
    rules: int = 0


class _LineageHeader(msgspec.Struct, frozen=True):
    lineage: str
    version: str
    date: str
    licence: str
    url: str


_FACT: Final = msgspec.json.Decoder(Fact)
_HEADER: Final = msgspec.json.Decoder(_LineageHeader)


def read_lineages(directory: Path = LINEAGES) -> list[LineageFacts]:
    """Read every `*.jsonl` of a folder; raise `CatalogError` with all problems."""
    paths = sorted(directory.glob("*.jsonl"))
    if not paths:
        message = "no lineage files; they are in the source repository, or name another folder"
        raise CatalogError([Problem(directory.name, "", message)])
    return [read_lineage(path.read_bytes(), path.name) for path in paths]


def read_lineage(data: bytes, file: str) -> LineageFacts:
    """Read one lineage file from its bytes."""
    problems: list[Problem] = []
    lines = data.splitlines()
    facts: list[Fact] = []
    header = None
    for number, line in enumerate(lines, 1):
        try:
            if number == 1:
                header = _HEADER.decode(line)
                continue
            fact = _FACT.decode(line)
        except msgspec.MsgspecError as error:
            problems.append(Problem(file, "", str(error), number))
            continue
        if fact.match is not None and not is_clause(fact.match):
            where = f"{fact.provider}/{fact.model}: match"
            problems.append(Problem(file, where, "not a clause", number))
        for field, message in statement_problems(fact.caps):
            where = f"{fact.provider}/{fact.model}: caps.{field}"
            problems.append(Problem(file, where, message, number))
        facts.append(fact)
    if header is None and not problems:
        problems.append(Problem(file, "", "empty: the first line must be the header", 1))
    if header is not None and not _DATE.fullmatch(header.date):
        problems.append(Problem(file, "date", f"{brief(header.date)} is not YYYY-MM-DD", 1))
    if header is not None and not _NAME.fullmatch(header.lineage):
        problems.append(Problem(file, "lineage", f"{brief(header.lineage)} is not a name", 1))
    if problems or header is None:
        raise CatalogError(problems)
    lineage = Lineage(header.lineage, header.version, header.date, header.licence, header.url)
    return LineageFacts(lineage, tuple(facts))


def build(sources: Sources, lineages: Iterable[LineageFacts]) -> bytes:
    """Return the bytes of the snapshot: a pure function of the sources and the lineages."""
    ordered = sorted(lineages, key=lambda source: source.lineage.name)
    known = {provider.id for provider in sources.providers}
    unknown = {fact.provider for source in ordered for fact in source.facts} - known
    if unknown:
        problems = [Problem("lineages", name, "unknown provider") for name in sorted(unknown)]
        raise CatalogError(problems)
    records = merge(ordered)
    return assemble(sources, [source.lineage for source in ordered], records)


def assemble(sources: Sources, lineages: Iterable[Lineage], records: Mapping[str, Mapping[str, ModelFacts]]) -> bytes:
    """Encode a snapshot with its index."""
    packed = {provider: pack_table(dict(table)) for provider, table in sorted(records.items())}
    content = SnapshotContent(
        format=FORMAT,
        flags=FLAGS,
        others=OTHERS,
        lineages=tuple(lineages),
        providers=sources.providers,
        names=sources.names,
        defaults=sources.defaults,
        rules=tuple(sources.rules),
        corrections=tuple(sources.corrections),
        constraints=tuple(sources.constraints),
        models=packed,
        index=msgspec.Raw(b"\xc0"),
    )
    index = _build_index(Catalog(content), records)
    return encode(msgspec.structs.replace(content, index=msgspec.Raw(encode(index))))


def merge(lineages: list[LineageFacts]) -> dict[str, dict[str, ModelFacts]]:
    """Merge the facts of the lineages by provider and model; each lineage keeps its own vote."""
    merged: dict[str, dict[str, list[tuple[int, Fact]]]] = {}
    by_clause: dict[str, list[tuple[int, Fact]]] = {}
    names: dict[str, dict[str, str]] = {}
    for number, source in enumerate(lineages):
        for fact in source.facts:
            if fact.match is not None:
                by_clause.setdefault(fact.provider, []).append((number, fact))
            else:
                table = merged.setdefault(fact.provider, {})
                lowered = names.setdefault(fact.provider, {})
                name = lowered.setdefault(fact.model.lower(), fact.model)
                facts = table.setdefault(name, [])
                if not any(earlier == number for earlier, _ in facts):
                    facts.append((number, fact))
    _add_by_clause(merged, by_clause)
    return {provider: {model: _record(facts) for model, facts in table.items()} for provider, table in merged.items()}


def verify(sources_dir: Path = SOURCES, lineages_dir: Path = LINEAGES, snapshot: Path | None = BUNDLED) -> Verification:
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
    for kind, rules in (("rule", catalog.rulebook.rules), ("correction", catalog.rulebook.corrections)):
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


def _add_by_clause(
    merged: dict[str, dict[str, list[tuple[int, Fact]]]], by_clause: Mapping[str, list[tuple[int, Fact]]]
) -> None:
    """Add facts that name their models by a clause to every model that the clause matches.

    Such a lineage knows prices, not which models a provider serves, so it adds no models.
    """
    for provider, entries in by_clause.items():
        for model, facts in merged.get(provider, {}).items():
            for number, fact in entries:
                if fact.match is not None and matches(fact.match, model):
                    facts.append((number, fact))
                    break


def _record(facts: list[tuple[int, Fact]]) -> ModelFacts:
    votes: list[VoteRow] = []
    for number, fact in facts:
        others = [other for other_number, other in facts if other_number != number]
        votes.append(vote_row(number, _with_context_window(fact, others), fact.price))
    return ModelFacts(
        votes=tuple(votes),
        base=_first(fact.base for _, fact in facts),
        released=_first(fact.released for _, fact in facts),
        retires=min((fact.retires for _, fact in facts if fact.retires), default=""),
        status=_first(fact.status for _, fact in facts),
    )


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _with_context_window(fact: Fact, others: list[Fact]) -> Mapping[str, Any]:
    """Read a lone input limit as the context window, unless other lineages show otherwise.

    Some catalogs have one number only. It is an input limit if another lineage says so, or if it
    and the largest output add up to the other's window. Otherwise it is the window.
    """
    limit = fact.caps.get("max_input")
    if limit is None or "context_window" in fact.caps:
        return fact.caps
    for other in others:
        window, output = other.caps.get("context_window"), other.caps.get("max_output")
        if other.caps.get("max_input") == limit and window is not None:
            return fact.caps
        if window is not None and output is not None and window == limit + output:
            return fact.caps
    caps = {**fact.caps, "context_window": limit}
    del caps["max_input"]
    return caps


def _build_index(catalog: Catalog, records: Mapping[str, Mapping[str, ModelFacts]]) -> IndexContent:
    resolved = [catalog.resolve(provider, name) for provider, name in _in_order(records)]
    native: dict[str, bytes] = {}
    accepted: dict[str, bytes] = {}
    for name in INDEXED:
        claims = [model.claim(name) for model in resolved]
        native[name] = pack(claim.support == "native" for claim in claims)
        accepted[name] = pack(satisfies(claim.support, "emulated") for claim in claims)
    return IndexContent(
        counts={provider: len(table) for provider, table in sorted(records.items())},
        native={name: bits for name, bits in native.items() if any(bits)},
        accepted={name: bits for name, bits in accepted.items() if any(bits)},
        limits={name: [limit_value(model.claim(name)) for model in resolved] for name in LIMITS},
        prices=[sorting_price(model.price) for model in resolved],
        retired=pack(model.retired_by(catalog.day) for model in resolved),
        constrained=_constrained(catalog, resolved),
    )


def _constrained(catalog: Catalog, resolved: list[Resolution]) -> dict[str, bytes]:
    """Return the models that each constraint applies to."""
    return {
        rule.name: pack(any(constraint.name == rule.name for constraint in model.constraints) for model in resolved)
        for rule in catalog.rulebook.constraints
    }


def _in_order(records: Mapping[str, Mapping[str, ModelFacts]]) -> Iterator[tuple[str, str]]:
    for provider, table in sorted(records.items()):
        for name in sorted(table):
            yield provider, name


def _is_sorted(field: str, value: list[str]) -> bool:
    if field in ("input_modalities", "output_modalities"):
        return "text" not in value or value[0] == "text"
    if field == "reasoning_effort":
        return True
    return value == sorted(value)


def _all_models(catalog: Catalog) -> Iterable[tuple[str, str]]:
    for provider in catalog.models.providers:
        for model in catalog.models.names(provider):
            yield provider, model
    for entry in catalog.providers.all:
        if entry.kind != "cloud":
            yield entry.id, "any-model"
        for model in entry.models:
            yield entry.id, model
