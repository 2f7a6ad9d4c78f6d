"""A store with one run of each kind, written through the ledger like a worker does."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger, RunWriter
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.testing.faults import hide_locks

START = 1_793_523_600_000_000
"""2026-11-01T09:00:00Z: the first run is created then; the others follow an hour apart."""
HOUR = 3_600_000_000

KEPT = ("digest", "approval", "import", "report", "payout", "order")


class Clock:
    """Advances by 250 ms at each reading."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 250_000
        return self.now


class ExecutorFactory:
    """Writes runs and remembers their ids by workflow."""

    def __init__(self, store: Any, *, key: bytes = b"", start: int = START) -> None:
        self.store = store
        self.clock = Clock(start)
        self.ledger = Ledger(store, key=key, clock=self.clock)
        self.workers: list[WorkerId] = []
        self.runs: dict[str, RunId] = {}

    async def worker(self) -> WorkerId:
        worker = self.ledger.new_worker_id()
        await self.store.enrol(worker, 30)
        self.workers.append(worker)
        return worker

    async def begin(self, workflow: str, run: str = "", **created: Any) -> RunWriter:
        self.clock.now = START + len(self.runs) * HOUR if self.clock.now < START + 100 * HOUR else self.clock.now
        name = RunId(run) if run else self.ledger.new_run_id()
        self.runs[workflow] = name
        first = e.RunCreated(workflow=workflow, **created)
        return await self.ledger.create(name, [first, e.RunStarted()], await self.worker())

    async def finish(self) -> None:
        for worker in self.workers:
            await self.store.retire(worker)
        await self.ledger.close()


def began(node: str, attempt: int = 1, cause: Any = "first", inputs: bytes = b"null") -> list[e.AnyEvent]:
    return [
        e.NodeScheduled(node=node, attempt=attempt, cause=cause),
        e.NodeStarted(node=node, attempt=attempt, inputs=Raw(inputs)),
    ]


async def make_all(maker: ExecutorFactory) -> None:
    """One run of each kind."""
    await completed_with_a_retry(maker)
    await waiting_for_an_answer(maker)
    await failed(maker)
    await branched(maker)
    await held(maker)
    await waiting_for_much(maker)


async def completed_with_a_retry(maker: ExecutorFactory) -> None:
    writer = await maker.begin(
        "digest", title="Monday’s digest", tags=("nightly", "news"), by="anna", params=Raw(b'{"urls": ["a", "b"]}')
    )
    await writer.append(began("fetch", inputs=b'["https://example.org/a"]'))
    error = e.Failure("ConnectionError", "no route to host", category="transient")
    due = maker.clock.now + 30_000_000
    await writer.append([e.NodeFailed(node="fetch", error=error, ms=812.5, retry_at=due)])
    maker.clock.now = due
    await writer.append(began("fetch", 2, "retry"))
    await writer.append(
        [e.NodeCompleted(node="fetch", attempt=2, output=Raw(b'{"pages": 2}'), ms=95.0), *began("publish")]
    )
    await writer.append(
        [e.NodeCompleted(node="publish", output=Raw(b'"done"')), e.RunCompleted(output=Raw(b'"done"'), ms=31_500.0)],
        release=True,
    )


async def waiting_for_an_answer(maker: ExecutorFactory) -> None:
    attributes = {"customer": "acme", "pages": 12, "due": e.Moment(START + 30 * HOUR)}
    writer = await maker.begin("approval", tags=("people",), by="bert", attributes=attributes)
    await writer.append(began("draft"))
    asked = e.InteractionRequested(interaction="q1", kind="approve", node="draft", prompt="Publish 12 pages?")
    await writer.append([e.NodeCompleted(node="draft", output=Raw(b"12"), ms=40.2), asked])


async def failed(maker: ExecutorFactory) -> None:
    writer = await maker.begin("import", attributes={"customer": "acme", "pages": 2.5, "code": "12"}, queue="slow")
    await writer.append(began("load", inputs=b'{"file": "customers.csv"}'))
    error = e.Failure("ValueError", "line 17: not a number\n\tin column ‘price’", trace="Traceback …")
    await writer.append(
        [e.NodeFailed(node="load", error=error, ms=1203.0), e.RunFailed(error=error, node="load")], release=True
    )


async def branched(maker: ExecutorFactory) -> None:
    writer = await maker.begin("report")
    await writer.append(began("collect"))
    await writer.append([e.NodeCompleted(node="collect", output=Raw(b"[1, 2]")), *began("write")])
    cutoff = writer.head.version
    await writer.append([e.NodeCompleted(node="write", output=Raw(b'"first try"'))])
    await writer.open_branch(BranchPlan(cutoff=cutoff, by="cleo", reason="too dry"))
    await writer.append([e.NodeCompleted(node="write", output=Raw(b'"second try"')), e.RunCompleted()], release=True)


async def held(maker: ExecutorFactory) -> None:
    writer = await maker.begin("payout", on_restart="hold", tags=("money",))
    changed = e.AttributesSet(attributes={"customer": "bolt", "urgent": True})
    await writer.append([changed, *began("transfer", inputs=b'{"amount": 250}')])
    hide_locks(maker.store)
    maker.store.skew = 40_000_000
    taker = await maker.worker()
    (claim,) = await maker.store.claim(taker, runs=[writer.run])
    await (await maker.ledger.take_over(claim)).release()
    maker.store.skew = 0


async def waiting_for_much(maker: ExecutorFactory) -> None:
    writer = await maker.begin("order", run="order:2026-1001", parent=maker.runs["report"], title="Two lamps")
    due = maker.clock.now + 12 * HOUR
    await writer.append(
        [
            e.SignalAwaited(wait="paid", name="payment received"),
            e.TimerSet(timer="reminder", due=due),
            e.ChildStarted(child="parcel-7", workflow="parcel"),
            e.OutboxEnqueued(message="m1", target="mail", data=Raw(b'{"to": "x@example.org"}')),
        ]
    )
