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

from outlast.engine.completion import settle
from outlast.engine.definitions import Definitions
from outlast.engine.driver import Driver
from outlast.engine.lease import Lease, since_boot
from outlast.engine.page import Page
from outlast.engine.takeover import Arrivals
from outlast.engine.terminal_events import Ending
from outlast.engine.unconfirmed_starts import DoubtfulStarts, has_failed
from outlast.engine.writing import Writing
from outlast.errors import AlreadyExists, OutlastError, Overtaken, StoreError
from outlast.execution.attempts import Attempts
from outlast.execution.executors import Maker
from outlast.execution.log_writer import LineKeeper
from outlast.execution.processes import ProcessPool
from outlast.execution.progress import Progress
from outlast.functions.code import Code
from outlast.functions.commands import NodeAsk
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.store import Claim, Holding, Store

log = logging.getLogger("outlast.engine")

WARM = 200
"""Runs that may stay in memory while they only wait."""
PAGE = 1000
"""Runs in a page of what the worker holds."""
SOON = 0.005
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
        clusters: Mapping[str, Maker] | None = None,
    ) -> None:
        self.ledger = ledger
        self.loop = asyncio.get_running_loop()
        self.id: WorkerId = ledger.new_worker_id()
        clock = ledger.clock
        self.lease = Lease(self, claim, since_boot if clock is system_clock else lambda: clock() / 1e6)
        self.drivers: dict[RunId, Driver] = {}
        self.definitions = Definitions(ledger.store.blobs)
        self.progress = Progress(ledger.store)
        self.lines = LineKeeper(ledger.store, ledger.clock)
        places: dict[str, Maker] = {"process": partial(ProcessPool, processes or None), **(clusters or {})}
        self.attempts = Attempts(self, threads=threads, places=places, keeper=self.lines, stdout=stdout)
        self.arrivals = Arrivals(self, hold=hold)
        self.wanted = asyncio.Event()
        """Set when there may be runs to claim."""
        self.own: set[RunId] | None = None if takes_over_others else set()
        """The unfinished runs to claim when nobody else advances them, if it does not take over any others."""
        self.doubtful = DoubtfulStarts(self)
        self.unawaited = unawaited
        self.grace = grace
        """Seconds that nodes have to come to a good place when nothing more is to begin."""
        self.context = copy_context()
        """What workflow code runs in: that of whoever opened the engine."""
        self._concurrency = concurrency
        self._stdout = stdout
        self._tasks: set[asyncio.Task[Any]] = set()
        self.lent: set[RunId] = set()
        """Runs that somebody else in this process owns for a moment, in this worker's name."""
        self.is_closing = False
        self.is_draining = False
        """Whether it takes on no more runs."""

    @property
    def store(self) -> Store:
        return self.ledger.store

    @property
    def room(self) -> int:
        """How many more runs it would take."""
        if self.is_closing or self.is_draining:
            return 0
        room = self._concurrency - len(self.drivers) - len(self.arrivals)
        if self.own is not None and room <= 0:  # those that wait stay in memory
            room += sum(driver.is_idle for driver in self.drivers.values())
        return max(0, room)

    @property
    def is_crowded(self) -> bool:
        """Whether runs that only wait should be given back at once."""
        return self.own is None and len(self.drivers) > WARM

    def chance(self) -> float:
        """From 0 to 1, for the pauses between attempts."""
        return int.from_bytes(os.urandom(6), "big") / (1 << 48)

    def listen(self) -> None:
        """Begin to hear what nodes log."""
        self.lines.install(stdout=self._stdout)

    def take_on(self, run: RunId) -> None:
        """Advance this run too."""
        if self.own is not None:
            self.own.add(run)
        self.wanted.set()

    def hear(self, runs: frozenset[RunId]) -> None:
        """These runs have news. Those that are driven here hear it themselves; the others may want an owner."""
        self.doubtful.hear(runs)
        if self.own is not None:
            runs &= self.own
        if not self.wanted.is_set() and not runs <= self.drivers.keys():
            self.wanted.set()

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
            if self.drivers[run].pen.head.version:
                raise AlreadyExists(f"there is a run {run} already")
            await asyncio.sleep(SOON)  # somebody else is about to start it, or to fail to
        driver = Driver(self, Code(run, workflow, self.context), created, self.ledger.begin(run, self.id))
        self.drivers[run] = driver
        try:
            await driver.start(args, kwargs)
        except BaseException as error:
            if not has_failed(error):
                self.doubtful.expect(run)
            raise
        return driver

    async def in_trouble(self, run: RunId, error: StoreError, pause: float) -> None:
        """The store does not take what there is to write: wait, and let people know."""
        log.warning("run %s waits for its store, next try in %.2g s: %s", run, pause, error)
        await asyncio.sleep(pause)

    # --- ends

    async def finish(self, driver: Writing, ending: Ending, *, is_released: bool) -> None:
        """The last word of a run has landed. Who has to hear of it hears of it before the run is given back."""
        self.arrivals.has_ended_well(driver.run)
        if not is_released and not isinstance(ending, e.RunPaused):
            try:
                await driver.children_started()  # one that is not there yet could not be told
                await settle(self.ledger, driver.run, driver.created, ending, driver.pen.state)
                while not await driver.pen.let_go():
                    pass
            except OutlastError as error:
                self.arrivals.is_not_told(driver.run, error)
        self.progress.forget(driver.run)
        driver.leave(ending)
        if next_request(driver.pen.state) is not None:
            self.arrivals.take_up_again(driver.run, Overtaken("something was asked of it while it was being stopped"))
        if isinstance(ending, e.RunContinued):
            self.take_on(RunId(ending.successor))
        self.wanted.set()

    def forget(self, driver: Page) -> None:
        if self.drivers.get(driver.run) is driver:
            del self.drivers[driver.run]
            if self.own is not None and driver.pen.head.version and not driver.pen.state.is_closed:
                self.own.add(driver.run)
            self.arrivals.see_off(driver.run)

    # --- staying and leaving

    def knows(self, run: RunId) -> bool:
        """Whether it has this run in hand."""
        return run in self.drivers or self.arrivals.expects(run)

    async def advances(self, run: RunId) -> bool:
        """Whether it has this run in hand, and goes on having it: one that it is about to leave is waited for."""
        for _ in range(200):
            if not self._is_leaving(run):
                break
            await asyncio.sleep(SOON)
        return self.knows(run)

    def _is_leaving(self, run: RunId) -> bool:
        driver = self.drivers.get(run)
        if driver is None:
            return run in self.arrivals
        return not driver.pen.head.version or driver.pen.state.outline.base in (*TERMINAL, RunStatus.PAUSED)

    async def settled(self) -> None:
        """Return when it is not about to take on a run."""
        while self.arrivals:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(SOON)

    async def claim(
        self, *, runs: Sequence[RunId] | None = None, workflows: Collection[str] | None = None, limit: int = 1
    ) -> list[Claim]:
        """Claim runs for this worker, which first makes sure that it is known to live itself."""
        await self.lease.certain()
        return await self.store.claim(self.id, runs=runs, workflows=workflows, limit=limit)

    async def holdings(self) -> AsyncIterator[Holding]:
        """What the store knows this worker to hold."""
        after = ""
        while True:
            page = await self.store.holdings(self.id, after=after)
            for each in page:
                yield each
            if len(page) < PAGE:
                return
            after = page[-1].run

    def begin_anew(self) -> None:
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
            ask.task
            for driver in self.drivers.values()
            for ask in driver.code.open.values()
            if isinstance(ask, NodeAsk)
        ]
        for driver in list(self.drivers.values()):
            driver.leave()
        await self.attempts.close([task for task in attempts if task is not None])
        await self.arrivals.duties.done(5)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        await self.progress.close()
        await self.lines.close()
