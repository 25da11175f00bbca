"""Tests quote the clauses of `docs/spec` by id: quoted ids exist, and tested clauses stay tested.

A docstring quotes a clause as `S001-B9`, or several in a row as `S001-B9..12`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
CLAUSE = re.compile(r"^- \*\*((?:S00[0-4]|MP)-[\w.-]*\d)\*\* \S", re.MULTILINE)
QUOTED = re.compile(r"\b((?:S\d{3}|MP)-(?:[A-Z]+|[\d.]+-))(\d+)(?:\.\.(\d+))?")

# How many clauses of each page no test quotes. A change may lower a number. It raises one only for
# a new clause that no test can check, such as background.
UNTESTED = {"abp": 6, "modelpact": 4, "nika": 1, "openwop": 28, "owp": 0, "stud": 6}


def ids_on(page: Path) -> list[str]:
    return CLAUSE.findall(page.read_text(encoding="utf-8"))


def ids_quoted(text: str) -> Iterator[str]:
    """Yield the ids that a text quotes, ranges expanded."""
    for prefix, first, last in QUOTED.findall(text):
        yield from (f"{prefix}{number}" for number in range(int(first), int(last or first) + 1))


@cache
def ids_tested() -> frozenset[str]:
    """Return the ids that the docstrings of tests and test modules quote."""
    quoted: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in (tree, *ast.walk(tree)):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
                quoted.update(ids_quoted(ast.get_docstring(node) or ""))
    return frozenset(quoted)


def test_every_clause_has_an_id_of_its_own() -> None:
    ids = [clause for page in SPEC.glob("*.md") for clause in ids_on(page)]
    assert len(ids) > 300
    assert len(ids) == len(set(ids))
    assert all(list(ids_quoted(clause)) == [clause] for clause in ids)


def test_every_quoted_id_exists() -> None:
    known = {clause for page in SPEC.glob("*.md") for clause in ids_on(page)}
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    unknown = {
        f"{path.relative_to(ROOT)}: {clause}"
        for path in files
        for clause in ids_quoted(path.read_text(encoding="utf-8"))
        if clause not in known
    }
    assert not unknown


@pytest.mark.parametrize("page", UNTESTED)
def test_clauses_keep_their_tests(page: str) -> None:
    untested = [clause for clause in ids_on(SPEC / f"{page}.md") if clause not in ids_tested()]
    assert len(untested) <= UNTESTED[page], untested


def test_the_provider_contract_is_tested_on_both_stores() -> None:
    """A test of the contract runs on SQLite and PostgreSQL through the fixture `world`."""
    quoted: set[str] = set()
    for path in (ROOT / "tests" / "providers").glob("test_contract_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
                assert "world" in {argument.arg for argument in node.args.args}, node.name
                quoted.update(ids_quoted(ast.get_docstring(node) or ""))
    assert quoted >= set(ids_on(SPEC / "owp.md"))
