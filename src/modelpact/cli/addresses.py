"""Addresses that the environment gives providers, told wherever requests may go there."""

from collections.abc import Mapping

from modelpact.cli.audit_views import visible
from modelpact.providers.adapters.addresses import Address
from modelpact.providers.upstreams import is_loopback
from modelpact.vocabulary.errors import InputError
from modelpact.wire.origin import Place


def address_words(address: Address) -> str:
    """Say where a provider is, and who says so."""
    return f"at {visible(address.url)} (from {address.variable})"


def address_data(led: Mapping[str, Address]) -> dict[str, dict[str, str]]:
    """Return addresses for programs."""
    return {name: {"url": one.url, "from": one.variable} for name, one in led.items()}


def check_not_ourselves(led: Mapping[str, Address], url: str) -> None:
    """Refuse an address that leads back to the server itself: applications are led here by it."""
    own = Place.parse(url).origin
    for name, one in led.items():
        try:
            there = Place.parse(one.url).origin
        except InputError:
            continue  # one that cannot be used is told when it is asked for
        same = there.host == own.host or (is_loopback(there.host) and is_loopback(own.host))
        if same and there.port == own.port:
            raise InputError(
                f"{one.variable} leads {name} to this gateway itself ({one.url}): unset it here, "
                f"or set base_url under [providers.{name}]; it is for the applications"
            )
