"""Makes the adapter of a configured provider."""

from collections.abc import Collection, Mapping
from typing import Final

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.provider import Api, ProviderEntry
from modelpact.configuration.config import ProviderSettings
from modelpact.providers.mock import MockProvider
from modelpact.providers.models.adapters import (
    AdapterOptions,
    AnthropicAdapter,
    OpenAIChatAdapter,
    OpenAIResponsesAdapter,
)
from modelpact.providers.models.credentials import resolve_key
from modelpact.providers.models.endpoints import check_base_url, find_address, key_header_name
from modelpact.providers.models.upstream import DEFAULT_TIMEOUTS
from modelpact.vocabulary.errors import InputError, UnknownName
from modelpact.wire import Client, Timeouts

_APIS: Final = ("openai-chat", "openai-responses", "anthropic", "mock")


def adapter_for(
    name: str,
    settings: ProviderSettings | None = None,
    *,
    catalog: Catalog | None = None,
    client: Client | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    plain_http: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
) -> OpenAIChatAdapter | OpenAIResponsesAdapter | AnthropicAdapter | MockProvider:
    """Return the adapter of a provider, with API and address from the catalog and its key."""
    catalog = catalog or default_catalog()
    settings = settings or ProviderSettings()
    provider = catalog.providers.find(settings.kind or name) or catalog.find_provider(name)
    if provider is None:
        raise UnknownName("provider", settings.kind or name, catalog.providers.names)
    api = _api(name, provider, settings)
    if api == "mock":
        return MockProvider(known=lambda model: catalog.resolve(name, model))
    key = resolve_key(settings, provider, name=name, environment=environment)
    address = find_address(settings, provider, environment)
    base_url = check_base_url(address.url, name, plain_http, address.variable or "base_url")
    options: AdapterOptions = {
        "name": name,
        "key_header": key_header_name(api, provider.id),
        "timeouts": timeouts,
        "plain_http": plain_http,
    }
    if client is not None:
        options["client"] = client
    if api == "anthropic":
        return AnthropicAdapter(base_url, key, **options)
    if api == "openai-responses":
        return OpenAIResponsesAdapter(base_url, key, **options)

    def token_limit_name(model: str) -> str | None:
        claim = catalog.resolve(name, model, "openai-chat").claim("token-limit-param")
        return claim.value if claim.support == "native" and isinstance(claim.value, str) else None

    return OpenAIChatAdapter(base_url, key, token_limit_names=token_limit_name, **options)


def _api(name: str, provider: ProviderEntry, settings: ProviderSettings) -> Api:
    """Return the API to use: the provider's first, because the catalog's address is for that."""
    first = provider.apis[0]
    if first in _APIS:
        return first
    for api in provider.apis:
        if api in _APIS and settings.base_url:
            return api
    raise InputError(
        f"{name}: no adapter for its API {', '.join(provider.apis)}: if it also has openai-chat, "
        f"openai-responses or anthropic, set base_url under [providers.{name}] to that address"
    )
