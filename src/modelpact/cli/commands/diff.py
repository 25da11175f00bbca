"""`modelpact diff`: what changes on a switch."""

from pathlib import Path
from typing import Any

import click
import msgspec

from modelpact.catalog.claim import Claim
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    complete_target,
    config_option,
    configured,
    json_option,
    print_json,
    resolve_target,
)
from modelpact.cli.render.tables import money, paint, table
from modelpact.negotiation.formats import claim_text
from modelpact.vocabulary.capability import CAPABILITIES

_SIGNS = {"lost": ("−", "red"), "gained": ("+", "green"), "unsure": ("?", "yellow")}
_SIGN_OTHER = ("~", "cyan")


@click.command("diff", short_help="What changes on a switch from one model to another.")
@click.argument("first", metavar="A", shell_complete=complete_target)
@click.argument("second", metavar="B", shell_complete=complete_target)
@json_option
@config_option
def command(first: str, second: str, as_json: bool, config_path: Path | None) -> None:
    """Show what a switch from model A to model B loses, gains and changes."""
    _, catalog = configured(config_path)
    one = resolve_target(catalog, first)
    other = resolve_target(catalog, second)
    changes = differences(one, other)
    if as_json:
        print_json(
            {
                "from": one.target,
                "to": other.target,
                "changes": [
                    {
                        "capability": name,
                        "change": kind,
                        "from": msgspec.to_builtins(before),
                        "to": msgspec.to_builtins(after),
                    }
                    for name, kind, before, after in changes
                ],
                "price": {
                    "from": msgspec.to_builtins(one.price),
                    "to": msgspec.to_builtins(other.price),
                },
            }
        )
        return
    click.echo(f"{paint(one.target, 'bold')} → {paint(other.target, 'bold')}\n")
    rows = []
    for name, kind, before, after in changes:
        sign, colour = _SIGNS.get(kind, _SIGN_OTHER)
        rows.append((paint(sign, colour), name, claim_text(before), claim_text(after), kind))
    rows += _price_rows(one, other)
    if rows:
        click.echo(table(rows, ("", "capability", "now", "then", "")))
    else:
        click.echo("Nothing that is known of the two differs.")


def differences(one: Resolution, other: Resolution) -> list[tuple[str, str, Claim, Claim]]:
    """Return (capability, kind of change, before, after), losses first."""
    order = {"lost": 0, "less": 1, "unsure": 2, "other": 3, "more": 4, "gained": 5}
    found = []
    for info in CAPABILITIES.values():
        before, after = one.claim(info.id), other.claim(info.id)
        kind = _change(before, after)
        if kind:
            found.append((info.id, kind, before, after))
    return sorted(found, key=lambda entry: order[entry[1]])


def _change(before: Claim, after: Claim) -> str:
    if before.support != after.support:
        had = before.support not in ("unsupported", "unknown")
        has = after.support not in ("unsupported", "unknown")
        if had and after.support == "unknown":
            return "unsure"
        if has and before.support == "unknown":
            return "gained"
        if had != has:
            return "lost" if had else "gained"
        return "" if {before.support, after.support} == {"unsupported", "unknown"} else "other"
    if not before.known or before.value == after.value:
        return ""
    if isinstance(before.value, int) and isinstance(after.value, int):
        return "less" if after.value < before.value else "more"
    return "other"


def _price_rows(one: Resolution, other: Resolution) -> list[tuple[Any, ...]]:
    rows = []
    for part in ("input", "output"):
        before = getattr(one.price, part, None)
        after = getattr(other.price, part, None)
        if before != after:
            kind = ""
            if before is not None and after is not None:
                kind = "dearer" if after > before else "cheaper"
            sign = paint("$", "cyan")
            rows.append((sign, f"price, {part}", money(before), money(after), kind))
    return rows
