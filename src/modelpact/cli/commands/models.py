"""`modelpact models`: finds models that meet needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    complete_needs,
    config_option,
    configured,
    json_option,
    print_json,
    read_needs,
)
from modelpact.cli.render.tables import clip, mark, money, paint, table, tokens
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.errors import UnknownName

COLUMNS: Final = {
    "tools": "tool-calling",
    "schema": "structured-output",
    "reason": "reasoning",
    "image": "image-input",
    "pdf": "pdf-input",
    "audio": "audio-input",
    "cache": "prompt-caching",
}


@click.command("models", short_help="Find models that meet needs.")
@click.option("--provider", "providers", multiple=True, metavar="P", help="Only these providers'.")
@click.option("--capability", "capabilities", multiple=True, metavar="C", help="Must have this.")
@click.option(
    "--need",
    "needs",
    multiple=True,
    metavar="NEEDS",
    help='"tools,context>=200k"',
    shell_complete=complete_needs,
)
@click.option(
    "--sort",
    type=click.Choice(["name", "price"]),
    default="name",
    show_default=True,
    help="By price: input and output together; what has none by the token comes last.",
)
@click.option("--limit", type=click.IntRange(min=0), default=40, help="Rows shown; 0 for all.")
@click.option("--retired", is_flag=True, help="Also models that are deprecated or retired.")
@json_option
@config_option
def command(
    providers: Sequence[str],
    capabilities: Sequence[str],
    needs: Sequence[str],
    sort: Literal["name", "price"],
    limit: int,
    retired: bool,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """List the models that are known to meet every need."""
    _, catalog = configured(config_path)
    for provider in providers:
        if catalog.find_provider(provider) is None:
            names = (*catalog.configured, *catalog.providers.names)
            raise UnknownName("provider", provider, names)
    wanted = Needs([*capabilities, *read_needs(needs)])
    found = find_models(wanted, provider=providers, sort=sort, retired=retired, catalog=catalog)
    shown = found[:limit] if limit else found
    resolved = [catalog.resolve(*catalog.split(target)) for target in shown]
    if as_json:
        unit = "pico-USD a token: 1,000,000 is one dollar per million tokens"
        print_json(
            {
                "total": len(found),
                "priceUnit": unit,
                "models": [_data(one, wanted) for one in resolved],
            }
        )
    elif found:
        _print(resolved, wanted)
        rest = len(found) - len(shown)
        plural = "s" if len(found) != 1 else ""
        more = f", {rest:,} more with --limit 0" if rest else ""
        click.echo(
            paint(f"\n{len(found):,} model{plural}{more}. Prices per million tokens.", "dim")
        )
    else:
        click.echo(_nothing(catalog, wanted, providers))
    if not found:
        raise SystemExit(1)


def _extra(wanted: Needs) -> list[str]:
    return [one.capability for one in wanted if _shown_apart(one)]


def _shown_apart(one: Need) -> bool:
    known = (*COLUMNS.values(), "context-window", "max-output")
    return one.capability not in known and one.capability_info.kind == "flag"


def _print(resolved: Sequence[Resolution], wanted: Needs) -> None:
    extra = _extra(wanted)
    header = ("model", "in", "out", "context", "output", *COLUMNS, *extra)
    rows = []
    for one in resolved:
        price = one.price
        free = price is None or not (price.input or price.output)
        rows.append(
            (
                clip(one.target, 58),
                "–" if free or price is None else money(price.input),
                "–" if free or price is None else money(price.output),
                tokens(_limit(one, "context-window")),
                tokens(_limit(one, "max-output")),
                *(mark(one.claim(name)) for name in (*COLUMNS.values(), *extra)),
            )
        )
    click.echo(table(rows, header, right=(1, 2, 3, 4)))


def _limit(one: Resolution, name: str) -> int | None:
    claim = one.claim(name)
    return claim.value if claim.known and isinstance(claim.value, int) else None


def _data(one: Resolution, wanted: Needs) -> dict[str, Any]:
    return {
        "model": one.target,
        "price": msgspec.to_builtins(one.price),
        "contextWindow": _limit(one, "context-window"),
        "maxOutput": _limit(one, "max-output"),
        "claims": {
            name: one.claim(name).support
            for name in dict.fromkeys((*COLUMNS.values(), *(need.capability for need in wanted)))
        },
    }


def _nothing(catalog: Catalog, wanted: Needs, providers: Sequence[str]) -> str:
    """Say which single need rules everything out, where one does."""
    lines = ["No model is known to meet all of this."]
    for one in wanted:
        count = len(find_models(Needs([one]), provider=providers, catalog=catalog))
        lines.append(f"  {one!s:32} {count:,} models alone")
    return "\n".join(lines)
