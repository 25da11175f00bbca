"""`modelpact costs`: what was spent, on whom and on what."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import click

from modelpact.cli.options import config_option, print_json
from modelpact.cli.paths import open_reader, store_option
from modelpact.cli.render.audit import one_line
from modelpact.cli.render.tables import paint, table
from modelpact.cli.times import read_since, show_time
from modelpact.ledger.costs import Unit
from modelpact.ledger.money import format_decimal, format_money
from modelpact.ledger.totals.totals import GROUPINGS, CostTotal, Grouping, cost_totals

_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_BAR: Final = 20
_NOTHING: Final = "–"
_UNPRICED: Final = "?"
_TOKENS: Final = tuple(unit for unit in get_args(Unit) if unit.startswith("tokens."))


@click.command("costs", short_help="What was spent, and on what.")
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    default="provider",
    show_default=True,
    help="What to add up by.",
)
@click.option("--since", metavar="TIME", help="24h, 7d, 2026-11-01 or an ISO time; UTC.")
@click.option("--until", metavar="TIME", help="The same, for the end.")
@click.option(
    "--format",
    "how",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@store_option
@config_option
def command(
    by: Grouping,
    since: str | None,
    until: str | None,
    how: str,
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Add up the cost records of the ledger; corrections count once, estimates are marked ≈."""
    start = read_since(since) if since else None
    end = read_since(until) if until else None
    with open_reader(store, config_path) as reader:
        totals = cost_totals(reader, by, since=start, until=end)
    if as_json or how == "json":
        print_json(
            {
                "by": by,
                "since": None if start is None else str(start),
                "until": None if end is None else str(end),
                "rows": [_as_json(by, one) for one in totals],
                "totals": [_as_json(None, one) for one in _sums(totals)],
            }
        )
    elif how == "csv":
        click.echo(_csv(by, totals), nl=False)
    else:
        _print_table(by, totals, start)


def bar(amount: int, largest: int, columns: int = _BAR) -> str:
    """Draw an amount as a bar, in eighths of a column; what is not nothing is seen."""
    if amount <= 0 or largest <= 0:
        return ""
    eighths = max(1, amount * columns * 8 // largest)
    full, part = divmod(eighths, 8)
    return "█" * full + _BLOCKS[part].strip()


def _sums(totals: Iterable[CostTotal]) -> list[CostTotal]:
    """Return one total for each currency."""
    found: dict[str, CostTotal] = {}
    for one in totals:
        before = found.get(one.currency)
        found[one.currency] = (
            CostTotal("", one.currency, one.records, one.amounts, one.estimated)
            if before is None
            else CostTotal(
                "",
                one.currency,
                before.records + one.records,
                _added(before.amounts, one.amounts),
                _added(before.estimated, one.estimated),
            )
        )
    return list(found.values())


def _added(one: Mapping[Unit, int], other: Mapping[Unit, int]) -> dict[Unit, int]:
    return {unit: amount + other[unit] for unit, amount in one.items()}


def _print_table(by: Grouping, totals: list[CostTotal], since: int | None) -> None:
    if not totals:
        click.echo("No costs are recorded" + (f" since {show_time(since)} UTC." if since else "."))
        return
    largest: dict[str, int] = {}
    for one in totals:
        largest[one.currency] = max(largest.get(one.currency, 0), one.money)
    rows = [(*_cells(one), paint(bar(one.money, largest[one.currency]), "cyan")) for one in totals]
    if len(totals) > 1:
        rows += [(paint("total", "bold"), *_cells(one)[1:], "") for one in _sums(totals)]
    header = (by, "records", "cost", "input", "output", "time", "pieces", "")
    click.echo(table(rows, header, right=range(1, 7)))
    for one in _sums(totals):
        if any(one.estimated.values()):
            what = _estimated(one)
            click.echo(paint(f"≈ {what} of this is estimated and not corrected yet.", "dim"))
    if any(map(_unpriced, totals)):
        click.echo(paint(f"{_UNPRICED} No price is known for these tokens.", "dim"))
    if any(one.currency for one in totals) and any(map(_unpaid, totals)):
        why = "it failed, or counts in time or pieces alone"
        click.echo(paint(f"{_NOTHING} No money is on record: {why}.", "dim"))


def _unpriced(one: CostTotal) -> bool:
    """Tell whether there are tokens, and no money for them."""
    return not one.currency and any(one.amounts[unit] for unit in _TOKENS)


def _unpaid(one: CostTotal) -> bool:
    return not one.currency and not _unpriced(one)


def _estimated(one: CostTotal) -> str:
    """Say how much of a total is estimated: the money, or what there is instead of money."""
    amounts = one.estimated
    if amounts["currency"]:
        return format_money(amounts["currency"], one.currency)
    tokens, pieces = sum(amounts[unit] for unit in _TOKENS), amounts["discrete"]
    said = [
        f"{tokens:,} token{'s' if tokens > 1 else ''}" if tokens else "",
        _seconds(amounts["time"]) if amounts["time"] else "",
        f"{pieces:,} piece{'s' if pieces > 1 else ''}" if pieces else "",
    ]
    return ", ".join(part for part in said if part)


def _cells(one: CostTotal) -> tuple[str, ...]:
    """Write a total; what is estimated is marked at the money, or at the first that there is."""
    amounts = one.amounts
    nothing = _UNPRICED if _unpriced(one) else _NOTHING
    cells = [
        format_money(one.money, one.currency) if one.currency else nothing,
        _count(amounts["tokens.input"]),
        _count(amounts["tokens.output"] + amounts["tokens.reasoning"]),
        _seconds(amounts["time"]) if amounts["time"] else _NOTHING,
        _count(amounts["discrete"]),
    ]
    if any(one.estimated.values()):
        empty = (_NOTHING, _UNPRICED)
        at = next((place for place, cell in enumerate(cells) if cell not in empty), 0)
        cells[at] = f"≈ {cells[at]}"
    return (one_line(one.name) or paint("(none)", "dim"), f"{one.records:,}", *cells)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:,.1f} s"


def _count(amount: int) -> str:
    return f"{amount:,}" if amount else _NOTHING


def _as_json(by: str | None, one: CostTotal) -> dict[str, Any]:
    return {
        **({by: one.name} if by else {}),
        "records": one.records,
        "currency": one.currency or None,
        "amount_nano": one.money,
        "estimated_nano": one.estimated["currency"],
        "estimated": any(one.estimated.values()),
        "unpriced": _unpriced(one),
        "tokens": {unit.removeprefix("tokens."): one.amounts[unit] for unit in _TOKENS},
        "time_ns": one.amounts["time"],
        "pieces": one.amounts["discrete"],
    }


def _csv(by: Grouping, totals: list[CostTotal]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [unit.replace(".", "_").replace("-", "_") for unit in _TOKENS]
    writer.writerow([by, "records", "currency", "amount", "estimated", *names, "time_ns", "pieces"])
    for one in totals:
        writer.writerow(
            [
                _cell(one.name),
                one.records,
                _cell(one.currency),
                _plain(one.money),
                _plain(one.estimated["currency"]),
                *(one.amounts[unit] for unit in _TOKENS),
                one.amounts["time"],
                one.amounts["discrete"],
            ]
        )
    return text.getvalue()


def _plain(nano: int) -> str:
    return format_decimal(nano, min_digits=2)


def _cell(text: str) -> str:
    """Keep a spreadsheet from taking a name for a formula, and a terminal from obeying it."""
    return one_line(f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text)
