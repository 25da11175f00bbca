"""Upstreams over plain HTTP: on this machine, or where the operator allowed the host by name."""

import ipaddress
import os
from collections.abc import Collection, Mapping

import msgspec

from modelpact.catalog.provider import Provider
from modelpact.configuration.config import ProviderSettings
from modelpact.providers.contract import ContractError
from modelpact.vocabulary.errors import InputError
from modelpact.wire.url import Url


def plain_upstream(url: str, allowed: Collection[str]) -> str | None:
    """Return the host that is reached without TLS because the operator allowed it, if that is so.

    Raises `plain_http` where neither that nor this machine is meant.
    """
    if not url.lower().startswith("http:"):
        return None
    from modelpact.wire.url import Url  # only who has an address pays for this import

    host = Url.parse(url).origin.host
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
        place = Url.parse(base_url)
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


class ProviderAddress(msgspec.Struct, frozen=True):
    """The address of a provider; `variable` is the one of the environment that it comes from."""

    url: str
    variable: str = ""


def find_address(
    settings: ProviderSettings | None,
    provider: Provider | None,
    environment: Mapping[str, str] | None = None,
) -> ProviderAddress:
    """Return a provider's address; nothing is checked, and there may be none.

    The variables are those that the official SDKs heed, such as `OPENAI_BASE_URL`.
    """
    env = os.environ if environment is None else environment
    if settings is not None and settings.base_url:
        return ProviderAddress(settings.base_url)
    if provider is None:
        return ProviderAddress("")
    said = env.get(provider.base_url_env, "").strip() if provider.base_url_env else ""
    return (
        ProviderAddress(said, provider.base_url_env) if said else ProviderAddress(provider.base_url)
    )
