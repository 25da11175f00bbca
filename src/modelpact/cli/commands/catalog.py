"""`modelpact catalog`: the catalog's own tools."""

from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.cli.options import json_option, print_json
from modelpact.cli.render.tables import clip, paint, table
from modelpact.negotiation.formats import claim_text
from modelpact.vocabulary.errors import CatalogError, InputError, Problem, UnknownName

_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("catalog", short_help="The catalog's own tools.")
def command() -> None:
    """Build, verify, compare and update the catalog."""


@command.command("build")
@click.option("--sources", type=_FOLDER, help="The folder with providers.toml and rules/.")
@click.option("--lineages", type=_FOLDER, help="The folder with the lineages' *.jsonl.")
@click.option("--out", type=_FILE, help="Where to write; by default the bundled snapshot.")
@json_option
def build_command(
    sources: Path | None, lineages: Path | None, out: Path | None, as_json: bool
) -> None:
    """Make the snapshot from its sources: always the same bytes."""
    from modelpact.catalog.build import LINEAGES, build, read_lineages
    from modelpact.catalog.snapshot import BUNDLED, decode
    from modelpact.catalog.sources import SOURCES, read_sources

    data = build(read_sources(sources or SOURCES), read_lineages(lineages or LINEAGES))
    target = out or BUNDLED
    _write(target, data)
    catalog = Catalog(decode(data, target.name))
    summary = {
        "file": str(target),
        "bytes": len(data),
        "models": catalog.index.size,
        "providers": len(catalog.providers),
        "rules": len(catalog.rulebook.rules),
        "corrections": len(catalog.rulebook.corrections),
        "constraints": len(catalog.rulebook.constraints),
        "lineages": [f"{one.name} {one.version} of {one.date}" for one in catalog.lineages],
    }
    if as_json:
        print_json(summary)
        return
    for key, value in summary.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        click.echo(f"{key:12} {shown:,}" if isinstance(shown, int) else f"{key:12} {shown}")


