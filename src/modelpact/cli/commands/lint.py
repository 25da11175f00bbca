"""What `modelpact lint` reads: files, standard input, and models of Python modules."""

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

from modelpact.cli.options import json_option, print_json, read_input
from modelpact.cli.render.ci import ci_path, places
from modelpact.cli.render.lint import (
    Linted,
    Located,
    github_lines,
    json_data,
    print_text,
    sarif_data,
)
from modelpact.schemas.fix import FixedSchema, fix_schema
from modelpact.schemas.lint import lint_schema
from modelpact.schemas.profile import PROFILES, load_profile, read_profiles
from modelpact.schemas.report import SchemaFinding
from modelpact.vocabulary.errors import InputError, brief, nearest
from modelpact.vocabulary.strict_json import parse_json

LARGEST: Final = 5_000_000
_MODEL: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_INDENT: Final = re.compile(r'\n([ \t]+)"')


class SchemaSource(msgspec.Struct, frozen=True):
    """A schema and where it is from."""

    name: str
    schema: Any
    text: str | None = None
    """Its JSON, where it was read from a text."""
    path: Path | None = None
    """The file that a rewrite goes to."""
    line: int = 1

    def rewritten(self, schema: dict[str, Any]) -> str:
        """Return a rewritten schema as text, in the style of the source."""
        text = self.text if self.text is not None else '{\n  "'
        indent = _INDENT.search(text)
        layout = indent[1] if indent else None
        try:
            made = json.dumps(schema, indent=layout, ensure_ascii=text.isascii())
            made.encode()
        except UnicodeEncodeError:
            made = json.dumps(schema, indent=layout)
        return made + "\n" if self.text is None or text.endswith("\n") else made


def read_source(name: str) -> SchemaSource:
    """Read a schema from a file, from standard input (`-`), or from `package.module:Model`."""
    if _MODEL.fullmatch(name) and not Path(name).exists():
        return _model(name)
    shown, data = read_input(name, LARGEST, "5 MB; no vendor takes a schema of that size")
    schema = parse_json(data.removeprefix(b"\xef\xbb\xbf"), shown)
    text = data.decode("utf-8-sig")
    if name == "-":
        return SchemaSource("<stdin>", schema, text)
    return SchemaSource(ci_path(Path(name)), schema, text, Path(name))


