"""What follows from a configuration; replaced as a whole when that changes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.configuration.config import Configuration
from modelpact.conversation.codecs import CODECS
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence import read_evidence
from modelpact.gateway.budgets import Budgets
from modelpact.gateway.errors import GatewayError, GatewayResponse, error_answer, refusal
from modelpact.gateway.keys import ClientKey, ClientKeys, KeySettings, RateLimiter, digest
from modelpact.gateway.observe.observer import Observer
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.plan.policy import base_policy
from modelpact.gateway.plan.sizing import expected, expected_at_once
from modelpact.gateway.record.recorder import Recorder, SettlementNotRecorded
from modelpact.gateway.request.auth import Caller, caller_of, key_of
from modelpact.gateway.request.model_names import UnknownModel
from modelpact.gateway.request.planned import PlannedRequest
from modelpact.gateway.request.reader import RequestReader
from modelpact.gateway.state import GatewayState
from modelpact.gateway.upstream.endpoints import Endpoints
from modelpact.gateway.upstream.passthrough import Passthrough, UpstreamFailed
from modelpact.gateway.upstream.translate import Translator
from modelpact.ledger.costs import cost_of
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import LedgerError
from modelpact.needs.requests import RequestApi
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import InputError
from modelpact.wire import Client, HttpError, HttpRequest

OPERATOR: Final = "operator"


class Gateway:
    """Serves chats. One for a process; it is used on one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        configuration: Configuration,
        *,
        models: ModelCaller | None = None,
        environment: dict[str, str] | None = None,
        operator: str = "",
        observers: Iterable[Observer] = (),
    ) -> None:
        """`operator` is a secret that stands for a key without limits."""
        self.ledger = ledger
        self.operator = operator
        name = configuration.gateway.name
        plain = frozenset(configuration.contract.plain_http)
        self.runtime = models.runtime if models else Runtime(ledger, name=name, plain_http=plain)
        self._environment = environment
        self._client = Client()
        self._ports = dict(models.ports) if models else {}
        self.budgets = Budgets(ledger)
        self.observers: list[Observer] = [self.budgets, *observers]
        """Told of each request; the recorder shares the list."""
        self.recorder = Recorder(
            ledger,
            self.runtime.registry,
            name,
            self.observers,
            keep_content=configuration.gateway.keep_content,
        )
        self._forwarder = Passthrough(self.recorder)
        self._carrier = Translator(self.recorder)
        self._reading = RequestReader(self._carrier)
        self._changing = asyncio.Lock()
        self._registering = asyncio.Lock()
        self.keys = ClientKeys({})
        self.rates = RateLimiter()
        self.state = self._state(configuration)

    def _state(
        self, configuration: Configuration, upstreams: Endpoints | None = None
    ) -> GatewayState:
        catalog: Catalog = configuration.catalog().extended(evidence=read_evidence(self.ledger))
        models = ModelCaller(
            self.runtime,
            configuration=configuration,
            catalog=catalog,
            ports=self._ports,
            environment=self._environment,
            client=self._client,
        )
        return GatewayState(
            configuration,
            models,
            Planner(configuration, models),
            upstreams or Endpoints(models),
            base_policy(configuration.policy, configuration.gateway.lossy),
        )

    def load_keys(self) -> None:
        """Take the keys that are in force now."""
        keys = ClientKeys.load(self.ledger)
        if self.operator:
            keys.add(digest(self.operator), ClientKey(OPERATOR, OPERATOR, KeySettings(), 0))
        if keys != self.keys:
            self.keys = keys

    async def reload(
        self,
        configuration: Configuration | None = None,
        check: Callable[[GatewayState], None] = lambda state: None,  # noqa: ARG005
    ) -> None:
        """Take a new configuration, or only new evidence; requests under way end under the old one.

        `check` may still object, by raising, to what would be taken.
        """
        async with self._changing:
            before = self.state
            state = await asyncio.to_thread(self._state, configuration or before.configuration)
            check(state)
            await state.upstreams.take_over(before.upstreams)
            self.recorder.keep_content = state.configuration.gateway.keep_content
            self.state = state

    async def aclose(self) -> None:
        """Finish the record and close the connections to upstreams."""
        await self.recorder.envelopes.aclose()
        await self.state.upstreams.aclose()
        await self._client.aclose()

    def key_of(self, request: HttpRequest) -> ClientKey:
        """Return whose request this is, or refuse it."""
        return key_of(request.headers, self.keys)

    async def serve(self, request: HttpRequest, api: RequestApi) -> GatewayResponse:
        """Answer a chat, or any other request that goes to a model."""
        try:
            caller = caller_of(request.headers, self.keys)
            key = caller.key
            if key.settings.rate is not None and (wait := self.rates.wait(key)):
                told = f"the key {key.name} may ask {key.settings.rate} times a minute"
                raise GatewayError(429, "rate_limit_exceeded", told, retry_after=wait)
            exchange = await self.read(request, api, caller)
            for observer in self.observers:
                observer.request_planned(exchange)
            if exchange.plan.how == "refuse":
                envelope = self.recorder.envelope(exchange.plan)
                event = await self.recorder.decided(exchange.plan, envelope, key=key.id)
                return refusal(api, exchange.plan, event)
            if key.settings.budget is not None:
                await self._check_budget(exchange)
            try:
                return await self._attempt(exchange)
            except UpstreamFailed as failed:
                return await self._instead(exchange, failed)
            except GatewayError as error:
                if error.plan is not None:
                    await self._not_sent(error, error.plan, key)
                raise
        except GatewayError as error:
            return error_answer(api, error)
        except HttpError:
            raise
        except UnknownModel as error:
            return error_answer(api, GatewayError(404, "model_not_found", str(error)))
        except InputError as error:
            return error_answer(api, GatewayError(400, "invalid_request_error", str(error)))
        except SettlementNotRecorded as error:
            told = f"the answer came, but not its record, so it is held back: {error}"
            return error_answer(api, GatewayError(503, "ledger_unavailable", told))
        except LedgerError as error:
            told = f"the record could not be written, so nothing was sent: {error}"
            return error_answer(api, GatewayError(503, "ledger_unavailable", told))

    def read(
        self, request: HttpRequest, api: RequestApi, caller: Caller
    ) -> Coroutine[Any, Any, PlannedRequest]:
        """Read a request and make its plan; nothing is sent and nothing recorded."""
        return self._reading.read(self.state, request, api, caller)

    def foreseen(self, exchange: PlannedRequest) -> Plan:
        """Return what would be done with a request: also, whether the provider can be told it."""
        return self._reading.foreseen(exchange)

    async def _instead(self, exchange: PlannedRequest, failed: UpstreamFailed) -> GatewayResponse:
        """Serve by the fallback's plan where there is one for this failure, else answer with it."""
        other = await self._other(exchange, failed)
        if other is not None:
            try:
                return await self._attempt(other)
            except UpstreamFailed as again:
                exchange, failed = other, again
        await self._learn(exchange, failed)
        return _answer(exchange, failed)

    async def _not_sent(self, error: GatewayError, plan: Plan, key: ClientKey) -> None:
        """Record what was refused after it was planned; the answer names the event."""
        envelope = self.recorder.envelope(plan)
        event = await self.recorder.decided(plan, envelope, key=key.id)
        error.headers = (*error.headers, ("modelpact-event", event))

    async def _check_budget(self, exchange: PlannedRequest) -> None:
        """Refuse what a key has no money for. What passes is counted before it waits again."""
        await self._registered(exchange)
        key = exchange.key
        if not await self.budgets.has_remaining(key):
            period = key.settings.period
            part = "all of its budget" if period == "all" else f"its budget of this {period}"
            told = f"the key {key.name} has spent {part}"
            raise GatewayError(429, "insufficient_quota", told)

    async def _registered(self, exchange: PlannedRequest) -> None:
        provider, registry = exchange.plan.provider, self.runtime.registry
        if registry.remembered(provider) is None:
            async with self._registering:
                if registry.remembered(provider) is None:
                    await asyncio.to_thread(exchange.state.models.provider, provider)
                    await registry.looked_up(provider)

    def _attempt(self, exchange: PlannedRequest) -> Coroutine[Any, Any, GatewayResponse]:
        plan, state = exchange.plan, exchange.state
        if self.runtime.registry.remembered(plan.provider) is None:
            return self._registered_first(exchange)
        if plan.how == "forward":
            upstream = state.upstreams.find(plan.provider, plan.api)
            return self._forwarder.forward(exchange, upstream)
        return self._carrier.carry(exchange, state.models.port(plan.provider))

    async def _registered_first(self, exchange: PlannedRequest) -> GatewayResponse:
        """Register a provider that is called for the first time, and call it."""
        await self._registered(exchange)
        return await self._attempt(exchange)

    async def _other(
        self, exchange: PlannedRequest, failed: UpstreamFailed
    ) -> PlannedRequest | None:
        """Return the exchange on the declared fallback, negotiated anew, or None."""
        plan, planner = exchange.plan, exchange.state.planner
        workload = plan.workload
        if workload is None or plan.substituted_for or not plan.policy.fallback:
            return None
        if failed.kind not in workload.fallback_on:
            return None
        meant = planner.names.meant(exchange.question.name, exchange.question.workload)
        because = f"{failed.kind}: {failed.error}"
        made = planner.fallback(exchange.question, meant, because)
        if made is None:
            return None
        body = exchange.body
        found = expected_at_once(made, exchange.raw, body) or await expected(
            made, exchange.raw, body
        )
        if found.too_long:
            return None
        estimate = cost_of(made.price, found.usage)
        return msgspec.structs.replace(
            exchange, plan=made, expected=found.usage, estimate=estimate, told=found.told
        )

    async def _learn(self, exchange: PlannedRequest, failed: UpstreamFailed) -> None:
        """Record what a rejection teaches about the model. The next plan uses it."""
        codec = CODECS.get(exchange.api)
        if failed.kind != "refused" or codec is None:
            return
        try:
            request = codec.read_request(exchange.body)
        except InputError:
            return
        plan = exchange.plan
        models = exchange.state.models
        resolution = models.catalog.resolve(plan.provider, plan.model)
        lesson = await models.learner.observe_rejection(request, failed.error, resolution)
        if lesson.changed:
            await self.reload()


def _answer(exchange: PlannedRequest, failed: UpstreamFailed) -> GatewayResponse:
    """Answer with an upstream's failure: its own words where it had some."""
    if failed.outgoing is not None:
        return failed.outgoing
    error = failed.error
    status = error.status or (504 if error.code == "timeout" else 502)
    if failed.kind == "429":
        status = 429
    told = GatewayError(
        status,
        error.code or "upstream_failed",
        str(error),
        param=error.param,
        retry_after=error.retry_after,
        headers=(
            *exchange.plan.headers(),
            ("modelpact-invocation", failed.invocation.id),
        ),
    )
    answer = error_answer(exchange.api, told)
    answer.verdict = exchange.plan.answer
    return answer