def _write(target: Path, data: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from None


@command.command("verify")
@click.option("--sources", type=_FOLDER, help="The folder with providers.toml and rules/.")
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@json_option
def verify_command(sources: Path | None, strict: bool, as_json: bool) -> None:
    """Run every load check, and warn of what is correct but suspect."""
    from modelpact.catalog.snapshot import BUNDLED
    from modelpact.catalog.sources import SOURCES
    from modelpact.catalog.verify import verify

    found = verify(sources or SOURCES, snapshot=BUNDLED if sources is None else None)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _print_problems("error", "red", found.errors)
        _print_problems("warning", "yellow", found.warnings)
        click.echo(
            f"{found.models:,} models, {found.rules:,} rules: "
            f"{len(found.errors)} errors, {len(found.warnings)} warnings"
        )
    raise SystemExit(1 if found.errors or (strict and found.warnings) else 0)


def _print_problems(kind: str, colour: str, problems: tuple[Problem, ...]) -> None:
    for one in problems:
        click.echo(f"{paint(kind, colour)}: {one}")


@command.command("conflicts")
@click.option("--provider", metavar="P", help="Only this provider's models.")
@click.option("--capability", metavar="C", help="Only this capability.")
@click.option("--limit", type=click.IntRange(min=0), default=40, help="Rows shown; 0 for all.")
@json_option
def conflicts_command(
    provider: str | None, capability: str | None, limit: int, as_json: bool
) -> None:
    """List where the lineages disagree, and what was taken: the more cautious."""
    from modelpact.catalog.changes import conflicts
    from modelpact.vocabulary.capability import capability as named

    catalog = default_catalog()
    wanted = None if capability is None else named(capability).id
    known = None if provider is None else catalog.find_provider(provider)
    if provider is not None and known is None:
        raise UnknownName("provider", provider, catalog.providers.names)
    found = [
        one
        for one in conflicts(catalog, provider=known.id if known else None)
        if wanted is None or one.capability == wanted
    ]
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    shown = found[:limit] if limit else found
    rows = [
        (
            clip(one.target, 52),
            one.capability,
            ", ".join(f"{vote.lineage} {_vote(vote.support, vote.value)}" for vote in one.votes),
            claim_text(one.taken) + (" by correction" if _corrected(one.taken) else ""),
        )
        for one in shown
    ]
    click.echo(table(rows, ("model", "capability", "votes", "taken")))
    counts = Counter(one.capability for one in found).most_common(8)
    summary = ", ".join(f"{name} {count:,}" for name, count in counts)
    click.echo(paint(f"\n{len(found):,} disagreements: {summary}", "dim"))


def _vote(support: str, value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return "/".join(value)
    return "yes" if support == "native" else "no"


def _corrected(claim: Any) -> bool:
    return claim.evidence is not None and claim.evidence.layer == "correction"


@command.command("diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE, required=False)
@click.option("--limit", type=click.IntRange(min=0), default=60, help="Rows shown; 0 for all.")
@json_option
def diff_command(before: Path, after: Path | None, limit: int, as_json: bool) -> None:
    """Show what changed from one snapshot to another, by default to the one in use."""
    from modelpact.catalog.changes import changes

    newer = default_catalog() if after is None else Catalog.read(after)
    found = list(changes(Catalog.read(before), newer))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        rows = [
            (
                one.target,
                one.capability or one.kind,
                claim_text(one.before) if one.before else "",
                claim_text(one.after) if one.after else "",
            )
            for one in (found[:limit] if limit else found)
        ]
        click.echo(table(rows, ("model", "what", "before", "after")) if rows else "No difference.")
        counts = Counter(one.kind for one in found)
        if found:
            said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
            click.echo(paint(f"\n{said}", "dim"))
    raise SystemExit(1 if found else 0)


@command.command("update")
@click.option("--from", "source", required=True, metavar="FILE|URL", help="The newer file.")
@click.option("--lineage", help="Which lineage it is of: litellm, models-dev or genai-prices.")
@click.option("--force", is_flag=True, help="Take it even if it has far fewer models.")
@json_option
def update_command(source: str, lineage: str | None, force: bool, as_json: bool) -> None:
    """Merge a newer file of one lineage into this user's own catalog."""
    from modelpact.catalog.update import update

    done = update(source, lineage, force=force)
    if as_json:
        print_json({**msgspec.structs.asdict(done), "path": str(done.path)})
        return
    click.echo(f"{done.lineage} of {done.date}: {done.rows:,} rows, {done.skipped:,} left out")
    click.echo(f"Your catalog in {done.path} is in use from now on.")


@command.command("extract")
@click.argument("lineage", type=click.Choice(["genai-prices", "litellm", "models-dev"]))
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=_FILE, help="Where to write; by default the bundled lineage file.")
@click.option("--verbose", is_flag=True, help="Name every row that was left out.")
def extract_command(lineage: str, source: Path, out: Path | None, verbose: bool) -> None:
    """Make a lineage's reviewable facts from its original file or folder."""
    from modelpact.catalog.build import LINEAGES, read_lineage
    from modelpact.catalog.lineages.rows import encode
    from modelpact.catalog.update import extract

    result = extract(lineage, source)
    data = encode(result.header, result.rows)
    try:
        read_lineage(data, f"{lineage}.jsonl")
    except CatalogError as error:
        raise CatalogError(error.problems[:20]) from None
    target = out or LINEAGES / f"{lineage}.jsonl"
    _write(target, data)
    click.echo(f"{target.name}: {len(result.rows):,} rows of {result.header['date']}")
    for name, count in result.unmapped.items():
        click.echo(f"left out {count:,}: {name} is no provider of ours")
    reasons = Counter(one.reason.split(" of ")[0] for one in result.skipped)
    for reason, count in sorted(reasons.items()):
        click.echo(f"left out {count:,}: {reason}")
    if verbose:
        for one in result.skipped:
            click.echo(f"  {one.name}: {one.reason}")
