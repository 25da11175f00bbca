"""`modelpact invocations`: what was asked of providers, and the inbox of the human ones."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.cli.options import config_option, json_option, print_json, read_json
from modelpact.cli.paths import open_ledger, open_reader, store_option
from modelpact.cli.render.audit import one_line, visible
from modelpact.cli.render.tables import clip, paint, table
from modelpact.cli.runtimes import make_runtime, with_reach
from modelpact.cli.times import show_time
from modelpact.ledger.costs import CostRecord
from modelpact.ledger.event import Event
from modelpact.ledger.money import format_money
from modelpact.ledger.reader import EVENT_COLUMNS, LedgerReader, read_event
from modelpact.providers.contract import ContractError, Invocation
from modelpact.providers.runtime.event_storage import MAX_LISTED_EVENTS
from modelpact.providers.runtime.lookup import find_cost, find_invocation, list_invocations
from modelpact.providers.runtime.registration import in_inbox
from modelpact.providers.runtime.registry import list_providers
from modelpact.vocabulary.strict_json import parse_json

_COLOURS: Final = {"open": "yellow", "completed": "green", "failed": "red", "cancelled": "dim"}
_SECOND: Final = 1_000_000_000
_MOST_EVENTS: Final = 1_000
_UNITS: Final = {"discrete": "pieces"}


@click.group("invocations", short_help="Invocations and the human inbox.")
def command() -> None:
    """See what was asked of providers; answer what was asked of people."""


@command.command("list")
@click.option(
    "--state",
    type=click.Choice(["open", "completed", "failed", "cancelled", "all"]),
    default="open",
    show_default=True,
)
@click.option("--provider", default="", help="Only those of this provider.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@store_option
@config_option
@json_option
def list_command(
    state: str,
    provider: str,
    limit: int,
    store: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """List invocations, the newest first; by default those that wait for an answer."""
    with open_reader(store, config_path) as reader:
        wanted = "" if state == "all" else state
        listed, cut = list_invocations(reader, wanted, provider, limit)
        desks = {one.id for one, _ in list_providers(reader) if in_inbox(one)}
    if cut:
        latest = f"{MAX_LISTED_EVENTS:,} events"
        told = f"of gateways' requests, only those in their latest {latest} are here"
        click.echo(f"modelpact: {told}", err=True)
    if as_json:
        print_json([{**_as_json(one), "inbox": one.provider in desks} for one in listed])
        return
    if not listed:
        click.echo("There are none." if state == "all" else f"None are {state}.")
        return
    rows = [
        (
            one.id,
            paint(one.state, _COLOURS[one.state]),
            one.provider,
            one_line(one.attribution.model),
            one_line(one.capability),
            "here" if one.provider in desks else "by provider",
            _when(one.created),
            _due(one),
            clip(one_line(msgspec.json.encode(one.input).decode()), 48),
        )
        for one in listed
    ]
    header = ("invocation", "state", "provider", "model", "asked", "answered", "since", "until")
    click.echo(table(rows, (*header, "input")))


@command.command("show")
@click.argument("invocation")
@store_option
@config_option
@json_option
def show_command(
    invocation: str, store: str | None, config_path: Path | None, as_json: bool
) -> None:
    """Show an invocation whole, with its cost and its events."""
    with open_reader(store, config_path) as reader:
        found = find_invocation(reader, invocation)
        cost = find_cost(reader, found)
        events = _events(reader, found)
    if as_json:
        told = [{"event": one.id, "type": one.type} for one in events]
        print_json({**_as_json(found), "cost": cost and cost.to_json(), "events": told})
        return
    who = found.attribution
    facts = [
        ("invocation", found.id),
        ("state", paint(found.state, _COLOURS[found.state])),
        ("provider", found.provider),
        ("model", one_line(who.model)),
        ("function", one_line(who.function)),
        ("worker", one_line(who.worker)),
        ("capability", f"{one_line(found.capability)} ({found.semantics})"),
        ("registered", found.registered),
        ("since", _when(found.created)),
        ("until", _due(found) or ("" if _at_gateway(found) else "no deadline")),
        ("reminders", "" if _at_gateway(found) else str(found.reminders)),
        ("answered", _answered(found)),
        ("cost", "" if cost is None else _spent(cost)),
    ]
    click.echo(table([fact for fact in facts if fact[1]]))
    for name, value in (("input", found.input), ("output", found.output)):
        if value is not None:
            shown = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            click.echo(f"\n{paint(name, 'bold')}\n{visible(shown)}")
    if found.error:
        click.echo(f"\n{paint('error', 'bold')}\n{visible(found.error)}")
    click.echo(f"\n{paint('events', 'bold')}")
    click.echo(table([(show_time(one.time), one.id, one.type) for one in events]))


@command.command("answer")
@click.argument("invocation")
@click.argument("answer", required=False)
@click.option("--file", "file", metavar="FILE", help="Read the answer from FILE, or `-`.")
@click.option("--error", "error", default="", help="Answer that it cannot be done, and why.")
@store_option
@config_option
@json_option
def answer_command(
    invocation: str,
    answer: str | None,
    file: str | None,
    error: str,
    store: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Answer what was asked of a human, with JSON; exit 1 if nobody waits for it any more."""
    if (answer is not None) + (file is not None) + bool(error) != 1:
        raise click.UsageError("Give one of ANSWER, --file and --error.")
    output: Any = None
    if answer is not None:
        output = parse_json(answer.encode("utf-8", "surrogateescape"), "the answer")
    elif file is not None:
        output = read_json(file)
    with open_ledger(store, config_path) as ledger:
        if _at_gateway(find_invocation(ledger, invocation)):
            raise _told(f"{invocation} is a request at a gateway: its provider answers it")
        runtime = make_runtime(ledger, config_path)
        try:
            done = asyncio.run(runtime.inbox.answer(invocation, output, error=error))
        except ContractError as refused:
            if refused.code != "settled":
                raise
            raise _told(str(refused)) from None
    if (done.error or "").startswith("deadline:"):
        raise _too_late(done)
    if as_json:
        print_json(_as_json(done))
    else:
        click.echo(f"{done.id} is {done.state} ({done.settled_by}).")


