"""Endpoints: the servers that requests are forwarded to, each with the provider's own key."""

from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from modelpact.catalog.provider import Api
from modelpact.configuration.config import ProviderSettings
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.needs.requests import RequestApi
from modelpact.providers.models.credentials import ApiKey
from modelpact.providers.models.endpoints import (
    ANTHROPIC_VERSION,
    API_PATHS,
    api_root,
    authentication_header,
    check_base_url,
    key_header_name,
)
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.vocabulary.redaction import REDACTED
from modelpact.wire import Client, ClientResponse, PoolLimits, RawHeaders, Timeouts
from modelpact.wire.headers import Headers

_FORWARDED_HEADERS: Final = ("anthropic-version", "anthropic-beta", "openai-beta")
"""Headers of clients that upstreams get."""


class Endpoint(msgspec.Struct, frozen=True):
    """The server of a provider: its addresses, its key, and how long it may take."""

    urls: dict[RequestApi, str]
    headers: tuple[tuple[str, str], ...]
    client: Client
    timeouts: Timeouts
    stream_usage: bool
    """Whether the server supports `stream_options.include_usage`."""
    key: ApiKey
    connections: int

    def request_headers(self, client_headers: Headers) -> tuple[tuple[str, str], ...]:
        """Return the headers to send: the gateway's own, and the few of the client's that apply."""
        forwarded = [(name, value) for name in _FORWARDED_HEADERS if (value := client_headers.get(name))]
        if not forwarded:
            return self.headers
        names = {name for name, _ in forwarded}
        return (*(pair for pair in self.headers if pair[0] not in names), *forwarded)

    def send(self, api: RequestApi, headers: RawHeaders, body: bytes) -> Coroutine[Any, Any, ClientResponse]:
        """Send a request; return the response as soon as its head has come."""
        url = self.urls[api]
        return self.client.request("POST", url, headers, body, timeouts=self.timeouts)

    def without_key(self, content: bytes) -> bytes:
        """Return content of the server without the key: some servers repeat it in errors."""
        key = self.key.reveal()
        return content.replace(key.encode(), REDACTED.encode()) if key else content


class Endpoints:
    """The endpoints of a configuration, each with connections of its own."""

    def __init__(self, models: ModelCaller) -> None:
        self.models = models
        self._endpoints: dict[tuple[str, str], Endpoint] = {}
        self._retired: list[Client] = []
        self._replaced = False

    def find(self, provider: str, api: Api | str) -> Endpoint:
        """Return the endpoint of a provider for an API."""
        key = (provider, "anthropic" if api == "anthropic" else "openai")
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            endpoint = self._endpoints[key] = self._make(*key)
            if self._replaced:
                endpoint.client.retire()
        return endpoint

    async def take_over(self, old: "Endpoints") -> None:
        """Take the connections of all endpoints that did not change.

        The others are retired: their connections are closed when they are not in use.
        """
        old._replaced = True
        self._retired += old._retired
        for key, endpoint in old._endpoints.items():
            try:
                new = self._make(*key)
            except ModelpactError:
                new = None
            if new is not None and msgspec.structs.replace(new, client=endpoint.client) == endpoint:
                self._endpoints[key] = endpoint
            else:
                endpoint.client.retire()
                self._retired.append(endpoint.client)
        for client in [client for client in self._retired if not client.connections]:
            self._retired.remove(client)
            await client.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        clients = [endpoint.client for endpoint in self._endpoints.values()]
        for client in (*clients, *self._retired):
            await client.aclose()

    def _make(self, name: str, api: str) -> Endpoint:
        configuration = self.models.configuration
        settings = configuration.providers.get(name) or ProviderSettings()
        provider = self.models.catalog.find_provider(name)
        if provider is None:
            raise InputError(f"{name}: no such provider")
        key = self.models.key(name)
        address = self.models.address(name)
        plain_http = configuration.contract.plain_http
        base = check_base_url(address.url, name, plain_http, address.variable or "base_url")
        headers = [("content-type", "application/json"), ("user-agent", "modelpact")]
        if api == "anthropic":
            headers.append(("anthropic-version", ANTHROPIC_VERSION))
        if key:
            key_header = key_header_name(api, provider.id)
            headers.append(authentication_header(key_header, key.reveal()))
        base = api_root(base, api)
        limits = PoolLimits(connections=settings.connections, waiting=settings.connections)
        return Endpoint(
            {request_api: f"{base}{path}" for request_api, path in API_PATHS.items()},
            tuple(headers),
            Client(limits=limits),
            Timeouts(connect=10.0, write=60.0, first_byte=settings.timeout, between_bytes=settings.timeout),
            settings.stream_usage,
            key,
            settings.connections,
        )
