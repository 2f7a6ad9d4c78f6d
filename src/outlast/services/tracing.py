"""OpenTelemetry traces: one trace for each run, with spans for the run, its attempts, its branches and its takeovers.

Spans are made of what this process has appended, when it is durable. The ids of a run's spans are derived from the run, so
that every process that advances it writes into one trace; a run that was started with a W3C trace context continues that
one. Names of runs, nodes and workflows are in a span, values and error texts are not.

OpenTelemetry is imported only if an OTLP endpoint is configured (`OTEL_EXPORTER_OTLP_ENDPOINT`)."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.ledger import Ledger
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import SpanContext

log = logging.getLogger("outlast.services")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
INSTALL = "an OTLP endpoint is configured, but not the packages for it: pip install 'outlast[telemetry]'"
EXPORT_S = 1.0
"""Seconds for one export. A collector that does not answer delays the end of a process by no more than a few of them."""
PAUSE_S = 0.2
MOST_WAITING = 20_000
"""Appends that wait to be made into spans; further ones are dropped."""
MOST_KNOWN = 10_000
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for traces, by the variables that OpenTelemetry defines."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_none = environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return any(environment.get(name) for name in ENDPOINTS) and not is_off and not is_none


def valid_traceparent(text: str) -> str:
    """The W3C trace context, or nothing if it is not one: a caller's mistake there refuses no start."""
    match = _TRACEPARENT.fullmatch(text.strip().lower())
    if match is None or text.startswith("ff") or not int(match[1], 16) or not int(match[2], 16):
        return ""
    return match[0]


@asynccontextmanager
async def tracing(ledger: Ledger) -> AsyncIterator[None]:
    """Export traces of what this ledger appends, if that is configured."""
    if not is_configured():
        yield
        return
    try:
        processor = _exporting()
    except ImportError as error:
        log.warning("%s (%s)", INSTALL, error)
        yield
        return
    traces = Traces(ledger, processor)
    ledger.observers.append(traces.take)
    task = asyncio.create_task(traces.run(), name="outlast-traces")
    try:
        yield
    finally:
        ledger.observers.remove(traces.take)
        task.cancel()
        await asyncio.wait({task})
        await traces.export()
        await asyncio.to_thread(processor.shutdown)


def _exporting() -> SpanProcessor:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    return BatchSpanProcessor(OTLPSpanExporter(timeout=EXPORT_S))


class Trace(NamedTuple):
    """The trace of a run. `parent` is the span of the caller, if the run was started with one."""

    id: int
    parent: int
    is_sampled: bool
    created: e.RunCreated | None


class Span(NamedTuple):
    """A span, without the trace. `id` names it within the run; `links` are spans of this run or the run span of others."""

    id: str
    name: str
    begin: int
    end: int
    attributes: dict[str, Any]
    links: tuple[tuple[RunId, str], ...] = ()
    error: str = ""
    is_root: bool = False


ROOT = "run"


class Traces:
    """Makes spans of appends."""

    def __init__(self, ledger: Ledger, processor: SpanProcessor) -> None:
        from opentelemetry.sdk.resources import Resource

        self._ledger, self._processor = ledger, processor
        self._waiting: deque[Append] = deque(maxlen=MOST_WAITING)
        self._traces: OrderedDict[RunId, Trace] = OrderedDict()
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "outlast"}
        self._resource = Resource.create(named)

    def take(self, landed: Sequence[Append], _: float) -> None:
        self._waiting.extend(landed)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            await self.export()

    async def export(self) -> None:
        """Make spans of what is waiting, and hand them to the exporter."""
        while self._waiting:
            append = self._waiting.popleft()
            run = append.record.run
            try:
                for span in spans_of(append.record, append.summary):
                    trace = await self._trace_of(run)
                    if trace.is_sampled:
                        self._processor.on_end(await self._readable(run, trace, span))
            except Exception as error:  # a span is lost, and nothing else
                log.warning("run %s: a span could not be made: %s", run, error)

    async def _trace_of(self, run: RunId) -> Trace:
        known = self._traces.get(run)
        if known is None:
            created = None
            for record in await self._ledger.store.read(run, 1, 1, 1):
                created = next((event for event in record.events() if isinstance(event, e.RunCreated)), None)
            known = self._traces[run] = trace_of(run, created)
            if len(self._traces) > MOST_KNOWN:
                self._traces.popitem(last=False)
        return known

    async def _readable(self, run: RunId, trace: Trace, span: Span) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        links = list(span.links)
        created = trace.created
        if span.is_root and created is not None:
            links += [(RunId(other), ROOT) for other in (created.parent, created.forked_from) if other]
        parent = _context(trace.id, trace.parent, is_remote=True) if trace.parent else None
        return ReadableSpan(
            name=span.name,
            context=_context(trace.id, span_id(run, span.id)),
            parent=parent if span.is_root else _context(trace.id, span_id(run, ROOT)),
            resource=self._resource,
            attributes={"outlast.run": run, **span.attributes},
            links=[Link(_context((await self._trace_of(other)).id, span_id(other, id))) for other, id in links],
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.begin * 1000,
            end_time=span.end * 1000,
        )


