"""A receiver of OpenTelemetry's spans, in the place of Jaeger or another backend."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, kw_only=True)
class ReceivedSpan:
    """A span as it came over the network."""

    name: str
    id: bytes
    parent_id: bytes
    attributes: dict[str, Any]


@dataclass(kw_only=True)
class SpanCollector:
    """What has come so far."""

    port: int
    spans: list[ReceivedSpan] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What makes Airflow send its spans here."""
        return {
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
        }

    def children(self, parent: str, **attributes: str) -> list[str]:
        """Names of the spans below one with these attributes and this name."""
        parents = [
            span.id for span in self.spans if span.name == parent and attributes.items() <= span.attributes.items()
        ]
        return [span.name for span in self.spans if span.parent_id in parents]


@contextmanager
def running_collector() -> Iterator[SpanCollector]:
    """Receive spans over OTLP, by HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.spans.extend(_parse(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = SpanCollector(port=server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield collector
        server.shutdown()


def _parse(body: bytes) -> Iterator[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    id=span.span_id,
                    parent_id=span.parent_span_id,
                    attributes={
                        one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes
                    },
                )
