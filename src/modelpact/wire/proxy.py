"""Proxy settings: which proxy leads to an origin (`HTTPS_PROXY`, `NO_PROXY` and so on)."""

import os
import re
from collections.abc import Mapping
from typing import Final

from modelpact.vocabulary.errors import InputError
from modelpact.wire.url import Origin, is_loopback

_PROXY: Final = re.compile(r"(http://)(?:[^/@]*@)?([^/@]+)/?", re.IGNORECASE)


def environment_proxies() -> dict[str, str]:
    """Return the proxies of the environment by scheme; `no` has the hosts without a proxy."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return {}
    import urllib.request

    return urllib.request.getproxies_environment()


def proxy_for(origin: Origin, proxies: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for an origin, or None. This machine never needs one."""
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    if not proxy or is_loopback(origin.host) or _is_excluded(origin, proxies.get("no", "")):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not _PROXY.fullmatch(proxy):
        raise InputError(
            f"the proxy for {origin} is not of the form http://host:port: correct "
            f"{origin.scheme.upper()}_PROXY, or name the host in NO_PROXY"
        )
    return proxy


def _is_excluded(origin: Origin, no_proxy: str) -> bool:
    """Tell whether a list such as `example.com, .internal, host:8080` names the origin."""
    for entry in no_proxy.lower().replace(" ", "").split(","):
        name, _, port = entry.removeprefix("*").removeprefix(".").partition(":")
        if entry == "*" or (
            name
            and f".{origin.host}".endswith(f".{name}")
            and (not port or port == str(origin.port))
        ):
            return True
    return False


def hide_credentials(proxy: str) -> str:
    """Return the URL of a proxy without user name and password."""
    return _PROXY.sub(r"\1\2", proxy)
