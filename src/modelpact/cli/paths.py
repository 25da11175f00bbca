"""Which ledger a command works on, and with whose keys."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelpact.catalog.paths import user_folder
from modelpact.cli.render.audit import visible
from modelpact.configuration import Configuration, load_configuration
from modelpact.providers.models.endpoints import ProviderAddress
from modelpact.vocabulary.errors import InputError, brief
from modelpact.wire.url import Url, is_loopback

if TYPE_CHECKING:
    from modelpact.identity import Keyring, PublicKeys
    from modelpact.ledger.ledger import Ledger
    from modelpact.ledger.reader import LedgerReader

F = TypeVar("F", bound=Callable[..., Any])


def store_option(function: F) -> F:
    """Add `--store URL`."""
    return click.option(
        "--store",
        "store",
        metavar="URL",
        help="The ledger: sqlite:FILE or postgresql://…; by default that of modelpact.toml, else "
        "the one in the user's data folder.",
    )(function)


def store_url(store: str | None, config_path: Path | None) -> str:
    """Return the URL of the ledger: the option's, else the configuration's, else the user's."""
    return store or configured_store(load_configuration(config_path))


def configured_store(configuration: Configuration) -> str:
    """Return the URL of the configuration's ledger, else of the user's."""
    return configuration.store_url()


def check_argument(name: str) -> str:
    """Return the name of an event or an envelope, or raise: no store has others."""
    if not name.isprintable():
        raise InputError(f"{brief(name)} has characters that a name cannot have")
    return name


def open_reader(store: str | None, config_path: Path | None) -> "LedgerReader":
    """Open the ledger for reading."""
    from modelpact.ledger.reader import LedgerReader

    return LedgerReader.open(store_url(store, config_path))


def open_ledger(store: str | None, config_path: Path | None) -> "Ledger":
    """Open the ledger for writing; it is made where there is none."""
    from modelpact.ledger.ledger import Ledger

    return Ledger.open(store_url(store, config_path))


def user_keyring() -> "Keyring | None":
    """Return the user's own keyring, or None where there is none."""
    from modelpact.identity import Keyring

    folder = user_folder() / "identity" / "keyring"
    return Keyring.open(folder) if folder.is_dir() else None


def trusted_keys(files: tuple[Path, ...]) -> "list[PublicKeys] | None":
    """Return the keys in files, else the user's own, else None."""
    from modelpact.ledger.verify.keys import read_keys

    found = []
    for file in files:
        try:
            found.append(read_keys(file.read_bytes(), file))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    own = None if found else user_keyring()
    return found or ([own.public_keys] if own else None)


def address_words(address: ProviderAddress) -> str:
    """Say where a provider is, and who says so."""
    return f"at {visible(address.url)} (from {address.variable})"


def address_data(led: Mapping[str, ProviderAddress]) -> dict[str, dict[str, str]]:
    """Return addresses for programs."""
    return {name: {"url": one.url, "from": one.variable} for name, one in led.items()}


def check_not_ourselves(led: Mapping[str, ProviderAddress], url: str) -> None:
    """Refuse an address that leads back to the server itself: applications are led here by it."""
    own = Url.parse(url).origin
    for name, one in led.items():
        try:
            there = Url.parse(one.url).origin
        except InputError:
            continue  # one that cannot be used is told when it is asked for
        same = there.host == own.host or (is_loopback(there.host) and is_loopback(own.host))
        if same and there.port == own.port:
            raise InputError(
                f"{one.variable} leads {name} to this gateway itself ({one.url}): unset it here, "
                f"or set base_url under [providers.{name}]; it is for the applications"
            )
