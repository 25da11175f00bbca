"""Upstreams: where requests are forwarded to, with the provider's own key and nobody else's."""

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

_PASSED: Final = ("anthropic-version", "anthropic-beta", "openai-beta")
"""Headers of clients that upstreams are told."""


class Endpoint(msgspec.Struct, frozen=True):
    """A provider's server: its addresses, what it is shown, and how long it may take."""

    urls: dict[RequestApi, str]
    headers: tuple[tuple[str, str], ...]
    client: Client
    timeouts: Timeouts
    stream_usage: bool
    seconds: float
    key: ApiKey
    connections: int

    def request_headers(self, client_headers: Headers) -> tuple[tuple[str, str], ...]:
        """Return the headers to send: the gateway's own, and the few of the client's that apply."""
        more = [(name, value) for name in _PASSED if (value := client_headers.get(name))]
        if not more:
            return self.headers
        named = {name for name, _ in more}
        return (*(pair for pair in self.headers if pair[0] not in named), *more)

    def send(
        self, api: RequestApi, shown: RawHeaders, body: bytes
    ) -> Coroutine[Any, Any, ClientResponse]:
        """Send a request, and return the answer as soon as its head is there."""
        url = self.urls[api]
        return self.client.request("POST", url, shown, body, timeouts=self.timeouts)

    def without_key(self, content: bytes) -> bytes:
        """Return what a server said without the key that it was shown; some say it back."""
        key = self.key.reveal()
        return content.replace(key.encode(), REDACTED.encode()) if key else content


class Endpoints:
    """The upstreams of a configuration, each with connections of its own."""

    def __init__(self, models: ModelCaller) -> None:
        self._models = models
        self._found: dict[tuple[str, str], Endpoint] = {}
        self._retired: list[Client] = []
        self._ended = False

    def find(self, name: str, api: Api | str) -> Endpoint:
        """Return the way to a provider that is spoken to in an API."""
        place = (name, "anthropic" if api == "anthropic" else "openai")
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = self._made(*place)
            if self._ended:
                found.client.retire()
        return found

    async def take_over(self, before: "Endpoints") -> None:
        """Take the connections of all that did not change; the others end when they are unused."""
        before._ended = True
        self._retired += before._retired
        for place, old in before._found.items():
            try:
                fresh = self._made(*place)
            except ModelpactError:
                fresh = None
            if fresh is not None and msgspec.structs.replace(fresh, client=old.client) == old:
                self._found[place] = old
            else:
                old.client.retire()
                self._retired.append(old.client)
        for client in [one for one in self._retired if not one.connections]:
            self._retired.remove(client)
            await client.aclose()

    def _made(self, name: str, api: str) -> Endpoint:
        configuration = self._models.configuration
        settings = configuration.providers.get(name) or ProviderSettings()
        provider = self._models.catalog.find_provider(name)
        if provider is None:
            raise InputError(f"{name}: no such provider")
        key = self._models.key(name)
        address = self._models.address(name)
        plain_http = configuration.contract.plain_http
        base = check_base_url(address.url, name, plain_http, address.variable or "base_url")
        headers = [("content-type", "application/json"), ("user-agent", "modelpact")]
        if api == "anthropic":
            headers.append(("anthropic-version", ANTHROPIC_VERSION))
        if key:
            name_of_header = key_header_name(api, provider.id)
            headers.append(authentication_header(name_of_header, key.reveal()))
        base = api_root(base, api)
        limits = PoolLimits(connections=settings.connections, waiting=settings.connections)
        return Endpoint(
            {one: f"{base}{path}" for one, path in API_PATHS.items()},
            tuple(headers),
            Client(limits=limits),
            Timeouts(
                connect=10.0,
                write=60.0,
                first_byte=settings.timeout,
                between_bytes=settings.timeout,
            ),
            settings.stream_usage,
            settings.timeout,
            key,
            settings.connections,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (*(one.client for one in self._found.values()), *self._retired):
            await client.aclose()
