"""Metrics in the text format of Prometheus. No label holds a run id, a token, a key, a path or an error text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.process_collector import ProcessCollector

from outlast.errors import OutlastError
from outlast.history import events as e
from outlast.ledger import Ledger
from outlast.lifecycle.status import UNFINISHED, RunStatus
from outlast.store import Append, RunFilter

if TYPE_CHECKING:
    from outlast.http.state import ServerState

REFRESH_S = 15.0
"""How often the gauges are read from the store; a scrape reads nothing."""
MOST_COUNTED = 20_000
MOST_CLASSES = 100
PAGE = 1000


class Metrics:
    """The metrics of one server. Gauges named `outlast_store_…` are of the whole store: aggregate them with `max`."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._appends = _Appends(registry)
        self.requests = Histogram(
            "outlast_http_request_seconds",
            "Requests by route template.",
            ["route", "method", "status"],
            buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
            registry=registry,
        )
        self.runs = Gauge(
            "outlast_store_unfinished_runs", "Unfinished runs of the store by status.", ["status"], registry=registry
        )
        self.questions = Gauge("outlast_store_open_questions", "Open questions of the store.", registry=registry)
        self.advancing = Gauge(
            "outlast_worker_runs", "Runs that the worker of this server advances.", registry=registry
        )
        self.clients = Gauge("outlast_stream_clients", "Clients of streams.", registry=registry)
        self.clients.set_function(lambda: state.stream_clients)
        self.ready = Gauge("outlast_ready", "1 if the server is ready.", registry=registry)
        self.ready.set_function(lambda: float(state.is_ready and not state.is_draining))
        self.store = Histogram(
            "outlast_store_probe_seconds",
            "Time of one round trip to the store, measured at each refresh.",
            buckets=(0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2, 10),
            registry=registry,
        )
        self.store_errors = Counter("outlast_store_probe_errors", "Round trips that failed.", registry=registry)
        registry.register(_Ledger(state))
        self._children: dict[tuple[str, str, int], Histogram] = {}

    # --- what happens

    @contextmanager
    def counting(self, ledger: Ledger) -> Iterator[None]:
        """Count what this ledger appends."""
        observe = self._appends.observe
        if observe in ledger.observers:
            yield
            return
        ledger.observers.append(observe)
        try:
            yield
        finally:
            ledger.observers.remove(observe)

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        method = method if method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS") else "other"
        key = (route, method, status)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self.requests.labels(route, method, str(status))
        child.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    # --- what the store holds

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            with suppress(OutlastError, OSError):
                await self.refresh()
            await asyncio.sleep(REFRESH_S)

    async def refresh(self) -> None:
        store, began = self._state.store, time.perf_counter()
        try:
            await store.now()
        except OutlastError:
            self.store_errors.inc()
            raise
        self.store.observe(time.perf_counter() - began)
        for status in UNFINISHED:
            self.runs.labels(str(status)).set(await self._count(status))
        self.questions.set(await self._open_questions())
        engine = self._state.engine
        worker = engine._worker
        self.advancing.set(len(worker.drivers) if worker is not None else 0)

    async def _count(self, status: RunStatus) -> int:
        found, after = 0, ""
        while found < MOST_COUNTED:
            page = await self._state.store.search(RunFilter(statuses=(status,), after=after, limit=PAGE))
            found += len(page)
            if not page.next:
                break
            after = page.next
        return found

    async def _open_questions(self) -> int:
        found, after = 0, ""
        while found < MOST_COUNTED:
            page, after = await self._state.store.waits(kind="interaction", after=after, limit=PAGE)
            found += len(page)
            if not after:
                break
        return found


class _Appends:
    """What the appends of this process say: several servers count each event once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"outlast_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"outlast_{name}", text, labels, buckets=buckets, registry=registry)

        self._starts = counter("starts", "Runs that were created here.", "workflow")
        self._ended = counter("ended", "Runs that ended here.", "workflow", "status")
        self._failures = counter("failures", "Runs that failed here, by class of error.", "workflow", "class")
        self._attempts = histogram(
            "attempt_seconds", "Attempts of nodes, by outcome.", (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600), "outcome"
        )
        self._attempt_failures = counter("attempt_failures", "Attempts that failed, by class of error.", "class")
        self._queue = histogram(
            "queue_seconds", "From the creation of a run to its start by a worker.", (0.01, 0.1, 1, 5, 30, 300, 3600)
        )
        self._takeovers = counter("takeovers", "Runs that were taken over here, by cause.", "cause")
        self._holds = counter("holds", "Runs that were held for a person's decision, by class.", "class")
        self._recoveries = counter("recoveries", "Inconsistent states that were repaired here, by code.", "code")
        self._flush = histogram(
            "store_append_seconds", "Time of one flush of appends.", (0.0005, 0.002, 0.01, 0.05, 0.2, 1, 5)
        )
        self._classes: set[str] = set()

    def observe(self, landed: Sequence[Append], seconds: float) -> None:
        self._flush.observe(seconds)
        for append in landed:
            for event in append.record.events():
                self._count(event, append)

    def _count(self, event: e.AnyEvent, append: Append) -> None:
        summary = append.summary
        match event:
            case e.NodeCompleted():
                self._attempts.labels("completed").observe(event.ms / 1000)
            case e.NodeFailed():
                self._attempts.labels("failed" if event.retry_at is None else "retried").observe(event.ms / 1000)
                self._attempt_failures.labels(self._class(event.error.kind)).inc()
            case e.RunCreated():
                self._starts.labels(event.workflow).inc()
            case e.RunStarted() if summary is not None and append.record.count > 1 and not event.resumed:
                self._queue.observe(max(0, append.record.time - summary.created) / 1e6)
            case e.RunTakenOver():
                self._takeovers.labels(event.cause).inc()
            case e.RunRecovered():
                self._recoveries.labels(event.code).inc()
            case e.RunFailed() if event.held:
                self._holds.labels(self._class(event.error.kind)).inc()
            case e.RunCompleted() | e.RunFailed() | e.RunCancelled() | e.RunContinued():
                workflow = summary.workflow if summary is not None else ""
                self._ended.labels(workflow, str(summary.status) if summary is not None else "").inc()
                if isinstance(event, e.RunFailed):
                    self._failures.labels(workflow, self._class(event.error.kind)).inc()
            case _:
                pass

    def _class(self, kind: str) -> str:
        """The class of an error. Beyond a number of classes, all are counted as one."""
        if kind not in self._classes and len(self._classes) >= MOST_CLASSES:
            return "other"
        self._classes.add(kind)
        return kind


class _Ledger:
    """What the ledger of this process counted: appends, conflicts, fences, the time of flushes."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        if not self._state.is_ready:
            return
        measures = self._state.engine._ledger.measures
        for name, text, value in (
            ("outlast_appends", "Appends to logs.", measures.appends),
            ("outlast_events", "Events that were appended.", measures.events),
            ("outlast_append_bytes", "Bytes that were appended.", measures.bytes),
            ("outlast_conflicts", "Appends that lost to another writer.", measures.lost),
            ("outlast_fences", "Owners that were fenced off.", measures.fenced),
            ("outlast_unknown_outcomes", "Appends whose outcome was unknown.", measures.unknown),
            ("outlast_failed_appends", "Appends that failed.", measures.failed),
            ("outlast_store_flushes", "Flushes of the store.", measures.flushes),
            ("outlast_store_flush_seconds", "Time of all flushes of the store.", measures.flush_seconds),
        ):
            yield CounterMetricFamily(name, text, value)
