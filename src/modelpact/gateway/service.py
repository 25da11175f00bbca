"""The gateway: serves requests for models. `Gateway.serve` is the path of a request.

`docs/architecture.md` lists the steps of the path, the function of each, and what happens if a step
fails.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.conversation.codecs import CODECS
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence import read_evidence
from modelpact.gateway.budgets import Budgets
from modelpact.gateway.key_store import load_keys
from modelpact.gateway.keys import ClientKey, ClientKeys, KeySettings, RateLimiter, digest
from modelpact.gateway.observers import CallObserver, RequestObserver
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.plan.request_planner import PlannedRequest, RequestPlanner
from modelpact.gateway.recorder import GatewayRecorder
from modelpact.gateway.request import Authenticator, IncomingRequest, read_request
from modelpact.gateway.responses import GatewayError, GatewayResponse, error_response, refusal
from modelpact.gateway.upstream.endpoints import Endpoints
from modelpact.gateway.upstream.response import UpstreamFailed
from modelpact.gateway.upstream.sender import Sender
from modelpact.ledger.ledger import Ledger
from modelpact.needs.requests import RequestApi
from modelpact.providers.runtime.runtime import Runtime
from modelpact.vocabulary.errors import InputError
from modelpact.wire import Client, HttpRequest

OPERATOR: Final = "operator"
"""The id and name of the key whose secret is the operator's token."""


class GatewayState(msgspec.Struct, frozen=True):
    """A configuration, and the objects that are made from it.

    A reload replaces the state as a whole. A request keeps the state that it started with.
    """

    configuration: Configuration
    models: ModelCaller
    planner: Planner
    upstreams: Endpoints


