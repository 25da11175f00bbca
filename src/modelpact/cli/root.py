"""The root command: each subcommand is imported when it is called."""

import importlib
import sys
from typing import Any, Final

import click

from modelpact._version import __version__
from modelpact.cli.render import colours
from modelpact.vocabulary.errors import ModelpactError

COMMANDS: Final = {
    "show": "What a model can do, and how that is known.",
    "models": "Find models that meet needs.",
    "diff": "What changes on a switch from one model to another.",
    "check": "Negotiate every workload of a modelpact.toml.",
    "negotiate": "Answer whether a model meets needs; JSON in and out for the dialects.",
    "emulate": "Apply emulation strategies to a conversation; JSON in and out.",
    "vocabulary": "The capabilities, the dialects' names for them, the providers.",
    "catalog": "The catalog's own tools: build, verify, diff, update, conflicts, extract.",
    "identity": "Keys and certificates: init, issue, rotate, revoke, list.",
    "completion": "Print the shell completion script.",
}


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"modelpact.cli.{cmd_name}")
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


def main(args: list[str] | None = None) -> Any:
    """Run the command line; errors that are the user's are told without a traceback."""
    try:
        return root.main(args=args, prog_name="modelpact")
    except ModelpactError as error:
        click.echo(f"modelpact: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
