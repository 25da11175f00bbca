"""Telemetry: traces and metrics for OpenTelemetry, with its `gen_ai` names. Never a prompt.

A request is a server span, a child of the client's span. Each call of a provider is a client span
beneath it.
"""

import asyncio
import time
from contextvars import ContextVar
from typing import Any, Final

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from modelpact._version import __version__
from modelpact.gateway.observers import CallObserver, RequestObserver
from modelpact.gateway.plan.plan import Plan, header_safe
from modelpact.gateway.plan.request_planner import PlannedRequest
from modelpact.gateway.responses import GatewayResponse
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi
from modelpact.providers.contract import Invocation
from modelpact.wire import HttpRequest

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Names of the conventions for providers that the catalog names differently."""
_PARAMETERS: Final = {
    "frequency_penalty": "frequency_penalty",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "n": "choice.count",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}
_DURATION_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
_TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
_EXPORT_TIMEOUT_SECONDS: Final = 5.0
_MAX_SERIES: Final = 1_000
_UNBOUNDED: Final = frozenset({"gen_ai.request.model", "gen_ai.response.model", "error.type"})
"""Attributes whose values clients and upstreams choose freely."""
_OTHER: Final = "_OTHER"

_current: ContextVar["_RequestSpan | None"] = ContextVar("modelpact_request_span", default=None)


class Telemetry(RequestObserver, CallObserver):
    """Sends traces and metrics to an OTLP collector, from threads of its own."""

    def __init__(self, address: str, name: str) -> None:
        """Export to the collector at `address`, such as `http://127.0.0.1:4318`."""
        self.address = address
        base = address.rstrip("/")
        resource = Resource.create(
            {"service.name": "modelpact", "service.version": __version__, "modelpact.gateway": name}
        )
        self._traces = TracerProvider(resource=resource)
        spans = OTLPSpanExporter(f"{base}/v1/traces", timeout=_EXPORT_TIMEOUT_SECONDS)
        self._traces.add_span_processor(BatchSpanProcessor(spans))
        metrics = OTLPMetricExporter(f"{base}/v1/metrics", timeout=_EXPORT_TIMEOUT_SECONDS)
        self._metrics = MeterProvider((PeriodicExportingMetricReader(metrics),), resource)
        self._tracer = self._traces.get_tracer("modelpact", __version__)
        meter = self._metrics.get_meter("modelpact", __version__)
        self._requests = meter.create_counter("modelpact.requests", "{request}", "Requests by API, status and verdict.")
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "How long providers took.",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of requests and answers.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._propagator = TraceContextTextMapPropagator()
        self._call_spans: dict[str, _CallSpan] = {}
        self._series: set[tuple[Any, ...]] = set()

    def request_started(self, request: HttpRequest, api: RequestApi) -> None:
        """Start the span of a request."""
        carrier = {
            name: value for name in ("traceparent", "tracestate") if (value := request.headers.get(name)) is not None
        }
        parent = self._propagator.extract(carrier, Context())
        span = self._tracer.start_span(
            f"{request.method} {request.path}",
            parent,
            SpanKind.SERVER,
            {"http.request.method": request.method, "url.path": request.path, "modelpact.api": api},
        )
        _current.set(_RequestSpan(span, set_span_in_context(span, parent), api))

    def request_planned(self, planned: PlannedRequest) -> None:
        """Add the plan to the span of its request."""
        current = _current.get()
        if current is None:
            return
        current.planned = planned
        plan = planned.plan
        attributes: dict[str, Any] = {
            "modelpact.verdict": plan.verdict,
            "modelpact.plan": plan.action,
            "modelpact.requested_model": header_safe(plan.requested),
            "modelpact.key": planned.incoming.caller.key.id,
        }
        if plan.workload is not None:
            attributes["modelpact.workload"] = plan.workload.name
        current.span.set_attributes(attributes)

    def call_opened(
        self,
        plan: Plan,
        call: Invocation,
        estimate: tuple[CostLine, ...],  # noqa: ARG002
    ) -> None:
        """Start the span of a call."""
        current = _current.get()
        planned = None if current is None else current.planned
        embeddings = current is not None and current.api == "embeddings"
        operation = "embeddings" if embeddings else "chat"
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDERS.get(plan.provider_kind, plan.provider_kind),
            "gen_ai.request.model": plan.model,
            "modelpact.verdict": plan.verdict,
        }
        span = self._tracer.start_span(
            f"{operation} {plan.model}",
            Context() if current is None else current.context,
            SpanKind.CLIENT,
            {**attributes, **_request_attributes(planned), **_plan_attributes(plan), "modelpact.invocation": call.id},
        )
        self._call_spans[call.id] = _CallSpan(span, attributes, current)

    def call_ended(self, call: Invocation, cost: tuple[CostLine, ...], error: str) -> None:
        """End the span of a call, and with it the span of a request that is streamed."""
        open_span = self._call_spans.pop(call.id, None)
        if open_span is None:
            return
        attributes, span = open_span.attributes, open_span.span
        if error:
            attributes["error.type"] = error.partition(":")[0][:80]
            _mark_failed(span, attributes["error.type"])
        else:
            attributes["gen_ai.response.model"] = attributes["gen_ai.request.model"]
            span.set_attribute("gen_ai.response.model", attributes["gen_ai.response.model"])
        labels = self._bounded(attributes)
        for line in cost:
            if line.unit in ("tokens.input", "tokens.output"):
                kind = line.unit.removeprefix("tokens.")
                span.set_attribute(f"gen_ai.usage.{kind}_tokens", line.amount)
                self._usage.record(line.amount, {**labels, "gen_ai.token.type": kind})
            elif line.unit == "currency":
                span.set_attribute("modelpact.cost_usd", line.amount / 1e9)
        self._durations.record(time.perf_counter() - open_span.started, labels)
        span.end()
        request_span = open_span.request_span
        if request_span is not None:
            served = f"{call.provider}/{call.attribution.model}"
            request_span.span.set_attribute("modelpact.served_model", served)
            if request_span.streaming:
                if error:
                    _mark_failed(request_span.span, attributes["error.type"])
                request_span.span.end()

    def response_started(
        self,
        api: RequestApi,
        response: GatewayResponse | None,
        seconds: float,  # noqa: ARG002
    ) -> None:
        """End the span of a request, unless a stream follows."""
        current = _current.get()
        if current is None:
            return
        span = current.span
        status = 499 if response is None else response.status
        verdict = "none" if response is None else response.verdict
        span.set_attribute("http.response.status_code", status)
        labels = {"modelpact.api": api, "modelpact.verdict": verdict}
        self._requests.add(1, {**labels, "http.response.status_code": status})
        if status >= 500 or response is None:
            _mark_failed(span, str(status))
        if response is not None and not isinstance(response.body, bytes):
            current.streaming = True
        else:
            span.end()

    async def aclose(self) -> None:
        """Export what is left, and stop."""
        await asyncio.gather(asyncio.to_thread(self._traces.shutdown), asyncio.to_thread(self._metrics.shutdown))

    def _bounded(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return the labels of a metric, with `_OTHER` for free text once there are many series."""
        series = tuple(attributes.items())
        if series not in self._series:
            if len(self._series) >= _MAX_SERIES:
                return {name: _OTHER if name in _UNBOUNDED else value for name, value in attributes.items()}
            self._series.add(series)
        return attributes


