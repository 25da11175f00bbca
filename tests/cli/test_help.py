"""Help texts: each fits into 80 columns and nothing in it is cut."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from modelpact.cli.main import COMMANDS, root


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name)


PATHS = list(_commands(root))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(path) or "modelpact")
def test_help_fits_80_columns_and_is_never_cut(path: tuple[str, ...]) -> None:
    for option in ("--help", "-h"):
        result = CliRunner().invoke(root, [*path, option], prog_name="modelpact", terminal_width=80)
        assert result.exit_code == 0
        lines = result.output.splitlines()
        assert [line for line in lines if len(line) > 80] == []
        text = "\n".join(line for line in lines if not line.startswith("Usage: "))
        assert "..." not in text


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(path) or "modelpact")
def test_every_option_is_explained(path: tuple[str, ...]) -> None:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    assert command.help
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_every_command_is_one_line_of_the_list() -> None:
    result = CliRunner().invoke(root, ["--help"], terminal_width=80)
    listed = result.output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
