"""The routes of the gateway, and of the OpenWOP host beside it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from modelpact._version import __version__
from modelpact.gateway.errors import JSON, GatewayError, GatewayResponse, error_response
from modelpact.gateway.model_list import anthropic_list, describe, list_capabilities, list_models
from modelpact.gateway.observe.metrics import Metrics
from modelpact.gateway.plan.plan import PROMPT_TOKENS_HEADER
from modelpact.gateway.plan.sizing import prompt_size
from modelpact.gateway.service import Gateway
from modelpact.needs.need import Needs
from modelpact.needs.requests import RequestApi
from modelpact.openwop.routes import HostRoutes, is_host_path
from modelpact.vocabulary.errors import InputError
from modelpact.wire import (
    ClientDisconnected,
    Handler,
    HttpError,
    HttpRequest,
    HttpResponse,
    Routes,
)

_MODEL_PATHS: Final[dict[str, RequestApi]] = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
    "/v1/embeddings": "embeddings",
}
_APIS: Final = tuple(_MODEL_PATHS.values())
_MODEL_PREFIX: Final = "/v1/models/"


class GatewayRoutes:
    """A handler for `modelpact.wire`."""

    def __init__(
        self, gateway: Gateway, host: HostRoutes | None = None, *, conformance: bool = False
    ) -> None:
        self._gateway = gateway
        self._conformance = conformance
        self._host: Handler | None = host
        self.metrics = Metrics()
        gateway.observers.append(self.metrics)
        self._routes = Routes(
            ("GET", "/healthz", self._health),
            ("GET", "/readyz", self._ready),
            ("GET", "/metrics", self._metrics),
            ("GET", "/openapi.json", self._openapi),
            ("GET", "/v1/models", self._models),
            ("GET", "/v1/capabilities", self._capabilities),
            ("POST", "/v1/negotiate", self._negotiate),
            ("POST", "/v1/messages/count_tokens", self._count_tokens),
            *((("POST", path, self._unreachable)) for path in _MODEL_PATHS),
        )
        self.connections: Callable[[], int] = int
        """Returns the number of open connections; the server sets it once it listens."""
        self.draining = False

    def __call__(self, request: HttpRequest) -> Awaitable[HttpResponse]:
        """Respond to a request."""
        api = _MODEL_PATHS.get(request.path)
        if api is not None and request.method == "POST":
            return self._serve(request, api)
        return self._respond(request)

    async def _serve(self, request: HttpRequest, api: RequestApi) -> HttpResponse:
        """Respond to a request for a model."""
        started = time.perf_counter()
        observers = self._gateway.observers
        for observer in observers:
            observer.request_started(request, api)
        response: GatewayResponse | None = None
        try:
            response = await self._gateway.serve(request, api)
        except ClientDisconnected:
            raise
        except Exception as error:
            response = error_response(api, error, request)
        finally:
            seconds = time.perf_counter() - started
            for observer in observers:
                observer.response_started(api, response, seconds)
        return response

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        """Respond to a request that is not for a model."""
        try:
            if request.path.startswith(_MODEL_PREFIX) and request.method == "GET":
                return await self._model(request)
            try:
                handler, parameters = self._routes.find(request.method, request.path)
            except HttpError as error:
                if error.status != 404:
                    raise
                return await self._other_path(request)
            return await handler(request, *parameters)
        except ClientDisconnected:
            raise
        except Exception as error:
            return error_response(_error_api(request), error, request)

    async def _other_path(self, request: HttpRequest) -> HttpResponse:
        """Respond on a path that is not the gateway's: the host's, or nobody's."""
        if self._host is not None and is_host_path(request.path):
            return await self._host(request)
        self._gateway.authenticate(request)
        raise HttpError(404, f"{request.method} {request.path:.200}: no such path")

    async def _unreachable(self, request: HttpRequest) -> HttpResponse:
        """Stand for a path of a model in the route table, which answers other methods with 405."""
        raise AssertionError(f"{request.path} is answered before the routes are looked at")

    async def _health(self, _: HttpRequest) -> HttpResponse:
        return _json({"status": "ok", "version": __version__})

    async def _ready(self, _: HttpRequest) -> HttpResponse:
        if self.draining:
            raise GatewayError(503, "draining", "the gateway is about to stop")
        await asyncio.to_thread(self._gateway.ledger.read, "SELECT 1")
        return _json({"status": "ready"})

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        self._gateway.authenticate(request)
        text = self.metrics.text(self.connections())
        content_type = ("content-type", "text/plain; version=0.0.4; charset=utf-8")
        return HttpResponse(200, (content_type,), text.encode())

    async def _openapi(self, request: HttpRequest) -> HttpResponse:
        from modelpact.gateway.openapi import openapi

        self._gateway.authenticate(request)
        return _json(openapi(conformance=self._conformance))

    async def _models(self, request: HttpRequest) -> HttpResponse:
        key = self._gateway.authenticate(request)
        query = parse_qs(request.query)
        needs = Needs([need for text in query.get("need", []) for need in Needs(text)])
        models = [
            model
            for model in list_models(self._gateway.state, needs)
            if key.allows(model["id"]) or key.allows(model["modelpact"].get("model", ""))
        ]
        if request.headers.get("anthropic-version"):
            return _json(anthropic_list(models))
        return _json({"object": "list", "data": models})

    async def _model(self, request: HttpRequest) -> HttpResponse:
        key = self._gateway.authenticate(request)
        name = request.decoded_path.removeprefix(_MODEL_PREFIX)
        state = self._gateway.state
        resolved = state.planner.names.resolve(name)
        if not (key.allows(name) or key.allows(resolved.target)):
            raise GatewayError(404, "model_not_found", f"{name!r:.80}: no such model for this key")
        return _json(describe(state.models, resolved.target))

    async def _capabilities(self, request: HttpRequest) -> HttpResponse:
        self._gateway.authenticate(request)
        names = parse_qs(request.query).get("model")
        if names:
            state = self._gateway.state
            return _json(describe(state.models, state.planner.names.resolve(names[0]).target))
        return _json({"object": "list", "data": list_capabilities()})

    async def _negotiate(self, request: HttpRequest) -> HttpResponse:
        """Respond with the plan for a body; nothing is sent."""
        self._gateway.authenticate(request)
        name = parse_qs(request.query).get("api", ["openai-chat"])[0]
        api = next((api for api in _APIS if api == name), None)
        if api is None:
            raise InputError(f"api: expected one of {', '.join(_APIS)}")
        plan = await self._gateway.preview(request, api)
        return _json(plan.data())

    async def _count_tokens(self, request: HttpRequest) -> HttpResponse:
        """Respond with the size of a prompt, and how it was found; nothing is sent."""
        incoming = await self._gateway.read(request, "anthropic")
        plan = self._gateway.state.planner.plan(incoming.plan_key)
        tokens, method = await prompt_size(incoming.body, plan.encoding)
        headers = (JSON, (PROMPT_TOKENS_HEADER, f"{tokens} {method}"))
        return HttpResponse(200, headers, msgspec.json.encode({"input_tokens": tokens}))


def _error_api(request: HttpRequest) -> RequestApi:
    """Return the API in whose format a client expects an error."""
    anthropic = request.path == "/v1/messages" or request.path.startswith("/v1/messages/")
    return "anthropic" if anthropic or request.headers.get("anthropic-version") else "openai-chat"


def _json(data: Any) -> HttpResponse:
    return HttpResponse(200, (JSON,), msgspec.json.encode(data))
