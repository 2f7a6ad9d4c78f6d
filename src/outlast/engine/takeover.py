"""Takes over runs from their logs: runs that this worker claimed after the former owner died or released them, and its
own runs after an error.

The log decides how a run continues. A closed run is completed: its end takes effect on other runs. A paused or held
run, one that a user has yet to start, and one whose code is unknown here, are released. Other runs are replayed and driven.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from outlast.engine.branch_requests import open_requested_branch
from outlast.engine.completion import cancel_left_children, complete_run, end_as_requested
from outlast.engine.driver import RunDriver
from outlast.engine.resuming import resume
from outlast.engine.shielded_tasks import ShieldedTasks
from outlast.errors import (
    TAKEOVER_FAILED,
    Claimed,
    Conflict,
    Damaged,
    NotAllowed,
    NotFound,
    OutlastError,
    Overtaken,
    RunDeleted,
    RunDiverged,
    StoreError,
)
from outlast.functions import registry
from outlast.functions.code import Code
from outlast.functions.decorators import Workflow
from outlast.functions.replay import Divergence, Replay
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.ledger.reading import ending_of
from outlast.lifecycle.decide import ends_at_once, next_request
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import Claim

if TYPE_CHECKING:
    from outlast.engine.worker import Worker

log = logging.getLogger("outlast.engine")

FAILURES_BEFORE_HOLD = 3
"""How often the driver of a run may fail before the run is held."""


class Recovered:
    """Counts interrupted runs that were taken over."""

    def __init__(self) -> None:
        self.resumed = 0
        self.held = 0

    def count(self, claim: Claim, state: State) -> None:
        """Log and count an interrupted run after its takeover."""
        why = f"worker {claim.previous} {_ENDED[claim.cause]}"
        if state.outline.held:
            self.held += 1
            log.warning("run %s was interrupted (%s) and is held: %s", claim.run, why, state.outline.reason)
        else:
            self.resumed += 1
            log.info("run %s was interrupted (%s) and is resumed", claim.run, why)


_ENDED = {"dead": "died", "expired": "did not renew its claim", "claimed": "released it"}


def _is_interrupted(claim: Claim, state: State) -> bool:
    """Whether the run was active when its claim ended. A run that was released, or that only waited, was not
    interrupted."""
    is_running = state.outline.held or state.status in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    return claim.cause != "claimed" and is_running


def _awaits_a_user(state: State) -> bool:
    """Whether only a user makes the run continue, or begin."""
    return state.outline.awaits_start or state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED)


class Takeovers:
    """The runs that a worker is taking over."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._hold = worker.settings.on_restart == "hold"
        self.recovered = Recovered()
        self._claimed_twice: set[RunId] = set()
        """Runs that were claimed again during their takeover. The epoch of the claim is greater than that of the log,
        so an append does not release it."""
        self._in_progress: set[RunId] = set()
        self._awaiting_retry: set[RunId] = set()
        self._failure_counts: dict[RunId, int] = {}
        self.shielded = ShieldedTasks()
        """Completions of closed runs: after the release of a closed run no worker repeats them."""
        self._incomplete: set[RunId] = set()
        """Closed runs whose end has not yet taken effect on all other runs."""

    def __len__(self) -> int:
        """The number of takeovers under way."""
        return len(self._in_progress)

    def __contains__(self, run: RunId) -> bool:
        return run in self._in_progress

    def expects(self, run: RunId) -> bool:
        """Whether a takeover of this run is under way or will be retried."""
        return run in self._in_progress or run in self._awaiting_retry

    def release_extra_claims(self, run: RunId) -> None:
        """Release a second claim of a run that this worker does not have."""
        if run in self._claimed_twice and not self._worker.has_run(run):
            self._claimed_twice.discard(run)
            self._worker.spawn(self._release_claim(run))

    async def _release_claim(self, run: RunId) -> None:
        worker = self._worker
        while not worker.has_run(run):
            try:
                head = await worker.store.head(run)
                if head is None or await worker.store.release(run, worker.id, head.version, ready=head.ready):
                    return
            except StoreError as error:
                await worker.wait_for_store(run, error, 0.5)

    def reset_failures(self, run: RunId) -> None:
        """Forget the failures of a run that reached its end."""
        self._failure_counts.pop(run, None)

    @property
    def has_unfinished_completions(self) -> bool:
        """Whether completions of closed runs are outstanding. If so, the worker must let its claims expire instead of
        releasing them: the next owner repeats the completions."""
        return bool(self._incomplete or self.shielded)

    def retry_completion(self, run: RunId, error: OutlastError) -> None:
        """The end of this run did not take effect on all other runs: try again."""
        log.warning("run %s ended, but its end could not be delivered to other runs yet: %s", run, error)
        self._incomplete.add(run)
        self.retry_takeover(run, error)

    async def adopt(self, claim: Claim, *, has_slots: bool = False) -> None:
        """Take over a claimed run and continue it. A claim by name did not take the slots of the run's queue; unless it
        `has_slots`, they are taken here, and if the queue is full, the run is released."""
        if claim.run in self._in_progress:
            self._claimed_twice.add(claim.run)
        else:
            await self._take_over(claim.run, self._adopt(claim, has_slots=has_slots))

    async def resume_owned(self, writer: RunWriter) -> None:
        """Continue a run that this worker already owns, from its log."""
        await self._take_over(writer.run, self._resume_run(writer))

    async def _take_over(self, run: RunId, work: Coroutine[Any, Any, None]) -> None:
        self._in_progress.add(run)
        try:
            await work
        except Conflict as error:
            log.info("run %s belongs to another worker now: %s", run, error)
        except RunDeleted as error:
            log.info("%s", error)
        except Damaged as error:
            log.error("run %s cannot be taken over: %s", run, error)
        except StoreError as error:
            log.warning("run %s could not be taken over; trying again: %s", run, error)
            self.retry_takeover(run, error)
        except Exception as error:  # this worker holds the claim, so no other worker would continue the run
            log.error("run %s could not be taken over; trying again", run, exc_info=error)
            self.retry_takeover(run, error)
        finally:
            self._in_progress.discard(run)
            self.release_extra_claims(run)

    async def _adopt(self, claim: Claim, *, has_slots: bool) -> None:
        old = self._worker.drivers.get(claim.run)
        if old is not None:
            if old.writer.epoch > claim.epoch:
                return  # two claims at once, and the later one was adopted first
            old.leave()
        if not has_slots and self._worker.slots and not await self._gets_slots(claim):
            return
        writer = await self._worker.ledger.take_over(claim, hold=self._hold)
        is_interrupted = _is_interrupted(claim, writer.state)
        await self._resume_run(writer)
        if is_interrupted:
            self.recovered.count(claim, writer.state)

    async def _gets_slots(self, claim: Claim) -> bool:
        """Take the slots of a run's queue; if they are full, release the run. A run that is over needs none."""
        worker, run = self._worker, claim.run
        head, summary = await worker.store.head(run), await worker.store.summary(run)
        slots = worker.slots.get(summary.queue) if summary is not None else None
        if head is None or head.closed or summary is None or not slots:
            return True
        try:
            full = await worker.store.take(run, claim.epoch, slots)
        except NotAllowed as error:
            raise Claimed(str(error)) from error
        if full:
            log.info("run %s waits: queue %s is full", run, summary.queue)
            while head is not None and not await worker.store.release(run, worker.id, head.version, ready=True):
                head = await worker.store.head(run)
        return not full

    async def _resume_run(self, writer: RunWriter) -> None:
        await open_requested_branch(writer)
        for child in await cancel_left_children(self._worker.ledger, writer.run, writer.state):
            self._worker.advance_run(child)
        state = writer.state
        created = await writer.created()
        workflow = registry.known(created.workflow)
        request = next_request(state)
        is_cancelled = isinstance(request, e.CancelRequested)
        if state.is_closed or (isinstance(request, e.CancelRequested) and ends_at_once(state, request)):
            await self.shielded.shield(self._complete(writer, created))
        elif workflow is None or (_awaits_a_user(state) and not is_cancelled):
            await writer.release_when_read(lambda _: workflow is None)
        elif self._worker.is_draining:  # nothing more begins on this worker
            await writer.release_when_read(lambda _: True)
        else:
            await self._replay(writer, workflow, created)

    async def _complete(self, writer: RunWriter, created: e.RunCreated, error: e.Failure | None = None) -> None:
        """Apply the effects of a run's end. A run with a request that ends it is ended first, without its clean-up,
        which could not start because of `error`."""
        if writer.state.is_closed:
            ending = await ending_of(self._worker.store, writer.head)
            await complete_run(self._worker.ledger, writer.run, created, ending, writer.state)
            if isinstance(ending, e.RunContinued):
                self._worker.advance_run(RunId(ending.successor))
        else:
            await end_as_requested(self._worker.ledger, writer, error)
        await writer.release_when_read()
        self._incomplete.discard(writer.run)

    async def _replay(self, writer: RunWriter, workflow: Workflow[..., Any], created: e.RunCreated) -> None:
        code = Code(writer.run, workflow, self._worker.context)
        driver = RunDriver(self._worker, code, created, writer)
        self._worker.drivers[writer.run] = driver
        replay = Replay(code, created, writer)
        failures = self._failure_counts.get(writer.run, 0)
        try:
            if failures >= FAILURES_BEFORE_HOLD:
                self._failure_counts.pop(writer.run, None)
                message = f"advancing the run failed {failures} times in a row"
                await self._hold_or_end(driver, e.Failure(TAKEOVER_FAILED, message))
                return
            await replay.run()
            await resume(driver, replay)
        except Divergence as difference:
            log.error("run %s cannot continue: its code has changed: %s", writer.run, difference)
            message = f"the workflow's code no longer does what its log holds: {difference}"
            await self._hold_or_end(driver, e.Failure(RunDiverged.code, message))
        except (NotFound, Damaged) as error:
            await self._hold_or_end(driver, e.Failure(error.code, str(error)))
        except BaseException:
            driver.leave()
            raise

    async def _hold_or_end(self, driver: RunDriver, failure: e.Failure) -> None:
        """The code of a run cannot continue: hold the run, or if a cancellation is open, end it without its clean-up."""
        if isinstance(next_request(driver.writer.state), e.CancelRequested):
            driver.leave()
            await self.shielded.shield(self._complete(driver.writer, driver.created, failure))
        else:
            await driver.hold(failure)

    def retry_takeover(self, run: RunId, error: BaseException) -> None:
        """Claim and replay a run of this worker again, after a pause."""
        if self._worker.is_closing:
            return
        self._failure_counts[run] = self._failure_counts.get(run, 0) + (not isinstance(error, StoreError | Overtaken))
        self._awaiting_retry.add(run)
        self._worker.spawn(self._retry_takeover_after(run, min(5.0, 0.1 * 2 ** self._failure_counts[run])))

    async def _retry_takeover_after(self, run: RunId, delay: float) -> None:
        await asyncio.sleep(delay)
        self._awaiting_retry.discard(run)
        if run in self._worker.drivers or self._worker.is_closing:
            return
        try:
            claims = await self._worker.claim(runs=[run])
        except StoreError as error:
            self.retry_takeover(run, error)
            return
        if not claims:  # another worker owns it
            self._incomplete.discard(run)
        for claim in claims:
            await self.adopt(claim)
