"""`modelpact lint`: checks JSON Schemas, from files, standard input and Python modules."""

import importlib
import inspect
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.cli.options import default_option, format_option, json_option, print_json, read_input
from modelpact.cli.render.ci import ci_path
from modelpact.cli.render.lint import (
    LintResult,
    LocatedFinding,
    github_lines,
    has_errors,
    json_positions,
    lint_json,
    lint_sarif,
    print_lint,
)
from modelpact.schemas.fix import fix_schema
from modelpact.schemas.lint import lint_schema
from modelpact.schemas.profile import PROFILES, load_profile, read_profiles
from modelpact.schemas.report import SchemaFinding
from modelpact.vocabulary.errors import InputError, brief, nearest
from modelpact.vocabulary.strict_json import parse_json

_MAX_BYTES: Final = 5_000_000
_MODEL_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_INDENT: Final = re.compile(r'\n([ \t]+)"')
_NO_PYDANTIC: Final = "Pydantic is not installed here: pip install pydantic"


class SchemaSource(msgspec.Struct, frozen=True):
    """A schema and where it comes from."""

    name: str
    schema: Any
    text: str | None = None
    """Its JSON text, or None if it comes from a Python module."""
    path: Path | None = None
    """The file to rewrite, or None if there is none."""
    line: int = 1

    def format(self, schema: dict[str, Any]) -> str:
        """Return a rewritten schema as text, in the style of the source."""
        text = self.text if self.text is not None else '{\n  "'
        match = _INDENT.search(text)
        indent = match[1] if match else None
        try:
            formatted = json.dumps(schema, indent=indent, ensure_ascii=text.isascii())
            formatted.encode()
        except UnicodeEncodeError:
            formatted = json.dumps(schema, indent=indent)
        return formatted + "\n" if self.text is None or text.endswith("\n") else formatted


@click.command("lint")
@click.argument("schemas", nargs=-1, metavar="SCHEMA...")
@default_option(
    "--for",
    "profiles",
    default="tier1",
    metavar="PROFILES",
    help=f"The profiles to check for, separated by commas: {', '.join(PROFILES)}.",
)
@click.option("--fix", is_flag=True, help="Rewrite what can be rewritten.")
@format_option("text", "json", "sarif", "github")
@click.option("--profiles", "list_profiles", is_flag=True, help="List the profiles and exit.")
@json_option
def lint_command(
    schemas: tuple[str, ...], profiles: str, fix: bool, output_format: str, list_profiles: bool, as_json: bool
) -> None:
    """Check JSON Schemas against what vendors accept in strict mode.

    SCHEMA is a JSON file, - for standard input, or package.module:Model.

    Exits with 1 if there are errors; notes do not count. --fix rewrites files in place. A schema
    from standard input or from a module is printed instead. What cannot be rewritten is reported.
    """
    output_format = "json" if as_json else output_format
    if list_profiles:
        _print_profiles(output_format)
        return
    if not schemas:
        raise click.UsageError("Name a schema: a file, - or package.module:Model.")
    names = read_profiles(profiles)
    sources = [read_source(name) for name in schemas]
    results = [_lint(source, names, fix) for source in sources]
    if fix:
        _write_fixed(sources, results, output_format)
    schema_printed = fix and any(source.path is None for source in sources)
    _print_results(results, output_format, to_stderr=schema_printed)
    raise SystemExit(1 if has_errors(results) else 0)


def _lint(source: SchemaSource, profiles: tuple[str, ...], fix: bool) -> LintResult:
    try:
        if not fix:
            report = lint_schema(source.schema, profiles)
            return LintResult(source.name, _locate(source, report.findings, source.text))
        fixed = fix_schema(source.schema, profiles)
    except InputError as error:
        raise InputError(f"{source.name}: {error}") from None
    text = source.text
    if text is not None and fixed.changes:
        text = source.format(fixed.schema)
    return LintResult(source.name, _locate(source, fixed.report.findings, text), fixed)


def _locate(source: SchemaSource, findings: tuple[SchemaFinding, ...], text: str | None) -> tuple[LocatedFinding, ...]:
    """Return the findings with their positions in the text, in the order of the text."""
    if text is None:
        return tuple(LocatedFinding(finding, source.name, source.line, 1) for finding in findings)
    positions = json_positions(text, {finding.path for finding in findings})
    located = [LocatedFinding(finding, source.name, *positions.get(finding.path, (1, 1))) for finding in findings]
    return tuple(sorted(located, key=lambda finding: (finding.line, finding.column)))


