"""Options, input and output that commands share."""

import codecs
import json
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.provider import APIS
from modelpact.catalog.resolution import Resolution
from modelpact.configuration import Configuration, load_configuration
from modelpact.needs.need import Needs
from modelpact.vocabulary.capability import ALIASES, CAPABILITIES
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName, brief
from modelpact.vocabulary.strict_json import parse_json

F = TypeVar("F", bound=Callable[..., Any])

_MAX_JSON_BYTES: Final = 16 * 1024 * 1024
_MAX_COMPLETIONS: Final = 200
_NANO: Final = 1_000_000_000
_MAX_DOLLARS: Final = 1_000_000_000


class CommandGroup(click.Group):
    """A group that lists each command with its whole summary; click would cut it to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None:
                rows.append((name, command.get_short_help_str(limit=sys.maxsize)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Dollars(click.ParamType):  # type: ignore[type-arg]
    """An amount in dollars, such as `12.50`; its value is in nano-dollars."""

    name = "USD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the amount."""
        if isinstance(value, int):
            return value
        try:
            amount = Decimal(str(value).removeprefix("$"))
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or not 0 <= amount <= _MAX_DOLLARS:
            self.fail(f"{value!r:.40} is not an amount in dollars, such as 12.50", param, ctx)
        return int(amount * _NANO)


def config_option(function: F) -> F:
    """Add `--config FILE`."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The modelpact.toml to use. By default the nearest one, searched from the current "
        "folder upward.",
    )(function)


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def json_only_option(function: F) -> F:
    """Add `--json` to a command that prints nothing else."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Has no effect: the output is always JSON."
    )(function)


def need_option(help_text: str) -> Callable[[F], F]:
    """Add `--need NEEDS`, which may be repeated."""

    def add(function: F) -> F:
        return click.option(
            "--need",
            "needs",
            multiple=True,
            metavar="NEEDS",
            help=help_text,
            shell_complete=complete_needs,
        )(function)

    return add


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete PROVIDER/MODEL in the shell."""
    from modelpact.catalog.catalog import default_catalog

    catalog = default_catalog()
    provider, slash, start = incomplete.partition("/")
    if not slash:
        ids = (known.id for known in catalog.providers.all)
        return sorted(f"{name}/" for name in ids if name.startswith(provider))
    names = sorted(name for name in catalog.models.names(provider) if name.startswith(start))
    return [f"{provider}/{name}" for name in names[:_MAX_COMPLETIONS]]


def complete_needs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the last of several needs in the shell."""
    done, comma, last = incomplete.rpartition(",")
    names = (*CAPABILITIES, *ALIASES)
    return sorted(f"{done}{comma}{name}" for name in names if name.startswith(last.strip()))


def load_catalog(config_path: Path | None) -> tuple[Configuration, Catalog]:
    """Load the configuration, and the catalog with its models and the ledger's evidence."""
    configuration = load_configuration(config_path)
    return configuration, catalog_with_evidence(configuration)


def catalog_with_evidence(configuration: Configuration) -> Catalog:
    """Return the catalog with the ledger's evidence; an unreadable ledger is only a warning."""
    catalog = configuration.catalog()
    url = configuration.store_url()
    if url.startswith("sqlite:") and not Path(url.removeprefix("sqlite:")).is_file():
        return catalog
    # Only a command that has a ledger pays for these imports.
    from modelpact.evidence import read_evidence
    from modelpact.ledger.reader import LedgerReader

    try:
        with LedgerReader.open(url) as reader:
            evidence = read_evidence(reader)
    except (ModelpactError, msgspec.MsgspecError) as error:
        click.echo(f"modelpact: evidence is ignored: {error}", err=True)
        return catalog
    return catalog.extended(evidence=evidence) if evidence else catalog


def resolve_target(catalog: Catalog, target: str, api: str | None = None) -> Resolution:
    """Resolve PROVIDER/MODEL, or raise an error that names the nearest providers."""
    if not target.strip().isprintable():  # the terminal would obey control characters in it
        raise InputError(
            f"{brief(target)} is not a target: write PROVIDER/MODEL with visible characters only"
        )
    provider, model = catalog.split(target)
    if catalog.find_provider(provider) is None:
        names = (*catalog.configured, *catalog.providers.names)
        raise UnknownName("provider", provider, names, "`modelpact vocabulary providers` lists all")
    if api is not None and api not in APIS:
        raise UnknownName("API", api, APIS, f"there are {', '.join(APIS)}")
    return catalog.resolve(provider, model, api)


def read_needs(texts: Sequence[str]) -> Needs:
    """Read the values of `--need`; an empty one is an error."""
    needs = Needs([need for text in texts for need in Needs(text)])
    if texts and not needs:
        raise InputError('--need is empty: write needs such as "tools,context>=200k"')
    return needs


def print_json(data: Any) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def read_json(file: str | None) -> Any:
    """Read JSON from a file, or from standard input if the file is `-` or None."""
    name, data = read_input(file, _MAX_JSON_BYTES, f"{_MAX_JSON_BYTES // 1024 // 1024} MiB")
    return parse_json(data.removeprefix(codecs.BOM_UTF8), name)


def read_input(file: str | None, max_bytes: int, limit: str) -> tuple[str, bytes]:
    """Read a file or standard input; return its name for messages, and its content.

    `limit` is the size limit in words, for the error.
    """
    name = "standard input" if file in (None, "-") else str(file)
    try:
        if file in (None, "-"):
            data = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with Path(str(file)).open("rb") as stream:
                data = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read: {reason}") from None
    if len(data) > max_bytes:
        raise InputError(f"{name} is larger than {limit}")
    return name, data
