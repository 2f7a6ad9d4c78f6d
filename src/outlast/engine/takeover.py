"""Runs that come to a worker from their log: claimed because their owner died or gave them back, or its own once more after
something went wrong with them.

What stands in the log decides what becomes of a run that arrives. One that is over is seen out: whoever has to hear of its
end does. One that stands still, or whose code is not known here, is given back. The others are replayed and driven on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from outlast.engine.branch_requests import open_requested_branch
from outlast.engine.completion import cancel_left_children, complete_run, created_of, end_as_requested, ending_of
from outlast.engine.driver import Driver
from outlast.engine.shielded_tasks import ShieldedTasks
from outlast.errors import (
    TAKEOVER_FAILED,
    Conflict,
    Damaged,
    NotFound,
    OutlastError,
    Overtaken,
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
from outlast.lifecycle.decide import ends_at_once, next_request
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import Claim

if TYPE_CHECKING:
    from outlast.engine.worker import Worker

log = logging.getLogger("outlast.engine")

FAILURES_BEFORE_HOLD = 3
"""How often a driver may fail over one run before a person is asked."""


class Recovered:
    """How many interrupted runs were taken over, and what became of them."""

    def __init__(self) -> None:
        self.resumed = 0
        self.held = 0

    def count(self, claim: Claim, state: State) -> None:
        """Log and count an interrupted run that was taken over, as it is now."""
        why = f"worker {claim.previous} {_ENDED[claim.cause]}"
        if state.outline.held:
            self.held += 1
            log.warning("run %s was interrupted (%s) and is held: %s", claim.run, why, state.outline.reason)
        else:
            self.resumed += 1
            log.info("run %s was interrupted (%s) and is resumed", claim.run, why)


_ENDED = {"dead": "died", "expired": "did not renew its claim", "claimed": "released it"}


def _is_interrupted(claim: Claim, state: State) -> bool:
    """Whether somebody worked on the run when its claim ended. One that was released, or that only waited, was not
    interrupted."""
    is_running = state.outline.held or state.status in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    return claim.cause != "claimed" and is_running


class Takeovers:
    """The runs that are about to be a worker's. `hold` also holds interrupted ones that would resume."""

    def __init__(self, worker: Worker, *, hold: bool) -> None:
        self._worker = worker
        self._hold = hold
        self.recovered = Recovered()
        self._claimed_twice: set[RunId] = set()
        """Runs that were claimed here once more while they were taken up. Their claim is of a greater epoch than their log:
        an append does not give it back."""
        self._in_progress: set[RunId] = set()
        self._awaiting_retry: set[RunId] = set()
        self._failure_counts: dict[RunId, int] = {}
        self.shielded = ShieldedTasks()
        """What the ends of runs owe to others: once a run that is over was given back, nobody looks at that."""
        self._incomplete: set[RunId] = set()
        """Runs that are over, of which somebody could not be told yet."""

    def __len__(self) -> int:
        """How many there are at this moment."""
        return len(self._in_progress)

    def __contains__(self, run: RunId) -> bool:
        return run in self._in_progress

    def expects(self, run: RunId) -> bool:
        """Whether this run is on its way, or will be tried again."""
        return run in self._in_progress or run in self._awaiting_retry

    def release_extra_claims(self, run: RunId) -> None:
        """If nobody here has the run in hand any more, nothing of its claims is to be left."""
        if run in self._claimed_twice and not self._worker.has_run(run):
            self._claimed_twice.discard(run)
            self._worker.spawn(self._let_go(run))

    async def _let_go(self, run: RunId) -> None:
        worker = self._worker
        while not worker.has_run(run):
            try:
                head = await worker.store.head(run)
                if head is None or await worker.store.release(run, worker.id, head.version, ready=head.ready):
                    return
            except StoreError as error:
                await worker.wait_for_store(run, error, 0.5)

    def reset_failures(self, run: RunId) -> None:
        """It came to its last word: what went wrong with it before no longer counts."""
        self._failure_counts.pop(run, None)

    @property
    def has_unfinished_completions(self) -> bool:
        """Whether something has to be seen to of runs that are over. Nobody would, if their claims were given back: who lets
        them run out leaves that to others."""
        return bool(self._incomplete or self.shielded)

    def retry_completion(self, run: RunId, error: OutlastError) -> None:
        """The end of this run could not be told to whoever has to know."""
        log.warning("the end of run %s could not be told yet: %s", run, error)
        self._incomplete.add(run)
        self.retry_takeover(run, error)

    # --- from others, or once more

    async def adopt(self, claim: Claim) -> None:
        """Take over a claimed run and go on with it."""
        if claim.run in self._in_progress:
            self._claimed_twice.add(claim.run)
            return
        self._in_progress.add(claim.run)
        try:
            old = self._worker.drivers.get(claim.run)
            if old is not None and old.writer.epoch > claim.epoch:
                return  # claimed twice at once, and the later claim was taken up first
            if old is not None:
                old.leave()
            writer = await self._worker.ledger.take_over(claim, hold=self._hold)
            is_interrupted = _is_interrupted(claim, writer.state)
            await self._resume_run(writer)
            if is_interrupted:
                self.recovered.count(claim, writer.state)
        except Conflict as error:
            log.info("run %s is another worker's now: %s", claim.run, error)
        except Damaged as error:
            log.error("run %s cannot be taken over: %s", claim.run, error)
        except StoreError as error:
            log.warning("run %s could not be taken over now: %s", claim.run, error)
            self.retry_takeover(claim.run, error)
        except Exception as error:
            self._on_unexpected_error(claim.run, error)
        finally:
            self._taken_over(claim.run)

    async def resume_owned(self, writer: RunWriter) -> None:
        """Go on with a run that is owned already, from its log: what it was going to do has changed."""
        self._in_progress.add(writer.run)
        try:
            await self._resume_run(writer)
        except Conflict as error:
            log.info("run %s is another worker's now: %s", writer.run, error)
        except OutlastError as error:
            log.warning("run %s could not be taken up now: %s", writer.run, error)
            self.retry_takeover(writer.run, error)
        except Exception as error:
            self._on_unexpected_error(writer.run, error)
        finally:
            self._taken_over(writer.run)

    def _taken_over(self, run: RunId) -> None:
        self._in_progress.discard(run)
        self.release_extra_claims(run)

    def _on_unexpected_error(self, run: RunId, error: Exception) -> None:
        """Nobody foresaw this. The claim is ours, so nobody else would go on with the run."""
        log.error("run %s could not be taken up, and is tried again", run, exc_info=error)
        self.retry_takeover(run, error)

    # --- what becomes of them

    async def _resume_run(self, writer: RunWriter) -> None:
        await open_requested_branch(writer)
        for child in await cancel_left_children(self._worker.ledger, writer.run, writer.state):
            self._worker.advance_run(child)
        state = writer.state
        created = await created_of(self._worker.store, writer.run)
        workflow = registry.known(created.workflow)
        request = next_request(state)
        is_cancelled = isinstance(request, e.CancelRequested)
        if state.is_closed or (isinstance(request, e.CancelRequested) and ends_at_once(state, request)):
            await self.shielded.shield(self._complete(writer, created))
        elif workflow is None or (state.outline.base in ("paused", "failed") and not is_cancelled):
            while not await writer.release(ready=workflow is None):
                pass
        elif self._worker.is_draining:  # whatever made it take this one up, nothing more begins here
            while not await writer.release(ready=True):
                pass
        else:
            await self._replay(writer, workflow, created)

    async def _complete(self, writer: RunWriter, created: e.RunCreated, error: e.Failure | None = None) -> None:
        """Do what the end of a run owes to others; one that is to end is ended first, without its clean-up, which could not
        start because of the `error`."""
        if writer.state.is_closed:
            ending = await ending_of(self._worker.store, writer.head)
            await complete_run(self._worker.ledger, writer.run, created, ending, writer.state)
            if isinstance(ending, e.RunContinued):
                self._worker.advance_run(RunId(ending.successor))
        else:
            await end_as_requested(self._worker.ledger, writer, error)
        while not await writer.release():
            pass
        self._incomplete.discard(writer.run)

    async def _replay(self, writer: RunWriter, workflow: Workflow[..., Any], created: e.RunCreated) -> None:
        code = Code(writer.run, workflow, self._worker.context)
        driver = Driver(self._worker, code, created, writer)
        self._worker.drivers[writer.run] = driver
        replay = Replay(code, created, writer)
        failures = self._failure_counts.get(writer.run, 0)
        try:
            if failures >= FAILURES_BEFORE_HOLD:
                self._failure_counts.pop(writer.run, None)
                await self._hold_or_end(
                    driver, e.Failure(TAKEOVER_FAILED, f"it could not be driven, {failures} times in a row")
                )
                return
            await replay.run()
            await driver.resume(replay.news, replay.args, replay.kwargs)
        except Divergence as difference:
            log.error("run %s cannot go on, its code has changed: %s", writer.run, difference)
            said = f"the workflow's code no longer does what its log holds: {difference}"
            await self._hold_or_end(driver, e.Failure(RunDiverged.code, said))
        except (NotFound, Damaged) as error:
            await self._hold_or_end(driver, e.Failure(error.code, str(error)))
        except BaseException:
            driver.leave()
            raise

    async def _hold_or_end(self, driver: Driver, failure: e.Failure) -> None:
        """The code of a run cannot go on: it is held, or if somebody cancelled it, ended without its clean-up."""
        if isinstance(next_request(driver.writer.state), e.CancelRequested):
            driver.leave()
            await self.shielded.shield(self._complete(driver.writer, driver.created, failure))
        else:
            await driver.hold(failure)

    # --- after something went wrong

    def retry_takeover(self, run: RunId, error: BaseException) -> None:
        """Something went wrong with a run that is still ours: after a while it is claimed anew and replayed."""
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
        if not claims:  # it is another's
            self._incomplete.discard(run)
        for claim in claims:
            await self.adopt(claim)
