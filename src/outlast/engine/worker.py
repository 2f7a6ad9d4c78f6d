"""The worker of a process: it advances runs.

A worker has an id, which is valid as long as its lease is renewed, and a driver for each run that it holds. It starts
new runs, adopts claimed runs, and releases idle ones when there are many. All its state is derived from the logs: after
a crash, the next owner of each run recovers it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from outlast.clock import since_boot
from outlast.engine.completion import complete_run
from outlast.engine.definitions import Definitions
from outlast.engine.driver import RunDriver
from outlast.engine.evictor import LongRuns
from outlast.engine.lease import Lease
from outlast.engine.takeover import Takeovers
from outlast.engine.terminal_events import Ending
from outlast.engine.unconfirmed_starts import UnconfirmedStarts, has_failed
from outlast.errors import AlreadyExists, OutlastError, Overtaken, StoreError
from outlast.execution.attempts import Attempts
from outlast.execution.executors import ExecutorFactory
from outlast.execution.log_writer import LogWriter
from outlast.execution.processes import ProcessPool
from outlast.execution.progress import Progress
from outlast.functions.code import Code
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.ledger.reading import holdings_of
from outlast.ledger.slots import queue_slot
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.settings import Settings
from outlast.store import Claim, Holding, Store

log = logging.getLogger("outlast.engine")

MAX_IDLE_RUNS = 200
"""Runs that may be in memory before those that only wait are released at once."""
STARTED_TOGETHER = 200
"""Children that are started at once. If there are more, the first ones end before the last are started, which then fit into
the capacity of the worker. A child beyond the capacity is created without an owner and claimed later: that costs twice as
much."""
POLL_S = 0.005
"""Seconds between two checks for an operation of this process that is about to end."""


class Worker:
    """One incarnation of a worker. Without `takes_over_others` it advances only the runs that were started or adopted
    here, with their children and successors, and keeps waiting runs in memory. `clusters` are executors of nodes outside
    this machine, by the names that nodes pass as `run_in`."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings | None = None,
        *,
        takes_over_others: bool = True,
        clusters: Mapping[str, ExecutorFactory] | None = None,
    ) -> None:
        self.settings = settings = settings or Settings(store="")
        self.ledger = ledger
        self.loop = asyncio.get_running_loop()
        self.id: WorkerId = ledger.new_worker_id()
        clock = ledger.clock
        self.lease = Lease(self, settings.claim, since_boot if clock is system_clock else lambda: clock() / 1e6)
        self.drivers: dict[RunId, RunDriver] = {}
        self.long_runs = LongRuns()
        self.definitions = Definitions(ledger.store.blobs)
        self.progress = Progress(ledger.store)
        self.lines = LogWriter(ledger.store, ledger.clock)
        places: dict[str, ExecutorFactory] = {
            "process": partial(ProcessPool, settings.processes or None),
            **(clusters or {}),
        }
        self.attempts = Attempts(self, places=places, log_writer=self.lines)
        self.takeovers = Takeovers(self)
        self.claim_wakeup = asyncio.Event()
        """Set when there may be runs to claim."""
        self.own: set[RunId] | None = None if takes_over_others else set()
        """The unfinished runs to claim when they have no live owner, if this worker takes over no others."""
        self.slots = {name: (queue_slot(name, limit),) for name, limit in settings.queue_limits.items()}
        """The slots that a run of a limited queue needs while it is claimed, by the name of the queue."""
        self.unconfirmed_starts = UnconfirmedStarts(self)
        self.context = copy_context()
        """The context of workflow code: a copy of the context in which the engine was opened."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.temporarily_owned: set[RunId] = set()
        """Runs that a client of this process owns for a moment under this worker's id."""
        self.starting_children = asyncio.Semaphore(STARTED_TOGETHER)
        self.is_closing = False
        self.is_draining = False
        """Whether the worker adopts no more runs."""

    @property
    def store(self) -> Store:
        return self.ledger.store

    @property
    def capacity(self) -> int:
        """How many more runs the worker accepts."""
        if self.is_closing or self.is_draining:
            return 0
        capacity = self.settings.concurrency - len(self.drivers) - len(self.takeovers)
        if self.own is not None and capacity <= 0:  # those that wait stay in memory
            capacity += sum(driver.is_idle for driver in self.drivers.values())
        return max(0, capacity)

    @property
    def is_crowded(self) -> bool:
        """Whether runs that only wait are released at once, unless their log is long."""
        return self.own is None and len(self.drivers) > MAX_IDLE_RUNS

    def listen(self) -> None:
        """Begin to capture the log records of nodes."""
        self.lines.install(stdout=self.settings.capture_stdout)

    def advance_run(self, run: RunId) -> None:
        """Advance this run too."""
        if self.own is not None:
            self.own.add(run)
        self.claim_wakeup.set()

    def on_runs_changed(self, runs: frozenset[RunId]) -> None:
        """The logs of these runs have grown. A driver here learns of it from its writer; other runs may need an owner."""
        if self.unconfirmed_starts.expected:
            self.unconfirmed_starts.on_runs_changed(runs)
        if self.own is not None:
            runs &= self.own
        if not self.claim_wakeup.is_set() and not runs <= self.drivers.keys():
            self.claim_wakeup.set()

    async def start(
        self,
        run: RunId,
        workflow: Workflow[..., Any],
        created: e.RunCreated,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> RunDriver:
        """Start a new run on this worker. Returns when its first append is durable; raises `AlreadyExists` if the id is
        used. A caller that is cancelled does not learn whether the run started; if it did, the run continues."""
        while run in self.drivers:
            if self.drivers[run].writer.head.version:
                raise AlreadyExists(f"there is a run {run} already")
            await asyncio.sleep(POLL_S)  # another start of this run is under way
        driver = RunDriver(self, Code(run, workflow, self.context), created, self.ledger.begin(run, self.id))
        self.drivers[run] = driver
        try:
            await driver.start(args, kwargs)
        except BaseException as error:
            if not has_failed(error):
                self.unconfirmed_starts.expect(run)
            raise
        return driver

    async def wait_for_store(self, run: RunId, error: StoreError, pause: float) -> None:
        """Log that a run waits for its store, and pause."""
        log.warning("run %s waits for its store, next try in %.2g s: %s", run, pause, error)
        await asyncio.sleep(pause)

    async def finish(self, driver: RunDriver, ending: Ending, *, is_released: bool) -> None:
        """The terminal event of a run is durable. Apply its effects on other runs before the run is released."""
        self.takeovers.reset_failures(driver.run)
        if not is_released and not isinstance(ending, e.RunPaused):
            try:
                await driver.children_started()  # a child that does not exist yet could not be cancelled
                await complete_run(self.ledger, driver.run, driver.created, ending, driver.writer.state)
                await driver.writer.release_when_read()
            except OutlastError as error:
                self.takeovers.retry_completion(driver.run, error)
        self.progress.forget(driver.run)
        driver.leave(ending)
        if next_request(driver.writer.state) is not None:
            self.takeovers.retry_takeover(driver.run, Overtaken("a request arrived while the run was being stopped"))
        if isinstance(ending, e.RunContinued):
            self.advance_run(RunId(ending.successor))
        self.claim_wakeup.set()

    def forget(self, driver: RunDriver) -> None:
        if self.drivers.get(driver.run) is driver:
            del self.drivers[driver.run]
            self.long_runs.forget(driver)
            if self.own is not None and driver.writer.head.version and not driver.writer.state.is_closed:
                self.own.add(driver.run)
            self.takeovers.release_extra_claims(driver.run)
            if driver.is_limited:  # another run can have its slot
                self.claim_wakeup.set()

    def has_run(self, run: RunId) -> bool:
        """Whether this worker drives the run or is taking it over."""
        return run in self.drivers or self.takeovers.expects(run)

    async def advances(self, run: RunId) -> bool:
        """The same, after waiting for a run that is about to end or to be released."""
        for _ in range(200):
            if not self._is_leaving(run):
                break
            await asyncio.sleep(POLL_S)
        return self.has_run(run)

    def _is_leaving(self, run: RunId) -> bool:
        driver = self.drivers.get(run)
        if driver is None:
            return run in self.takeovers
        return not driver.writer.head.version or driver.writer.state.outline.base in (*TERMINAL, RunStatus.PAUSED)

    async def wait_for_takeovers(self) -> None:
        """Wait until no takeover is under way."""
        while self.takeovers:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(POLL_S)

    async def claim(
        self, *, runs: Sequence[RunId] | None = None, workflows: Collection[str] | None = None, limit: int = 1
    ) -> list[Claim]:
        """Claim named runs for this worker, or runs of the workflows in its queues, after confirming its lease."""
        await self.lease.confirm()
        if runs is not None:
            return await self.store.claim(self.id, runs=runs, limit=limit)
        queues = self.settings.queues or None
        return await self.store.claim(self.id, workflows=workflows, queues=queues, slots=self.slots, limit=limit)

    def holdings(self) -> AsyncIterator[Holding]:
        """The runs that the store has assigned to this worker."""
        return holdings_of(self.store, self.id)

    def restart_as_new_worker(self) -> None:
        """Other workers may have taken over the runs: stop driving them and continue under a new id."""
        for driver in list(self.drivers.values()):
            driver.leave()
        self.id = self.ledger.new_worker_id()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """Run a coroutine in the background, in an empty context. A closing worker starts nothing."""
        if self.is_closing:
            coroutine.close()
            return None
        # Not the running loop: inside workflow code that is the workflow's own.
        task = self.loop.create_task(coroutine, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Stop all nodes and drivers. Other workers continue the runs from their logs."""
        for driver in list(self.drivers.values()):
            await driver.stop()
        self.is_closing = True
        commands = [command for driver in self.drivers.values() for command in driver.open_node_commands()]
        tasks = [command.task for command in commands if command.task is not None]
        for driver in list(self.drivers.values()):
            driver.leave()
        await self.attempts.close(tasks)
        await self.takeovers.shielded.done(5)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        await self.progress.close()
        await self.lines.close()
