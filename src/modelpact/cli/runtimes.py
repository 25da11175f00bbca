"""The runtime that a command works with: the configuration's policy, the user's certificate."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from modelpact.catalog.paths import user_folder
from modelpact.configuration import Configuration, load_configuration
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Registration, profile_in_force
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import ModelpactError

if TYPE_CHECKING:
    from modelpact.providers.http import HttpTransport

T = TypeVar("T")
_NO_IDENTITY = (
    "there is no certificate of a runtime to show it; make one with "
    "`modelpact identity issue NAME --kind runtime`"
)


def make_runtime(ledger: Ledger, config_path: Path | None) -> Runtime:
    """Return a runtime under the profile and with the plain hosts of the configuration."""
    return _runtime(ledger, load_configuration(config_path))


def _runtime(ledger: Ledger, settings: Configuration) -> Runtime:
    return Runtime(
        ledger,
        profile=profile_in_force(settings),
        plain_http=frozenset(settings.contract.plain_http),
    )


async def with_reach(
    ledger: Ledger, config_path: Path | None, work: Callable[[Runtime], Awaitable[T]]
) -> T:
    """Do work with a runtime that reaches remote providers; say which of them it could not tell."""
    settings = load_configuration(config_path)
    runtime = _runtime(ledger, settings)
    async with _carrier(settings) as (carrier, missing):
        runtime.transports.default = carrier
        named: set[str] = set()

        def not_told(registration: Registration, why: str) -> None:
            if registration.base_url and registration.id not in named:
                named.add(registration.id)
                said = missing or why
                click.echo(f"modelpact: {registration.id} was not told: {said}", err=True)

        runtime.notifier.on_unnotified = not_told
        return await work(runtime)


@asynccontextmanager
async def _carrier(settings: Configuration) -> "AsyncIterator[tuple[HttpTransport | None, str]]":
    """Give a carrier with the user's newest certificate of a runtime, or why there is none."""
    from modelpact.identity import Authority, Identity, Trust
    from modelpact.identity.files import utc_now
    from modelpact.providers.http import HttpTransport

    folder = user_folder() / "identity" / "authority"
    if not folder.is_dir():
        yield None, _NO_IDENTITY
        return
    try:
        authority = Authority.open(folder)
        names = [
            one.name
            for one in authority.list()
            if one.kind == "runtime" and one.current and one.state(utc_now()) == "valid"
        ]
    except ModelpactError as error:
        yield None, str(error)
        return
    if not names:
        yield None, _NO_IDENTITY
        return
    carrier = HttpTransport(
        Identity(authority.identity_file(names[-1])),
        Trust(authority.certificate, crl=authority.crl),
        plain_http=frozenset(settings.contract.plain_http),
    )
    try:
        yield carrier, ""
    finally:
        await carrier.aclose()
