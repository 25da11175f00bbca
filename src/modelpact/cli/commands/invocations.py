"""`modelpact invocations`: the work that providers were given, and the inbox of human ones."""

import asyncio
import time
from typing import Any, Final

import click
import msgspec

from modelpact.cli.options import (
    CommandGroup,
    LedgerSource,
    default_option,
    json_option,
    ledger_options,
    print_json,
    print_result,
    read_json,
)
from modelpact.cli.render.terminal import clip, escape, escape_line, format_time, paint, table, warn
from modelpact.cli.runtime import make_runtime, run_connected
from modelpact.ledger.costs import CostRecord
from modelpact.providers.contract import ContractError, Invocation
from modelpact.providers.runtime.lookup import (
    MAX_LISTED_EVENTS,
    find_cost,
    find_events,
    find_invocation,
    list_invocations,
)
from modelpact.providers.runtime.registry import list_providers
from modelpact.vocabulary.money import format_money
from modelpact.vocabulary.strict_json import parse_json

_STATE_COLOURS: Final = {"open": "yellow", "completed": "green", "failed": "red", "cancelled": "dim"}
_SECOND: Final = 1_000_000_000
_UNIT_NAMES: Final = {"discrete": "pieces"}


@click.group("invocations", cls=CommandGroup)
def invocations_command() -> None:
    """List, show, answer and cancel invocations.

    An invocation is one piece of work that was given to a provider. Invocations of human providers
    wait in an inbox until a person answers them.
    """


@invocations_command.command("list")
@default_option(
    "--state",
    type=click.Choice(["open", "completed", "failed", "cancelled", "all"]),
    default="open",
    help="Only invocations in this state.",
)
@click.option("--provider", default="", help="Only invocations of this provider.")
@default_option("--limit", type=click.IntRange(1, 10_000), default=100, help="The most invocations to show.")
@ledger_options
@json_option
def list_command(state: str, provider: str, limit: int, source: LedgerSource, as_json: bool) -> None:
    """List invocations, the newest first.

    By default those that are open.
    """
    with source.open_reader() as reader:
        state_filter = "" if state == "all" else state
        invocations, truncated = list_invocations(reader, state_filter, provider, limit)
        inboxes = {registration.id for registration, _ in list_providers(reader) if registration.in_inbox}
    if truncated:
        warn(f"only the latest {MAX_LISTED_EVENTS:,} events of each gateway were searched")
    if as_json:
        print_json(
            [{**msgspec.to_builtins(invocation), "inbox": invocation.provider in inboxes} for invocation in invocations]
        )
        return
    if not invocations:
        click.echo("There are no invocations." if state == "all" else f"None are {state}.")
        return
    rows = [
        (
            invocation.id,
            paint(invocation.state, _STATE_COLOURS[invocation.state]),
            invocation.provider,
            escape_line(invocation.attribution.model),
            escape_line(invocation.capability),
            "here" if invocation.provider in inboxes else "by provider",
            format_time(invocation.created)[:19],
            _deadline(invocation),
            clip(escape_line(msgspec.json.encode(invocation.input).decode()), 48),
        )
        for invocation in invocations
    ]
    header = ("invocation", "state", "provider", "model", "asked", "answered", "since", "until")
    click.echo(table(rows, (*header, "input")))


@invocations_command.command("show")
@click.argument("invocation_id", metavar="INVOCATION")
@ledger_options
@json_option
def show_command(invocation_id: str, source: LedgerSource, as_json: bool) -> None:
    """Show an invocation with its cost and its events."""
    with source.open_reader() as reader:
        invocation = find_invocation(reader, invocation_id)
        cost = find_cost(reader, invocation)
        events = find_events(reader, invocation)
    if as_json:
        listed = [{"event": event.id, "type": event.type} for event in events]
        data = msgspec.to_builtins(invocation)
        print_json({**data, "cost": cost and cost.to_json(), "events": listed})
        return
    attribution = invocation.attribution
    from_gateway = _is_gateway_call(invocation)
    facts = [
        ("invocation", invocation.id),
        ("state", paint(invocation.state, _STATE_COLOURS[invocation.state])),
        ("provider", invocation.provider),
        ("model", escape_line(attribution.model)),
        ("function", escape_line(attribution.function)),
        ("worker", escape_line(attribution.worker)),
        ("capability", f"{escape_line(invocation.capability)} ({invocation.semantics})"),
        ("registered", invocation.registered),
        ("since", format_time(invocation.created)[:19]),
        ("until", _deadline(invocation) or ("" if from_gateway else "no deadline")),
        ("reminders", "" if from_gateway else str(invocation.reminders)),
        ("answered", _answered(invocation)),
        ("cost", "" if cost is None else _cost_text(cost)),
    ]
    click.echo(table([fact for fact in facts if fact[1]]))
    for name, value in (("input", invocation.input), ("output", invocation.output)):
        if value is not None:
            text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            click.echo(f"\n{paint(name, 'bold')}\n{escape(text)}")
    if invocation.error:
        click.echo(f"\n{paint('error', 'bold')}\n{escape(invocation.error)}")
    click.echo(f"\n{paint('events', 'bold')}")
    click.echo(table([(format_time(event.time), event.id, event.type) for event in events]))


