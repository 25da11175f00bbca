"""A small OTLP/HTTP collector that keeps the traces and metrics it receives."""

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """The received spans, and data points by metric."""

    def __init__(self) -> None:
        self.raw = b""
        self.spans: list[Any] = []
        self.metrics: dict[str, list[Any]] = {}
        self.resources: list[dict[str, Any]] = []
        self.address = ""

    def take(self, path: str, data: bytes) -> None:
        self.raw += data
        if path == "/v1/traces":
            for traced in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.resources.append(values(traced.resource.attributes))
                for scope in traced.scope_spans:
                    self.spans.extend(scope.spans)
        elif path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                for scope in measured.scope_metrics:
                    for metric in scope.metrics:
                        kind = getattr(metric, str(metric.WhichOneof("data")))
                        self.metrics[metric.name] = list(kind.data_points)

    def of_kind(self, kind: int) -> list[tuple[Any, dict[str, Any]]]:
        """Return spans of a kind with their attributes, in the order in which they began."""
        spans = [span for span in self.spans if span.kind == kind]
        spans.sort(key=lambda span: span.start_time_unix_nano)
        return [(span, values(span.attributes)) for span in spans]

    @contextlib.contextmanager
    def listening(self) -> Iterator["Collector"]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    data = gzip.decompress(data)
                collector.take(self.path, data)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.address = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join(10)


def values(attributes: Any) -> dict[str, Any]:
    """Return attributes as plain values."""
    return {
        attribute.key: getattr(attribute.value, str(attribute.value.WhichOneof("value"))) for attribute in attributes
    }
