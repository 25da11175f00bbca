"""`modelpact costs`: what was spent, by provider, model, intent, worker or function."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import click

from modelpact.cli.options import LedgerSource, default_option, format_option, ledger_options, parse_time, print_json
from modelpact.cli.render.terminal import bar, escape_line, format_time, paint, plural, table
from modelpact.ledger.cost_tables import GROUPINGS, CostTotal, Grouping, cost_totals
from modelpact.ledger.costs import Unit
from modelpact.vocabulary.money import format_decimal, format_money

_NONE: Final = "–"
_UNPRICED: Final = "?"
_TOKEN_UNITS: Final = tuple(unit for unit in get_args(Unit) if unit.startswith("tokens."))


@click.command("costs")
@default_option(
    "--by", "grouping", type=click.Choice(GROUPINGS), default="provider", help="What to group the costs by."
)
@click.option("--since", metavar="TIME", help="The start: 24h, 7d, 2026-11-01 or an ISO time, in UTC.")
@click.option("--until", metavar="TIME", help="The end, in the same form.")
@format_option("table", "json", "csv")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@ledger_options
def costs_command(
    grouping: Grouping, since: str | None, until: str | None, output_format: str, as_json: bool, source: LedgerSource
) -> None:
    """Add up the cost records of the ledger.

    A corrected record counts once. Estimates are marked with ≈.
    """
    start = parse_time(since) if since else None
    end = parse_time(until) if until else None
    with source.open_reader() as reader:
        totals = cost_totals(reader, grouping, since=start, until=end)
    if as_json or output_format == "json":
        print_json(
            {
                "by": grouping,
                "since": None if start is None else str(start),
                "until": None if end is None else str(end),
                "rows": [_total_json(grouping, total) for total in totals],
                "totals": [_total_json(None, total) for total in _currency_sums(totals)],
            }
        )
    elif output_format == "csv":
        click.echo(_csv(grouping, totals), nl=False)
    else:
        _print_table(grouping, totals, start)


def _currency_sums(totals: Iterable[CostTotal]) -> list[CostTotal]:
    """Return one total for each currency."""
    sums: dict[str, CostTotal] = {}
    for total in totals:
        before = sums.get(total.currency)
        sums[total.currency] = (
            CostTotal("", total.currency, total.records, total.amounts, total.estimated)
            if before is None
            else CostTotal(
                "",
                total.currency,
                before.records + total.records,
                _add(before.amounts, total.amounts),
                _add(before.estimated, total.estimated),
            )
        )
    return list(sums.values())


def _add(first: Mapping[Unit, int], second: Mapping[Unit, int]) -> dict[Unit, int]:
    return {unit: amount + second[unit] for unit, amount in first.items()}


def _print_table(grouping: Grouping, totals: list[CostTotal], since: int | None) -> None:
    if not totals:
        start = f" since {format_time(since)} UTC" if since else ""
        click.echo(f"No costs are recorded{start}.")
        return
    largest: dict[str, int] = {}
    for total in totals:
        largest[total.currency] = max(largest.get(total.currency, 0), total.money)
    sums = _currency_sums(totals)
    rows = [(*_cells(total), paint(bar(total.money, largest[total.currency]), "cyan")) for total in totals]
    if len(totals) > 1:
        rows += [(paint("total", "bold"), *_cells(total)[1:], "") for total in sums]
    header = (grouping, "records", "cost", "input", "output", "time", "pieces", "")
    click.echo(table(rows, header, right=range(1, 7)))
    for total in sums:
        if total.is_estimated:
            amount = _estimate_text(total)
            click.echo(paint(f"≈ {amount} of this is estimated and not yet corrected.", "dim"))
    if any(map(_is_unpriced, totals)):
        click.echo(paint(f"{_UNPRICED} The price of these tokens is unknown.", "dim"))
    if any(total.currency for total in totals) and any(map(_has_no_money, totals)):
        reason = "the work failed, or is counted in time or pieces only"
        click.echo(paint(f"{_NONE} No money is recorded: {reason}.", "dim"))


def _is_unpriced(total: CostTotal) -> bool:
    """Return whether there are tokens but no money for them."""
    return not total.currency and any(total.amounts[unit] for unit in _TOKEN_UNITS)


def _has_no_money(total: CostTotal) -> bool:
    return not total.currency and not _is_unpriced(total)


def _estimate_text(total: CostTotal) -> str:
    """Return how much of a total is estimated: the money, or the tokens, time and pieces."""
    amounts = total.estimated
    if amounts["currency"]:
        return format_money(amounts["currency"], total.currency)
    tokens = sum(amounts[unit] for unit in _TOKEN_UNITS)
    parts = [
        plural(tokens, "token") if tokens else "",
        _seconds(amounts["time"]) if amounts["time"] else "",
        plural(amounts["discrete"], "piece") if amounts["discrete"] else "",
    ]
    return ", ".join(part for part in parts if part)


def _cells(total: CostTotal) -> tuple[str, ...]:
    """Return the cells of a total; ≈ marks the money, or else the first amount, as estimated."""
    amounts = total.amounts
    no_money = _UNPRICED if _is_unpriced(total) else _NONE
    cells = [
        format_money(total.money, total.currency) if total.currency else no_money,
        _count(amounts["tokens.input"]),
        _count(amounts["tokens.output"] + amounts["tokens.reasoning"]),
        _seconds(amounts["time"]) if amounts["time"] else _NONE,
        _count(amounts["discrete"]),
    ]
    if total.is_estimated:
        empty = (_NONE, _UNPRICED)
        column = next((column for column, cell in enumerate(cells) if cell not in empty), 0)
        cells[column] = f"≈ {cells[column]}"
    return (escape_line(total.name) or paint("(none)", "dim"), f"{total.records:,}", *cells)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:,.1f} s"


def _count(amount: int) -> str:
    return f"{amount:,}" if amount else _NONE


def _total_json(grouping: str | None, total: CostTotal) -> dict[str, Any]:
    return {
        **({grouping: total.name} if grouping else {}),
        "records": total.records,
        "currency": total.currency or None,
        "amount_nano": total.money,
        "estimated_nano": total.estimated["currency"],
        "estimated": total.is_estimated,
        "unpriced": _is_unpriced(total),
        "tokens": {unit.removeprefix("tokens."): total.amounts[unit] for unit in _TOKEN_UNITS},
        "time_ns": total.amounts["time"],
        "pieces": total.amounts["discrete"],
    }


def _csv(grouping: Grouping, totals: list[CostTotal]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    units = [unit.replace(".", "_").replace("-", "_") for unit in _TOKEN_UNITS]
    columns = ["records", "currency", "amount", "estimated", *units, "time_ns", "pieces"]
    writer.writerow([grouping, *columns])
    for total in totals:
        writer.writerow(
            [
                _csv_text(total.name),
                total.records,
                _csv_text(total.currency),
                _csv_money(total.money),
                _csv_money(total.estimated["currency"]),
                *(total.amounts[unit] for unit in _TOKEN_UNITS),
                total.amounts["time"],
                total.amounts["discrete"],
            ]
        )
    return text.getvalue()


def _csv_money(nano: int) -> str:
    return format_decimal(nano, min_digits=2)


def _csv_text(text: str) -> str:
    """Return a name that neither a spreadsheet nor a terminal takes for a command."""
    return escape_line(f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text)