@invocations_command.command("answer")
@click.argument("invocation_id", metavar="INVOCATION")
@click.argument("answer", required=False)
@click.option("--file", "file", metavar="FILE", help="Read the answer from FILE; - is stdin.")
@click.option("--error", "error", default="", help="Answer that it cannot be done, and why.")
@ledger_options
@json_option
def answer_command(
    invocation_id: str, answer: str | None, file: str | None, error: str, source: LedgerSource, as_json: bool
) -> None:
    """Answer an invocation of a human provider with JSON.

    Exits with 1 if the invocation is no longer open.
    """
    if (answer is not None) + (file is not None) + bool(error) != 1:
        raise click.UsageError("Give one of ANSWER, --file and --error.")
    output: Any = None
    if answer is not None:
        output = parse_json(answer.encode("utf-8", "surrogateescape"), "the answer")
    elif file is not None:
        output = read_json(file)
    with source.open_ledger() as ledger:
        if _is_gateway_call(find_invocation(ledger, invocation_id)):
            raise _failed(f"{invocation_id} is a request at a gateway: its provider answers it")
        runtime = make_runtime(ledger, source.configuration())
        try:
            settled = asyncio.run(runtime.inbox.answer(invocation_id, output, error=error))
        except ContractError as rejected:
            if rejected.code != "settled":
                raise
            raise _failed(str(rejected)) from None
    if (settled.error or "").startswith("deadline:"):
        raise _already_settled(settled)
    _print_settled(settled, as_json)


@invocations_command.command("cancel")
@click.argument("invocation_id", metavar="INVOCATION")
@click.option("--reason", default="cancelled by an operator", help="The reason, for the record.")
@ledger_options
@json_option
def cancel_command(invocation_id: str, reason: str, source: LedgerSource, as_json: bool) -> None:
    """Cancel an open invocation and notify its provider.

    Exits with 1 if the invocation is no longer open.
    """
    with source.open_ledger() as ledger:
        invocation = find_invocation(ledger, invocation_id)
        if invocation.state != "open":
            raise _already_settled(invocation)
        if _is_gateway_call(invocation):
            raise _failed(f"{invocation.id} is a request at a gateway: it ends with its client")
        configuration = source.configuration()
        settled = asyncio.run(
            run_connected(ledger, configuration, lambda runtime: runtime.cancel(invocation_id, reason))
        )
    _print_settled(settled, as_json)


def _print_settled(invocation: Invocation, as_json: bool) -> None:
    text = f"{invocation.id} is {invocation.state} ({invocation.settled_by})."
    print_result(msgspec.to_builtins(invocation), text, as_json=as_json)


def _is_gateway_call(invocation: Invocation) -> bool:
    """Return whether a gateway opened it; the id of such an invocation is that of its event."""
    return invocation.id == invocation.event


def _already_settled(invocation: Invocation) -> SystemExit:
    reason = f": {invocation.error}" if invocation.error else ""
    return _failed(f"{invocation.id} is already {invocation.state}{reason}")


def _failed(message: str) -> SystemExit:
    warn(message)
    return SystemExit(1)


def _answered(invocation: Invocation) -> str:
    """Return who answered and when; empty if open, or if only the error of a call knows."""
    if invocation.state == "open":
        return ""
    if invocation.answered is None:
        return "" if _is_gateway_call(invocation) else "never: the runtime ended it"
    return f"by {invocation.provider}, {format_time(invocation.answered)[:19]}"


def _cost_text(cost: CostRecord) -> str:
    parts = []
    for line in cost.lines:
        if line.unit == "currency":
            parts.append(format_money(line.amount, line.currency))
        elif line.unit == "time":
            parts.append(f"{line.amount / _SECOND:,.3f} s")
        else:
            parts.append(f"{line.amount:,} {_UNIT_NAMES.get(line.unit, line.unit)}")
    return ", ".join(parts) + (" (estimated)" if cost.estimate else "")


def _deadline(invocation: Invocation) -> str:
    deadline = invocation.deadline
    if deadline is None:
        return ""
    overdue = invocation.state == "open" and deadline < time.time_ns()
    return format_time(deadline)[:19] + (paint(" overdue", "red") if overdue else "")
