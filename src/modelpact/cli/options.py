"""What commands share: options, the ledger and the catalog they open, input and output."""

import codecs
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.provider import APIS
from modelpact.catalog.resolution import Resolution
from modelpact.catalog.snapshot import user_folder
from modelpact.cli.render.terminal import warn
from modelpact.configuration import Configuration, load_configuration
from modelpact.needs.need import Needs
from modelpact.vocabulary.capability import ALIASES, CAPABILITIES
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName, brief
from modelpact.vocabulary.strict_json import parse_json

if TYPE_CHECKING:
    from modelpact.identity import Keyring, PublicKeys
    from modelpact.ledger.ledger import Ledger
    from modelpact.ledger.reader import LedgerReader

F = TypeVar("F", bound=Callable[..., Any])

_MAX_JSON_BYTES: Final = 16 * 1024 * 1024
_MAX_COMPLETIONS: Final = 200
_NANO: Final = 1_000_000_000
_MAX_DOLLARS: Final = 1_000_000_000
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_PERIOD: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_STORE_HELP: Final = (
    "The ledger: sqlite:FILE or postgresql://HOST/DATABASE. By default the one of modelpact.toml, "
    "else modelpact.db in your data folder."
)


class LedgerSource(NamedTuple):
    """The ledger and the configuration that `--store` and `--config` name."""

    store: str | None
    config_path: Path | None

    def configuration(self) -> Configuration:
        """Load the configuration."""
        return load_configuration(self.config_path)

    def open_reader(self) -> "LedgerReader":
        """Open the ledger for reading."""
        from modelpact.ledger.reader import LedgerReader

        return LedgerReader.open(self.store or self.configuration().store_url())

    def open_ledger(self) -> "Ledger":
        """Open the ledger for writing, and create it if there is none."""
        from modelpact.ledger.ledger import Ledger

        return Ledger.open(self.store or self.configuration().store_url())


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


config_option: Final = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The modelpact.toml to use. By default the nearest one, searched from the current folder upward.",
)
default_option: Final = partial(click.option, show_default=True)
"""Adds an option whose default is shown in the help text."""
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def ledger_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--store URL` and `--config FILE`; the command gets both as `source`."""

    @click.option("--store", metavar="URL", help=_STORE_HELP)
    @config_option
    @wraps(function)
    def command(*args: Any, store: str | None, config_path: Path | None, **options: Any) -> None:
        function(*args, source=LedgerSource(store, config_path), **options)

    return command


def format_option(*formats: str) -> Callable[[F], F]:
    """Add `--format`; the first format is the default."""
    return default_option(
        "--format", "output_format", type=click.Choice(formats), default=formats[0], help="The output format."
    )


def need_option(help_text: str) -> Callable[[F], F]:
    """Add `--need NEEDS`, which may be repeated."""
    return click.option(
        "--need", "needs", multiple=True, metavar="NEEDS", help=help_text, shell_complete=complete_needs
    )


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete PROVIDER/MODEL in the shell."""
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
        warn(f"evidence is ignored: {error}")
        return catalog
    return catalog.extended(evidence=evidence) if evidence else catalog


def resolve_target(catalog: Catalog, target: str, api: str | None = None) -> Resolution:
    """Resolve PROVIDER/MODEL, or raise an error that names the nearest providers."""
    if not target.strip().isprintable():  # the terminal would obey control characters in it
        raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL with visible characters only")
    provider, model = catalog.split(target)
    check_provider(catalog, provider)
    if api is not None and api not in APIS:
        raise UnknownName("API", api, APIS, f"there are {', '.join(APIS)}")
    return catalog.resolve(provider, model, api)


def check_provider(catalog: Catalog, provider: str) -> None:
    """Raise an error that names the nearest providers if a provider is unknown."""
    if catalog.find_provider(provider) is None:
        names = (*catalog.configured, *catalog.providers.names)
        raise UnknownName("provider", provider, names, "`modelpact vocabulary providers` lists all")


def read_needs(texts: Sequence[str]) -> Needs:
    """Read the values of `--need`; an empty one is an error."""
    needs = Needs([need for text in texts for need in Needs(text)])
    if texts and not needs:
        raise InputError('--need is empty: write needs such as "tools,context>=200k"')
    return needs


def parse_time(text: str, now: int | None = None) -> int:
    """Return the nanoseconds of `24h` (ago), `7d`, a date, or an ISO time, UTC by default."""
    period = _PERIOD.fullmatch(text.strip())
    if period:
        end = time.time_ns() if now is None else now
        return end - int(period[1]) * _UNIT_SECONDS[period[2]] * _NANO
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(f"{brief(text)} is not a time: write 24h, 7d, 2026-11-01 or 2026-11-01T12:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def check_printable(name: str) -> str:
    """Return the name of an event or an envelope, or raise if it has control characters."""
    if not name.isprintable():
        raise InputError(f"{brief(name)} is not a name: it has characters that cannot be seen")
    return name


def identity_folder() -> Path:
    """Return the folder of the user's keys and certificates; it may not exist."""
    return user_folder() / "identity"


def user_keyring() -> "Keyring | None":
    """Return the user's keyring, or None if there is none."""
    from modelpact.identity import Keyring

    folder = identity_folder() / "keyring"
    return Keyring.open(folder) if folder.is_dir() else None


def trusted_keys(files: tuple[Path, ...]) -> "list[PublicKeys] | None":
    """Return the keys in the files, else the user's own, else None."""
    from modelpact.identity import PublicKeys

    keys = []
    for file in files:
        try:
            keys.append(PublicKeys.parse(file.read_bytes(), file))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    if not keys:
        keyring = user_keyring()
        return None if keyring is None else [keyring.public_keys]
    return keys


def print_json(data: Any) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def print_result(data: Any, text: str, *, as_json: bool) -> None:
    """Print a result: the data as JSON, or the text."""
    if as_json:
        print_json(data)
    else:
        click.echo(text)


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
