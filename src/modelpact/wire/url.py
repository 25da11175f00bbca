"""URLs of requests, parsed strictly, their origins, and the proxies that lead to them."""

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from modelpact.vocabulary.errors import InputError, brief

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<authority>(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<host>[a-z0-9._\-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?)(?P<target>/[!$-;=?-\[\]_a-z|~^{}`]*|\?[!$-;=?-\[\]_a-z|~^{}`]*|)"
    r"(?:#.*)?",
    re.IGNORECASE,
)
_PROXY: Final = re.compile(r"(http://)(?:[^/@]*@)?([^/@]+)/?", re.IGNORECASE)


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port: connections to the same origin can be reused."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Url(msgspec.Struct, frozen=True):
    """A URL in the parts that an HTTP/1.1 request needs."""

    origin: Origin
    target: str
    request_line_end: bytes
    """The request line after the method, and the `host` header."""

    @classmethod
    def parse(cls, url: str) -> "Url":
        """Parse a URL. Errors do not repeat its query, which may contain secrets."""
        match = _URL.fullmatch(url)
        if match is None:
            address = url.partition("?")[0]
            if "@" in address:
                raise InputError("the URL has a user name: send credentials in a header")
            raise InputError(
                f"{brief(address)} cannot be requested: expected http:// or https://, a host and "
                "a path, with other characters percent-encoded"
            )
        scheme = match["scheme"].lower()
        port = int(match["port"]) if match["port"] else (443 if scheme == "https" else 80)
        if not 0 < port < 65_536:
            raise InputError(f"port {port}: expected 1 to 65535")
        host = (match["v6"] or match["host"]).lower()
        target = match["target"]
        if not target.startswith("/"):
            target = f"/{target}"
        head = f"{target} HTTP/1.1\r\nhost: {match['authority'].lower()}\r\n"
        return cls(Origin(scheme, host, port), target, head.encode("ascii"))


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


def hide_credentials(proxy: str) -> str:
    """Return the URL of a proxy without user name and password."""
    return _PROXY.sub(r"\1\2", proxy)


def _is_excluded(origin: Origin, no_proxy: str) -> bool:
    """Tell whether a list such as `example.com, .internal, host:8080` names the origin."""
    for entry in no_proxy.lower().replace(" ", "").split(","):
        name, _, port = entry.removeprefix("*").removeprefix(".").partition(":")
        if entry == "*" or (name and f".{origin.host}".endswith(f".{name}") and (not port or port == str(origin.port))):
            return True
    return False
