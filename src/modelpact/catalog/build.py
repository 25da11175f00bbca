"""Build the snapshot from the sources and the facts of the lineages, always the same bytes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.facts import (
    FLAGS,
    OTHERS,
    Lineage,
    ModelFacts,
    Price,
    VoteRow,
    sorting_price,
    vote_row,
)
from modelpact.catalog.index import INDEXED, LIMITS, IndexContent, limit_value, pack
from modelpact.catalog.lineages.prices import Clause, is_clause, matches
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.snapshot import FORMAT, SnapshotContent, encode, pack_table
from modelpact.catalog.sources import SOURCES, Sources
from modelpact.catalog.statement import statement_problems
from modelpact.vocabulary.capability import satisfies
from modelpact.vocabulary.errors import CatalogError, Problem, brief

LINEAGES: Final = SOURCES / "lineages"


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


class _LineageHeader(msgspec.Struct, frozen=True):
    lineage: str
    version: str
    date: str
    licence: str
    url: str


_DATE: Final = re.compile(r"20\d\d-[01]\d-[0-3]\d")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
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


def assemble(
    sources: Sources, lineages: Iterable[Lineage], records: Mapping[str, Mapping[str, ModelFacts]]
) -> bytes:
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
    return {
        provider: {model: _record(facts) for model, facts in table.items()}
        for provider, table in merged.items()
    }


def _add_by_clause(
    merged: dict[str, dict[str, list[tuple[int, Fact]]]],
    by_clause: Mapping[str, list[tuple[int, Fact]]],
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
        rule.name: pack(
            any(constraint.name == rule.name for constraint in model.constraints)
            for model in resolved
        )
        for rule in catalog.rulebook.constraints
    }


def _in_order(records: Mapping[str, Mapping[str, ModelFacts]]) -> Iterator[tuple[str, str]]:
    for provider, table in sorted(records.items()):
        for name in sorted(table):
            yield provider, name
