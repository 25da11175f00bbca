"""Where a request goes: an URL taken apart, strictly."""

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
    """Scheme, host and port: what a connection can be used again for."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Url(msgspec.Struct, frozen=True):
    """An URL as HTTP/1.1 needs it."""

    origin: Origin
    target: str
    head: bytes
    """The rest of a request's first line, and its `host`."""

    @classmethod
    def parse(cls, url: str) -> "Url":
        """Take an URL apart, or say what is wrong with it without repeating its query."""
        found = _URL.fullmatch(url)
        if found is None:
            shown = brief(url.partition("?")[0])
            if "@" in url.partition("?")[0]:
                raise InputError("an URL with a user name in it: send credentials in a header")
            raise InputError(
                f"{shown} cannot be requested: expected http:// or https://, a host and a path, "
                "with other characters percent-encoded"
            )
        scheme = found["scheme"].lower()
        port = int(found["port"]) if found["port"] else (443 if scheme == "https" else 80)
        if not 0 < port < 65_536:
            raise InputError(f"port {port}: expected 1 to 65535")
        host = (found["v6"] or found["host"]).lower()
        target = found["target"]
        if not target.startswith("/"):
            target = f"/{target}"
        head = f"{target} HTTP/1.1\r\nhost: {found['authority'].lower()}\r\n"
        return cls(Origin(scheme, host, port), target, head.encode("ascii"))
