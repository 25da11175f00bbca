"""Upstreams over plain HTTP: on this machine, or where the operator allowed the host by name."""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from modelpact.providers.contract import ContractError


def plain_upstream(url: str, allowed: Collection[str]) -> str | None:
    """Return the host that is reached without TLS because the operator allowed it, if that is so.

    Raises `plain_http` where neither that nor this machine is meant.
    """
    if not url.lower().startswith("http:"):
        return None
    host = (urlsplit(url).hostname or "").lower()
    if _is_loopback(host):
        return None
    if host in {name.lower() for name in allowed}:
        return host
    raise ContractError(
        "plain_http",
        f"{host or 'an URL without a host'} would be reached without TLS: use https, or allow it "
        'by name with `plain_http = ["HOST"]` in [contract]',
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
