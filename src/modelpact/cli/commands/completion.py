"""`modelpact completion`: the shell completion script."""

import click
from click.shell_completion import get_completion_class

from modelpact.vocabulary.errors import InputError


@click.command("completion", short_help="Print the shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    For bash: modelpact completion bash > ~/.local/share/bash-completion/completions/modelpact
    """
    from modelpact.cli.main import root

    kind = get_completion_class(shell)
    if kind is None:
        raise InputError(f"no completion for {shell}")
    click.echo(kind(root, {}, "modelpact", "_MODELPACT_COMPLETE").source())