def spans_of(record: Record, summary: RunSummary | None) -> Iterator[Span]:
    """The spans that end with this record."""
    run, now, links = record.run, record.time, _where(record)
    for event in record.events():
        match event:
            case e.NodeCompleted(node=node, attempt=attempt, ms=ms):
                yield _attempt(node, attempt, ms, record, links, "")
            case e.NodeFailed(node=node, attempt=attempt, ms=ms, error=error):
                yield _attempt(node, attempt, ms, record, links, error.kind)
            case e.RunTakenOver():
                before = ROOT if event.epoch <= 2 else f"epoch {event.epoch - 1}"
                about = {
                    "outlast.worker": event.worker,
                    "outlast.previous": event.previous,
                    "outlast.cause": event.cause,
                }
                yield Span(f"epoch {event.epoch}", "takeover", now, now, about, ((run, before),))
            case e.BranchOpened():
                before = f"branch {event.parent}" if event.parent else ROOT
                of = {"outlast.branch": event.branch, "outlast.cutoff": event.cutoff, "outlast.cause": event.cause}
                yield Span(f"branch {event.branch}", "branch", now, now, of, ((run, before),))
            case e.RunCompleted() | e.RunFailed() | e.RunCancelled() | e.RunContinued() if (
                summary is not None and not summary.held
            ):
                about = {
                    "outlast.workflow": summary.workflow,
                    "outlast.version": summary.version,
                    "outlast.status": str(summary.status),
                }
                kind = event.error.kind if isinstance(event, e.RunFailed) else ""
                following = ((RunId(event.successor), ROOT),) if isinstance(event, e.RunContinued) else ()
                yield Span(ROOT, f"run {summary.workflow}", summary.created, now, about, following, kind, is_root=True)
            case _:
                pass


def _where(record: Record) -> tuple[tuple[RunId, str], ...]:
    """The branch and the takeover that an attempt belongs to."""
    places = (f"branch {record.branch}" * bool(record.branch), f"epoch {record.epoch}" * (record.epoch > 1))
    return tuple((record.run, place) for place in places if place)


def _attempt(
    node: str, attempt: int, ms: float, record: Record, links: tuple[tuple[RunId, str], ...], error: str
) -> Span:
    about: dict[str, Any] = {"outlast.node": node, "outlast.attempt": attempt, "outlast.branch": record.branch}
    if error:
        about["error.type"] = error
    id = f"node {node}/{attempt}/{record.branch}/{record.first}"
    return Span(id, f"node {node}", record.time - round(ms * 1000), record.time, about, links, error)


def trace_of(run: RunId, created: e.RunCreated | None) -> Trace:
    """The trace that a run is written into."""
    match = _TRACEPARENT.fullmatch(created.trace) if created is not None else None
    if match is not None:
        return Trace(int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & 1), created)
    return Trace(_derived(run, "trace", 16), 0, True, created)


def span_id(run: RunId, name: str) -> int:
    return _derived(run, f"span {name}", 8)


def _derived(run: RunId, name: str, size: int) -> int:
    return int.from_bytes(blake2b(f"{run}\0{name}".encode(), digest_size=size).digest()) or 1


def _context(trace: int, span: int, *, is_remote: bool = False) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace, span, is_remote, TraceFlags(TraceFlags.SAMPLED))
