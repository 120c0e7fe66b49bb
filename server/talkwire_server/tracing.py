"""A span for each utterance, in OpenTelemetry's terms; off, it costs nothing and needs nothing.

Where spans go is said by OpenTelemetry's own variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`,
`OTEL_TRACES_SAMPLER` and so on. A caller's `traceparent` in the metadata of its RPC is the parent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from talkwire_pipeline import events
from talkwire_pipeline.errors import DeployError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

Metadata = Iterable[tuple[str, str | bytes]]
_CARRIED = ("traceparent", "tracestate")
_NAME = "talkwire.utterance"


class Span(Protocol):
    """An utterance's."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """What leads from a metric's value to the trace; None: nothing does."""

    def moment(self, name: str, at_ns: int) -> None:
        """Something happened, by `monotonic_ns`."""

    def end(self, event: events.Event | None) -> None:
        """The utterance is over; None: its caller went away."""


class Tracing(Protocol):
    """Begins spans."""

    def parent(self, metadata: Metadata) -> Any:
        """What an RPC with this metadata is part of; to be given to `begin`."""

    def begin(self, parent: Any, attributes: Mapping[str, str]) -> Span:
        """An utterance begins."""

    def close(self) -> None:
        """Sends what is left."""


class NoSpan:
    """Says nothing."""

    exemplar: dict[str, str] | None = None

    def moment(self, name: str, at_ns: int) -> None:
        """See `Span`."""

    def end(self, event: events.Event | None) -> None:
        """See `Span`."""


class NoTracing:
    """Traces nothing."""

    _span = NoSpan()

    def parent(self, metadata: Metadata) -> None:
        """See `Tracing`."""

    def begin(self, parent: Any, attributes: Mapping[str, str]) -> Span:
        """See `Tracing`."""
        return self._span

    def close(self) -> None:
        """See `Tracing`."""


class OpenTelemetry:
    """Traces with OpenTelemetry.

    `provider` takes the place of one that exports by OTLP, for tests. Raises `DeployError` where the extra is missing.
    """

    def __init__(self, version: str, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            self._provider = provider or _exporting()
        except ModuleNotFoundError as error:
            text = f"server.tracing: true, and {error.name} is not installed: install talkwire[server,tracing]"
            raise DeployError(text) from error
        self._tracer = self._provider.get_tracer("talkwire", version)
        self._closed = False
        self._propagator = TraceContextTextMapPropagator()

    def parent(self, metadata: Metadata) -> Any:
        """See `Tracing`."""
        carried = {key: value for key, value in metadata if key in _CARRIED and isinstance(value, str)}
        return self._propagator.extract(carried) if carried else None

    def begin(self, parent: Any, attributes: Mapping[str, str]) -> Span:
        """See `Tracing`."""
        return _OpenSpan(self._tracer.start_span(_NAME, context=parent, attributes=dict(attributes)))

    def close(self) -> None:
        """See `Tracing`. Idempotent."""
        if not self._closed:
            self._closed = True
            self._provider.shutdown()


class _OpenSpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    @property
    def exemplar(self) -> dict[str, str] | None:
        context = self._span.get_span_context()
        return {"trace_id": f"{context.trace_id:032x}"} if context.trace_flags.sampled else None

    def moment(self, name: str, at_ns: int) -> None:
        self._span.add_event(name, timestamp=time.time_ns() - time.monotonic_ns() + at_ns)

    def end(self, event: events.Event | None) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_attributes(_outcome(event))
        if isinstance(event, events.Failed):
            self._span.set_status(StatusCode.ERROR, event.error.reason)  # a message may quote the text
        self._span.end()


def _outcome(event: events.Event | None) -> dict[str, str | int | float]:
    match event:
        case events.Finished(reason=reason, statistics=took):
            return {
                "talkwire.end": reason,
                "talkwire.characters": took.character_count,
                "talkwire.audio_samples": took.sample_count,
                "talkwire.ttfa_s": took.ttfa_s,
                "talkwire.real_time_factor": took.real_time_factor,
            }
        case events.Aborted(generated_samples=samples):
            return {"talkwire.end": "aborted", "talkwire.audio_samples": samples}
        case events.Failed(error=error):
            return {"talkwire.end": "failed", "talkwire.reason": error.reason}
        case _:
            return {"talkwire.end": "disconnected"}


def _exporting() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "talkwire"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
