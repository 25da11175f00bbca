"""`modelpact catalog` and `modelpact vocabulary`: the catalog, and the names that it uses."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.claim import Claim
from modelpact.cli.options import CommandGroup, check_provider, json_option, print_json, print_result
from modelpact.cli.render.terminal import clip, paint, table
from modelpact.negotiation.verdict import claim_text
from modelpact.vocabulary.capability import ALIASES, CAPABILITIES, Capability
from modelpact.vocabulary.capability import capability as find_capability
from modelpact.vocabulary.dialects import DIALECTS
from modelpact.vocabulary.errors import CatalogError, InputError, Problem

_FOLDER: Final = click.Path(path_type=Path, file_okay=False, exists=True)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_MAX_PROBLEMS: Final = 20


@click.group("catalog", cls=CommandGroup)
def catalog_command() -> None:
    """Build, verify, compare and update the catalog.

    The catalog merges several public catalogs of models. Each of them is called a lineage.
    """


@catalog_command.command("build")
@click.option("--sources", type=_FOLDER, help="The folder with providers.toml and rules/.")
@click.option("--lineages", type=_FOLDER, help="The folder with the *.jsonl of the lineages.")
@click.option("--out", type=_FILE, help="The file to write. By default the bundled snapshot.")
@json_option
def build_command(sources: Path | None, lineages: Path | None, out: Path | None, as_json: bool) -> None:
    """Build the snapshot from its sources.

    The same sources always give the same bytes.
    """
    from modelpact.catalog.build import LINEAGES, build, read_lineages
    from modelpact.catalog.snapshot import BUNDLED, decode
    from modelpact.catalog.sources import SOURCES, read_sources

    data = build(read_sources(sources or SOURCES), read_lineages(lineages or LINEAGES))
    target = out or BUNDLED
    _write_file(target, data)
    catalog = Catalog(decode(data, target.name))
    summary = {
        "file": str(target),
        "bytes": len(data),
        "models": catalog.index.size,
        "providers": len(catalog.providers),
        "rules": len(catalog.rulebook.rules),
        "corrections": len(catalog.rulebook.corrections),
        "constraints": len(catalog.rulebook.constraints),
        "lineages": [f"{lineage.name} {lineage.version} of {lineage.date}" for lineage in catalog.lineages],
    }
    texts = {key: f"{value:,}" if isinstance(value, int) else _cell(value) for key, value in summary.items()}
    text = "\n".join(f"{key:12} {value}" for key, value in texts.items())
    print_result(summary, text, as_json=as_json)


def _write_file(target: Path, data: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from None


@catalog_command.command("verify")
@click.option("--sources", type=_FOLDER, help="The folder with providers.toml and rules/.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@json_option
def verify_command(sources: Path | None, strict: bool, as_json: bool) -> None:
    """Run every check on the sources, and warn of suspicious rules."""
    from modelpact.catalog.build import verify
    from modelpact.catalog.snapshot import BUNDLED
    from modelpact.catalog.sources import SOURCES

    report = verify(sources or SOURCES, snapshot=BUNDLED if sources is None else None)
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        _print_problems("error", "red", report.errors)
        _print_problems("warning", "yellow", report.warnings)
        click.echo(
            f"{report.models:,} models, {report.rules:,} rules: "
            f"{len(report.errors)} errors, {len(report.warnings)} warnings"
        )
    raise SystemExit(1 if report.errors or (strict and report.warnings) else 0)


def _print_problems(kind: str, colour: str, problems: tuple[Problem, ...]) -> None:
    for problem in problems:
        click.echo(f"{paint(kind, colour)}: {problem}")


@catalog_command.command("conflicts")
@click.option("--provider", metavar="P", help="Only models of this provider.")
@click.option("--capability", metavar="C", help="Only this capability.")
@click.option("--limit", type=click.IntRange(min=0), default=40, help="Rows to show; 0 for all.")
@json_option
def conflicts_command(provider: str | None, capability: str | None, limit: int, as_json: bool) -> None:
    """List where lineages disagree, and which value the catalog uses."""
    from modelpact.catalog.comparison import conflicts

    catalog = default_catalog()
    capability_id = None if capability is None else find_capability(capability).id
    if provider is not None:
        check_provider(catalog, provider)
    known = None if provider is None else catalog.find_provider(provider)
    matches = [
        conflict
        for conflict in conflicts(catalog, provider=known.id if known else None)
        if capability_id is None or conflict.capability == capability_id
    ]
    if as_json:
        print_json(msgspec.to_builtins(matches))
        return
    rows = [
        (
            clip(conflict.target, 52),
            conflict.capability,
            ", ".join(f"{vote.lineage} {_vote_text(vote.support, vote.value)}" for vote in conflict.votes),
            claim_text(conflict.taken) + (" by correction" if _is_correction(conflict.taken) else ""),
        )
        for conflict in (matches[:limit] if limit else matches)
    ]
    click.echo(table(rows, ("model", "capability", "votes", "used")))
    counts = Counter(conflict.capability for conflict in matches).most_common(8)
    summary = ", ".join(f"{name} {count:,}" for name, count in counts)
    click.echo(paint(f"\n{len(matches):,} conflicts: {summary}", "dim"))


def _vote_text(support: str, value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return "/".join(value)
    return "yes" if support == "native" else "no"


def _is_correction(claim: Claim) -> bool:
    return claim.evidence is not None and claim.evidence.layer == "correction"


@catalog_command.command("diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE, required=False)
@click.option("--limit", type=click.IntRange(min=0), default=60, help="Rows to show; 0 for all.")
@json_option
def diff_command(before: Path, after: Path | None, limit: int, as_json: bool) -> None:
    """Show what changed from one snapshot to another.

    Without AFTER, compare with the catalog in use. Exits with 1 if there are differences.
    """
    from modelpact.catalog.comparison import changes

    newer = default_catalog() if after is None else Catalog.read(after)
    differences = list(changes(Catalog.read(before), newer))
    if as_json:
        print_json(msgspec.to_builtins(differences))
    elif not differences:
        click.echo("No difference.")
    else:
        rows = [
            (
                change.target,
                change.capability or change.kind,
                claim_text(change.before) if change.before else "",
                claim_text(change.after) if change.after else "",
            )
            for change in (differences[:limit] if limit else differences)
        ]
        click.echo(table(rows, ("model", "what", "before", "after")))
        counts = sorted(Counter(change.kind for change in differences).items())
        summary = ", ".join(f"{count:,} {kind}" for kind, count in counts)
        click.echo(paint(f"\n{summary}", "dim"))
    raise SystemExit(1 if differences else 0)


@catalog_command.command("update")
@click.option("--from", "source", required=True, metavar="FILE|URL", help="The newer file.")
@click.option("--lineage", help="Its lineage: litellm, models-dev or genai-prices.")
@click.option("--force", is_flag=True, help="Use it even if it has far fewer models.")
@json_option
def update_command(source: str, lineage: str | None, force: bool, as_json: bool) -> None:
    """Merge a newer file of one lineage into your own catalog."""
    from modelpact.catalog.update import update

    done = update(source, lineage, force=force)
    text = (
        f"{done.lineage} of {done.date}: {done.rows:,} rows, {done.skipped:,} left out\n"
        f"Your catalog in {done.path} is now in use."
    )
    data = {**msgspec.structs.asdict(done), "path": str(done.path)}
    print_result(data, text, as_json=as_json)


@catalog_command.command("extract")
@click.argument("lineage", type=click.Choice(["genai-prices", "litellm", "models-dev"]))
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=_FILE, help="The file to write. By default the bundled lineage file.")
@click.option("--verbose", is_flag=True, help="Name every row that was left out.")
def extract_command(lineage: str, source: Path, out: Path | None, verbose: bool) -> None:
    """Extract the facts of a lineage from its original file or folder."""
    from modelpact.catalog.build import LINEAGES, read_lineage
    from modelpact.catalog.lineages.rows import encode
    from modelpact.catalog.update import extract

    result = extract(lineage, source)
    data = encode(result.header, result.rows)
    try:
        read_lineage(data, f"{lineage}.jsonl")
    except CatalogError as error:
        raise CatalogError(error.problems[:_MAX_PROBLEMS]) from None
    target = out or LINEAGES / f"{lineage}.jsonl"
    _write_file(target, data)
    click.echo(f"{target.name}: {len(result.rows):,} rows of {result.header['date']}")
    for name, count in result.unmapped.items():
        click.echo(f"left out {count:,}: {name} is not a known provider")
    reasons = Counter(row.reason.split(" of ")[0] for row in result.skipped)
    for reason, count in sorted(reasons.items()):
        click.echo(f"left out {count:,}: {reason}")
    if verbose:
        for row in result.skipped:
            click.echo(f"  {row.name}: {row.reason}")


@click.command("vocabulary")
@click.argument(
    "topic",
    type=click.Choice(["capabilities", "providers"]),
    default="capabilities",
    metavar="[capabilities|providers]",
)
@json_option
def vocabulary_command(topic: str, as_json: bool) -> None:
    """List the capabilities that needs can name, or the providers.

    Each capability is listed with the names that the dialects have for it.
    """
    rows = _capabilities() if topic == "capabilities" else _providers()
    if as_json:
        print_json(rows)
        return
    header = list(rows[0])
    click.echo(table([[_cell(row[key]) for key in header] for row in rows], header))
    click.echo(paint(f"\n{len(rows)} {topic}", "dim"))


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _capabilities() -> list[dict[str, Any]]:
    return [
        {
            "capability": info.id,
            "kind": _kind(info),
            "meaning": info.meaning + (f" ({info.formula})" if info.formula else ""),
            "also": sorted(alias for alias, target in ALIASES.items() if target == info.id),
            "dialects": [
                f"{dialect.name} {dialect.write(info.id)}" for dialect in DIALECTS.values() if dialect.knows(info.id)
            ],
        }
        for info in CAPABILITIES.values()
    ]


def _kind(info: Capability) -> str:
    if info.kind == "limit":
        return f"limit, {info.unit}"
    if info.kind == "choice":
        return (" < " if info.ordered else " | ").join(info.choices)
    return "flag"


def _providers() -> list[dict[str, Any]]:
    catalog = default_catalog()
    return [
        {
            "provider": provider.id,
            "name": provider.name,
            "kind": provider.kind,
            "serves": provider.serves,
            "models": len(catalog.models.names(provider.id)),
            "apis": list(provider.apis),
            "key from": list(provider.key_env),
            "also": list(provider.aliases),
        }
        for provider in catalog.providers.all
    ]
