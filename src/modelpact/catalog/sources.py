"""Sources: read and check the TOML files of the catalog; errors list all problems at once."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.provider import APIS, NameTables, ProviderEntry
from modelpact.catalog.rules import Rule
from modelpact.catalog.statement import statement_problems
from modelpact.vocabulary.capability import find_capability
from modelpact.vocabulary.errors import CatalogError, Problem, nearest

SOURCES: Final = Path(__file__).parent / "data"
_ID: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
_TABLES: Final = ("defaults", "rules", "corrections", "constraints")
_MATCH_FIELDS: Final[dict[str, str]] = {"any": "", "exact": "model", "exact_any": "models", "prefix_any": "prefixes"}


class Sources(msgspec.Struct):
    """The content of the TOML files."""

    providers: tuple[ProviderEntry, ...]
    names: NameTables = NameTables()
    defaults: dict[str, Any] = {}
    rules: list[Rule] = []
    corrections: list[Rule] = []
    constraints: list[Rule] = []


def read_sources(directory: Path = SOURCES) -> Sources:
    """Read all TOML files of a folder; raise `CatalogError` with all problems."""
    problems: list[Problem] = []
    providers = list(_read_providers(_read_toml(directory / "providers.toml", problems), problems))
    known = {provider.id for provider in providers}
    sources = Sources(tuple(providers))
    sources.names = _read_names(_read_toml(directory / "names.toml", problems), known, problems)
    if not (directory / "rules").is_dir():
        problems.append(Problem("rules", "", "the folder is missing"))
    for path in sorted((directory / "rules").glob("*.toml")):
        _read_rule_file(sources, _read_toml(path, problems), path.name, known, problems)
    _check_unique(sources, problems)
    if problems:
        raise CatalogError(problems)
    return sources


def read_rules(text: str, providers: Iterable[ProviderEntry], file: str = "rules.toml") -> Sources:
    """Read one rule file from its text; raise `CatalogError` with all problems."""
    problems: list[Problem] = []
    sources = Sources(tuple(providers))
    known = {provider.id for provider in sources.providers}
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogError([Problem(file, "", f"not TOML: {error}")]) from None
    _read_rule_file(sources, content, file, known, problems)
    _check_unique(sources, problems)
    if problems:
        raise CatalogError(problems)
    return sources


def _read_toml(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(Problem(path.name, "", f"cannot be read: {error.strerror or error}"))
    except UnicodeDecodeError:
        problems.append(Problem(path.name, "", "not UTF-8"))
    except (ValueError, RecursionError) as error:
        problems.append(Problem(path.name, "", f"not TOML: {error}"))
    return {}


def _read_providers(content: Mapping[str, Any], problems: list[Problem]) -> Iterator[ProviderEntry]:
    seen: dict[str, str] = {}
    for table in sorted(set(content) - {"providers"}):
        problems.append(Problem("providers.toml", table, "no such table; there is providers"))
    entries = content.get("providers", [])
    if not isinstance(entries, list):
        problems.append(Problem("providers.toml", "providers", "expected [[providers]]"))
        return
    for number, entry in enumerate(entries, 1):
        where = f"provider {entry.get('id', number)}" if isinstance(entry, dict) else f"{number}"

        def wrong(field: str, message: str, where: str = where) -> None:
            problems.append(Problem("providers.toml", f"{where}: {field}", message))

        try:
            provider = msgspec.convert(entry, ProviderEntry, strict=True)
        except msgspec.ValidationError as error:
            wrong("entry", str(error))
            continue
        for field in sorted(set(entry) - set(ProviderEntry.__struct_fields__)):
            wrong(field, "no such field")
        if not _ID.fullmatch(provider.id):
            wrong("id", "expected lower-case letters, digits and dashes")
        if list(provider.tags) != sorted(set(provider.tags)):
            wrong("tags", "must be sorted and without duplicates")
        if not provider.apis:
            wrong("apis", "must name at least one API")
        for name in (provider.id, *provider.aliases):
            if name.lower() in seen:
                wrong("aliases", f"{name!r} is already a name of {seen[name.lower()]}")
            seen[name.lower()] = provider.id
        yield provider


def _read_names(content: Mapping[str, Any], known: set[str], problems: list[Problem]) -> NameTables:
    for table in sorted(set(content) - {"vendors", "families", "regions", "paths"}):
        problems.append(Problem("names.toml", table, "no such table"))
    for table in ("vendors", "families", "regions", "paths"):
        if not isinstance(content.get(table, {}), dict):
            problems.append(Problem("names.toml", table, f"expected a table [{table}]"))
            return NameTables()
    for table in ("vendors", "families"):
        for name, provider in content.get(table, {}).items():
            if not isinstance(provider, str) or provider not in known:
                problems.append(Problem("names.toml", f"{table}.{name}", _unknown_provider(provider, known)))
    for table, field in (("regions", "prefixes"), ("paths", "neutral")):
        if not _are_strings(content.get(table, {}).get(field, [])):
            problems.append(Problem("names.toml", f"{table}.{field}", "expected a list of strings"))
            return NameTables()
    return NameTables(
        vendors=dict(content.get("vendors", {})),
        families=dict(content.get("families", {})),
        regions=tuple(content.get("regions", {}).get("prefixes", ())),
        paths=tuple(content.get("paths", {}).get("neutral", ())),
    )


def _unknown_provider(name: object, known: Iterable[str]) -> str:
    close = nearest(str(name), known)
    return f"unknown provider {name!r}{f'; did you mean {close[0]!r}?' if close else ''}"


def _read_rule_file(
    sources: Sources, content: Mapping[str, Any], file: str, known: set[str], problems: list[Problem]
) -> None:
    for table in sorted(set(content) - set(_TABLES)):
        problems.append(Problem(file, table, f"no such table; there are {', '.join(_TABLES)}"))
    defaults = content.get("defaults", {})
    if isinstance(defaults, dict):
        for field, message in statement_problems(defaults):
            problems.append(Problem(file, f"[defaults]: {field}", message))
        sources.defaults.update(defaults)
    else:
        problems.append(Problem(file, "defaults", "expected a table [defaults]"))
    for table in _TABLES[1:]:
        entries = content.get(table, [])
        if not isinstance(entries, list):
            problems.append(Problem(file, table, f"expected [[{table}]]"))
            continue
        rules: list[Rule] = getattr(sources, table)
        for number, entry in enumerate(entries, 1):
            if not isinstance(entry, dict):
                problems.append(Problem(file, f"{table} {number}", f"expected [[{table}]]"))
                continue
            rule = _read_rule(table, number, entry, file, known, problems)
            if rule is not None:
                rules.append(rule)


def _read_rule(
    table: str, number: int, entry: Mapping[str, Any], file: str, known: set[str], problems: list[Problem]
) -> Rule | None:
    name = entry.get("name", f"{file} {table} {number}")
    before = len(problems)

    def wrong(field: str, message: str) -> None:
        problems.append(Problem(file, f"{table.removesuffix('s')} {name!r}: {field}", message))

    allowed = {"name", "scope", "match", "source", "date"}
    allowed.add("excludes" if table == "constraints" else "caps")
    for field in sorted(set(entry) - allowed):
        wrong(field, f"no such field; there are {', '.join(sorted(allowed))}")
    for field in ("name", "source", "date"):
        if not isinstance(entry.get(field, ""), str):
            wrong(field, "expected a string")
    providers, apis = _read_scope(entry.get("scope", {}), known, wrong)
    kind, patterns = _read_match(entry.get("match"), wrong)
    caps = entry.get("caps", {})
    excludes = entry.get("excludes", [])
    if table == "constraints":
        _check_excludes(excludes, wrong)
    elif not isinstance(caps, dict) or not caps:
        wrong("caps", "expected at least one caps.FIELD")
    else:
        for field, message in statement_problems(caps):
            wrong(f"caps.{field}", message)
    if table == "corrections" and not entry.get("source"):
        wrong("source", "a correction must name its source")
    if len(problems) > before:
        return None
    return Rule(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        patterns=patterns,
        providers=providers,
        apis=apis,
        caps=caps,
        excludes=tuple(excludes),
        source=entry.get("source", ""),
        date=entry.get("date", ""),
    )


def _read_scope(scope: Any, known: set[str], wrong: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not isinstance(scope, dict):
        wrong("scope", "expected scope.providers or scope.api_dialect")
        return (), ()
    for field in sorted(set(scope) - {"providers", "api_dialect"}):
        wrong(f"scope.{field}", "no such field; there are providers, api_dialect")
    providers = scope.get("providers", [])
    apis = scope.get("api_dialect", [])
    apis = [apis] if isinstance(apis, str) else apis
    for field, values, allowed in (("scope.providers", providers, known), ("scope.api_dialect", apis, APIS)):
        if not _are_strings(values):
            wrong(field, "expected a list of strings")
            return (), ()
        for value in values:
            if value not in allowed and field == "scope.providers":
                wrong(field, _unknown_provider(value, known))
            elif value not in allowed:
                wrong(field, f"unknown API {value!r}; there are {', '.join(APIS)}")
    return tuple(providers), tuple(apis)


def _read_match(match: Any, wrong: Any) -> tuple[str, tuple[str, ...]]:
    if not isinstance(match, dict) or match.get("kind") not in tuple(_MATCH_FIELDS):
        wrong("match", f"expected {{ kind = … }} with one of {', '.join(_MATCH_FIELDS)}")
        return "any", ()
    kind: str = match["kind"]
    field = _MATCH_FIELDS[kind]
    for other in sorted(set(match) - {"kind", field}):
        wrong(f"match.{other}", f"a match of kind {kind} has {field or 'no other field'}")
    if not field:
        return kind, ()
    values = match.get(field)
    if kind == "exact":
        values = [values]
    if not _are_strings(values) or not values or not all(values):
        wrong(f"match.{field}", "expected a name" if kind == "exact" else "expected a list of names")
        return kind, ()
    return kind, tuple(values)


def _check_excludes(excludes: Any, wrong: Any) -> None:
    if not _are_strings(excludes) or len(set(excludes)) < 2:
        wrong("excludes", "expected at least two capabilities")
        return
    for name in excludes:
        entry = find_capability(name)
        if entry is None or entry.id != name:
            wrong("excludes", f"unknown capability {name!r}")


def _are_strings(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _check_unique(sources: Sources, problems: list[Problem]) -> None:
    for table in _TABLES[1:]:
        seen: set[str] = set()
        for rule in getattr(sources, table):
            if rule.name in seen:
                problems.append(Problem("rules", f"{table} {rule.name!r}", "the name is used twice"))
            seen.add(rule.name)
