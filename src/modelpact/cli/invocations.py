"""`modelpact invocations`: what was asked of providers, and the inbox of the human ones."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from modelpact.cli.common import config_option, json_option, print_json, read_json
from modelpact.cli.render import clip, paint, table
from modelpact.cli.runtimes import make_runtime, with_reach
from modelpact.cli.stores import open_ledger, open_reader, store_option
from modelpact.providers.contract import ContractError, Invocation, Registration, Reply
from modelpact.providers.human import human_cost
from modelpact.providers.invocations import find_invocation, list_invocations
from modelpact.providers.judging import Judge
from modelpact.providers.runtime import Runtime
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.strict_json import parse_json

_COLOURS: Final = {"open": "yellow", "completed": "green", "failed": "red", "cancelled": "dim"}
_SECOND: Final = 1_000_000_000


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
        listed = list_invocations(reader, "" if state == "all" else state, provider, limit)
    if as_json:
        print_json([_as_json(one) for one in listed])
        return
    if not listed:
        click.echo("There are none." if state == "all" else f"None are {state}.")
        return
    rows = [
        (
            one.id,
            paint(one.state, _COLOURS[one.state]),
            one.provider,
            one.capability,
            _when(one.created),
            _due(one),
            clip(msgspec.json.encode(one.input).decode(), 48),
        )
        for one in listed
    ]
    click.echo(table(rows, ("invocation", "state", "provider", "asked", "since", "until", "input")))


@command.command("show")
@click.argument("invocation")
@store_option
@config_option
@json_option
def show_command(
    invocation: str, store: str | None, config_path: Path | None, as_json: bool
) -> None:
    """Show an invocation whole, with its events."""
    with open_reader(store, config_path) as reader:
        found = find_invocation(reader, invocation)
    if as_json:
        print_json(_as_json(found))
        return
    facts = [
        ("invocation", found.id),
        ("state", paint(found.state, _COLOURS[found.state])),
        ("provider", found.provider),
        ("capability", f"{found.capability} ({found.semantics})"),
        ("since", _when(found.created)),
        ("until", _due(found) or "no deadline"),
        ("reminders", str(found.reminders)),
        ("opened by", found.event),
        ("settled by", found.settled_by or ""),
    ]
    click.echo(table([fact for fact in facts if fact[1]]))
    for name, value in (("input", found.input), ("output", found.output)):
        if value is not None:
            shown = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            click.echo(f"\n{paint(name, 'bold')}\n{shown}")
    if found.error:
        click.echo(f"\n{paint('error', 'bold')}\n{found.error}")


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
        runtime = make_runtime(ledger, config_path)
        found = runtime.find(invocation)
        registration = _human(runtime, found)
        if not error:
            offer = registration.offer(found.capability)
            _, wrong = Judge().read(registration, offer, "output", output)
            if wrong:
                raise InputError(f"the answer does not fit: {'; '.join(wrong)}")
        if found.state != "open":
            raise _too_late(found)
        cost = human_cost(registration, found, ledger.clock())
        done = asyncio.run(runtime.take(registration, found, Reply(found.id, output, error, cost)))
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
        if before.state != "open":
            raise _too_late(before)
        done = asyncio.run(
            with_reach(ledger, config_path, lambda runtime: runtime.cancel(invocation, reason))
        )
    if as_json:
        print_json(_as_json(done))
    else:
        click.echo(f"{done.id} is {done.state} ({done.settled_by}).")


def _human(runtime: Runtime, found: Invocation) -> Registration:
    """Return the registration of a human who answers from the inbox."""
    known = runtime.registry.find(found.provider)
    if known is None or known[0].category != "human" or known[0].base_url:
        raise ContractError(
            "not_yours", f"{found.id} is answered by its provider, {found.provider}, itself"
        )
    return known[0]


def _too_late(found: Invocation) -> SystemExit:
    why = f": {found.error}" if found.error else ""
    click.echo(f"modelpact: {found.id} is {found.state} already{why}", err=True)
    return SystemExit(1)


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