class _RequestSpan(msgspec.Struct):
    """The span of a request, and what its calls need of it."""

    span: Span
    context: Context
    api: RequestApi
    planned: PlannedRequest | None = None
    streaming: bool = False


class _CallSpan(msgspec.Struct):
    """The span of a call that has not ended."""

    span: Span
    attributes: dict[str, Any]
    request_span: _RequestSpan | None
    started: float = msgspec.field(default_factory=time.perf_counter)


def _request_attributes(planned: PlannedRequest | None) -> dict[str, Any]:
    """Return the numeric parameters of a request: they hold nothing of its prompt."""
    if planned is None:
        return {}
    body = planned.incoming.body
    attributes: dict[str, Any] = {
        f"gen_ai.request.{name}": body[field]
        for field, name in _PARAMETERS.items()
        if type(body.get(field)) in (int, float)
    }
    if planned.incoming.stream:
        attributes["modelpact.stream"] = True
    return attributes


def _plan_attributes(plan: Plan) -> dict[str, Any]:
    """Return how the plan changes the request."""
    attributes: dict[str, Any] = {}
    if plan.substituted_for:
        attributes["modelpact.substituted_for"] = plan.substituted_for
    if plan.emulate:
        attributes["modelpact.emulated"] = [name for name, _ in plan.emulate]
    if plan.api_translation:
        attributes["modelpact.carried"] = plan.api_translation
    if plan.drops:
        attributes["modelpact.dropped"] = list(plan.drops)
    return attributes


def _mark_failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
