"""`modelpact show`: what a model can do, and the evidence for it."""

import json
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.catalog.claim import Claim
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    complete_target,
    config_option,
    json_option,
    load_catalog,
    print_json,
    resolve_target,
)
from modelpact.cli.render.tables import support_mark, table, token_price
from modelpact.cli.render.terminal import clip, paint
from modelpact.negotiation.formats import claim_text, evidence_text
from modelpact.vocabulary.capability import CAPABILITIES

_GROUP_TITLES: Final = {
    "model": "Capabilities",
    "modality": "Input and output",
    "parameter": "Parameters and provider tools",
    "agent": "Agent backends",
    "host": "Host extensions",
}
_RARE: Final = frozenset(
    {"embedding-input", "speech-input", "image-gen-input", "image-output", "pdf-output"}
)
"""Capabilities that few models have: only those that have them show them."""


@click.command("show")
@click.argument("target", metavar="PROVIDER/MODEL", shell_complete=complete_target)
@click.option("--api", help="Resolve for this API of the provider, such as openai-responses.")
@click.option("--trace", is_flag=True, help="Show what each layer and rule states.")
@click.option("--all", "show_all", is_flag=True, help="Include unknown capabilities.")
@json_option
@config_option
def command(
    target: str,
    api: str | None,
    trace: bool,
    show_all: bool,
    as_json: bool,
    config_path: Path | None,
) -> None:
    """Show the capabilities of a model with the evidence for each."""
    _, catalog = load_catalog(config_path)
    model = resolve_target(catalog, target, api)
    if as_json:
        print_json(_model_json(model, trace=trace))
        return
    _print_head(model)
    if trace:
        _print_trace(model)
    else:
        _print_claims(model, show_all)


def _model_json(model: Resolution, *, trace: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "target": model.target,
        "provider": model.provider_id,
        "model": model.model,
        "api": model.api,
        "listed": model.listed,
        "released": model.released or None,
        "retires": model.retires or None,
        "status": model.status or None,
        "price": msgspec.to_builtins(model.price),
        "claims": {claim.capability: msgspec.to_builtins(claim) for claim in model},
        "overruled": {
            claim.capability: msgspec.to_builtins(overruled)
            for claim in model
            if (overruled := model.overruled(claim.capability)) is not None
        },
        "constraints": msgspec.to_builtins(model.constraints),
        "modelCapabilities": msgspec.to_builtins(model.capabilities),
    }
    if trace:
        data["trace"] = msgspec.to_builtins(model.trace)
    return data


def _print_head(model: Resolution) -> None:
    provider = model.provider
    facts = [provider.name if provider else "unknown provider", f"API {model.api or 'unknown'}"]
    if model.released:
        facts.append(f"released {model.released}")
    if model.status:
        facts.append(model.status)
    if model.retires:
        facts.append(f"retires {model.retires}")
    click.echo(f"{paint(model.target, 'bold')}  {paint(' · '.join(facts), 'dim')}")
    if not model.listed:
        warning = "No public catalog lists this model: the claims come from rules and its family."
        click.echo(paint(warning, "yellow"))
    price = model.price
    if price is not None and (price.input or price.output):
        prices = [f"{token_price(price.input)} in", f"{token_price(price.output)} out"]
        if price.cache_read is not None:
            prices.append(f"{token_price(price.cache_read)} cache read")
        if price.cache_write is not None:
            prices.append(f"{token_price(price.cache_write)} cache write")
        prices += [f"more above {above:,} tokens" for above, _ in price.tiers[:1]]
        click.echo(f"{' · '.join(prices)} {paint('per million tokens', 'dim')}")
    click.echo()


def _print_claims(model: Resolution, show_all: bool) -> None:
    hidden = 0
    for group, title in _GROUP_TITLES.items():
        rows = []
        for info in CAPABILITIES.values():
            if info.group != group:
                continue
            claim = model.claim(info.id)
            if not show_all and _is_hidden(claim):
                hidden += 1
                continue
            evidence = _evidence(model, claim)
            rows.append((support_mark(claim), info.id, claim_text(claim), evidence))
        if rows:
            click.echo(table(rows, ("", title, "claim", "how we know")))
            click.echo()
    for constraint in model.constraints:
        names = " and ".join(constraint.excludes)
        click.echo(f"{paint('!', 'yellow')} {names} cannot be used together here")
    if hidden:
        click.echo(paint(f"{hidden} more are unknown or rare: --all shows them.", "dim"))


def _is_hidden(claim: Claim) -> bool:
    if claim.capability in _RARE and claim.support == "unsupported":
        return True
    return claim.support == "unknown" and claim.assumed in (None, "unsupported")


def _evidence(model: Resolution, claim: Claim) -> str:
    """Return the evidence for a claim, and the claim that it overrules."""
    text = evidence_text(claim)
    if claim.reason and claim.support == "unsupported":
        text = f"{text}: {clip(claim.reason, 64)}"
    text = paint(text, "dim")
    overruled = model.overruled(claim.capability)
    if overruled is not None:
        contradiction = f"; contradicts {evidence_text(overruled)}: {claim_text(overruled)}"
        text += paint(contradiction, "yellow")
    return text


def _print_trace(model: Resolution) -> None:
    for number, entry in enumerate(model.trace, 1):
        title = f"{number}. {entry.layer}"
        origin = [part for part in (entry.source, entry.date) if part]
        if entry.assumed:
            origin.append("assumed, not known")
        click.echo(f"{paint(title, 'bold')}  {entry.rule}  {paint(' · '.join(origin), 'dim')}")
        fields = sorted(entry.fields.items())
        click.echo(table([("   ", field, clip(_value_text(value), 88)) for field, value in fields]))
        click.echo()
    click.echo(paint("Later layers overwrite earlier ones, field by field.", "dim"))


def _value_text(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        votes = {lineage: _value_text(vote) for lineage, vote in value.items()}
        if len(set(votes.values())) == 1:
            return f"{next(iter(votes.values()))}  ({', '.join(votes)})"
        return "disputed: " + ", ".join(f"{lineage} {vote}" for lineage, vote in votes.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