class Gateway:
    """Serves requests for models. There is one in a process, and it is used on one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        configuration: Configuration,
        *,
        environment: dict[str, str] | None = None,
        operator: str = "",
    ) -> None:
        """Make a gateway. `operator` is the secret of a key without limits."""
        self.ledger = ledger
        self.operator = operator
        name = configuration.gateway.name
        plain_http = frozenset(configuration.contract.plain_http)
        self.runtime = Runtime(ledger, name=name, plain_http=plain_http)
        self._environment = environment
        self._client = Client()
        self.budgets = Budgets(ledger)
        self.request_observers: list[RequestObserver] = []
        self.call_observers: list[CallObserver] = [self.budgets]
        """Notified of each call of a provider; the recorder shares the list."""
        self.recorder = GatewayRecorder(
            ledger, self.runtime.registry, name, self.call_observers, keep_content=configuration.gateway.keep_content
        )
        self._sender = Sender(self.recorder)
        self._request_planner = RequestPlanner()
        self._authenticator = Authenticator(ClientKeys({}))
        self.rates = RateLimiter()
        self._reloading = asyncio.Lock()
        self._registering = asyncio.Lock()
        self.state = self._make_state(configuration)

    async def serve(self, request: HttpRequest, api: RequestApi) -> GatewayResponse:
        """Serve a request for a model.

        If it cannot be served, raise an exception that `responses.error_response` turns into a
        response.
        """
        state = self.state
        caller = self._authenticator.caller(request.headers)
        self._check_rate(caller.key)
        raw = await request.body()
        incoming = read_request(state.planner, api, caller, request.headers, raw)
        planned = self._request_planner.plan_at_once(state.planner, incoming)
        if planned is None:
            planned = await self._request_planner.plan(state.planner, incoming)
        for observer in self.request_observers:
            observer.request_planned(planned)
        if planned.plan.action == "refuse":
            event = await self.recorder.record_decision(planned.plan, caller.key.id)
            raise refusal(planned.plan, event)
        if caller.key.settings.budget is not None:
            await self._check_budget(state, planned)
        try:
            return await self._send(state, planned)
        except UpstreamFailed as failure:
            return await self._respond_to_failure(state, planned, failure)

    async def read(self, request: HttpRequest, api: RequestApi) -> IncomingRequest:
        """Read a request without counting it against the rate of its key."""
        caller = self._authenticator.caller(request.headers)
        raw = await request.body()
        return read_request(self.state.planner, api, caller, request.headers, raw)

    async def preview(self, request: HttpRequest, api: RequestApi) -> Plan:
        """Return the plan for a request; nothing is recorded, and nothing is sent."""
        incoming = await self.read(request, api)
        return (await self._request_planner.plan(self.state.planner, incoming)).plan

    def _check_rate(self, key: ClientKey) -> None:
        if key.settings.rate is not None and (wait := self.rates.wait(key)):
            message = f"the key {key.name} may send {key.settings.rate} requests a minute"
            raise GatewayError(429, "rate_limit_exceeded", message, retry_after=wait)

    async def _check_budget(self, state: GatewayState, planned: PlannedRequest) -> None:
        """Refuse a request if its key has spent its budget.

        Nothing may be awaited between this check and `open_call`, which reserves the estimate:
        otherwise concurrent requests of the key would all pass the check.
        """
        # A provider is registered before its first call, and that awaits. Do it before the check.
        await self._register_provider(state, planned.plan.provider)
        key = planned.incoming.caller.key
        if not await self.budgets.has_remaining(key):
            period = key.settings.period
            part = "all of its budget" if period == "all" else f"its budget of this {period}"
            raise GatewayError(429, "insufficient_quota", f"the key {key.name} has spent {part}")

    def _send(self, state: GatewayState, planned: PlannedRequest) -> Coroutine[Any, Any, GatewayResponse]:
        """Record a call, send the request, and settle the call."""
        if self.runtime.registry.cached(planned.plan.provider) is None:
            return self._register_and_send(state, planned)
        return self._sender.send(state.upstreams, planned)

    async def _register_and_send(self, state: GatewayState, planned: PlannedRequest) -> GatewayResponse:
        await self._register_provider(state, planned.plan.provider)
        return await self._send(state, planned)

    async def _register_provider(self, state: GatewayState, provider: str) -> None:
        """Register a provider that is called for the first time."""
        registry = self.runtime.registry
        if registry.cached(provider) is None:
            async with self._registering:
                if registry.cached(provider) is None:
                    await asyncio.to_thread(state.models.provider, provider)
                    await registry.fetch(provider)

    async def _respond_to_failure(
        self, state: GatewayState, planned: PlannedRequest, failure: UpstreamFailed
    ) -> GatewayResponse:
        """Send a request to its fallback, if one is declared for such a failure.

        Otherwise respond with the failure, and learn from it.
        """
        if fallback := await self._plan_fallback(state, planned, failure):
            try:
                return await self._send(state, fallback)
            except UpstreamFailed as second_failure:
                planned, failure = fallback, second_failure
        await self._learn(state, planned, failure)
        return _failure_response(planned, failure)

    async def _plan_fallback(
        self, state: GatewayState, planned: PlannedRequest, failure: UpstreamFailed
    ) -> PlannedRequest | None:
        plan = planned.plan
        if plan.workload is None or plan.substituted_for or not plan.policy.fallback:
            return None
        if failure.kind not in plan.workload.fallback_on:
            return None
        reason = f"{failure.kind}: {failure.error}"
        return await self._request_planner.plan_fallback(state.planner, planned.incoming, reason)

    async def _learn(self, state: GatewayState, planned: PlannedRequest, failure: UpstreamFailed) -> None:
        """Record what a rejection teaches about the model. The next plan uses it."""
        codec = CODECS.get(planned.incoming.api)
        if failure.kind != "refused" or codec is None:
            return
        try:
            request = codec.read_request(planned.incoming.body)
        except InputError:
            return
        plan, models = planned.plan, state.models
        resolution = models.catalog.resolve(plan.provider, plan.model)
        lesson = await models.learner.observe_rejection(request, failure.error, resolution)
        if lesson.changed:
            await self.reload()

    def authenticate(self, request: HttpRequest) -> ClientKey:
        """Return the key of a request, or raise a `GatewayError` with status 401."""
        return self._authenticator.key(request.headers)

    @property
    def keys(self) -> ClientKeys:
        """The keys that are in force."""
        return self._authenticator.keys

    def load_keys(self) -> None:
        """Load the keys that are in force now."""
        keys = load_keys(self.ledger)
        if self.operator:
            keys.add(digest(self.operator), ClientKey(OPERATOR, OPERATOR, KeySettings(), 0))
        if keys != self._authenticator.keys:
            self._authenticator = Authenticator(keys)

    async def reload(
        self,
        configuration: Configuration | None = None,
        check: Callable[[GatewayState], None] = lambda state: None,  # noqa: ARG005
    ) -> None:
        """Take a new configuration, or only new evidence.

        Requests that have started are served to their end under the old state. `check` may raise to
        reject the new state.
        """
        async with self._reloading:
            old = self.state
            state = await asyncio.to_thread(self._make_state, configuration or old.configuration)
            check(state)
            await state.upstreams.take_over(old.upstreams)
            self.recorder.keep_content = state.configuration.gateway.keep_content
            self.state = state

    async def aclose(self) -> None:
        """Finish the records, and close the connections to upstreams."""
        await self.recorder.aclose()
        await self.state.upstreams.aclose()
        await self._client.aclose()

    def _make_state(self, configuration: Configuration) -> GatewayState:
        models = ModelCaller(
            self.runtime,
            configuration=configuration,
            catalog=configuration.catalog().extended(evidence=read_evidence(self.ledger)),
            environment=self._environment,
            client=self._client,
        )
        planner = Planner(configuration, models)
        return GatewayState(configuration, models, planner, Endpoints(models))


def _failure_response(planned: PlannedRequest, failure: UpstreamFailed) -> GatewayResponse:
    """Respond with the failure of an upstream: with its own error response if there was one."""
    if failure.response is not None:
        return failure.response
    error = failure.error
    status = error.status or (504 if error.code == "timeout" else 502)
    if failure.kind == "429":
        status = 429
    response = error_response(
        planned.incoming.api,
        GatewayError(
            status,
            error.code or "upstream_failed",
            str(error),
            param=error.param,
            retry_after=error.retry_after,
            headers=(*planned.plan.headers(), ("modelpact-invocation", failure.invocation.id)),
        ),
    )
    response.verdict = planned.plan.verdict
    return response
