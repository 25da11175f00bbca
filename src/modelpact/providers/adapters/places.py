"""Addresses of upstreams: TLS, but on this machine and where the operator said otherwise."""

from collections.abc import Collection

from modelpact.providers.upstreams import is_loopback
from modelpact.vocabulary.errors import InputError
from modelpact.wire.origin import Place


def checked_base(
    base_url: str, name: str, plain_http: Collection[str] = (), field: str = "base_url"
) -> str:
    """Return an address without its last slash, or say why it cannot be used.

    `plain_http` are the hosts that the operator allowed to be reached without TLS; `field` is where
    the address was found.
    """
    if not base_url:
        raise InputError(f"{name}: no address: set base_url under [providers.{name}]")
    try:
        place = Place.parse(base_url)
    except InputError as error:
        raise InputError(f"{name}: {field}: {error}") from None
    if "?" in place.target or "#" in base_url:
        raise InputError(f"{name}: {field}: expected an address without query and fragment")
    host = place.origin.host
    allowed = {one.strip().lower().strip("[]") for one in plain_http}
    if place.origin.scheme == "http" and not is_loopback(host) and host not in allowed:
        raise InputError(
            f"{name}: {field}: http://{host} would carry prompts and keys in the clear: use "
            "https://, or allow this host by name"
        )
    return base_url.rstrip("/")
