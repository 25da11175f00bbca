"""`modelpact lint`: JSON Schemas against what vendors take in strict outputs."""

import click

from modelpact.cli.common import json_option, print_json
from modelpact.cli.json_places import places
from modelpact.cli.lint_formats import (
    Linted,
    Located,
    github_lines,
    json_data,
    print_text,
    sarif_data,
)
from modelpact.cli.lint_sources import Source, read_source, write_source
from modelpact.schemas.finding import SchemaFinding
from modelpact.schemas.fix import FixedSchema, fix_schema
from modelpact.schemas.lint import lint_schema
from modelpact.schemas.profile import PROFILES, load_profile, read_profiles
from modelpact.vocabulary.errors import InputError


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


def _lint(source: Source, profiles: tuple[str, ...], fix: bool) -> Linted:
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
    source: Source, findings: tuple[SchemaFinding, ...], text: str | None
) -> tuple[Located, ...]:
    if text is None:
        return tuple(Located(one, source.name, source.line, 1) for one in findings)
    found = places(text, {one.path for one in findings})
    located = [Located(one, source.name, *found.get(one.path, (1, 1))) for one in findings]
    return tuple(sorted(located, key=lambda one: (one.line, one.column)))


def _put(sources: list[Source], results: list[Linted], form: str) -> None:
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
