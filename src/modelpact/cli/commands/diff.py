"""`modelpact diff`: what changes on a switch from one model to another."""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.catalog.comparison import ClaimDifference, compare_models
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    complete_target,
    config_option,
    json_option,
    load_catalog,
    print_json,
    resolve_target,
)
from modelpact.cli.render.tables import table, token_price
from modelpact.cli.render.terminal import paint
from modelpact.negotiation.formats import claim_text

_SIGNS: Final = {"lost": ("−", "red"), "gained": ("+", "green"), "unsure": ("?", "yellow")}
_OTHER_SIGN: Final = ("~", "cyan")


@click.command("diff")
@click.argument("first", metavar="A", shell_complete=complete_target)
@click.argument("second", metavar="B", shell_complete=complete_target)
@json_option
@config_option
def command(first: str, second: str, as_json: bool, config_path: Path | None) -> None:
    """Show what a switch from model A to model B loses, gains and changes.

    A and B are PROVIDER/MODEL.
    """
    _, catalog = load_catalog(config_path)
    before = resolve_target(catalog, first)
    after = resolve_target(catalog, second)
    differences = compare_models(before, after)
    if as_json:
        print_json(
            {
                "from": before.target,
                "to": after.target,
                "changes": [_difference_json(difference) for difference in differences],
                "price": {
                    "from": msgspec.to_builtins(before.price),
                    "to": msgspec.to_builtins(after.price),
                },
            }
        )
        return
    click.echo(f"{paint(before.target, 'bold')} → {paint(after.target, 'bold')}\n")
    rows = [_row(difference) for difference in differences] + _price_rows(before, after)
    if rows:
        click.echo(table(rows, ("", "capability", "now", "then", "")))
    else:
        click.echo("There is no known difference between the two.")


def _difference_json(difference: ClaimDifference) -> dict[str, Any]:
    return {
        "capability": difference.capability,
        "change": difference.kind,
        "from": msgspec.to_builtins(difference.before),
        "to": msgspec.to_builtins(difference.after),
    }


def _row(difference: ClaimDifference) -> tuple[str, ...]:
    sign, colour = _SIGNS.get(difference.kind, _OTHER_SIGN)
    return (
        paint(sign, colour),
        difference.capability,
        claim_text(difference.before),
        claim_text(difference.after),
        difference.kind,
    )


def _price_rows(before: Resolution, after: Resolution) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for part in ("input", "output"):
        old = getattr(before.price, part, None)
        new = getattr(after.price, part, None)
        if old != new:
            change = ""
            if old is not None and new is not None:
                change = "dearer" if new > old else "cheaper"
            sign = paint("$", "cyan")
            rows.append((sign, f"price, {part}", token_price(old), token_price(new), change))
    return rows
