"""Spans of utterances, over real sockets; what a collector would get is kept in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from talkwire.v1 import speech_pb2 as pb
from talkwire_server.tracing import OpenTelemetry

TEXT = "Hello there, this is a test."
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
METADATA = (("traceparent", f"00-{TRACE}-{PARENT}-01"),)


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def served(serve: Callable[..., Awaitable[Any]], spans: InMemorySpanExporter) -> Any:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    served = await serve("server.metrics_port=0")
    served.app.admission.tracing = OpenTelemetry("test", provider)
    return served


def moments(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


async def test_an_utterance_is_a_span_with_its_moments_in_order(served: Any, spans: InMemorySpanExporter) -> None:
    caller = served.converse(metadata=METADATA)
    await caller.send("u", start=pb.Start())
    await caller.send("u", text=pb.TextIncrement(text=TEXT))
    await caller.send("u", flush=pb.Flush())
    await caller.send("u", end=pb.End())
    got = await caller.until("finished")
    (span,) = spans.get_finished_spans()
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert {"first_text", "slot", "flush", "first_row", "first_audio"} == set(moments(span))
    assert moments(span)[:2] == ["first_text", "flush"] or moments(span)[:2] == ["first_text", "slot"]
    attributes = dict(span.attributes or {})
    assert attributes["talkwire.server_id"] == got[0].started.server_id
    assert (attributes["talkwire.end"], attributes["talkwire.characters"]) == ("complete", len(TEXT))
    assert TEXT not in span.to_json()


async def test_an_abort_and_a_failure_are_told_apart(served: Any, spans: InMemorySpanExporter) -> None:
    served.stages.hold()
    caller = served.converse()
    for name in "ab":
        await caller.send(name, start=pb.Start())
        await caller.send(name, text=pb.TextIncrement(text=TEXT))
    await caller.send("a", abort=pb.Abort())
    await caller.until("aborted")
    served.stages.crash("talker")
    await caller.until("failed")
    aborted, failed = spans.get_finished_spans()
    assert "abort" in moments(aborted)
    assert dict(aborted.attributes or {})["talkwire.end"] == "aborted"
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "STAGE_DOWN")


async def test_a_trace_is_an_exemplar_for_who_asks_for_openmetrics(served: Any) -> None:
    caller = served.converse(metadata=METADATA)
    await caller.speak("u", TEXT)
    await caller.until("finished")
    page = scrape(served, "application/openmetrics-text; version=1.0.0")
    (line,) = (line for line in page.splitlines() if line.startswith("talkwire_ttfa_seconds_bucket") and " # " in line)
    assert f'trace_id="{TRACE}"' in line
    assert " # " not in scrape(served, "text/plain")


def scrape(served: Any, accept: str) -> str:
    environment = {"PATH_INFO": "/metrics", "REQUEST_METHOD": "GET", "HTTP_ACCEPT": accept}
    return b"".join(served.app.metrics.wsgi_app()(environment, lambda *_: None)).decode()


async def test_without_a_parent_a_span_begins_a_trace(served: Any, spans: InMemorySpanExporter) -> None:
    caller = served.converse(metadata=(("traceparent", "nonsense"),))
    await caller.speak("u", TEXT)
    await caller.until("finished")
    (span,) = spans.get_finished_spans()
    assert span.parent is None


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans by OTLP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def Export(self, request: Any, context: Any) -> Any:
        for each in request.resource_spans:
            names = {attribute.key: attribute.value.string_value for attribute in each.resource.attributes}
            assert names["service.name"] == "talkwire"
            self.spans += [span for scope in each.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


async def test_spans_arrive_at_a_collector(
    serve: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    served = await serve("server.tracing=true")
    caller = served.converse(metadata=METADATA)
    await caller.speak("u", TEXT)
    await caller.until("finished")
    caller.call.cancel()
    await served.app.stop()
    assert [(span.name, span.trace_id.hex()) for span in collector.spans] == [("talkwire.utterance", TRACE)]
    server.stop(None).wait()
