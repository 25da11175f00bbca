"""URLs of requests, parsed strictly, and the origins that connections lead to."""

import ipaddress
import re
from typing import Final

import msgspec

from modelpact.vocabulary.errors import InputError, brief

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<authority>(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<host>[a-z0-9._\-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?)(?P<target>/[!$-;=?-\[\]_a-z|~^{}`]*|\?[!$-;=?-\[\]_a-z|~^{}`]*|)"
    r"(?:#.*)?",
    re.IGNORECASE,
)


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
