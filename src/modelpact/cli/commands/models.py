"""`modelpact models`: finds models that meet needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    config_option,
    json_option,
    load_catalog,
    need_option,
    print_json,
    read_needs,
)
from modelpact.cli.render.tables import support_mark, table, token_count, token_price
from modelpact.cli.render.terminal import clip, paint, plural
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.errors import UnknownName

_COLUMNS: Final = {
    "tools": "tool-calling",
    "schema": "structured-output",
    "reason": "reasoning",
    "image": "image-input",
    "pdf": "pdf-input",
    "audio": "audio-input",
    "cache": "prompt-caching",
}
"""The capabilities that every table shows, by the head of their column."""
_PRICE_UNIT: Final = "pico-USD a token: 1,000,000 is one dollar per million tokens"


@click.command("models")
@click.option(
    "--provider", "providers", multiple=True, metavar="P", help="Only this provider; repeatable."
)
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="C",
    help="A capability that it must have; repeatable.",
)
@need_option('Needs that it must meet, such as "tools,context>=200k"; repeatable.')
@click.option(
    "--sort",
    type=click.Choice(["name", "price"]),
    default="name",
    show_default=True,
    help="The order. The price is input and output together; models without one come last.",
)
@click.option("--limit", type=click.IntRange(min=0), default=40, help="Rows to show; 0 for all.")
@click.option("--retired", is_flag=True, help="Include deprecated and retired models.")
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
    """List the models that are known to meet every need.

    Exits with 1 if there are none.
    """
    _, catalog = load_catalog(config_path)
    for provider in providers:
        if catalog.find_provider(provider) is None:
            names = (*catalog.configured, *catalog.providers.names)
            raise UnknownName("provider", provider, names)
    required = Needs([*capabilities, *read_needs(needs)])
    targets = find_models(required, provider=providers, sort=sort, retired=retired, catalog=catalog)
    listed = targets[:limit] if limit else targets
    models = [catalog.resolve(*catalog.split(target)) for target in listed]
    if as_json:
        print_json(
            {
                "total": len(targets),
                "priceUnit": _PRICE_UNIT,
                "models": [_model_json(model, required) for model in models],
            }
        )
    elif targets:
        _print_table(models, required)
        hidden = len(targets) - len(listed)
        more = f", {hidden:,} more with --limit 0" if hidden else ""
        summary = f"\n{plural(len(targets), 'model')}{more}. Prices per million tokens."
        click.echo(paint(summary, "dim"))
    else:
        click.echo(_no_match(catalog, required, providers))
    if not targets:
        raise SystemExit(1)


def _print_table(models: Sequence[Resolution], required: Needs) -> None:
    extra = [need.capability for need in required if _needs_column(need)]
    header = ("model", "in", "out", "context", "output", *_COLUMNS, *extra)
    rows = []
    for model in models:
        price = model.price
        unpriced = price is None or not (price.input or price.output)
        rows.append(
            (
                clip(model.target, 58),
                "–" if unpriced or price is None else token_price(price.input),
                "–" if unpriced or price is None else token_price(price.output),
                token_count(_limit(model, "context-window")),
                token_count(_limit(model, "max-output")),
                *(support_mark(model.claim(name)) for name in (*_COLUMNS.values(), *extra)),
            )
        )
    click.echo(table(rows, header, right=(1, 2, 3, 4)))


def _needs_column(need: Need) -> bool:
    """Return whether a need gets a column of its own."""
    has_one = (*_COLUMNS.values(), "context-window", "max-output")
    return need.capability not in has_one and need.capability_info.kind == "flag"


def _limit(model: Resolution, name: str) -> int | None:
    claim = model.claim(name)
    return claim.value if claim.known and isinstance(claim.value, int) else None


def _model_json(model: Resolution, required: Needs) -> dict[str, Any]:
    names = dict.fromkeys((*_COLUMNS.values(), *(need.capability for need in required)))
    return {
        "model": model.target,
        "price": msgspec.to_builtins(model.price),
        "contextWindow": _limit(model, "context-window"),
        "maxOutput": _limit(model, "max-output"),
        "claims": {name: model.claim(name).support for name in names},
    }


def _no_match(catalog: Catalog, required: Needs, providers: Sequence[str]) -> str:
    """Return a message with how many models meet each need by itself."""
    lines = ["No model is known to meet all of these needs. Each by itself:"]
    for need in required:
        count = len(find_models(Needs([need]), provider=providers, catalog=catalog))
        lines.append(f"  {need!s:32} {plural(count, 'model')}")
    return "\n".join(lines)
