"""Adapters: model ports to HTTP servers, one class for each API, and the choice of one."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, Final, TypedDict, Unpack

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.catalog.provider import Api, ProviderEntry
from modelpact.configuration.config import ProviderSettings
from modelpact.conversation.codecs import CODECS, write_request
from modelpact.conversation.fidelity import Loss, TranslatedBody
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, ResponseError, StreamEvent
from modelpact.needs.requests import RequestApi
from modelpact.providers.models.credentials import NO_KEY, ApiKey, resolve_key
from modelpact.providers.models.endpoints import (
    ANTHROPIC_VERSION,
    API_PATHS,
    api_root,
    check_base_url,
    find_address,
    key_header_name,
)
from modelpact.providers.models.upstream import DEFAULT_TIMEOUTS, UpstreamClient
from modelpact.providers.port import MockProvider, ProviderError
from modelpact.vocabulary.errors import InputError, UnknownName
from modelpact.wire import Client, Timeouts

TokenLimitNames = Callable[[str], str | None]
"""Returns how a model names its token limit: `max-tokens`, `max-completion-tokens` or None."""
_APIS: Final = ("openai-chat", "openai-responses", "anthropic", "mock")


class AdapterOptions(TypedDict, total=False):
    """Options of every adapter."""

    name: str
    """The name of the provider, for messages."""
    headers: Mapping[str, str]
    """Headers to send with every request."""
    key_header: str
    """The header of the key. A key in `authorization` is sent as a bearer token."""
    client: Client
    """A client to use; by default the adapter makes its own."""
    timeouts: Timeouts
    plain_http: Collection[str]
    """Hosts that may be reached without TLS."""
    max_bytes: int
    """The longest response that is accepted, whole or streamed."""


class NotTranslatable(ProviderError):
    """A request would mean something else in the API of the provider; nothing was sent."""

    def __init__(self, name: str, losses: Iterable[Loss]) -> None:
        self.losses = tuple(losses)
        reasons = "; ".join(f"{loss.path}: {loss.what}" for loss in self.losses)
        super().__init__(f"{name} cannot express this request, nothing was sent: {reasons}", status=400)


class HttpAdapter:
    """A model port to one server. Each subclass is for one API."""

    api: ClassVar[RequestApi]
    default_name: ClassVar[str]

    def __init__(self, base_url: str, key: ApiKey = NO_KEY, **options: Unpack[AdapterOptions]) -> None:
        options.setdefault("name", self.default_name)
        options.setdefault("key_header", key_header_name(self.api))
        address = api_root(base_url.rstrip("/"), self.api)
        self._upstream = UpstreamClient(address, key, **options)
        self._path = API_PATHS[self.api]
        self._codec = CODECS[self.api]

    def losses(self, request: Request) -> tuple[Loss, ...]:
        """Return what the API cannot express of a request; nothing is sent."""
        return self._translate(request).losses

    async def complete(self, request: Request) -> Response:
        """Return the whole response to a request."""
        body = self._body(request)
        body.pop("stream", None)
        body.pop("stream_options", None)
        content = await self._upstream.post(self._path, body)
        try:
            return self._codec.read_response(content)
        except (InputError, ResponseError) as error:
            raise self._upstream.unreadable(error) from None

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed response."""
        body = self._stream_body({**self._body(request), "stream": True})
        events = self._upstream.post_stream(self._path, body, self._codec.stream_reader())
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def aclose(self) -> None:
        """Close the connections, unless they belong to a client that was passed in."""
        await self._upstream.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._upstream.name} {self._upstream.base_url}>"

    def _body(self, request: Request) -> dict[str, Any]:
        translated = self._translate(request)
        unsupported = [loss for loss in translated.losses if loss.fidelity == "unsupported"]
        if unsupported:
            raise NotTranslatable(self._upstream.name, unsupported)
        return translated.body

    def _translate(self, request: Request) -> TranslatedBody:
        """Return a request as the body of the API, and what the API cannot express."""
        return write_request(self.api, request)

    def _stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a request for a stream, with the options that the API needs."""
        return body


class OpenAIChatAdapter(HttpAdapter):
    """A port to OpenAI's Chat Completions and the servers that implement them."""

    api = "openai-chat"
    default_name = "openai"

    def __init__(
        self,
        base_url: str,
        key: ApiKey = NO_KEY,
        *,
        token_limit_names: TokenLimitNames | None = None,
        request_usage: bool = True,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """With `request_usage`, streams request their token usage, which few servers reject."""
        super().__init__(base_url, key, **options)
        self._token_limit_names = token_limit_names
        self._request_usage = request_usage

    def _translate(self, request: Request) -> TranslatedBody:
        name = self._token_limit_names(request.model) if self._token_limit_names else None
        if name is not None and name != request.token_limit_param:
            request = msgspec.structs.replace(request, token_limit_param=name)
        return super()._translate(request)

    def _stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self._request_usage:
            return body
        options = body.get("stream_options") or {}
        return {**body, "stream_options": {**options, "include_usage": True}}


class OpenAIResponsesAdapter(HttpAdapter):
    """A port to OpenAI's Responses API. The server stores nothing unless a request says so."""

    api = "openai-responses"
    default_name = "openai"


class AnthropicAdapter(HttpAdapter):
    """A port to Anthropic's Messages. Request betas with an `anthropic-beta` header.

    Some compatible servers accept the key only with `key_header="authorization"`.
    """

    api = "anthropic"
    default_name = "anthropic"

    def __init__(self, base_url: str, key: ApiKey = NO_KEY, **options: Unpack[AdapterOptions]) -> None:
        headers = options.get("headers", {})
        options["headers"] = {"anthropic-version": ANTHROPIC_VERSION, **headers}
        super().__init__(base_url, key, **options)


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