def _write_fixed(sources: list[SchemaSource], results: list[LintResult], output_format: str) -> None:
    """Write the rewritten files; print a schema without a file if the output is text."""
    for source, result in zip(sources, results, strict=True):
        fixed = result.fixed
        if fixed is None:
            continue
        if source.path is None:
            if output_format == "text":
                click.echo(source.format(fixed.schema).rstrip("\n"))
        elif fixed.changes:
            replace_file(source.path, source.format(fixed.schema))


def _print_results(results: list[LintResult], output_format: str, *, to_stderr: bool) -> None:
    if output_format == "json":
        print_json(lint_json(results))
    elif output_format == "sarif":
        print_json(lint_sarif(results))
    elif output_format == "github":
        for line in github_lines(results):
            click.echo(line)
    else:
        print_lint(results, err=to_stderr)


def _print_profiles(output_format: str) -> None:
    profiles = [load_profile(name) for name in PROFILES]
    if output_format == "json":
        data = [
            {"id": profile.id, "title": profile.title, "version": profile.version, "sources": profile.sources}
            for profile in profiles
        ]
        print_json({"profiles": data})
        return
    for profile in profiles:
        click.echo(f"{profile.id:<10} {profile.version}  {profile.title}")
        for source in profile.sources:
            click.echo(f"{'':<10} {source}")


def read_source(name: str) -> SchemaSource:
    """Read a schema from a file, from standard input (`-`), or from `package.module:Model`."""
    if _MODEL_NAME.fullmatch(name) and not Path(name).exists():
        return _read_model(name)
    display_name, data = read_input(name, _MAX_BYTES, "5 MB, more than any vendor accepts")
    schema = parse_json(data.removeprefix(b"\xef\xbb\xbf"), display_name)
    text = data.decode("utf-8-sig")
    if name == "-":
        return SchemaSource("<stdin>", schema, text)
    return SchemaSource(ci_path(Path(name)), schema, text, Path(name))


def replace_file(path: Path, text: str) -> None:
    """Replace a file in one step, so that a crash leaves either the old or the new one."""
    target = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        Path(temporary).chmod(target.stat().st_mode & 0o777)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read_model(name: str) -> SchemaSource:
    module_name, _, attributes = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(_not_found_message(name, module_name, error)) from None
    except Exception as error:
        raise InputError(f"{name}: the module cannot be imported: {type(error).__name__}: {error}") from None
    for attribute in attributes.split("."):
        if not hasattr(value, attribute):
            close = nearest(attribute, dir(value))
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise InputError(f"{name}: {module_name} has no {attribute!r}{hint}")
        value = getattr(value, attribute)
    file, line = _source_position(value, module_name)
    return SchemaSource(file or name, _schema_of(name, value), line=line)


def _not_found_message(name: str, module: str, error: ModuleNotFoundError) -> str:
    if error.name == "pydantic":
        return f"{name}: {_NO_PYDANTIC}"
    if error.name and (module == error.name or module.startswith(f"{error.name}.")):
        return f"{name}: there is neither a file of that name nor a module {error.name!r}"
    return f"{name}: {module} cannot be imported: no module {error.name!r}"


def _schema_of(name: str, value: Any) -> Any:
    """Return the JSON Schema of a Pydantic model or type; a dictionary is a schema itself."""
    if isinstance(value, dict):
        return value
    try:
        if callable(model_schema := getattr(value, "model_json_schema", None)):
            return model_schema()
        from pydantic import TypeAdapter

        return TypeAdapter(value).json_schema()
    except ModuleNotFoundError:
        raise InputError(f"{name}: {_NO_PYDANTIC}") from None
    except Exception as error:
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        raise InputError(f"{name}: expected a Pydantic model or a schema, not {brief(value)}: {reason}") from None


def _source_position(value: Any, module: str) -> tuple[str, int]:
    """Return the file and line of a model, or those of its module."""
    file = getattr(sys.modules.get(module), "__file__", None)
    line = 1
    try:
        file = inspect.getsourcefile(value) or file
        line = inspect.getsourcelines(value)[1]
    except (OSError, TypeError):
        pass
    return (ci_path(Path(file)) if file else ""), line
