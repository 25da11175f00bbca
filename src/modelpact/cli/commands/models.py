"""`modelpact show`, `models` and `diff`: what models can do, and how they compare."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.claim import Claim
from modelpact.catalog.comparison import ClaimDifference, compare_models
from modelpact.catalog.resolution import Resolution
from modelpact.cli.options import (
    check_provider,
    complete_target,
    config_option,
    default_option,
    json_option,
    load_catalog,
    need_option,
    print_json,
    print_result,
    read_needs,
    resolve_target,
)
from modelpact.cli.render.terminal import clip, paint, plural, support_mark, table, token_count, token_price
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.search import find_models
from modelpact.negotiation.verdict import claim_text, evidence_text
from modelpact.vocabulary.capability import CAPABILITIES

_GROUP_TITLES: Final = {
    "model": "Capabilities",
    "modality": "Input and output",
    "parameter": "Parameters and provider tools",
    "agent": "Agent backends",
    "host": "Host extensions",
}
_RARE: Final = frozenset({"embedding-input", "speech-input", "image-gen-input", "image-output", "pdf-output"})
"""Capabilities that few models have: only those that have them show them."""
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
_SIGNS: Final = {"lost": ("−", "red"), "gained": ("+", "green"), "unsure": ("?", "yellow")}
_OTHER_SIGN: Final = ("~", "cyan")


@click.command("show")
@click.argument("target", metavar="PROVIDER/MODEL", shell_complete=complete_target)
@click.option("--api", help="Resolve for this API of the provider, such as openai-responses.")
@click.option("--trace", is_flag=True, help="Show what each layer and rule states.")
@click.option("--all", "show_all", is_flag=True, help="Include unknown capabilities.")
@json_option
@config_option
def show_command(
    target: str, api: str | None, trace: bool, show_all: bool, as_json: bool, config_path: Path | None
) -> None:
    """Show the capabilities of a model with the evidence for each."""
    _, catalog = load_catalog(config_path)
    model = resolve_target(catalog, target, api)
    if as_json:
        print_json(_claims_json(model, trace=trace))
        return
    _print_head(model)
    if trace:
        _print_trace(model)
    else:
        _print_claims(model, show_all)


def _claims_json(model: Resolution, *, trace: bool) -> dict[str, Any]:
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


@click.command("models")
@click.option("--provider", "providers", multiple=True, metavar="P", help="Only this provider; repeatable.")
@click.option(
    "--capability", "capabilities", multiple=True, metavar="C", help="A capability that it must have; repeatable."
)
@need_option('Needs that it must meet, such as "tools,context>=200k"; repeatable.')
@default_option(
    "--sort",
    type=click.Choice(["name", "price"]),
    default="name",
    help="The order. The price is input and output together; models without one come last.",
)
@click.option("--limit", type=click.IntRange(min=0), default=40, help="Rows to show; 0 for all.")
@click.option("--retired", is_flag=True, help="Include deprecated and retired models.")
@json_option
@config_option
def models_command(
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
        check_provider(catalog, provider)
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
        _print_models(models, required)
        hidden = len(targets) - len(listed)
        more = f", {hidden:,} more with --limit 0" if hidden else ""
        summary = f"\n{plural(len(targets), 'model')}{more}. Prices per million tokens."
        click.echo(paint(summary, "dim"))
    else:
        click.echo(_no_match(catalog, required, providers))
    if not targets:
        raise SystemExit(1)


def _print_models(models: Sequence[Resolution], required: Needs) -> None:
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


@click.command("diff")
@click.argument("first", metavar="A", shell_complete=complete_target)
@click.argument("second", metavar="B", shell_complete=complete_target)
@json_option
@config_option
def diff_command(first: str, second: str, as_json: bool, config_path: Path | None) -> None:
    """Show what a switch from model A to model B loses, gains and changes.

    A and B are PROVIDER/MODEL.
    """
    _, catalog = load_catalog(config_path)
    before = resolve_target(catalog, first)
    after = resolve_target(catalog, second)
    differences = compare_models(before, after)
    prices = {"from": before.price, "to": after.price}
    data = {
        "from": before.target,
        "to": after.target,
        "changes": [_difference_json(difference) for difference in differences],
        "price": msgspec.to_builtins(prices),
    }
    rows = [_difference_row(difference) for difference in differences] + _price_rows(before, after)
    text = "There is no known difference between the two."
    if rows:
        text = table(rows, ("", "capability", "now", "then", ""))
    head = f"{paint(before.target, 'bold')} → {paint(after.target, 'bold')}"
    print_result(data, f"{head}\n\n{text}", as_json=as_json)


def _difference_json(difference: ClaimDifference) -> dict[str, Any]:
    return {
        "capability": difference.capability,
        "change": difference.kind,
        "from": msgspec.to_builtins(difference.before),
        "to": msgspec.to_builtins(difference.after),
    }


def _difference_row(difference: ClaimDifference) -> tuple[str, ...]:
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
                change = "more expensive" if new > old else "cheaper"
            sign = paint("$", "cyan")
            rows.append((sign, f"price, {part}", token_price(old), token_price(new), change))
    return rows
