"""`modelpact vocabulary`: the capabilities with their dialect names, and the providers."""

from typing import Any

import click

from modelpact.catalog.catalog import default_catalog
from modelpact.cli.options import json_option, print_json
from modelpact.cli.render.tables import table
from modelpact.cli.render.terminal import paint
from modelpact.vocabulary.capability import ALIASES, CAPABILITIES, Capability
from modelpact.vocabulary.dialects import DIALECTS


@click.command("vocabulary")
@click.argument(
    "topic",
    type=click.Choice(["capabilities", "providers"]),
    default="capabilities",
    metavar="[capabilities|providers]",
)
@json_option
def command(topic: str, as_json: bool) -> None:
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
                f"{dialect.name} {dialect.write(info.id)}"
                for dialect in DIALECTS.values()
                if dialect.knows(info.id)
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
