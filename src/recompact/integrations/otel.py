"""OpenTelemetry: spans for every episode, compaction and verdict, while they are recorded.

They go to the provider that the application has set up or, where there is none, over OTLP/HTTP to the endpoint that the
standard variables name. What messages say stays here unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for
it, and is masked then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recompact.engine.store.records import EpisodeRecorded
from recompact.engine.store.verdicts import VerdictsRecorded
from recompact.integrations.common import library
from recompact.presentation.exchange.episodes import Clock, mask_episode, read_episode
from recompact.presentation.exchange.spans import (
    RESULT,
    Span,
    SpanEvent,
    boundary_key,
    compaction_attributes,
    effect_results,
    episode_span,
)
from recompact.values.events import ContextCompacted, on
from recompact.version import __version__

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURED = ("true", "1", "span_only", "span_and_event")


def start(provider: Any = None) -> Callable[[], None]:
    """Send spans to a provider from now on; the function that is returned ends that and sends what is left."""
    trace = library("opentelemetry.trace", "otel")
    own = None
    if provider is None:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):  # nobody has set one up
            provider = own = _exporting_provider()
    sender = _Sender(provider.get_tracer("recompact", __version__), trace)
    ends = [
        on(EpisodeRecorded, sender.take_episode),
        on(VerdictsRecorded, sender.take_verdicts),
        on(ContextCompacted, sender.take_compaction),
    ]

    def stop() -> None:
        for end in ends:
            end()
        if own is not None:
            own.shutdown()

    return stop


def _exporting_provider() -> Any:
    sdk = library("opentelemetry.sdk.trace", "otel")
    resources = library("opentelemetry.sdk.resources", "otel")
    batches = library("opentelemetry.sdk.trace.export", "otel")
    exporter = library("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel").OTLPSpanExporter()
    name = os.environ.get("OTEL_SERVICE_NAME") or "recompact"
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
    provider.add_span_processor(batches.BatchSpanProcessor(exporter))
    return provider


@dataclass
class _Sender:
    """Turns what happens into spans of a tracer; it remembers those of boundaries, which later ones link to."""

    tracer: Any
    trace: Any
    boundaries: dict[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> bool:
        return os.environ.get(CAPTURE, "").lower() in _CAPTURED

    def take_episode(self, recorded: EpisodeRecorded) -> None:
        episode = read_episode(recorded, {})
        episode = mask_episode(episode) if self.content else episode
        length = episode_span(episode, "", Clock(0.0), content=False).end
        agent = recorded.store.metadata.suite or "agent"
        self._send(episode_span(episode, agent, Clock(time.time() - length), content=self.content))

    def take_verdicts(self, recorded: VerdictsRecorded) -> None:
        for verdict in recorded.verdicts:
            if (effect := verdict.reported_effect) is not None:
                now = time.time()
                events = tuple(SpanEvent(RESULT, now, each) for each in effect_results(effect, verdict.kind))
                about = {"gen_ai.operation.name": "evaluate", "recompact.boundary": str(verdict.id)}
                name = "evaluate compact_messages"
                self._send(Span("", name, "internal", now, now, about, events, link=verdict.id))

    def take_compaction(self, compacted: ContextCompacted) -> None:
        now, usage = time.time(), compacted.usage
        attributes = {
            **compaction_attributes(compacted.pre, compacted.post, self.content),
            "gen_ai.request.model": compacted.model,
            "gen_ai.prompt.version": compacted.template,
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
        }
        self._send(Span("", "compact_messages", "internal", now - compacted.seconds, now, attributes))

    def _send(self, span: Span, parent: Any = None) -> None:
        link = self.boundaries.get(boundary_key(span.link)) if span.link else None
        kinds = {"internal": self.trace.SpanKind.INTERNAL, "client": self.trace.SpanKind.CLIENT}
        sent = self.tracer.start_span(
            span.name,
            context=None if parent is None else self.trace.set_span_in_context(parent),
            kind=kinds[span.kind],
            attributes=span.attributes,
            links=[self.trace.Link(link)] if link else None,
            start_time=_nanoseconds(span.begin),
        )
        for event in span.events:
            sent.add_event(event.name, event.attributes, _nanoseconds(event.at))
        if span.error:
            sent.set_status(self.trace.Status(self.trace.StatusCode.ERROR, span.error))
        if span.name == "compact_messages" and span.key:
            self.boundaries[span.key] = sent.get_span_context()
        for child in span.children:
            self._send(child, sent)
        sent.end(_nanoseconds(span.end))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
