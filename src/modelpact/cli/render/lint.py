"""The forms in which `modelpact lint` tells what it found."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import click
import msgspec

from modelpact.cli.render.ci import sarif_log
from modelpact.cli.render.tables import paint
from modelpact.schemas.fix import FIXABLE, FixedSchema
from modelpact.schemas.report import SchemaFinding
from modelpact.schemas.rules import RULES


class Located(msgspec.Struct, frozen=True):
    """A finding with the place in its file."""

    finding: SchemaFinding
    file: str
    line: int
    column: int


class Linted(msgspec.Struct, frozen=True):
    """What became of one schema."""

    file: str
    found: tuple[Located, ...]
    fixed: FixedSchema | None = None


def json_data(results: Sequence[Linted]) -> dict[str, Any]:
    """Return everything as data."""
    data: dict[str, Any] = {
        "ok": not any(one.finding.level == "error" for one in _all(results)),
        "findings": [
            {
                **msgspec.to_builtins(one.finding),
                "file": one.file,
                "line": one.line,
                "column": one.column,
            }
            for one in _all(results)
        ],
    }
    fixed = [(one.file, one.fixed) for one in results if one.fixed is not None]
    if fixed:
        for name in ("changes", "kept"):
            data[name] = [
                {**msgspec.to_builtins(change), "file": file}
                for file, one in fixed
                for change in getattr(one, name)
            ]
        data["schemas"] = {file: one.schema for file, one in fixed}
    return data


def sarif_data(results: Sequence[Linted]) -> dict[str, Any]:
    """Return a SARIF log."""
    listed = list(_all(results))
    rules = {one.finding.rule: RULES[one.finding.rule] for one in listed}
    return sarif_log(rules, [_sarif_result(one) for one in listed])


def _sarif_result(one: Located) -> dict[str, Any]:
    return {
        "ruleId": one.finding.rule,
        "level": one.finding.level,
        "message": {"text": _sentence(one.finding)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(one.file, safe="/")},
                    "region": {"startLine": one.line, "startColumn": one.column},
                },
                "logicalLocations": [{"fullyQualifiedName": one.finding.path or "/"}],
            }
        ],
        "properties": {"profiles": list(one.finding.profiles)},
    }


def github_lines(results: Sequence[Linted]) -> Iterable[str]:
    """Yield GitHub's workflow commands, which become annotations."""
    for one in _all(results):
        kind = "error" if one.finding.level == "error" else "notice"
        where = (
            f"file={_property(one.file)},line={one.line},col={one.column},"
            f"title={_property(one.finding.rule)}"
        )
        yield f"::{kind} {where}::{_data(_sentence(one.finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _sentence(finding: SchemaFinding) -> str:
    return f"{finding.path or '(root)'}: {finding.message} [{', '.join(finding.profiles)}]"


def print_text(results: Sequence[Linted], *, err: bool = False) -> None:
    """Print for people: a line each, what was rewritten, and a sum."""
    for result in results:
        if result.fixed is not None:
            for change in result.fixed.changes:
                where = f"{result.file}: {change.path or '(root)'}"
                click.echo(f"{where}: {paint('fixed', 'green')} {change.message}", err=err)
    for one in _all(results):
        level = paint(one.finding.level, "red" if one.finding.level == "error" else "yellow")
        place = f"{one.file}:{one.line}:{one.column}"
        rule = paint(one.finding.rule, "dim")
        click.echo(f"{place}: {level} {rule} {_sentence(one.finding)}", err=err)
    for result in results:
        for change in result.fixed.kept if result.fixed is not None else ():
            where = f"{result.file}: {change.path or '(root)'}"
            click.echo(f"{where}: not rewritten: {change.message}", err=err)
    click.echo(_sum(results), err=err)


def _sum(results: Sequence[Linted]) -> str:
    listed = [one.finding for one in _all(results)]
    errors = sum(one.level == "error" for one in listed)
    schemas = "1 schema" if len(results) == 1 else f"{len(results)} schemas"
    parts = [_many(errors, "error")] if errors else []
    if len(listed) > errors:
        parts.append(_many(len(listed) - errors, "note"))
    text = f"{schemas}: {', '.join(parts) or 'nothing found'}"
    fixed = [one.fixed for one in results if one.fixed is not None]
    if fixed:
        return f"{text}; {_many(sum(len(one.changes) for one in fixed), 'rewrite')}"
    fixable = sum(one.rule in FIXABLE for one in listed)
    return f"{text}; --fix may rewrite {fixable}" if fixable else text


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _all(results: Sequence[Linted]) -> Iterable[Located]:
    return (one for result in results for one in result.found)
