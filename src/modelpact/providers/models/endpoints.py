"""Addresses of providers, the header of their keys, and where plain HTTP is allowed."""

import os
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from modelpact.catalog.provider import ProviderEntry
from modelpact.configuration.config import ProviderSettings
from modelpact.needs.requests import RequestApi
from modelpact.providers.contract import ContractError
from modelpact.vocabulary.errors import InputError
from modelpact.wire.url import Url, is_loopback

API_PATHS: Final[Mapping[RequestApi, str]] = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/v1/messages",
    "embeddings": "/embeddings",
}
"""The path of each API under the address that `api_root` returns."""
ANTHROPIC_VERSION: Final = "2023-06-01"
"""The version of Anthropic's API that requests name unless the caller names another."""
_KEY_HEADERS: Final[Mapping[str, str]] = {"azure": "api-key", "azure-cognitive-services": "api-key"}
"""Providers that expect the key in a header of their own."""


class ProviderAddress(msgspec.Struct, frozen=True):
    """The address of a provider; `variable` is the environment variable that it comes from."""

    url: str
    variable: str = ""


def find_address(
    settings: ProviderSettings | None, provider: ProviderEntry | None, environment: Mapping[str, str] | None = None
) -> ProviderAddress:
    """Return the address of a provider, unchecked; its URL is empty if there is none.

    It comes from the settings, else from the variable that the official SDKs read, such as
    `OPENAI_BASE_URL`, else from the catalog.
    """
    env = os.environ if environment is None else environment
    if settings is not None and settings.base_url:
        return ProviderAddress(settings.base_url)
    if provider is None:
        return ProviderAddress("")
    variable = provider.base_url_env
    url = env.get(variable, "").strip() if variable else ""
    return ProviderAddress(url, variable) if url else ProviderAddress(provider.base_url)


def check_base_url(base_url: str, name: str, plain_http: Collection[str] = (), field: str = "base_url") -> str:
    """Return an address without its trailing slash; raise `InputError` if it cannot be used.

    `plain_http` has the hosts that may be reached without TLS. `field` is the setting or variable
    that the address comes from.
    """
    if not base_url:
        raise InputError(f"{name}: no address: set base_url under [providers.{name}]")
    try:
        url = Url.parse(base_url)
    except InputError as error:
        raise InputError(f"{name}: {field}: {error}") from None
    if "?" in url.target or "#" in base_url:
        raise InputError(f"{name}: {field}: expected an address without query and fragment")
    host = url.origin.host
    if url.origin.scheme == "http" and not is_loopback(host) and not _allowed(host, plain_http):
        raise InputError(
            f"{name}: {field}: http://{host} would send prompts and keys unencrypted: use "
            "https://, or allow this host by name with `plain_http` in [contract]"
        )
    return base_url.rstrip("/")


def check_plain_http(url: str, plain_http: Collection[str]) -> str | None:
    """Return the host that is reached without TLS because the operator allowed it, or None.

    Raise `ContractError` with the code `plain_http` if the host is neither allowed nor local.
    """
    if not url.lower().startswith("http:"):
        return None
    host = Url.parse(url).origin.host
    if is_loopback(host):
        return None
    if _allowed(host, plain_http):
        return host
    raise ContractError(
        "plain_http",
        f"{host} would be reached without TLS: use https, or allow it "
        'by name with `plain_http = ["HOST"]` in [contract]',
    )


def api_root(base_url: str, api: str) -> str:
    """Return the address that the path of an API is appended to."""
    return base_url.removesuffix("/v1") if api == "anthropic" else base_url


def key_header_name(api: str, provider_id: str = "") -> str:
    """Return the header in which a provider expects its key."""
    if api == "anthropic":
        return "x-api-key"
    return _KEY_HEADERS.get(provider_id, "authorization")


def authentication_header(name: str, key: str) -> tuple[str, str]:
    """Return the header that sends a key."""
    return name, f"Bearer {key}" if name == "authorization" else key


def _allowed(host: str, plain_http: Collection[str]) -> bool:
    return host in {name.strip().lower().strip("[]") for name in plain_http}
