"""The root command: each subcommand is imported when it is called."""

import contextlib
import importlib
import io
import os
import sys
from typing import Final

import click

from modelpact._version import __version__
from modelpact.cli.render.tables import colours
from modelpact.vocabulary.errors import ModelpactError

COMMANDS: Final = {
    "show": "What a model can do, and how that is known.",
    "models": "Find models that meet needs.",
    "diff": "What changes on a switch from one model to another.",
    "check": "Negotiate every workload of a modelpact.toml.",
    "probe": "Find out for real what a model does, and keep the evidence.",
    "chat": "Talk to models; every switch is negotiated first, and can be refused.",
    "negotiate": "Answer whether a model meets needs; JSON in and out for the dialects.",
    "emulate": "Apply emulation strategies to a conversation; JSON in and out.",
    "gate": "Decide on one dispatch of an OpenWOP node; JSON in and out.",
    "lint": "Check JSON Schemas against what vendors take in strict outputs.",
    "vocabulary": "The capabilities, the dialects' names for them, the providers.",
    "catalog": "The catalog's own tools: build, verify, diff, update, conflicts, extract.",
    "audit": "The ledger's events: show, tail, verify, export, import, archive.",
    "costs": "What was spent, by provider, model, intent, worker or function.",
    "providers": "Registered providers: list, show, register, deregister.",
    "invocations": "Invocations and the human inbox: list, show, answer, cancel.",
    "identity": "Keys and certificates: init, issue, rotate, revoke, list.",
    "serve": "Serve the gateway (OpenAI and Anthropic APIs) and the OpenWOP host.",
    "keys": "Client keys of the gateway: create, list, revoke.",
    "completion": "Print the shell completion script.",
}

_MODULES: Final = {"chat": "modelpact.cli.chat.app"}


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(
            _MODULES.get(cmd_name, f"modelpact.cli.commands.{cmd_name}")
        )
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest commands when one is not known."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from modelpact.vocabulary.errors import nearest

            close = nearest(args[0], COMMANDS)
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="modelpact")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Capability negotiation for LLM applications.

    Say what the work needs; learn before a token is spent whether a model can do it, and how that
    is known. Exit codes: 0 fits, 1 does not fit, 2 wrong usage or input.
    """
    ctx.color = colours()


def main(args: list[str] | None = None) -> None:
    """Run the command line; errors that are the user's are told without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _run(args)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has left: what was decided stands, the rest goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _tell(f"standard output cannot be written: {error.strerror or error}")
        code = 2
    sys.exit(code)


def _run(args: list[str] | None) -> int:
    try:
        root.main(args=args, prog_name="modelpact")
    except ModelpactError as error:
        _tell(str(error))
        return 2
    except BrokenPipeError:
        return 1
    except OSError as error:
        _tell(f"{error.filename or 'input or output'}: {error.strerror or error}")
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _tell(message: str) -> None:
    from modelpact.cli.render.audit import visible  # only errors pay for this import

    with contextlib.suppress(OSError, ValueError):
        click.echo(f"modelpact: {visible(message)}", err=True)
