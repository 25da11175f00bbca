"""The documentation is true: its examples run, its links lead somewhere, its paths exist."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from modelpact.configuration import read_configuration
from modelpact.vocabulary.errors import error_codes

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
ALL_PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
REPOSITORY_PATH = re.compile(r"`((?:src|tests|docs|examples|benchmarks|tools|packaging|\.\w+)/[\w./-]+)`")
NAMES_IN_FILE = re.compile(r"((?:`[\w.]+`, )*`[\w.]+`) in\s`(src/[\w/]+\.py)`")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
UPDATE = bool(os.environ.get("UPDATE_DOCS"))


def blocks(language: str) -> list[Any]:
    return [
        pytest.param(page, match[2], id=f"{page.name}-{number}")
        for page in PAGES
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")))
        if match[1] == language
    ]


def run(command: str) -> str:
    words = shlex.split(command)
    assert words[0] == "modelpact", command
    done = subprocess.run(
        [sys.executable, "-m", "modelpact", *words[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize(("page", "text"), blocks("console"))
def test_console_examples_print_what_they_show(page: Path, text: str) -> None:
    command, _, shown = text.partition("\n")
    printed = run(command.removeprefix("$ "))
    if UPDATE:
        fresh = f"{command}\n{printed.rstrip()}\n"
        content = page.read_text(encoding="utf-8")
        page.write_text(content.replace(f"```console\n{text}```", f"```console\n{fresh}```"))
        return
    assert shown.strip() == printed.strip()


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_python_examples_run(page: Path, text: str) -> None:
    exec(compile(text, page.name, "exec"), {})


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_toml_examples_are_toml(page: Path, text: str) -> None:
    content = tomllib.loads(text)
    if "workloads" in content:
        assert read_configuration(text).workloads


def codes_table() -> str:
    lines = ["| code | where | cause | remedy |", "|---|---|---|---|"]
    lines += [f"| `{entry.code}` | {entry.where} | {entry.cause} | {entry.remedy} |" for entry in error_codes()]
    return "\n".join(lines) + "\n"


def test_error_codes_are_all_documented() -> None:
    page = ROOT / "docs" / "errors.md"
    content = page.read_text(encoding="utf-8")
    if UPDATE:
        start = content.index("| code |")
        end = start + len(content[start:].partition("|\n\n")[0]) + 2
        page.write_text(content[:start] + codes_table() + content[end:], encoding="utf-8")
        return
    assert codes_table() in content


CODE_ARGUMENTS = {
    "ContractError": 0,
    "ContractViolation": 0,
    "NodeFailed": 0,
    "GatewayError": 1,
    "ClientRefused": 1,
    "fail": 1,
    "fail_violation": 1,
}
"""The calls that take an error code, and the position of the code among their arguments."""


def codes_in(script: Path) -> set[str]:
    """Return the error codes that a module writes as literals."""
    codes: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = node.func
            name = str(getattr(function, "id", "") or getattr(function, "attr", ""))
            position = CODE_ARGUMENTS.get(name)
            if position is not None and len(node.args) > position:
                code = node.args[position]
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    codes.add(code.value)
    return codes


@pytest.mark.parametrize("package", ["gateway", "openwop", "providers"])
def test_error_codes_of_the_source_are_in_the_table(package: str) -> None:
    scripts = (ROOT / "src" / "modelpact" / package).rglob("*.py")
    raised = set().union(*map(codes_in, scripts))
    assert len(raised) > 4
    assert raised - {entry.code for entry in error_codes()} == set()


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["architecture.md", "contributing.md"])
def test_paths_exist(name: str) -> None:
    """The pages that lead through the source name only files and folders that are there."""
    paths = REPOSITORY_PATH.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def definitions(path: Path) -> set[str]:
    """Return the names of the classes, methods and functions that a file defines."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (ast.FunctionDef, ast.AsyncFunctionDef)
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, methods)}
    return names


def test_functions_are_in_the_files_that_the_paths_name() -> None:
    """The tables of the architecture name functions that exist, in the files beside them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = [(name, file) for names, file in NAMES_IN_FILE.findall(page) for name in names.split(", ")]
    assert len(named) > 40
    assert [f"{name} in {file}" for name, file in named if name.strip("`") not in definitions(ROOT / file)] == []


SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "examples").glob("*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_scripts_import_names_that_exist(script: Path) -> None:
    """Benchmarks and examples, which no type checker reads, follow renames in the source."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("modelpact"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
