"""Which proxy an origin is reached by, as the environment says (`HTTPS_PROXY`, `NO_PROXY`, …)."""

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Final

from modelpact.vocabulary.errors import InputError
from modelpact.wire.url import Origin

_PROXY: Final = re.compile(r"(http://)(?:[^/@]*@)?([^/@]+)/?", re.IGNORECASE)


def from_environment() -> dict[str, str]:
    """Return the proxies of the environment by scheme, and under `no` what goes without."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return {}
    import urllib.request

    return urllib.request.getproxies_environment()


def proxy_for(origin: Origin, proxies: Mapping[str, str]) -> str | None:
    """Return the proxy's URL, or None. What is on this machine is never behind one."""
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    if not proxy or _is_local(origin.host) or _goes_without(origin, proxies.get("no", "")):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not _PROXY.fullmatch(proxy):
        raise InputError(
            f"the proxy for {origin} is not of the form http://host:port: correct "
            f"{origin.scheme.upper()}_PROXY, or name the host in NO_PROXY"
        )
    return proxy


def _goes_without(origin: Origin, named: str) -> bool:
    """Tell whether a list such as `example.com, .internal, host:8080` names the origin."""
    for one in named.lower().replace(" ", "").split(","):
        name, _, port = one.removeprefix("*").removeprefix(".").partition(":")
        if one == "*" or (
            name
            and f".{origin.host}".endswith(f".{name}")
            and (not port or port == str(origin.port))
        ):
            return True
    return False


def shown(proxy: str) -> str:
    """Return a proxy's URL without its user and password."""
    return _PROXY.sub(r"\1\2", proxy)


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
