"""Metrics in the text format of Prometheus. No label holds a run id, a token, a key, a path or an error text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.process_collector import ProcessCollector

from outlast.errors import OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.reading import ending_of
from outlast.lifecycle.status import TERMINAL, UNFINISHED, RunStatus
from outlast.store import RunFilter

if TYPE_CHECKING:
    from outlast.http.state import ServerState

REFRESH_S = 15.0
"""How often the gauges are read from the store; a scrape reads nothing."""
MOST_COUNTED = 20_000
MOST_CLASSES = 100
MOST_NEWS = 50_000
PAGE = 1000


class Metrics:
    """The metrics of one server. Gauges named `outlast_store_…` are of the whole store: aggregate them with `max`."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.starts = Counter("outlast_starts", "Runs started over HTTP.", ["workflow"], registry=registry)
        self.completions = Counter(
            "outlast_ended", "Runs that ended while this server held them.", ["workflow", "status"], registry=registry
        )
        self.failures = Counter(
            "outlast_failures", "Runs that failed here, by class of error.", ["workflow", "class"], registry=registry
        )
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
        self.held = Gauge("outlast_runs_held", "Runs that the worker of this server holds.", registry=registry)
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
        self._classes: set[str] = set()
        self._news: set[RunId] = set()
        self._ended: dict[RunId, int] = {}

    # --- what happens

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        method = method if method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS") else "other"
        key = (route, method, status)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self.requests.labels(route, method, str(status))
        child.observe(seconds)

    def hear(self, runs: frozenset[RunId]) -> None:
        """Note runs with news that this process advances, for the next refresh: several servers count each end once."""
        worker = self._state.engine._worker
        if worker is not None and len(self._news) < MOST_NEWS:
            self._news |= runs & worker.drivers.keys()

    def text(self) -> bytes:
        return generate_latest(self.registry)

    # --- what the store holds

    async def run(self) -> None:
        """Refresh until cancelled."""
        end = self._state.engine._ledger.listen(self.hear)
        try:
            while True:
                with suppress(OutlastError, OSError):
                    await self.refresh()
                await asyncio.sleep(REFRESH_S)
        finally:
            end()

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
        self.held.set(len(worker.drivers) if worker is not None else 0)
        await self._count_endings()

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

    async def _count_endings(self) -> None:
        """Count the runs that ended since the last look and that the worker of this process advanced: several servers
        count each once."""
        store, news = self._state.store, self._news
        self._news = set()
        for run in news:
            head = await store.head(run)
            if head is None or not head.closed or self._ended.get(run) == head.version:
                continue
            summary = await store.summary(run)
            if summary is None or summary.status not in TERMINAL:
                continue
            if len(self._ended) > MOST_NEWS:
                self._ended.clear()
            self._ended[run] = head.version
            self.completions.labels(summary.workflow, str(summary.status)).inc()
            if summary.status is RunStatus.FAILED:
                ending = await ending_of(store, head)
                kind = ending.error.kind if isinstance(ending, e.RunFailed) else "unknown"
                if kind not in self._classes and len(self._classes) >= MOST_CLASSES:
                    kind = "other"
                self._classes.add(kind)
                self.failures.labels(summary.workflow, kind).inc()


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
