"""The model caller: calls models by provider name, each call an invocation in the ledger."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, TypedDict, Unpack

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.provider import ProviderEntry
from modelpact.configuration.config import Configuration
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.evidence import EvidenceLearner, Observation
from modelpact.ledger.costs import Attribution
from modelpact.providers.contract import Invocation, Semantics
from modelpact.providers.models.adapters import adapter_for
from modelpact.providers.models.credentials import ApiKey, resolve_key
from modelpact.providers.models.endpoints import ProviderAddress, find_address
from modelpact.providers.models.json_codec import CHAT, read_event, read_response, write_request
from modelpact.providers.models.model_provider import ModelProvider
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import Client

DEADLINE_SECONDS: Final = 600.0
"""How long a model may take to answer."""
_EVENTS_EXAMINED: Final = 16
"""How many events of a stream the evidence learner gets to see."""


class CallOptions(TypedDict, total=False):
    """How a call is recorded, and how long it may take."""

    envelope: str
    """The envelope of the invocation's events."""
    cause: str
    """The event that led to the call."""
    attribution: Attribution
    deadline_s: float
    """`DEADLINE_SECONDS` by default."""


class CallFailed(ProviderError):
    """A call that gave no response. Its invocation says what it cost.

    It is raised from the provider's own error, if there was one, and has that error's status.
    `learned` is what the failure taught about the model.
    """

    def __init__(
        self,
        message: str,
        invocation: Invocation,
        cause: BaseException | None = None,
        learned: tuple[Observation, ...] = (),
    ) -> None:
        self.invocation = invocation
        self.learned = learned
        super().__init__(message, status=getattr(cause, "status", None))


class ModelResult(msgspec.Struct, frozen=True):
    """A model's response and the settled invocation that produced it."""

    response: Response
    invocation: Invocation


