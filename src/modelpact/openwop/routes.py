"""The HTTP routes of the host. Errors are flat JSON with a code in snake case."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from modelpact.dispatch.gate import decide_json, provider_check
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import Event
from modelpact.needs.dialects import ManifestError
from modelpact.openwop.clients import ClientRefused
from modelpact.openwop.documents import CONFORMANCE_PREFIX, openapi
from modelpact.openwop.host import Host, HostBusy
from modelpact.openwop.runs import Run, UnknownRun, event_json
from modelpact.openwop.workflows import UnknownWorkflow
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.strict_json import parse_json
from modelpact.wire import ClientDisconnected, HttpError, HttpRequest, HttpResponse, Routes, write_comment, write_event

DISCOVERY: Final = "/.well-known/openwop"
_LOG: Final = logging.getLogger("modelpact.openwop")
_JSON: Final = ("content-type", "application/json")
_CODES: Final = {
    400: "invalid_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "payload_too_large",
    429: "too_many_runs",
    500: "internal_error",
    503: "store_unavailable",
}
_CONFORMANCE_PROVIDERS: Final = ("anthropic", "openai", "gemini")
_PREFIXES: Final = ("/.well-known/", "/v1/runs/", "/v1/host/")
_MEDIA_TYPES: Final = {
    "application/json": "application/json",
    "application/*": "application/json",
    "*/*": "application/json",
    "text/event-stream": "text/event-stream",
    "text/*": "text/event-stream",
}
Authorise = Callable[[HttpRequest], str | None]
"""Returns the tenant of a request, or None if its token is not valid."""


def is_host_path(path: str) -> bool:
    """Tell whether a path belongs to the host, if the gateway serves it too."""
    return f"{path}/".startswith(_PREFIXES)


class HostRoutes:
    """The request handler of the host, for `modelpact.wire`."""

    def __init__(self, host: Host, authorise: Authorise, *, conformance: bool = False) -> None:
        self._host = host
        self._authorise = authorise
        tests = ("evaluate-model-capability-gate", "synthesize-model-capability-event")
        self.routes = Routes(
            ("GET", DISCOVERY, self._discovery),
            ("GET", "/openapi.json", self._document),
            ("POST", "/v1/runs", self._start),
            ("GET", "/v1/runs/{}", self._run),
            ("GET", "/v1/runs/{}/events", self._events),
            ("GET", "/v1/host/sample/node-catalog", self._catalog),
            *(("POST", f"{CONFORMANCE_PREFIX}{name}", self._gate) for name in tests if conformance),
        )
        self._openapi = msgspec.json.encode(openapi(conformance=conformance))

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request. Every error is a JSON response."""
        try:
            tenant = None
            if request.path != DISCOVERY:
                tenant = self._authorise(request)
                if tenant is None:
                    return _error(401, "a bearer token is required: Authorization: Bearer TOKEN")
            handler, path_values = self.routes.find(request.method, request.path)
            return await handler(request, tenant, *path_values)
        except HttpError as error:
            return _error(error.status, error.reason)
        except UnknownRun as error:
            return _error(404, str(error))
        except UnknownWorkflow as error:
            return _error(404, str(error), "unknown_workflow")
        except HostBusy as error:
            return _error(429, str(error))
        except ClientRefused as error:
            return _error(error.status, str(error), error.code, retry_after=error.retry_after)
        except LedgerError as error:
            return _error(503, str(error))
        except ManifestError as error:
            problems = [{"path": problem.where, "message": problem.message} for problem in error.problems]
            return _error(400, str(error), details={"problems": problems})
        except InputError as error:
            return _error(400, str(error))
        except ClientDisconnected:
            raise
        except Exception:
            _LOG.exception("%s %s failed", request.method, request.path)
            return _error(500, "the host failed at this request; its log has more")

    async def _discovery(self, _: HttpRequest, __: str | None) -> HttpResponse:
        headers = (_JSON, ("cache-control", "public, max-age=60"))
        return HttpResponse(200, headers, msgspec.json.encode(self._host.discovery()))

    async def _document(self, _: HttpRequest, __: str) -> HttpResponse:
        return HttpResponse(200, (_JSON,), self._openapi)

    async def _start(self, request: HttpRequest, tenant: str) -> HttpResponse:
        body = parse_json(await request.body(), "the body")
        # In a thread, because compiling the schemas of the nodes may take long.
        run_request = await asyncio.to_thread(self._host.library.read_run, body, self._host.default)
        run = await self._host.start(run_request, tenant)
        data = {"runId": run.id, "status": run.status}
        headers = (_JSON, ("location", f"/v1/runs/{run.id}"))
        return HttpResponse(201, headers, msgspec.json.encode(data))

    async def _run(self, _: HttpRequest, tenant: str, run_id: str) -> HttpResponse:
        return _json(200, (await self._host.runs.find(run_id, tenant)).to_json())

    async def _events(self, request: HttpRequest, tenant: str, run_id: str) -> HttpResponse:
        media_type = _choose_media_type(request.headers.get("accept") or "*/*")
        run = await self._host.runs.find(run_id, tenant)
        if media_type == "application/json":
            events = await self._host.runs.events(run)
            return _json(200, {"events": [event_json(event) for event in events]})
        after = _last_sequence(request.headers.get("last-event-id") or "", run)
        headers = (("content-type", "text/event-stream"), ("cache-control", "no-store"))
        return HttpResponse(200, headers, self._stream(run, after))

    async def _stream(self, run: Run, after: int) -> AsyncIterator[bytes]:
        yield write_comment("the run's events follow")
        async for event in self._host.runs.follow(run, after):
            yield write_comment() if event is None else _sse(event)

    async def _catalog(self, _: HttpRequest, __: str) -> HttpResponse:
        return _json(200, {"nodes": self._host.catalog()})

    async def _gate(self, request: HttpRequest, _: str) -> HttpResponse:
        body = parse_json(await request.body(), "the body")
        find_provider = self._host.models.catalog.find_provider
        decision = decide_json(
            body, lambda: provider_check(*_CONFORMANCE_PROVIDERS), lambda name: find_provider(name) is not None
        )
        return _json(200, decision.to_json())


