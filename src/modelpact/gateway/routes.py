"""The surface: the gateway over HTTP, and the OpenWOP host beside it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from modelpact._version import __version__
from modelpact.gateway.errors import JSON, GatewayError, GatewayResponse, error_answer
from modelpact.gateway.model_list import anthropic_list, describe, list_capabilities, list_models
from modelpact.gateway.observe.metrics import Metrics
from modelpact.gateway.plan.sizing import SIZE_HEADER, prompt_size
from modelpact.gateway.request.auth import caller_of
from modelpact.gateway.request.model_names import UnknownModel
from modelpact.gateway.service import Gateway
from modelpact.ledger.stores.base import LedgerError
from modelpact.needs.need import Needs
from modelpact.needs.requests import RequestApi
from modelpact.openwop.routes import HostRoutes, is_host_path
from modelpact.vocabulary.errors import InputError
from modelpact.wire import ClientDisconnected, Handler, HttpError, HttpRequest, HttpResponse
from modelpact.wire.routing import Routes

_LOG: Final = logging.getLogger("modelpact.gateway")
_CHATS: Final[dict[str, RequestApi]] = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
    "/v1/embeddings": "embeddings",
}
_MODELS: Final = "/v1/models/"
_COUNT: Final = "/v1/messages/count_tokens"


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
            ("GET", "/openapi.json", self._document),
            ("GET", "/v1/models", self._models),
            ("GET", "/v1/capabilities", self._capabilities),
            ("POST", "/v1/negotiate", self._negotiate),
            ("POST", _COUNT, self._count),
            *((("POST", path, self._misdirected)) for path in _CHATS),
        )
        self.connections: Callable[[], int] = int
        """Tells how many there are; the server that they come by is made later."""
        self.draining = False

    def __call__(self, request: HttpRequest) -> Awaitable[HttpResponse]:
        """Answer a request."""
        api = _CHATS.get(request.path)
        if api is not None and request.method == "POST":
            return self._chat(request, api)
        return self._asked(request)

    async def _asked(self, request: HttpRequest) -> HttpResponse:
        """Answer what does not go to a model."""
        api = _spoken(request)
        try:
            if request.path.startswith(_MODELS) and request.method == "GET":
                return await self._model(request)
            try:
                answering, given = self._routes.find(request.method, request.path)
            except HttpError as refused:
                if refused.status != 404:
                    raise
                return await self._elsewhere(request)
            return await answering(request, *given)
        except HttpError as refused:
            code = {404: "not_found", 405: "method_not_allowed"}.get(refused.status, "refused")
            return error_answer(api, GatewayError(refused.status, code, refused.reason))
        except GatewayError as error:
            return error_answer(api, error)
        except UnknownModel as error:
            return error_answer(api, GatewayError(404, "model_not_found", str(error)))
        except InputError as error:
            return error_answer(api, GatewayError(400, "invalid_request_error", str(error)))
        except LedgerError as error:
            return error_answer(api, GatewayError(503, "ledger_unavailable", str(error)))
        except ClientDisconnected:
            raise
        except Exception:
            return _failed(request, api)

    async def _elsewhere(self, request: HttpRequest) -> HttpResponse:
        """Answer on a path that is not the gateway's: the host's, or nobody's."""
        if self._host is not None and is_host_path(request.path):
            return await self._host(request)
        self._gateway.key_of(request)
        raise HttpError(404, f"{request.method} {request.path:.200}: no such path")

    async def _chat(self, request: HttpRequest, api: RequestApi) -> HttpResponse:
        started = time.perf_counter()
        for observer in self._gateway.observers:
            observer.request_started(request, api)
        answer: GatewayResponse | None = None
        try:
            answer = await self._gateway.serve(request, api)
        except (HttpError, ClientDisconnected, asyncio.CancelledError):
            raise
        except Exception:
            answer = _failed(request, api)
        finally:
            seconds = time.perf_counter() - started
            for observer in self._gateway.observers:
                observer.response_started(api, answer, seconds)
        return answer

    async def _misdirected(self, request: HttpRequest) -> HttpResponse:
        raise AssertionError(f"{request.path} is answered before the routes are looked at")

    async def _health(self, _: HttpRequest) -> HttpResponse:
        return _json({"status": "ok", "version": __version__})

    async def _ready(self, _: HttpRequest) -> HttpResponse:
        if self.draining:
            raise GatewayError(503, "draining", "the gateway is about to stop")
        await asyncio.to_thread(self._gateway.ledger.read, "SELECT 1")
        return _json({"status": "ready"})

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        self._gateway.key_of(request)
        text = self.metrics.text(self.connections())
        kind = ("content-type", "text/plain; version=0.0.4; charset=utf-8")
        return HttpResponse(200, (kind,), text.encode())

    async def _document(self, request: HttpRequest) -> HttpResponse:
        from modelpact.gateway.openapi import openapi

        self._gateway.key_of(request)
        return _json(openapi(conformance=self._conformance))

    async def _models(self, request: HttpRequest) -> HttpResponse:
        key = self._gateway.key_of(request)
        asked = parse_qs(request.query)
        needs = Needs([one for text in asked.get("need", []) for one in Needs(text)])
        found = [
            one
            for one in list_models(self._gateway.state, needs)
            if key.allows(one["id"]) or key.allows(one["modelpact"].get("model", ""))
        ]
        if request.headers.get("anthropic-version"):
            return _json(anthropic_list(found))
        return _json({"object": "list", "data": found})

    async def _model(self, request: HttpRequest) -> HttpResponse:
        key = self._gateway.key_of(request)
        name = request.decoded_path.removeprefix(_MODELS)
        meant = self._gateway.state.planner.names.meant(name)
        if not (key.allows(name) or key.allows(meant.target)):
            raise GatewayError(404, "model_not_found", f"{name!r:.80}: no such model for this key")
        return _json(describe(self._gateway.state.models, meant.target))

    async def _capabilities(self, request: HttpRequest) -> HttpResponse:
        self._gateway.key_of(request)
        models = parse_qs(request.query).get("model")
        if models:
            meant = self._gateway.state.planner.names.meant(models[0])
            return _json(describe(self._gateway.state.models, meant.target))
        return _json({"object": "list", "data": list_capabilities()})

    async def _negotiate(self, request: HttpRequest) -> HttpResponse:
        """Answer what would be done with a body; nothing is sent."""
        caller = caller_of(request.headers, self._gateway.keys)
        named = parse_qs(request.query).get("api", ["openai-chat"])[0]
        api = next((one for one in _CHATS.values() if one == named), None)
        if api is None:
            raise InputError(f"api: expected one of {', '.join(_CHATS.values())}")
        exchange = await self._gateway.read(request, api, caller)
        return _json(self._gateway.foreseen(exchange).data())

    async def _count(self, request: HttpRequest) -> HttpResponse:
        """Answer how long a prompt is, and how that was found; nothing is sent."""
        caller = caller_of(request.headers, self._gateway.keys)
        exchange = await self._gateway.read(request, "anthropic", caller)
        tokens, how = await prompt_size(exchange.body, exchange.plan.encoding)
        told = (JSON, (SIZE_HEADER, f"{tokens} {how}"))
        return HttpResponse(200, told, msgspec.json.encode({"input_tokens": tokens}))


def _spoken(request: HttpRequest) -> RequestApi:
    """Return the API whose words a client expects an error in."""
    anthropic = request.path == "/v1/messages" or request.path.startswith("/v1/messages/")
    return "anthropic" if anthropic or request.headers.get("anthropic-version") else "openai-chat"


def _failed(request: HttpRequest, api: RequestApi) -> GatewayResponse:
    """Answer after a mistake of the gateway's own, which is logged."""
    _LOG.exception("%s %s failed", request.method, request.path)
    told = "the gateway failed at this request; its log has more"
    return error_answer(api, GatewayError(500, "internal_error", told))


def _json(data: Any) -> HttpResponse:
    return HttpResponse(200, (JSON,), msgspec.json.encode(data))
