"""Where a provider is: as the configuration says, else the environment, else the catalog."""

import os
from collections.abc import Mapping

import msgspec

from modelpact.catalog.provider import Provider
from modelpact.configuration.config import ProviderSettings


class Address(msgspec.Struct, frozen=True):
    """The address of a provider; `variable` is the one of the environment that it comes from."""

    url: str
    variable: str = ""


def find_address(
    settings: ProviderSettings | None,
    provider: Provider | None,
    environment: Mapping[str, str] | None = None,
) -> Address:
    """Return a provider's address; nothing is checked, and there may be none.

    The variables are those that the official SDKs heed, such as `OPENAI_BASE_URL`.
    """
    env = os.environ if environment is None else environment
    if settings is not None and settings.base_url:
        return Address(settings.base_url)
    if provider is None:
        return Address("")
    said = env.get(provider.base_url_env, "").strip() if provider.base_url_env else ""
    return Address(said, provider.base_url_env) if said else Address(provider.base_url)
