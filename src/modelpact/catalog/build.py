"""Building: the sources and the lineages' facts become one snapshot, always the same bytes."""

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
from modelpact.catalog.snapshot import FORMAT, Content, encode, pack_table
from modelpact.catalog.sources import SOURCES, Sources
from modelpact.catalog.statement import statement_problems
from modelpact.vocabulary.capability import satisfies
from modelpact.vocabulary.errors import CatalogError, Problem, brief

LINEAGES: Final = SOURCES / "lineages"


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a lineage's file: what it says of one model."""

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
    """One lineage and all its lines."""

    lineage: Lineage
    facts: tuple[Fact, ...]


class _Header(msgspec.Struct, frozen=True):
    lineage: str
    version: str
    date: str
    licence: str
    url: str


_DATE: Final = re.compile(r"20\d\d-[01]\d-[0-3]\d")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")
_FACT: Final = msgspec.json.Decoder(Fact)
_HEADER: Final = msgspec.json.Decoder(_Header)


def read_lineages(directory: Path = LINEAGES) -> list[LineageFacts]:
    """Read every `*.jsonl` of a folder; raise `CatalogError` with all faults."""
    paths = sorted(directory.glob("*.jsonl"))
    if not paths:
        message = "no lineage files; they are kept in the source repository, or name their folder"
        raise CatalogError([Problem(directory.name, "", message)])
    return [read_lineage(path.read_bytes(), path.name) for path in paths]


def read_lineage(data: bytes, file: str) -> LineageFacts:
    """Read one lineage's file from its bytes."""
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
    """Return the snapshot's bytes: a pure function of the sources and the lineages."""
    ordered = sorted(lineages, key=lambda one: one.lineage.name)
    known = {provider.id for provider in sources.providers}
    strangers = {fact.provider for one in ordered for fact in one.facts} - known
    if strangers:
        problems = [Problem("lineages", name, "unknown provider") for name in sorted(strangers)]
        raise CatalogError(problems)
    records = merge(ordered)
    return assemble(sources, [one.lineage for one in ordered], records)


def assemble(
    sources: Sources, lineages: Iterable[Lineage], records: Mapping[str, Mapping[str, ModelFacts]]
) -> bytes:
    """Encode a snapshot with its index."""
    packed = {provider: pack_table(dict(table)) for provider, table in sorted(records.items())}
    content = Content(
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
    index = _index(Catalog(content), records)
    return encode(msgspec.structs.replace(content, index=msgspec.Raw(encode(index))))


def merge(lineages: list[LineageFacts]) -> dict[str, dict[str, ModelFacts]]:
    """Put the lineages' facts together by provider and model, each as a vote of its own."""
    together: dict[str, dict[str, list[tuple[int, Fact]]]] = {}
    by_clause: dict[str, list[tuple[int, Fact]]] = {}
    spelled: dict[str, dict[str, str]] = {}
    for number, source in enumerate(lineages):
        for fact in source.facts:
            if fact.match is not None:
                by_clause.setdefault(fact.provider, []).append((number, fact))
            else:
                table = together.setdefault(fact.provider, {})
                twins = spelled.setdefault(fact.provider, {})
                name = twins.setdefault(fact.model.lower(), fact.model)
                facts = table.setdefault(name, [])
                if not any(at == number for at, _ in facts):
                    facts.append((number, fact))
    _join_by_clause(together, by_clause)
    return {
        provider: {model: _record(facts) for model, facts in table.items()}
        for provider, table in together.items()
    }


def _join_by_clause(
    together: dict[str, dict[str, list[tuple[int, Fact]]]],
    by_clause: Mapping[str, list[tuple[int, Fact]]],
) -> None:
    """Give facts that name their models by a clause to every model that the clause takes in.

    Such a lineage knows prices, not what a provider serves: it lists no models of its own.
    """
    for provider, entries in by_clause.items():
        for model, facts in together.get(provider, {}).items():
            for number, fact in entries:
                if fact.match is not None and matches(fact.match, model):
                    facts.append((number, fact))
                    break


def _record(facts: list[tuple[int, Fact]]) -> ModelFacts:
    votes: list[VoteRow] = []
    for number, fact in facts:
        others = [other for at, other in facts if at != number]
        votes.append(vote_row(number, _window(fact, others), fact.price))
    return ModelFacts(
        votes=tuple(votes),
        base=_first(fact.base for _, fact in facts),
        released=_first(fact.released for _, fact in facts),
        retires=min((fact.retires for _, fact in facts if fact.retires), default=""),
        status=_first(fact.status for _, fact in facts),
    )


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _window(fact: Fact, others: list[Fact]) -> Mapping[str, Any]:
    """Read a lone input limit as the context window, unless the other lineages show otherwise.

    Some catalogs have one number only. It is the input limit where another lineage says so, or
    where it and the longest answer make up the other's window; else it is the window.
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


def _index(catalog: Catalog, records: Mapping[str, Mapping[str, ModelFacts]]) -> IndexContent:
    models = [(provider, name) for provider, name in _in_order(records)]
    resolved = [catalog.resolve(provider, name) for provider, name in models]
    native: dict[str, bytes] = {}
    accepted: dict[str, bytes] = {}
    for name in INDEXED:
        claims = [one.claim(name) for one in resolved]
        native[name] = pack(claim.support == "native" for claim in claims)
        accepted[name] = pack(satisfies(claim.support, "emulated") for claim in claims)
    return IndexContent(
        counts={provider: len(table) for provider, table in sorted(records.items())},
        native={name: bits for name, bits in native.items() if any(bits)},
        accepted={name: bits for name, bits in accepted.items() if any(bits)},
        limits={name: [limit_value(one.claim(name)) for one in resolved] for name in LIMITS},
        prices=[sorting_price(one.price) for one in resolved],
        retired=pack(one.retired_by(catalog.day) for one in resolved),
        constrained=_constrained(catalog, resolved),
    )


def _constrained(catalog: Catalog, resolved: list[Resolution]) -> dict[str, bytes]:
    """Return which models each constraint holds for."""
    return {
        rule.name: pack(
            any(constraint.name == rule.name for constraint in one.constraints) for one in resolved
        )
        for rule in catalog.rulebook.constraints
    }


def _in_order(records: Mapping[str, Mapping[str, ModelFacts]]) -> Iterator[tuple[str, str]]:
    for provider, table in sorted(records.items()):
        for name in sorted(table):
            yield provider, name
