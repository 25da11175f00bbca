"""The routes of the gateway, and of the OpenWOP host beside it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from modelpact._version import __version__
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.gateway.observers import Metrics
from modelpact.gateway.plan.plan import PROMPT_TOKENS_HEADER
from modelpact.gateway.plan.sizing import prompt_size
from modelpact.gateway.responses import JSON, GatewayError, GatewayResponse, error_response
from modelpact.gateway.service import Gateway, GatewayState
from modelpact.needs.need import Needs
from modelpact.needs.requests import RequestApi
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.search import find_models
from modelpact.openwop.documents import openapi as host_openapi
from modelpact.openwop.routes import HostRoutes, is_host_path
from modelpact.vocabulary.capability import CAPABILITIES
from modelpact.vocabulary.errors import InputError
from modelpact.wire import ClientDisconnected, Handler, HttpError, HttpRequest, HttpResponse, Routes

OPENAPI_FILE: Final = Path(__file__).with_name("openapi.json")
"""The gateway's part of the OpenAPI document; the OpenWOP host adds its own."""
_MODEL_PATHS: Final[dict[str, RequestApi]] = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
    "/v1/embeddings": "embeddings",
}
_APIS: Final = tuple(_MODEL_PATHS.values())
_MODEL_PREFIX: Final = "/v1/models/"
_LISTED_CAPABILITIES: Final = (
    "streaming",
    "tool-calling",
    "structured-output",
    "reasoning",
    "image-input",
    "audio-input",
    "pdf-input",
    "prompt-caching",
)
_LISTED_LIMITS: Final = ("context-window", "max-output")


