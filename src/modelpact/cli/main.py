"""The root command. It imports the module of a subcommand only when that is called."""

import contextlib
import importlib
import io
import os
import sys
from typing import Final

import click

from modelpact._version import __version__
from modelpact.cli.render.terminal import use_colour, warn
from modelpact.vocabulary.errors import ModelpactError, nearest

COMMANDS: Final = {
    "show": "Show what a model can do, with the evidence.",
    "models": "Find models that meet needs.",
    "diff": "Show what changes if you switch models.",
    "check": "Negotiate every workload of a modelpact.toml.",
    "probe": "Test what a model can do with a few real calls.",
    "chat": "Chat with models; every switch is negotiated first.",
    "negotiate": "Check whether a model meets needs; also JSON dialects.",
    "emulate": "Apply emulation strategies to a conversation (JSON).",
    "gate": "Decide on the dispatch of one OpenWOP node (JSON).",
    "lint": "Check JSON Schemas against the vendors' strict modes.",
    "vocabulary": "List the capabilities with their dialect names, or providers.",
    "catalog": "Build, verify, compare and update the catalog.",
    "audit": "Show, follow, verify and move the events of the ledger.",
    "costs": "Add up costs by provider, model, intent, worker or function.",
    "providers": "List, show, register and deregister providers.",
    "invocations": "List, show, answer and cancel invocations.",
    "identity": "Manage signing keys and certificates.",
    "serve": "Run the gateway (OpenAI and Anthropic APIs) and OpenWOP host.",
    "keys": "Manage the client keys of the gateway.",
    "completion": "Print the completion script of a shell.",
}
"""The commands in the order of the help text, each with its summary."""

_MODULES: Final = {
    "chat": "chat.app",
    "check": "commands.negotiate",
    "completion": "main",
    "diff": "commands.models",
    "emulate": "commands.negotiate",
    "gate": "commands.negotiate",
    "show": "commands.models",
    "vocabulary": "commands.catalog",
}
"""The module of each command that is not in the module of its own name in `commands`."""


class LazyGroup(click.Group):
    """The group of all commands, each in a module that is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        name = _MODULES.get(cmd_name, f"commands.{cmd_name}")
        module = importlib.import_module(f"modelpact.cli.{name}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        command.short_help = COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments; an unknown one is an error with the nearest names."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest(args[0], COMMANDS)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
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

    Say what the work needs. modelpact says whether a model can do it, and how it knows, before
    you spend a token.

    Exit codes: 0 fits, 1 does not fit, 2 wrong usage or input.
    """
    ctx.color = use_colour()


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell.

    For bash, write it to ~/.local/share/bash-completion/completions/modelpact.
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    classes = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(classes[shell](root, {}, "modelpact", "_MODELPACT_COMPLETE").source())


def main(args: list[str] | None = None) -> None:
    """Run the command line. The user's errors are printed without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _run(args)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone. The exit code stands; a second flush at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _print_error(f"standard output cannot be written: {error.strerror or error}")
        code = 2
    sys.exit(code)


def _run(args: list[str] | None) -> int:
    """Run a command and return its exit code."""
    try:
        root.main(args=args, prog_name="modelpact")
    except ModelpactError as error:
        _print_error(str(error))
        return 2
    except BrokenPipeError:
        return 1
    except OSError as error:
        _print_error(f"{error.filename or 'input or output'}: {error.strerror or error}")
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _print_error(message: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        warn(message)
