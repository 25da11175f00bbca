"""Telemetry: traces and metrics for OpenTelemetry, with its `gen_ai` names. Never a prompt.

A request is a server's span, as a child of its client's; each call of a provider is a client's span
under that.
"""

import asyncio
import time
from contextvars import ContextVar
from typing import Any, Final

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
from modelpact.gateway.plan.plan import Plan, header_safe
from modelpact.gateway.record.calls import GatewayCall
from modelpact.gateway.request.planned import PlannedRequest
from modelpact.ledger.costs import CostLine
from modelpact.needs.requests import RequestApi
from modelpact.wire import HttpRequest, HttpResponse

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Providers that the conventions call otherwise than the catalog does."""
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
_DURATIONS: Final = tuple(0.01 * 2**power for power in range(14))
_TOKENS: Final = tuple(4**power for power in range(14))
_TIMEOUT: Final = 5.0
_MOST_SERIES: Final = 1_000
_MADE_UP: Final = frozenset({"gen_ai.request.model", "gen_ai.response.model", "error.type"})
"""What clients and upstreams say as they like."""
_OTHER: Final = "_OTHER"

_current: ContextVar["_Observed | None"] = ContextVar("modelpact_observed", default=None)


class _Observed:
    """One request while it is observed."""

    __slots__ = ("api", "context", "exchange", "span", "streaming")

    def __init__(self, span: Span, context: Context, api: RequestApi) -> None:
        self.span = span
        self.context = context
        self.api = api
        self.exchange: PlannedRequest | None = None
        self.streaming = False


class _ObservedCall:
    """One call of a provider."""

    __slots__ = ("attributes", "observed", "span", "started")

    def __init__(self, span: Span, attributes: dict[str, Any], observed: _Observed | None) -> None:
        self.span = span
        self.attributes = attributes
        self.observed = observed
        self.started = time.perf_counter()


class Telemetry:
    """Sends what it hears to an OTLP collector, from threads of its own."""

    def __init__(self, address: str, name: str) -> None:
        """`address` is the collector's, such as `http://127.0.0.1:4318`."""
        self.address = address
        base = address.rstrip("/")
        resource = Resource.create(
            {"service.name": "modelpact", "service.version": __version__, "modelpact.gateway": name}
        )
        self._traces = TracerProvider(resource=resource)
        spans = OTLPSpanExporter(f"{base}/v1/traces", timeout=_TIMEOUT)
        self._traces.add_span_processor(BatchSpanProcessor(spans))
        metrics = OTLPMetricExporter(f"{base}/v1/metrics", timeout=_TIMEOUT)
        self._metrics = MeterProvider((PeriodicExportingMetricReader(metrics),), resource)
        self._tracer = self._traces.get_tracer("modelpact", __version__)
        meter = self._metrics.get_meter("modelpact", __version__)
        self._requests = meter.create_counter(
            "modelpact.requests", "{request}", "Requests by API, status and verdict."
        )
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "How long providers took.",
            explicit_bucket_boundaries_advisory=_DURATIONS,
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of requests and answers.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._parents = TraceContextTextMapPropagator()
        self._calls: dict[str, _ObservedCall] = {}
        self._series: set[tuple[Any, ...]] = set()

    def begun(self, request: HttpRequest, api: RequestApi) -> None:
        """Open the span of a request."""
        given = {
            name: value
            for name in ("traceparent", "tracestate")
            if (value := request.headers.get(name)) is not None
        }
        parent = self._parents.extract(given, Context())
        span = self._tracer.start_span(
            f"{request.method} {request.path}",
            parent,
            SpanKind.SERVER,
            {"http.request.method": request.method, "url.path": request.path, "modelpact.api": api},
        )
        _current.set(_Observed(span, set_span_in_context(span, parent), api))

    def planned(self, exchange: PlannedRequest) -> None:
        """Note what is done about a request."""
        observed = _current.get()
        if observed is None:
            return
        observed.exchange = exchange
        plan = exchange.plan
        told: dict[str, Any] = {
            "modelpact.verdict": plan.answer,
            "modelpact.plan": plan.how,
            "modelpact.requested_model": header_safe(plan.requested),
            "modelpact.key": exchange.key.id,
        }
        if plan.workload is not None:
            told["modelpact.workload"] = plan.workload.name
        observed.span.set_attributes(told)

    def opened(self, plan: Plan, invocation: GatewayCall) -> None:
        """Open the span of a provider's call."""
        observed = _current.get()
        exchange = None if observed is None else observed.exchange
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": _operation(observed),
            "gen_ai.provider.name": _provider(plan, exchange),
            "gen_ai.request.model": plan.model,
            "modelpact.verdict": plan.answer,
        }
        span = self._tracer.start_span(
            f"{attributes['gen_ai.operation.name']} {plan.model}",
            Context() if observed is None else observed.context,
            SpanKind.CLIENT,
            {
                **attributes,
                **_asked(exchange),
                **_done(plan),
                "modelpact.invocation": invocation.id,
            },
        )
        self._calls[invocation.id] = _ObservedCall(span, attributes, observed)

    def settled(self, invocation: GatewayCall, lines: tuple[CostLine, ...], error: str) -> None:
        """Close the span of a provider's call, and that of a stream's request with it."""
        call = self._calls.pop(invocation.id, None)
        if call is None:
            return
        attributes, span = call.attributes, call.span
        if error:
            attributes["error.type"] = error.partition(":")[0][:80]
            _failed(span, attributes["error.type"])
        else:
            attributes["gen_ai.response.model"] = attributes["gen_ai.request.model"]
            span.set_attribute("gen_ai.response.model", attributes["gen_ai.response.model"])
        counted = self._counted(attributes)
        for line in lines:
            if line.unit in ("tokens.input", "tokens.output"):
                kind = line.unit.removeprefix("tokens.")
                span.set_attribute(f"gen_ai.usage.{kind}_tokens", line.amount)
                self._usage.record(line.amount, {**counted, "gen_ai.token.type": kind})
            elif line.unit == "currency":
                span.set_attribute("modelpact.cost_usd", line.amount / 1e9)
        self._durations.record(time.perf_counter() - call.started, counted)
        span.end()
        observed = call.observed
        if observed is not None:
            observed.span.set_attribute("modelpact.served_model", invocation_target(invocation))
            if observed.streaming:
                if error:
                    _failed(observed.span, attributes["error.type"])
                observed.span.end()

    def _counted(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return what a call is counted under: clients and upstreams make up names without end."""
        series = tuple(attributes.items())
        if series not in self._series:
            if len(self._series) >= _MOST_SERIES:
                return {
                    name: _OTHER if name in _MADE_UP else value
                    for name, value in attributes.items()
                }
            self._series.add(series)
        return attributes

    def answered(self, answer: HttpResponse | None, verdict: str) -> None:
        """Close the span of a request, unless a stream follows."""
        observed = _current.get()
        if observed is None:
            return
        span = observed.span
        status = 499 if answer is None else answer.status
        span.set_attribute("http.response.status_code", status)
        counted = {"modelpact.api": observed.api, "modelpact.verdict": verdict}
        self._requests.add(1, {**counted, "http.response.status_code": status})
        if status >= 500 or answer is None:
            _failed(span, str(status))
        if answer is not None and not isinstance(answer.body, bytes):
            observed.streaming = True
        else:
            span.end()

    async def aclose(self) -> None:
        """Send what is left, and end."""
        await asyncio.gather(
            asyncio.to_thread(self._traces.shutdown), asyncio.to_thread(self._metrics.shutdown)
        )


def invocation_target(invocation: GatewayCall) -> str:
    """Return the provider and model that were called."""
    return f"{invocation.provider}/{invocation.attribution.model}"


def _operation(observed: _Observed | None) -> str:
    return "embeddings" if observed is not None and observed.api == "embeddings" else "chat"


def _provider(plan: Plan, exchange: PlannedRequest | None) -> str:
    """Return a provider's name in the conventions' words, that of its kind where it has one."""
    name = plan.provider
    if exchange is not None:
        found = exchange.state.models.catalog.find_provider(name)
        name = name if found is None else found.id
    return _PROVIDERS.get(name, name)


def _asked(exchange: PlannedRequest | None) -> dict[str, Any]:
    """Return the parameters of a request that are numbers: they hold nothing of its prompt."""
    if exchange is None:
        return {}
    body = exchange.body
    found: dict[str, Any] = {
        f"gen_ai.request.{name}": body[field]
        for field, name in _PARAMETERS.items()
        if type(body.get(field)) in (int, float)
    }
    if exchange.asked.stream:
        found["modelpact.stream"] = True
    return found


def _done(plan: Plan) -> dict[str, Any]:
    """Return what was changed on the way."""
    found: dict[str, Any] = {}
    if plan.substituted_for:
        found["modelpact.substituted_for"] = plan.substituted_for
    if plan.emulate:
        found["modelpact.emulated"] = [name for name, _ in plan.emulate]
    if plan.carried:
        found["modelpact.carried"] = plan.carried
    if plan.drops:
        found["modelpact.dropped"] = list(plan.drops)
    return found


def _failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