@command.command("cancel")
@click.argument("invocation")
@click.option("--reason", default="cancelled by an operator", help="Why, for the record.")
@store_option
@config_option
@json_option
def cancel_command(
    invocation: str, reason: str, store: str | None, config_path: Path | None, as_json: bool
) -> None:
    """Cancel an open invocation and tell its provider; exit 1 if it is settled already."""
    with open_ledger(store, config_path) as ledger:
        before = find_invocation(ledger, invocation)
        if _at_gateway(before) and before.state == "open":
            raise _told(f"{before.id} is a request at a gateway: it ends with its client")
        if before.state != "open":
            raise _too_late(before)
        done = asyncio.run(
            with_reach(ledger, config_path, lambda runtime: runtime.cancel(invocation, reason))
        )
    if as_json:
        print_json(_as_json(done))
    else:
        click.echo(f"{done.id} is {done.state} ({done.settled_by}).")


def _at_gateway(found: Invocation) -> bool:
    return found.id == found.event


def _too_late(found: Invocation) -> SystemExit:
    why = f": {found.error}" if found.error else ""
    return _told(f"{found.id} is {found.state} already{why}")


def _told(message: str) -> SystemExit:
    click.echo(f"modelpact: {visible(message)}", err=True)
    return SystemExit(1)


def _events(reader: LedgerReader, found: Invocation) -> list[Event]:
    """Return the events of an invocation: what opened it, and what that and its end caused."""
    names = (found.event, found.settled_by or found.event)
    rows = reader.read(
        f"SELECT {EVENT_COLUMNS} FROM events WHERE envelope = ? "
        "AND (sequence = ? OR cause = ? OR cause = ?) ORDER BY sequence LIMIT ?",
        (found.envelope, int(found.event.rpartition(":")[2]), *names, _MOST_EVENTS),
    )
    return [read_event(row) for row in rows]


def _answered(found: Invocation) -> str:
    if found.state == "open":
        return ""
    if found.answered is None:
        if _at_gateway(found):
            return ""  # the error says whether it was the provider who gave it
        return "never: the runtime ended it"
    return f"by {found.provider}, {_when(found.answered)}"


def _spent(cost: CostRecord) -> str:
    """Write a cost in a line."""
    shown = []
    for line in cost.lines:
        if line.unit == "currency":
            shown.append(format_money(line.amount, line.currency))
        elif line.unit == "time":
            shown.append(f"{line.amount / _SECOND:,.3f} s")
        else:
            shown.append(f"{line.amount:,} {_UNITS.get(line.unit, line.unit)}")
    return ", ".join(shown) + (" (estimated)" if cost.estimate else "")


def _when(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds / _SECOND, UTC):%Y-%m-%d %H:%M:%S}"


def _due(one: Invocation) -> str:
    if one.deadline is None:
        return ""
    late = one.state == "open" and one.deadline / _SECOND < datetime.now(UTC).timestamp()
    return _when(one.deadline) + (paint(" overdue", "red") if late else "")


def _as_json(one: Invocation) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(one)
    return data
