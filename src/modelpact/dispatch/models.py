"""Models that can be called: ports to configured providers, behind the provider contract."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.configuration.config import Configuration
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.ledger.costs import Attribution
from modelpact.providers.adapters.choice import adapter_for
from modelpact.providers.adapters.keys import resolve_key
from modelpact.providers.adapters.model_provider import ModelProvider
from modelpact.providers.adapters.values import (
    CHAT,
    read_event,
    read_response,
    write_request,
)
from modelpact.providers.contract import Invocation, Semantics
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.providers.runtime import Runtime
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import Client

DEADLINE: Final = 600.0
"""Seconds that a model may take for an answer."""


class CallFailed(ProviderError):
    """A model was called and gave no answer; the invocation tells what it cost.

    What the port raised is its `__cause__`.
    """

    def __init__(self, message: str, invocation: Invocation) -> None:
        self.invocation = invocation
        super().__init__(message)


class Called(msgspec.Struct, frozen=True):
    """A model's answer, and the settled invocation that it came of."""

    response: Response
    invocation: Invocation


class Models:
    """Calls models by provider name: each call is an invocation, recorded and paid for.

    `ports` stand in for the adapters of the providers that they name.
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
        self._ports = dict(ports or {})
        self._environment = environment
        self._client = client
        self._providers: dict[str, ModelProvider] = {}

    def knows(self, provider: str) -> bool:
        """Tell whether a provider is configured, stood in for, or in the catalog."""
        return provider in self._ports or self.catalog.find_provider(provider) is not None

    def port(self, name: str) -> ModelPort:
        """Return the port to a provider; nothing is registered and nothing is sent."""
        found = self._ports.get(name)
        if found is None:
            found = self._ports[name] = adapter_for(
                name,
                self.configuration.providers.get(name),
                catalog=self.catalog,
                client=self._client,
                plain_http=self.configuration.contract.plain_http,
                environment=self._environment,
            )
        return found

    def can_authenticate(self, provider: str) -> bool:
        """Tell whether a provider can be called: it is known, and its credential resolves."""
        if provider in self._ports:
            return True
        settings = self.configuration.providers.get(provider)
        known = self.catalog.find_provider(provider)
        if known is None:
            return False
        try:
            resolve_key(settings, known, name=provider, environment=self._environment)
        except ModelpactError:
            return False
        return True

    def provider(self, name: str) -> ModelProvider:
        """Return the way to a provider, registered when it is first asked for."""
        found = self._providers.get(name)
        if found is None:
            found = self._providers[name] = self._registered(name)
        return found

    def _registered(self, name: str) -> ModelProvider:
        made = ModelProvider(name, self.port(name), catalog=self.catalog)
        self.runtime.carriers[name] = made
        known = self.runtime.registry.find(name)
        if known is None or known != (made.registration, "active"):
            self.runtime.registry.register(made.registration)
        return made

    async def call(
        self,
        provider: str,
        request: Request,
        *,
        envelope: str | None = None,
        cause: str | None = None,
        attribution: Attribution | None = None,
        deadline_s: float = DEADLINE,
    ) -> Called:
        """Call a model for a whole answer; `CallFailed` when none came."""
        invocation = await self._invoke(
            provider, request, "sync", envelope, cause, attribution, deadline_s
        )
        return self._called(provider, invocation)

    async def stream(
        self,
        provider: str,
        request: Request,
        *,
        envelope: str | None = None,
        cause: str | None = None,
        attribution: Attribution | None = None,
        deadline_s: float = DEADLINE,
    ) -> AsyncIterator[StreamEvent | Called]:
        """Call a model for an answer in events; the last thing that comes is the whole of it."""
        opened = await self._invoke(
            provider, request, "streaming", envelope, cause, attribution, deadline_s
        )
        async for piece in self.runtime.stream(opened):
            if isinstance(piece, Invocation):
                yield self._called(provider, piece)
            else:
                yield read_event(piece.content)

    def _called(self, provider: str, invocation: Invocation) -> Called:
        if invocation.state != "completed" or not isinstance(invocation.output, dict):
            said = invocation.error or f"the invocation was {invocation.state}"
            refusal = self.provider(provider).refusal(invocation.id)
            raise CallFailed(said, invocation) from refusal
        return Called(read_response(invocation.output), invocation)

    async def _invoke(
        self,
        provider: str,
        request: Request,
        semantics: Semantics,
        envelope: str | None,
        cause: str | None,
        attribution: Attribution | None,
        deadline_s: float,
    ) -> Invocation:
        way = self.provider(provider)
        value = write_request(request)
        return await self.runtime.invoke(
            way.id,
            CHAT,
            value,
            semantics=semantics,
            deadline_s=deadline_s,
            envelope=envelope,
            cause=cause,
            attribution=way.attributed(value, attribution),
            estimate=way.estimate(value),
        )
