"""Opens the ledger that a command works on, and the user's own keys."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelpact.catalog.snapshot import user_folder
from modelpact.configuration import load_configuration
from modelpact.vocabulary.errors import InputError, brief

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
        help="The ledger: sqlite:FILE or postgresql://HOST/DATABASE. By default the one of "
        "modelpact.toml, else modelpact.db in your data folder.",
    )(function)


def open_reader(store: str | None, config_path: Path | None) -> "LedgerReader":
    """Open the ledger for reading."""
    from modelpact.ledger.reader import LedgerReader

    return LedgerReader.open(_store_url(store, config_path))


def open_ledger(store: str | None, config_path: Path | None) -> "Ledger":
    """Open the ledger for writing, and create it if there is none."""
    from modelpact.ledger.ledger import Ledger

    return Ledger.open(_store_url(store, config_path))


def _store_url(store: str | None, config_path: Path | None) -> str:
    return store or load_configuration(config_path).store_url()


def check_printable(name: str) -> str:
    """Return the name of an event or an envelope, or raise if it has control characters."""
    if not name.isprintable():
        raise InputError(f"{brief(name)} is not a name: it has characters that cannot be seen")
    return name


def authority_folder() -> Path:
    """Return the folder of the user's certificate authority; it may not exist."""
    return user_folder() / "identity" / "authority"


def user_keyring() -> "Keyring | None":
    """Return the user's keyring, or None if there is none."""
    from modelpact.identity import Keyring

    folder = user_folder() / "identity" / "keyring"
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