class ModelCaller:
    """Calls models through the configured providers.

    Every call is an invocation: it is recorded, its cost is booked, and what it teaches becomes
    evidence. `ports` replace the adapters of the providers that they name.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        configuration: Configuration | None = None,
        catalog: Catalog | None = None,
        ports: Mapping[str, ModelPort] | None = None,
        environment: Mapping[str, str] | None = None,
        client: Client | None = None,
    ) -> None:
        self.runtime = runtime
        self.configuration = configuration or Configuration()
        self.catalog = catalog or self.configuration.catalog()
        self.ports = dict(ports or {})
        self.learner = EvidenceLearner(runtime.ledger)
        self._adapters: dict[str, ModelPort] = {}
        self._environment = environment
        self._client = client
        self._providers: dict[str, ModelProvider] = {}

    def key(self, name: str) -> ApiKey:
        """Return a provider's API key, or an empty one if it needs none. Raise if it is missing."""
        return resolve_key(
            self.configuration.providers.get(name),
            self.catalog.find_provider(name),
            name=name,
            environment=self._environment,
        )

    def address(self, name: str) -> ProviderAddress:
        """Return a provider's address, and the environment variable it comes from, if any."""
        return find_address(self.configuration.providers.get(name), self.catalog.find_provider(name), self._environment)

    def env_overrides(self) -> dict[str, ProviderAddress]:
        """Return the addresses that come from environment variables, by provider."""
        names = {*self.configuration.providers}
        listed = self.catalog.providers.all
        names |= {provider.id for provider in listed if provider.base_url_env}
        addresses = {name: self.address(name) for name in sorted(names) if name not in self.ports}
        return {name: address for name, address in addresses.items() if address.variable}

    def has_key(self, provider: ProviderEntry) -> bool:
        """Tell whether there is a key for a provider, configured or not."""
        try:
            return bool(self.key(provider.id))
        except ModelpactError:
            return False

    def knows(self, provider: str) -> bool:
        """Tell whether a provider has a port here or is in the catalog."""
        return provider in self.ports or self.catalog.find_provider(provider) is not None

    def supported_providers(self) -> tuple[str, ...]:
        """Return the providers that are configured, have a key or an address, and the mock."""
        names = {*self.configuration.providers, *self.ports, *self.env_overrides(), "mock"}
        for provider in self.catalog.providers.all:
            if provider.key_env and self.has_key(provider):
                names.add(provider.id)
        return tuple(sorted(names))

    def can_authenticate(self, provider: str) -> bool:
        """Tell whether a provider is known and its credential resolves."""
        if provider in self.ports:
            return True
        if self.catalog.find_provider(provider) is None:
            return False
        try:
            self.key(provider)
        except ModelpactError:
            return False
        return True

    def port(self, name: str) -> ModelPort:
        """Return the port to a provider. Nothing is registered or sent."""
        port = self.ports.get(name, self._adapters.get(name))
        if port is None:
            port = self._adapters[name] = adapter_for(
                name,
                self.configuration.providers.get(name),
                catalog=self.catalog,
                client=self._client,
                plain_http=self.configuration.contract.plain_http,
                environment=self._environment,
            )
        return port

    def provider(self, name: str) -> ModelProvider:
        """Return a provider behind the provider contract. The first call registers it."""
        provider = self._providers.get(name)
        if provider is None:
            provider = self._providers[name] = self._register(name)
        return provider

    async def call(self, provider: str, request: Request, **options: Unpack[CallOptions]) -> ModelResult:
        """Call a model and return its whole response, or raise `CallFailed`."""
        invocation = await self._invoke(provider, request, "sync", options)
        return await self._result(request, invocation, [])

    async def stream(
        self, provider: str, request: Request, **options: Unpack[CallOptions]
    ) -> AsyncIterator[StreamEvent | ModelResult]:
        """Call a model and yield its events as they arrive, then the result.

        The ledger gets the whole response when the stream ends, not its events.
        """
        invocation = await self._invoke(provider, request, "streaming", options)
        streamed = msgspec.structs.replace(request, stream=True)
        events: list[StreamEvent] = []
        async with contextlib.aclosing(self.runtime.stream(invocation)) as partials:  # type: ignore[type-var]
            async for partial in partials:
                if isinstance(partial, Invocation):
                    yield await self._result(streamed, partial, events)
                else:
                    event = read_event(partial.content)
                    if len(events) < _EVENTS_EXAMINED:
                        events.append(event)
                    yield event

    def _register(self, name: str) -> ModelProvider:
        provider = ModelProvider(name, self.port(name), catalog=self.catalog)
        self.runtime.transports[name] = provider
        registered = self.runtime.registry.find(name)
        if registered is None or registered != (provider.registration, "active"):
            self.runtime.registry.register(provider.registration)
        return provider

    async def _invoke(self, provider: str, request: Request, semantics: Semantics, options: CallOptions) -> Invocation:
        options.setdefault("deadline_s", DEADLINE_SECONDS)
        return await self.runtime.invoke(
            self.provider(provider).id,
            CHAT,
            write_request(request),
            semantics=semantics,
            keep_partials=False,
            **options,
        )

    async def _result(self, request: Request, invocation: Invocation, events: list[StreamEvent]) -> ModelResult:
        """Return the result of a settled invocation, or raise. Learn from either."""
        provider, settled_by = invocation.provider, invocation.settled_by
        resolution = self.catalog.resolve(provider, request.model)
        if invocation.state != "completed" or not isinstance(invocation.output, dict):
            learned: tuple[Observation, ...] = ()
            error = self.provider(provider).take_error(invocation.id)
            if error is not None:
                lesson = await self.learner.observe_rejection(request, error, resolution, cause=settled_by)
                learned = lesson.observations
            message = invocation.error or f"the invocation was {invocation.state}"
            raise CallFailed(message, invocation, error, learned) from error
        response = read_response(invocation.output)
        await self.learner.observe_response(request, response, resolution, events=events, cause=settled_by)
        return ModelResult(response, invocation)
