"""The runs that this process advances.

A worker has an incarnation (its id), which lives as long as it is renewed, and a driver for each run it holds. It starts new
runs, adopts runs it has claimed, and gives back those that only wait when there are many. It holds nothing that the log does
not hold: whatever is lost with it is found again by whoever claims its runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from outlast.engine.committing import Committing
from outlast.engine.completion import complete_run
from outlast.engine.definitions import Definitions
from outlast.engine.driver import Driver
from outlast.engine.driver_state import DriverState
from outlast.engine.lease import Lease, since_boot
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
from outlast.functions.commands import NodeCommand
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.store import Claim, Holding, Store

log = logging.getLogger("outlast.engine")

MAX_IDLE_RUNS = 200
"""Runs that may stay in memory while they only wait."""
HOLDINGS_PAGE = 1000
"""Runs in a page of what the worker holds."""
POLL_S = 0.005
"""Seconds, where something of our own is about to happen."""


class Worker:
    """One incarnation of a worker. `hold` also holds interrupted runs that would resume. Without `takes_over_others` it
    advances only the runs that were started or taken on here, with their children and successors, and keeps those that wait
    in memory. `clusters` are places to run nodes besides this machine, by the names that nodes give as `run_in`."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        concurrency: int = 2000,
        threads: int = 32,
        processes: int = 0,
        hold: bool = False,
        unawaited: str = "fail",
        stdout: bool = False,
        takes_over_others: bool = True,
        grace: float = 5.0,
        claim: float = 30.0,
        clusters: Mapping[str, ExecutorFactory] | None = None,
    ) -> None:
        self.ledger = ledger
        self.loop = asyncio.get_running_loop()
        self.id: WorkerId = ledger.new_worker_id()
        clock = ledger.clock
        self.lease = Lease(self, claim, since_boot if clock is system_clock else lambda: clock() / 1e6)
        self.drivers: dict[RunId, Driver] = {}
        self.definitions = Definitions(ledger.store.blobs)
        self.progress = Progress(ledger.store)
        self.lines = LogWriter(ledger.store, ledger.clock)
        places: dict[str, ExecutorFactory] = {"process": partial(ProcessPool, processes or None), **(clusters or {})}
        self.attempts = Attempts(self, threads=threads, places=places, log_writer=self.lines, stdout=stdout)
        self.takeovers = Takeovers(self, hold=hold)
        self.claim_wakeup = asyncio.Event()
        """Set when there may be runs to claim."""
        self.own: set[RunId] | None = None if takes_over_others else set()
        """The unfinished runs to claim when nobody else advances them, if it does not take over any others."""
        self.unconfirmed_starts = UnconfirmedStarts(self)
        self.unawaited = unawaited
        self.grace = grace
        """Seconds that nodes have to come to a good place when nothing more is to begin."""
        self.context = copy_context()
        """What workflow code runs in: that of whoever opened the engine."""
        self._concurrency = concurrency
        self._stdout = stdout
        self._tasks: set[asyncio.Task[Any]] = set()
        self.temporarily_owned: set[RunId] = set()
        """Runs that somebody else in this process owns for a moment, in this worker's name."""
        self.is_closing = False
        self.is_draining = False
        """Whether it takes on no more runs."""

    @property
    def store(self) -> Store:
        return self.ledger.store

    @property
    def capacity(self) -> int:
        """How many more runs it would take."""
        if self.is_closing or self.is_draining:
            return 0
        capacity = self._concurrency - len(self.drivers) - len(self.takeovers)
        if self.own is not None and capacity <= 0:  # those that wait stay in memory
            capacity += sum(driver.is_idle for driver in self.drivers.values())
        return max(0, capacity)

    @property
    def is_crowded(self) -> bool:
        """Whether runs that only wait should be given back at once."""
        return self.own is None and len(self.drivers) > MAX_IDLE_RUNS

    def chance(self) -> float:
        """From 0 to 1, for the pauses between attempts."""
        return int.from_bytes(os.urandom(6), "big") / (1 << 48)

    def listen(self) -> None:
        """Begin to hear what nodes log."""
        self.lines.install(stdout=self._stdout)

    def advance_run(self, run: RunId) -> None:
        """Advance this run too."""
        if self.own is not None:
            self.own.add(run)
        self.claim_wakeup.set()

    def on_runs_changed(self, runs: frozenset[RunId]) -> None:
        """These runs have news. Those that are driven here hear it themselves; the others may want an owner."""
        self.unconfirmed_starts.on_runs_changed(runs)
        if self.own is not None:
            runs &= self.own
        if not self.claim_wakeup.is_set() and not runs <= self.drivers.keys():
            self.claim_wakeup.set()

    # --- new runs

    async def start(
        self,
        run: RunId,
        workflow: Workflow[..., Any],
        created: e.RunCreated,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Driver:
        """A new run, advanced here. Returns when it is durable; `AlreadyExists` if there is one of that id. Whoever is
        cancelled meanwhile does not learn whether it has begun; if it has, it goes on."""
        while run in self.drivers:
            if self.drivers[run].writer.head.version:
                raise AlreadyExists(f"there is a run {run} already")
            await asyncio.sleep(POLL_S)  # somebody else is about to start it, or to fail to
        driver = Driver(self, Code(run, workflow, self.context), created, self.ledger.begin(run, self.id))
        self.drivers[run] = driver
        try:
            await driver.start(args, kwargs)
        except BaseException as error:
            if not has_failed(error):
                self.unconfirmed_starts.expect(run)
            raise
        return driver

    async def wait_for_store(self, run: RunId, error: StoreError, pause: float) -> None:
        """The store does not take what there is to write: wait, and let people know."""
        log.warning("run %s waits for its store, next try in %.2g s: %s", run, pause, error)
        await asyncio.sleep(pause)

    # --- ends

    async def finish(self, driver: Committing, ending: Ending, *, is_released: bool) -> None:
        """The last word of a run has landed. Who has to hear of it hears of it before the run is given back."""
        self.takeovers.reset_failures(driver.run)
        if not is_released and not isinstance(ending, e.RunPaused):
            try:
                await driver.children_started()  # one that is not there yet could not be told
                await complete_run(self.ledger, driver.run, driver.created, ending, driver.writer.state)
                while not await driver.writer.release():
                    pass
            except OutlastError as error:
                self.takeovers.retry_completion(driver.run, error)
        self.progress.forget(driver.run)
        driver.leave(ending)
        if next_request(driver.writer.state) is not None:
            self.takeovers.retry_takeover(driver.run, Overtaken("something was asked of it while it was being stopped"))
        if isinstance(ending, e.RunContinued):
            self.advance_run(RunId(ending.successor))
        self.claim_wakeup.set()

    def forget(self, driver: DriverState) -> None:
        if self.drivers.get(driver.run) is driver:
            del self.drivers[driver.run]
            if self.own is not None and driver.writer.head.version and not driver.writer.state.is_closed:
                self.own.add(driver.run)
            self.takeovers.release_extra_claims(driver.run)

    # --- staying and leaving

    def has_run(self, run: RunId) -> bool:
        """Whether it has this run in hand."""
        return run in self.drivers or self.takeovers.expects(run)

    async def advances(self, run: RunId) -> bool:
        """Whether it has this run in hand, and goes on having it: one that it is about to leave is waited for."""
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
        """Return when it is not about to take on a run."""
        while self.takeovers:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(POLL_S)

    async def claim(
        self, *, runs: Sequence[RunId] | None = None, workflows: Collection[str] | None = None, limit: int = 1
    ) -> list[Claim]:
        """Claim runs for this worker, which first makes sure that it is known to live itself."""
        await self.lease.confirm()
        return await self.store.claim(self.id, runs=runs, workflows=workflows, limit=limit)

    async def holdings(self) -> AsyncIterator[Holding]:
        """What the store knows this worker to hold."""
        after = ""
        while True:
            page = await self.store.holdings(self.id, after=after)
            for each in page:
                yield each
            if len(page) < HOLDINGS_PAGE:
                return
            after = page[-1].run

    def restart_as_new_worker(self) -> None:
        """Others have taken this worker for dead: leave the runs to them and be another one."""
        for driver in list(self.drivers.values()):
            driver.leave()
        self.id = self.ledger.new_worker_id()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """Do this in the background, in a context of its own. A worker that closes begins nothing more."""
        if self.is_closing:
            coroutine.close()
            return None
        # Not the running loop: that is the workflow's own, if its code brought this about.
        task = self.loop.create_task(coroutine, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Stop all nodes and let others go on with the runs: what is written stays written."""
        for driver in list(self.drivers.values()):
            await driver.stop()
        self.is_closing = True
        attempts = [
            command.task
            for driver in self.drivers.values()
            for command in driver.code.open.values()
            if isinstance(command, NodeCommand)
        ]
        for driver in list(self.drivers.values()):
            driver.leave()
        await self.attempts.close([task for task in attempts if task is not None])
        await self.takeovers.shielded.done(5)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        await self.progress.close()
        await self.lines.close()