class GatewayRoutes:
    """A handler for `modelpact.wire`."""

    def __init__(self, gateway: Gateway, host: HostRoutes | None = None, *, conformance: bool = False) -> None:
        self._gateway = gateway
        self._conformance = conformance
        self._host: Handler | None = host
        self.metrics = Metrics()
        gateway.request_observers.append(self.metrics)
        self._routes = Routes(
            ("GET", "/healthz", self._health),
            ("GET", "/readyz", self._ready),
            ("GET", "/metrics", self._metrics),
            ("GET", "/openapi.json", self._openapi),
            ("GET", "/v1/models", self._models),
            ("GET", "/v1/capabilities", self._capabilities),
            ("POST", "/v1/negotiate", self._negotiate),
            ("POST", "/v1/messages/count_tokens", self._count_tokens),
            # `__call__` serves these without the table, which responds to other methods with 405.
            *(("POST", path, partial(self._serve, api=api)) for path, api in _MODEL_PATHS.items()),
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
        observers = self._gateway.request_observers
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
        """Respond on a path that is not the gateway's: through the OpenWOP host, or with 404."""
        if self._host is not None and is_host_path(request.path):
            return await self._host(request)
        self._gateway.authenticate(request)
        raise HttpError(404, f"{request.method} {request.path:.200}: no such path")

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
            return _json(_anthropic_list(models))
        return _json({"object": "list", "data": models})

    async def _model(self, request: HttpRequest) -> HttpResponse:
        key = self._gateway.authenticate(request)
        name = request.decoded_path.removeprefix(_MODEL_PREFIX)
        state = self._gateway.state
        resolved = state.planner.names.resolve(name)
        if not (key.allows(name) or key.allows(resolved.target)):
            raise GatewayError(404, "model_not_found", f"{name!r:.80}: no such model for this key")
        return _json(describe_model(state.models, resolved.target))

    async def _capabilities(self, request: HttpRequest) -> HttpResponse:
        self._gateway.authenticate(request)
        names = parse_qs(request.query).get("model")
        if names:
            state = self._gateway.state
            return _json(describe_model(state.models, state.planner.names.resolve(names[0]).target))
        fields = ("id", "meaning", "kind", "group")
        vocabulary = [{field: getattr(capability, field) for field in fields} for capability in CAPABILITIES.values()]
        return _json({"object": "list", "data": vocabulary})

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
        """Respond with the tokens of a prompt and the counting method; nothing is sent."""
        incoming = await self._gateway.read(request, "anthropic")
        plan = self._gateway.state.planner.plan(incoming.plan_key)
        tokens, method = await prompt_size(incoming.body, plan.encoding)
        headers = (JSON, (PROMPT_TOKENS_HEADER, f"{tokens} {method}"))
        return HttpResponse(200, headers, msgspec.json.encode({"input_tokens": tokens}))


def list_models(state: GatewayState, needs: Needs) -> list[dict[str, Any]]:
    """Return the workloads, aliases and models that can be requested and meet the needs."""
    configuration, models = state.configuration, state.models

    def meets_needs(target: str) -> bool:
        return not needs or bool(negotiate(needs, target, catalog=models.catalog))

    workloads = [
        _listed(f"workload/{name}", "modelpact", {"model": workload.model, "needs": str(workload.needs)})
        for name, workload in configuration.workloads.items()
        if meets_needs(workload.model)
    ]
    aliases = [
        _listed(name, "modelpact", {"model": target, **describe_model(models, target)["modelpact"]})
        for name, target in configuration.gateway.aliases.items()
        if meets_needs(target)
    ]
    usable = [name for name in models.supported_providers() if models.can_authenticate(name)]
    listed = find_models(needs, provider=usable, catalog=models.catalog) if usable else []
    configured = [f"{provider}/{model}" for provider, model in configuration.models if provider in usable]
    targets = {*listed, *filter(meets_needs, (*configured, "mock/demo"))}
    return [*workloads, *aliases, *(describe_model(models, target) for target in sorted(targets))]


def describe_model(models: ModelCaller, target: str) -> dict[str, Any]:
    """Return a model in the format of OpenAI's list, with its capabilities beside."""
    provider, model = models.catalog.split(target)
    resolution = models.catalog.resolve(provider, model)
    capabilities: dict[str, Any] = {name: resolution.claim(name).support for name in _LISTED_CAPABILITIES}
    for name in _LISTED_LIMITS:
        claim = resolution.claim(name)
        capabilities[name] = claim.value if claim.known else None
    return _listed(target, provider, {"capabilities": capabilities})


def openapi(*, conformance: bool) -> dict[str, Any]:
    """Return the OpenAPI document of everything that is served on one address.

    `conformance` adds the host's paths for conformance tests.
    """
    document = host_openapi(conformance=conformance)
    gateway = msgspec.json.decode(OPENAPI_FILE.read_bytes())
    document["info"] = {"title": "modelpact", "version": __version__}
    document["security"] = [{"bearer": []}, {"key": []}]
    document["paths"] |= gateway["paths"]
    for kind, components in gateway["components"].items():
        document["components"].setdefault(kind, {}).update(components)
    return document


def _error_api(request: HttpRequest) -> RequestApi:
    """Return the API in whose format a client expects an error."""
    anthropic = request.path == "/v1/messages" or request.path.startswith("/v1/messages/")
    return "anthropic" if anthropic or request.headers.get("anthropic-version") else "openai-chat"


def _json(data: Any) -> HttpResponse:
    return HttpResponse(200, (JSON,), msgspec.json.encode(data))


def _listed(name: str, owner: str, details: dict[str, Any]) -> dict[str, Any]:
    """Return a model, a workload or an alias in the format of OpenAI's list."""
    return {"id": name, "object": "model", "created": 0, "owned_by": owner, "modelpact": details}


def _anthropic_list(models: list[dict[str, Any]]) -> dict[str, Any]:
    """Return models in the format of Anthropic's list."""
    data = [
        {
            "type": "model",
            "id": model["id"],
            "display_name": model["id"],
            "created_at": "1970-01-01T00:00:00Z",
            "modelpact": model["modelpact"],
        }
        for model in models
    ]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}
