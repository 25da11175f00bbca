"""`modelpact show`: what a model can do, and how that is known."""

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from modelpact.catalog.claim import Claim
from modelpact.catalog.resolution import Resolution, TraceEntry
from modelpact.cli.options import (
    complete_target,
    config_option,
    configured,
    json_option,
    print_json,
    resolve_target,
)
from modelpact.cli.render.tables import clip, mark, money, paint, table
from modelpact.negotiation.formats import claim_text, evidence_text
from modelpact.vocabulary.capability import CAPABILITIES

_TITLES = {
    "model": "Capabilities",
    "modality": "Input and output",
    "parameter": "Parameters and provider tools",
    "agent": "Agent backends",
    "host": "Hosts' own",
}


@click.command("show", short_help="What a model can do, and how that is known.")
@click.argument("target", metavar="PROVIDER/MODEL", shell_complete=complete_target)
@click.option("--api", help="Resolve for this API of the provider, such as openai-responses.")
@click.option("--trace", is_flag=True, help="Show each layer and rule, and what it said.")
@click.option("--all", "everything", is_flag=True, help="Also what nothing is known of.")
@json_option
@config_option
def command(
    target: str,
    api: str | None,
    trace: bool,
    everything: bool,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Show the capabilities of a model with the evidence for each."""
    _, catalog = configured(config_path)
    found = resolve_target(catalog, target, api)
    if as_json:
        print_json(show_data(found, trace=trace))
        return
    _print_head(found)
    if trace:
        _print_trace(found)
    else:
        _print_claims(found, everything)


def show_data(found: Resolution, *, trace: bool = False) -> dict[str, Any]:
    """Return a resolution as plain data."""
    data: dict[str, Any] = {
        "target": found.target,
        "provider": found.provider_id,
        "model": found.model,
        "api": found.api,
        "listed": found.listed,
        "released": found.released or None,
        "retires": found.retires or None,
        "status": found.status or None,
        "price": msgspec.to_builtins(found.price),
        "claims": {claim.capability: msgspec.to_builtins(claim) for claim in found},
        "overruled": {
            claim.capability: msgspec.to_builtins(before)
            for claim in found
            if (before := found.overruled(claim.capability)) is not None
        },
        "constraints": msgspec.to_builtins(found.constraints),
        "modelCapabilities": msgspec.to_builtins(found.capabilities),
    }
    if trace:
        data["trace"] = msgspec.to_builtins(found.trace)
    return data


def _print_head(found: Resolution) -> None:
    provider = found.provider
    about = [provider.name if provider else "unknown provider", f"API {found.api or 'unknown'}"]
    if found.released:
        about.append(f"released {found.released}")
    if found.status:
        about.append(found.status)
    if found.retires:
        about.append(f"retires {found.retires}")
    click.echo(f"{paint(found.target, 'bold')}  {paint(' · '.join(about), 'dim')}")
    if not found.listed:
        click.echo(
            paint(
                "No public catalog lists this model; what follows is by rule and family.", "yellow"
            )
        )
    price = found.price
    if price is not None and (price.input or price.output):
        parts = [f"{money(price.input)} in", f"{money(price.output)} out"]
        if price.cache_read is not None:
            parts.append(f"{money(price.cache_read)} cache read")
        if price.cache_write is not None:
            parts.append(f"{money(price.cache_write)} cache write")
        parts += [f"more above {above:,} tokens" for above, _ in price.tiers[:1]]
        click.echo(f"{' · '.join(parts)} {paint('per million tokens', 'dim')}")
    click.echo()


def _print_claims(found: Resolution, everything: bool) -> None:
    hidden = 0
    for group, title in _TITLES.items():
        rows = []
        for info in CAPABILITIES.values():
            claim = found.claim(info.id)
            if info.group != group:
                continue
            if not everything and _of_no_interest(claim):
                hidden += 1
                continue
            rows.append((mark(claim), info.id, claim_text(claim), _known_by(found, claim)))
        if rows:
            click.echo(table(rows, ("", title, "claim", "how we know")))
            click.echo()
    for one in found.constraints:
        click.echo(f"{paint('!', 'yellow')} {' and '.join(one.excludes)} exclude each other here")
    if hidden:
        click.echo(paint(f"{hidden} more of which little is known: --all shows them.", "dim"))


def _known_by(found: Resolution, claim: Claim) -> str:
    """Say how a claim is known, and what evidence overrules."""
    said = evidence_text(claim)
    if claim.reason and claim.support == "unsupported":
        said = f"{said}: {clip(claim.reason, 64)}"
    said = paint(said, "dim")
    before = found.overruled(claim.capability)
    if before is None:
        return said
    told = f"; contradicts {evidence_text(before)}: {claim_text(before)}"
    return said + paint(told, "yellow")


_ODD = frozenset(
    {"embedding-input", "speech-input", "image-gen-input", "image-output", "pdf-output"}
)


def _of_no_interest(claim: Claim) -> bool:
    if claim.capability in _ODD and claim.support == "unsupported":
        return True
    return claim.support == "unknown" and claim.assumed in (None, "unsupported")


def _print_trace(found: Resolution) -> None:
    for number, entry in enumerate(found.trace, 1):
        title = f"{number}. {entry.layer}"
        about = [part for part in (entry.source, entry.date) if part]
        if entry.assumed:
            about.append("assumed, not known")
        click.echo(f"{paint(title, 'bold')}  {entry.rule}  {paint(' · '.join(about), 'dim')}")
        rows = [("   ", field, clip(_value(value), 88)) for field, value in _sorted_fields(entry)]
        click.echo(table(rows))
        click.echo()
    click.echo(paint("Later layers overwrite earlier ones, field by field.", "dim"))


def _sorted_fields(entry: TraceEntry) -> list[tuple[str, Any]]:
    return sorted(entry.fields.items())


def _value(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        votes = {key: _value(one) for key, one in value.items()}
        if len(set(votes.values())) == 1:
            return f"{next(iter(votes.values()))}  ({', '.join(votes)})"
        return "disputed: " + ", ".join(f"{key} {one}" for key, one in votes.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
