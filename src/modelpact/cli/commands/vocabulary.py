"""`modelpact vocabulary`: the words, and what the dialects call them."""

from typing import Any

import click

from modelpact.catalog.catalog import default_catalog
from modelpact.cli.options import json_option, print_json
from modelpact.cli.render.tables import paint, table
from modelpact.vocabulary.capability import ALIASES, CAPABILITIES, Capability
from modelpact.vocabulary.dialects import DIALECTS


@click.command("vocabulary", short_help="The capabilities, the dialects' names, the providers.")
@click.argument("what", type=click.Choice(["capabilities", "providers"]), default="capabilities")
@json_option
def command(what: str, as_json: bool) -> None:
    """List the capabilities that needs may name, with the dialects' names; or the providers."""
    rows = _capabilities() if what == "capabilities" else _providers()
    if as_json:
        print_json(rows)
        return
    header = list(rows[0])
    shown = [[_text(row[key]) for key in header] for row in rows]
    click.echo(table(shown, header))
    click.echo(paint(f"\n{len(rows)} {what}", "dim"))


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _capabilities() -> list[dict[str, Any]]:
    return [
        {
            "capability": one.id,
            "kind": _kind(one),
            "meaning": one.meaning + (f" ({one.formula})" if one.formula else ""),
            "also": sorted(name for name, known in ALIASES.items() if known == one.id),
            "dialects": [
                f"{d.name} {d.write(one.id)}" for d in DIALECTS.values() if d.knows(one.id)
            ],
        }
        for one in CAPABILITIES.values()
    ]


def _kind(one: Capability) -> str:
    if one.kind == "limit":
        return f"limit, {one.unit}"
    if one.kind == "choice":
        return (" < " if one.ordered else " | ").join(one.choices)
    return "flag"


def _providers() -> list[dict[str, Any]]:
    catalog = default_catalog()
    return [
        {
            "provider": one.id,
            "name": one.name,
            "kind": one.kind,
            "serves": one.serves,
            "models": len(catalog.models.names(one.id)),
            "apis": list(one.apis),
            "key from": list(one.key_env),
            "also": list(one.aliases),
        }
        for one in catalog.providers.all
    ]
