"""`modelpact completion`: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

from modelpact.vocabulary.errors import InputError


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    For bash, write it to ~/.local/share/bash-completion/completions/modelpact.
    """
    from modelpact.cli.main import root

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise InputError(f"there is no completion for {shell}")
    click.echo(completion_class(root, {}, "modelpact", "_MODELPACT_COMPLETE").source())
