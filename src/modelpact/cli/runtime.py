"""The provider runtime of a command, and the provider addresses that the environment sets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from modelpact.cli.options import identity_folder
from modelpact.cli.render.terminal import escape, warn
from modelpact.configuration import Configuration
from modelpact.ledger.ledger import Ledger
from modelpact.providers.contract import Registration, profile_in_force
from modelpact.providers.models.endpoints import ProviderAddress
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import ModelpactError

if TYPE_CHECKING:
    from modelpact.providers.http import HttpTransport

T = TypeVar("T")
_NO_CERTIFICATE = (
    "you have no runtime certificate to authenticate with; make one with `modelpact identity issue NAME --kind runtime`"
)


def make_runtime(ledger: Ledger, configuration: Configuration, name: str = "runtime") -> Runtime:
    """Return a runtime with the profile and the plain-HTTP hosts of the configuration."""
    return Runtime(
        ledger,
        name=name,
        profile=profile_in_force(configuration),
        plain_http=frozenset(configuration.contract.plain_http),
    )


async def run_connected(ledger: Ledger, configuration: Configuration, work: Callable[[Runtime], Awaitable[T]]) -> T:
    """Do work with a runtime that can call remote providers; warn of each it could not notify."""
    runtime = make_runtime(ledger, configuration)
    async with _transport(configuration) as (transport, reason):
        runtime.transports.default = transport
        warned: set[str] = set()

        def report(registration: Registration, error: str) -> None:
            if registration.base_url and registration.id not in warned:
                warned.add(registration.id)
                warn(f"{registration.id} was not notified: {reason or error}")

        runtime.notifier.on_unnotified = report
        return await work(runtime)


@asynccontextmanager
async def _transport(configuration: Configuration) -> "AsyncIterator[tuple[HttpTransport | None, str]]":
    """Yield a transport with the user's newest runtime certificate, or None and the reason."""
    from modelpact.identity import Authority, Identity, Trust
    from modelpact.identity.files import utc_now
    from modelpact.providers.http import HttpTransport

    folder = identity_folder() / "authority"
    if not folder.is_dir():
        yield None, _NO_CERTIFICATE
        return
    try:
        authority = Authority.open(folder)
        names = [
            record.name
            for record in authority.list()
            if record.kind == "runtime" and record.current and record.state(utc_now()) == "valid"
        ]
    except ModelpactError as error:
        yield None, str(error)
        return
    if not names:
        yield None, _NO_CERTIFICATE
        return
    transport = HttpTransport(
        Identity(authority.identity_file(names[-1])),
        Trust(authority.certificate, crl=authority.crl),
        plain_http=frozenset(configuration.contract.plain_http),
    )
    try:
        yield transport, ""
    finally:
        await transport.aclose()


def override_text(address: ProviderAddress) -> str:
    """Return where a provider is and which environment variable says so."""
    return f"at {escape(address.url)} (from {address.variable})"


def overrides_json(overrides: Mapping[str, ProviderAddress]) -> dict[str, dict[str, str]]:
    """Return the addresses that the environment sets, by provider, as JSON data."""
    return {name: {"url": address.url, "from": address.variable} for name, address in overrides.items()}
