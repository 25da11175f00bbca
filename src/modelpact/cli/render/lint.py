"""Locates the findings of `modelpact lint`, and writes them as text, JSON, SARIF or annotations."""

import bisect
import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

import click
import msgspec

from modelpact.cli.render.ci import sarif_location, sarif_log
from modelpact.cli.render.terminal import paint, plural
from modelpact.schemas.document import parse_pointer
from modelpact.schemas.fix import FIXABLE, FixedSchema
from modelpact.schemas.profile import load_rules
from modelpact.schemas.report import SchemaFinding

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_POINTER: Final = None
"""The key of a node in the tree of pointers that holds the pointer which ends there."""


class LocatedFinding(msgspec.Struct, frozen=True):
    """A finding with its position in a file."""

    finding: SchemaFinding
    file: str
    line: int
    column: int


class LintResult(msgspec.Struct, frozen=True):
    """The findings on one schema, and its rewrite if one was asked for."""

    file: str
    findings: tuple[LocatedFinding, ...]
    fixed: FixedSchema | None = None


def lint_json(results: Sequence[LintResult]) -> dict[str, Any]:
    """Return all results as JSON data."""
    data: dict[str, Any] = {
        "ok": not has_errors(results),
        "findings": [
            {
                **msgspec.to_builtins(located.finding),
                "file": located.file,
                "line": located.line,
                "column": located.column,
            }
            for located in _all(results)
        ],
    }
    rewrites = [(result.file, result.fixed) for result in results if result.fixed is not None]
    if rewrites:
        for name in ("changes", "kept"):
            data[name] = [
                {**msgspec.to_builtins(change), "file": file}
                for file, fixed in rewrites
                for change in getattr(fixed, name)
            ]
        data["schemas"] = {file: fixed.schema for file, fixed in rewrites}
    return data


def has_errors(results: Sequence[LintResult]) -> bool:
    """Return whether any finding is an error, not only a note."""
    return any(located.finding.level == "error" for located in _all(results))


def lint_sarif(results: Sequence[LintResult]) -> dict[str, Any]:
    """Return a SARIF log."""
    findings = list(_all(results))
    rules = {located.finding.rule: load_rules()[located.finding.rule].requires for located in findings}
    return sarif_log(rules, [_sarif_result(located) for located in findings])


def _sarif_result(located: LocatedFinding) -> dict[str, Any]:
    finding = located.finding
    uri = quote(located.file, safe="/")
    return {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": _sentence(finding)},
        "locations": [
            {
                **sarif_location(uri, startLine=located.line, startColumn=located.column),
                "logicalLocations": [{"fullyQualifiedName": finding.path or "/"}],
            }
        ],
        "properties": {"profiles": list(finding.profiles)},
    }


def github_lines(results: Sequence[LintResult]) -> Iterable[str]:
    """Yield GitHub workflow commands, which GitHub shows as annotations."""
    for located in _all(results):
        kind = "error" if located.finding.level == "error" else "notice"
        properties = (
            f"file={_github_property(located.file)},line={located.line},col={located.column},"
            f"title={_github_property(located.finding.rule)}"
        )
        yield f"::{kind} {properties}::{_github_data(_sentence(located.finding))}"


def _github_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


def print_lint(results: Sequence[LintResult], *, err: bool = False) -> None:
    """Print a line for each rewrite and each finding, and a summary."""
    for result in results:
        if result.fixed is not None:
            for change in result.fixed.changes:
                where = f"{result.file}: {change.path or '(root)'}"
                click.echo(f"{where}: {paint('fixed', 'green')} {change.message}", err=err)
    for located in _all(results):
        finding = located.finding
        level = paint(finding.level, "red" if finding.level == "error" else "yellow")
        position = f"{located.file}:{located.line}:{located.column}"
        rule = paint(finding.rule, "dim")
        click.echo(f"{position}: {level} {rule} {_sentence(finding)}", err=err)
    for result in results:
        for change in result.fixed.kept if result.fixed is not None else ():
            where = f"{result.file}: {change.path or '(root)'}"
            click.echo(f"{where}: not rewritten: {change.message}", err=err)
    click.echo(_summary(results), err=err)


def _summary(results: Sequence[LintResult]) -> str:
    findings = [located.finding for located in _all(results)]
    errors = sum(finding.level == "error" for finding in findings)
    counts = [plural(errors, "error")] if errors else []
    if len(findings) > errors:
        counts.append(plural(len(findings) - errors, "note"))
    summary = f"{plural(len(results), 'schema')}: {', '.join(counts) or 'nothing found'}"
    rewrites = [result.fixed for result in results if result.fixed is not None]
    if rewrites:
        return f"{summary}; {plural(sum(len(fixed.changes) for fixed in rewrites), 'rewrite')}"
    fixable = sum(finding.rule in FIXABLE for finding in findings)
    return f"{summary}; --fix may rewrite {fixable}" if fixable else summary


def _sentence(finding: SchemaFinding) -> str:
    return f"{finding.path or '(root)'}: {finding.message} [{', '.join(finding.profiles)}]"


def _all(results: Sequence[LintResult]) -> Iterable[LocatedFinding]:
    return (located for result in results for located in result.findings)


def json_positions(text: str, pointers: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return the line and column, from 1, of each pointer that the text has.

    The position of an object's field is that of its key. The text must be valid JSON.
    """
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    positions: dict[str, tuple[int, int]] = {}
    stack: list[_Container] = []

    def add(tree: dict[Any, Any], offset: int) -> None:
        pointer = tree.get(_POINTER)
        if pointer is not None and pointer not in positions:
            line = bisect.bisect_right(line_starts, offset)
            positions[pointer] = (line, offset - line_starts[line - 1] + 1)

    for match in _TOKEN.finditer(text):
        token, parent = match[0], stack[-1] if stack else None
        if token in ",:":
            continue
        if token in "]}":
            stack.pop()
            continue
        if parent is None:
            wanted = _pointer_tree(pointers)
            add(wanted, match.start())
        elif parent.is_object and not parent.has_key:
            parent.has_key = True
            parent.value_wanted = parent.wanted.get(json.loads(token, strict=False), {})
            add(parent.value_wanted, match.start())
            continue
        elif parent.is_object:
            wanted, parent.has_key = parent.value_wanted, False
        else:
            wanted = parent.wanted.get(str(parent.count), {})
            parent.count += 1
            add(wanted, match.start())
        if token in "[{":
            stack.append(_Container(wanted, token == "{"))
    return positions


def _pointer_tree(pointers: Collection[str]) -> dict[Any, Any]:
    """Return the pointers as a tree of their steps, so that the scan builds no pointers."""
    root: dict[Any, Any] = {}
    for pointer in pointers:
        node = root
        for step in parse_pointer(pointer):
            node = node.setdefault(step, {})
        node[_POINTER] = pointer
    return root


class _Container:
    """An object or array being scanned, with the pointers wanted in it and in its next value."""

    __slots__ = ("count", "has_key", "is_object", "value_wanted", "wanted")

    def __init__(self, wanted: dict[Any, Any], is_object: bool) -> None:
        self.wanted, self.is_object = wanted, is_object
        self.value_wanted: dict[Any, Any] = {}
        self.has_key = False
        self.count = 0
