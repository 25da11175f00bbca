"""Models that can be called: ports to configured providers, behind the provider contract."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.provider import Provider
from modelpact.catalog.resolution import Resolution
from modelpact.configuration.config import Configuration
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, StreamEvent
from modelpact.evidence import (
    Observation,
    Refutation,
    find_refuted,
    learn_from_rejection,
    learn_from_response,
    record_async,
    replace_async,
    standing,
)
from modelpact.ledger.costs import Attribution
from modelpact.ledger.stores.base import LedgerError
from modelpact.providers.contract import Invocation, Semantics
from modelpact.providers.models.credentials import ApiKey, resolve_key
from modelpact.providers.models.endpoints import ProviderAddress, find_address
from modelpact.providers.models.factory import adapter_for
from modelpact.providers.models.json_codec import CHAT, read_event, read_response, write_request
from modelpact.providers.models.model_provider import ModelProvider
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import Client

DEADLINE: Final = 600.0
"""Seconds that a model may take for an answer."""
_EVENTS_LOOKED_AT: Final = 16


class CallFailed(ProviderError):
    """A model was called and gave no answer; the invocation tells what it cost.

    It is raised from the provider's own error, where there was one, and has its status; `learned`
    is what the model turned out not to have.
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
    """A model's answer, and the settled invocation that it came of."""

    response: Response
    invocation: Invocation


class ModelCaller:
    """Calls models by provider name: each call is an invocation, recorded and paid for.

    What providers refuse, and what answers prove against the catalog, is kept as evidence.
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
        self.ports = dict(ports or {})
        self._adapters: dict[str, ModelPort] = {}
        self._environment = environment
        self._client = client
        self._providers: dict[str, ModelProvider] = {}
        self._learned: set[Observation] = set()

    def key(self, name: str) -> ApiKey:
        """Return the key of a provider, an empty one where none is needed, or raise."""
        return resolve_key(
            self.configuration.providers.get(name),
            self.catalog.find_provider(name),
            name=name,
            environment=self._environment,
        )

    def address(self, name: str) -> ProviderAddress:
        """Return where a provider is, and which variable says so, if one does."""
        return find_address(
            self.configuration.providers.get(name),
            self.catalog.find_provider(name),
            self._environment,
        )

    def env_overrides(self) -> dict[str, ProviderAddress]:
        """Return the providers whose address comes from the environment."""
        names = {*self.configuration.providers}
        names |= {one.id for one in self.catalog.providers.listed if one.base_url_env}
        found = {name: self.address(name) for name in sorted(names) if name not in self.ports}
        return {name: one for name, one in found.items() if one.variable}

    def has_key(self, provider: Provider) -> bool:
        """Tell whether a key for a provider is at hand, with or without settings for it."""
        try:
            return bool(self.key(provider.id))
        except ModelpactError:
            return False

    def knows(self, provider: str) -> bool:
        """Tell whether a provider is configured, stood in for, or in the catalog."""
        return provider in self.ports or self.catalog.find_provider(provider) is not None

    def port(self, name: str) -> ModelPort:
        """Return the port to a provider; nothing is registered and nothing is sent."""
        found = self.ports.get(name, self._adapters.get(name))
        if found is None:
            found = self._adapters[name] = adapter_for(
                name,
                self.configuration.providers.get(name),
                catalog=self.catalog,
                client=self._client,
                plain_http=self.configuration.contract.plain_http,
                environment=self._environment,
            )
        return found

    def supported_providers(self) -> tuple[str, ...]:
        """Return the providers to call: configured, with key or address at hand, or the mock."""
        found = {*self.configuration.providers, *self.ports, *self.env_overrides(), "mock"}
        for provider in self.catalog.providers.listed:
            if provider.key_env and self.has_key(provider):
                found.add(provider.id)
        return tuple(sorted(found))

    def can_authenticate(self, provider: str) -> bool:
        """Tell whether a provider can be called: it is known, and its credential resolves."""
        if provider in self.ports:
            return True
        if self.catalog.find_provider(provider) is None:
            return False
        try:
            self.key(provider)
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
    ) -> ModelResult:
        """Call a model for a whole answer; `CallFailed` when none came."""
        invocation = await self._invoke(
            provider, request, "sync", envelope, cause, attribution, deadline_s
        )
        return await self._called(request, invocation, [])

    async def stream(
        self,
        provider: str,
        request: Request,
        *,
        envelope: str | None = None,
        cause: str | None = None,
        attribution: Attribution | None = None,
        deadline_s: float = DEADLINE,
    ) -> AsyncIterator[StreamEvent | ModelResult]:
        """Call a model for an answer in events; the last thing that comes is the whole of it.

        The events are passed on as they come and tallied; the whole answer is kept at its end.
        """
        opened = await self._invoke(
            provider, request, "streaming", envelope, cause, attribution, deadline_s
        )
        streamed = msgspec.structs.replace(request, stream=True)
        events: list[StreamEvent] = []
        async with contextlib.aclosing(self.runtime.stream(opened)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if isinstance(piece, Invocation):
                    yield await self._called(streamed, piece, events)
                else:
                    event = read_event(piece.content)
                    if len(events) < _EVENTS_LOOKED_AT:
                        events.append(event)
                    yield event

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
        return await self.runtime.invoke(
            self.provider(provider).id,
            CHAT,
            write_request(request),
            semantics=semantics,
            deadline_s=deadline_s,
            envelope=envelope,
            cause=cause,
            attribution=attribution,
            keep_pieces=False,
        )

    async def _called(
        self, request: Request, invocation: Invocation, events: list[StreamEvent]
    ) -> ModelResult:
        """Read the answer of a settled invocation, or raise; either way learn from it."""
        provider = invocation.provider
        known = self.catalog.resolve(provider, request.model)
        names = (known.provider_id, request.model)
        if invocation.state != "completed" or not isinstance(invocation.output, dict):
            cause = self.provider(provider).take_error(invocation.id)
            taught = () if cause is None else learn_from_rejection(cause, request, *names)
            await self._learn(taught, known, invocation)
            told = invocation.error or f"the invocation was {invocation.state}"
            raise CallFailed(told, invocation, cause, taught) from cause
        response = read_response(invocation.output)
        shown = learn_from_response(request, response, *names, events=events)
        await self._learn(shown, known, invocation)
        with contextlib.suppress(LedgerError):
            held = await asyncio.to_thread(standing, self.runtime.ledger, *names)
            refuted = find_refuted(held, shown, response.usage, known)
            await self._take_back(refuted, invocation)
        return ModelResult(response, invocation)

    async def _learn(
        self, learned: tuple[Observation, ...], known: Resolution, invocation: Invocation
    ) -> None:
        """Keep what the catalog does not say; a ledger that cannot take it spoils no answer."""
        fresh = [one for one in learned if one not in self._learned and _is_news(one, known)]
        if fresh:
            with contextlib.suppress(LedgerError):
                await record_async(self.runtime.ledger, *fresh, cause=invocation.settled_by)
                self._learned.update(fresh)

    async def _take_back(self, refuted: tuple[Refutation, ...], invocation: Invocation) -> None:
        """Take back the evidence that an answer contradicts; it may be learned again."""
        await replace_async(self.runtime.ledger, refuted, cause=invocation.settled_by)
        gone = {one.before.capability for one in refuted}
        self._learned = {one for one in self._learned if one.capability not in gone}


def _is_news(one: Observation, known: Resolution) -> bool:
    claim = known.claim(one.capability)
    return claim.support != one.support or one.value not in (None, claim.value)