def write_source(path: Path, text: str) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one."""
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


def _model(name: str) -> SchemaSource:
    module_name, _, attributes = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(_not_found(name, module_name, error)) from None
    except Exception as error:
        raise InputError(
            f"{name}: the module cannot be imported: {type(error).__name__}: {error}"
        ) from None
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            close = nearest(attribute, dir(found))
            meant = f"; did you mean {' or '.join(close)}?" if close else ""
            raise InputError(f"{name}: {module_name} has no {attribute!r}{meant}")
        found = getattr(found, attribute)
    file, line = _place(found, module_name)
    return SchemaSource(file or name, _schema_of(name, found), line=line)


def _not_found(name: str, module: str, error: ModuleNotFoundError) -> str:
    if error.name == "pydantic":
        return f"{name}: Pydantic is not installed here: pip install pydantic"
    if error.name and (module == error.name or module.startswith(f"{error.name}.")):
        return f"{name}: there is no file of that name and no module {error.name!r} from here"
    return f"{name}: {module} cannot be imported: no module {error.name!r}"


def _schema_of(name: str, found: Any) -> Any:
    if isinstance(found, dict):
        return found
    try:
        if callable(make := getattr(found, "model_json_schema", None)):
            return make()
        from pydantic import TypeAdapter

        return TypeAdapter(found).json_schema()
    except ModuleNotFoundError:
        raise InputError(f"{name}: Pydantic is not installed here: pip install pydantic") from None
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{name}: expected a Pydantic model or a schema, not {brief(found)}: {first}"
        ) from None


def _place(found: Any, module: str) -> tuple[str, int]:
    """Return the file and line of a model, for those who show findings in files."""
    file = getattr(sys.modules.get(module), "__file__", None)
    line = 1
    try:
        file = inspect.getsourcefile(found) or file
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        pass
    return (ci_path(Path(file)) if file else ""), line


@click.command("lint", short_help="Check JSON Schemas against what vendors take.")
@click.argument("schemas", nargs=-1, metavar="SCHEMA...")
@click.option(
    "--for",
    "profiles",
    default="tier1",
    show_default=True,
    metavar="PROFILES",
    help=f"What to check for: {', '.join(PROFILES)}, several with commas.",
)
@click.option("--fix", is_flag=True, help="Rewrite what can be rewritten, in place.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
)
@click.option("--profiles", "listing", is_flag=True, help="List the profiles and stop.")
@json_option
def command(
    schemas: tuple[str, ...], profiles: str, fix: bool, form: str, listing: bool, as_json: bool
) -> None:
    """Check each SCHEMA: a JSON file, - for standard input, or package.module:Model.

    Exits with 1 when there are errors; notes are only told. With --fix files are rewritten in
    place, and the schema of standard input or of a model is printed; what could not be rewritten
    is told.
    """
    form = "json" if as_json else form
    if listing:
        _list_profiles(form)
        return
    if not schemas:
        raise click.UsageError("name a schema: a file, - or package.module:Model")
    names = read_profiles(profiles)
    sources = [read_source(name) for name in schemas]
    results = [_lint(source, names, fix) for source in sources]
    if fix:
        _put(sources, results, form)
    _write(results, form, fix and any(source.path is None for source in sources))
    failed = any(one.finding.level == "error" for result in results for one in result.found)
    raise SystemExit(1 if failed else 0)


def _lint(source: SchemaSource, profiles: tuple[str, ...], fix: bool) -> Linted:
    try:
        if not fix:
            report = lint_schema(source.schema, profiles)
            return Linted(source.name, _located(source, report.findings, source.text))
        fixed = fix_schema(source.schema, profiles)
    except InputError as error:
        raise InputError(f"{source.name}: {error}") from None
    text = source.rewritten(fixed.schema) if source.text is not None else None
    if not fixed.changes:
        text = source.text
    return Linted(source.name, _located(source, fixed.report.findings, text), fixed)


def _located(
    source: SchemaSource, findings: tuple[SchemaFinding, ...], text: str | None
) -> tuple[Located, ...]:
    if text is None:
        return tuple(Located(one, source.name, source.line, 1) for one in findings)
    found = places(text, {one.path for one in findings})
    located = [Located(one, source.name, *found.get(one.path, (1, 1))) for one in findings]
    return tuple(sorted(located, key=lambda one: (one.line, one.column)))


def _put(sources: list[SchemaSource], results: list[Linted], form: str) -> None:
    """Write rewritten files; print what has no file, where the form leaves room for it."""
    for source, result in zip(sources, results, strict=True):
        fixed: FixedSchema | None = result.fixed
        if fixed is None:
            continue
        if source.path is None:
            if form == "text":
                click.echo(source.rewritten(fixed.schema).rstrip("\n"))
        elif fixed.changes:
            write_source(source.path, source.rewritten(fixed.schema))


def _write(results: list[Linted], form: str, printed: bool) -> None:
    if form == "json":
        print_json(json_data(results))
    elif form == "sarif":
        print_json(sarif_data(results))
    elif form == "github":
        for line in github_lines(results):
            click.echo(line)
    else:
        print_text(results, err=printed)


def _list_profiles(form: str) -> None:
    listed = [load_profile(name) for name in PROFILES]
    if form == "json":
        data = [
            {"id": one.id, "title": one.title, "version": one.version, "sources": one.sources}
            for one in listed
        ]
        print_json({"profiles": data})
        return
    for one in listed:
        click.echo(f"{one.id:<10} {one.version}  {one.title}")
        for source in one.sources:
            click.echo(f"{'':<10} {source}")
