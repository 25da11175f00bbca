"""Which adapter leads to a configured provider."""

from collections.abc import Collection, Mapping
from typing import Final

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.provider import Api, Provider
from modelpact.configuration.config import ProviderSettings
from modelpact.providers.mock import MockProvider
from modelpact.providers.models.anthropic import AnthropicAdapter
from modelpact.providers.models.credentials import resolve_key
from modelpact.providers.models.endpoints import checked_base, find_address
from modelpact.providers.models.openai_chat import OpenAIChatAdapter
from modelpact.providers.models.openai_responses import OpenAIResponsesAdapter
from modelpact.providers.models.upstream import DEFAULT_TIMEOUTS
from modelpact.vocabulary.errors import InputError, UnknownName
from modelpact.wire import Client, Timeouts

_SPOKEN: Final = ("openai-chat", "openai-responses", "anthropic", "mock")
KEY_HEADERS: Final[Mapping[str, str]] = {
    "azure": "api-key",
    "azure-cognitive-services": "api-key",
}
"""Providers that want their key in a header of their own."""


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
    """Return the port to a provider: its API and address from the catalog, its key resolved."""
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
    base_url = checked_base(address.url, name, plain_http, address.variable or "base_url")
    if api == "anthropic":
        return AnthropicAdapter(
            base_url, key, name=name, client=client, timeouts=timeouts, plain_http=plain_http
        )
    key_header = KEY_HEADERS.get(provider.id, "authorization")
    if api == "openai-responses":
        return OpenAIResponsesAdapter(
            base_url,
            key,
            name=name,
            key_header=key_header,
            client=client,
            timeouts=timeouts,
            plain_http=plain_http,
        )

    def limit_for(model: str) -> str | None:
        found = catalog.resolve(name, model, "openai-chat").claim("token-limit-param")
        return found.value if found.support == "native" and isinstance(found.value, str) else None

    return OpenAIChatAdapter(
        base_url,
        key,
        name=name,
        key_header=key_header,
        limit_for=limit_for,
        client=client,
        timeouts=timeouts,
        plain_http=plain_http,
    )


def _api(name: str, provider: Provider, settings: ProviderSettings) -> Api:
    """Return the API to speak: the provider's first, since its address in the catalog is for it."""
    first = provider.apis[0]
    if first in _SPOKEN:
        return first
    for api in provider.apis:
        if api in _SPOKEN and settings.base_url:
            return api
    known = ", ".join(provider.apis)
    raise InputError(
        f"{name}: no adapter speaks {known} there; where it also speaks openai-chat, "
        f"openai-responses or anthropic, set base_url under [providers.{name}] to that address"
    )