def _sse(event: Event) -> bytes:
    data = event_json(event)
    return write_event(msgspec.json.encode(data).decode(), event.type, event.id)


def _last_sequence(last: str, run: Run) -> int:
    """Return the sequence number in a Last-Event-ID header, or 0."""
    if not last:
        return 0
    number = last.removeprefix(f"{run.envelope}:")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise HttpError(400, f"Last-Event-ID: {last!r:.80} is not an event of this run")
    return int(number)


def _choose_media_type(accept: str) -> str:
    """Return the media type that an Accept header prefers; JSON if it has no preference."""
    best, best_quality = "", 0.0
    for part in accept.split(","):
        media_range, *parameters = (item.strip().lower() for item in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                quality = _quality(parameter[2:])
        media_type = _MEDIA_TYPES.get(media_range)
        if media_type is not None and quality > best_quality:
            best, best_quality = media_type, quality
    if not best:
        raise HttpError(406, "this path has application/json and text/event-stream")
    return best


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and 0 <= value <= 1 else 0.0


def _json(status: int, data: Any) -> HttpResponse:
    return HttpResponse(status, (_JSON,), msgspec.json.encode(data))


def _error(
    status: int, message: str, code: str = "", details: dict[str, Any] | None = None, retry_after: float | None = None
) -> HttpResponse:
    body: dict[str, Any] = {"error": code or _CODES.get(status, "refused"), "message": message}
    if details:
        body["details"] = details
    headers: list[tuple[str, str]] = [_JSON]
    if status == 401:
        headers.append(("www-authenticate", "Bearer"))
    if status == 429:
        headers.append(("retry-after", str(math.ceil(retry_after or 1))))
    if status == 405:
        headers.append(("allow", message.removeprefix("expected ").replace(" or ", ", ")))
    return HttpResponse(status, tuple(headers), msgspec.json.encode(body))
