"""Upstreams over plain HTTP: on this machine, or where the operator allowed the host by name."""

import ipaddress
from collections.abc import Collection

from modelpact.providers.contract import ContractError


def plain_upstream(url: str, allowed: Collection[str]) -> str | None:
    """Return the host that is reached without TLS because the operator allowed it, if that is so.

    Raises `plain_http` where neither that nor this machine is meant.
    """
    if not url.lower().startswith("http:"):
        return None
    from modelpact.wire.origin import Place  # only who has an address pays for this import

    host = Place.parse(url).origin.host
    if is_loopback(host):
        return None
    if host in {name.lower() for name in allowed}:
        return host
    raise ContractError(
        "plain_http",
        f"{host} would be reached without TLS: use https, or allow it "
        'by name with `plain_http = ["HOST"]` in [contract]',
    )


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
