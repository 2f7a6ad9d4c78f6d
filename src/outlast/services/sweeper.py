"""Finds runs without an owner that should be running, and releases them for the next worker.

It checks only unfinished runs. A running run is recognised by its claim: there is no separate record of its task that
could be lost. A stalled run is taken over, which counts interrupted nodes, and released as ready. A claim is one atomic
step and shows whether the run has changed since the check, so concurrent sweepers hand over each run once. Of the workers of
a store one sweeps: the others leave it to the holder of a lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.errors import Conflict, Damaged, Illegal, OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger
from outlast.ledger.reading import holdings_of, lineage_of, runs_of, state_of
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import decide
from outlast.lifecycle.state import State
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.summary import RunSummary, summarise
from outlast.services.leases import acquire, resign
from outlast.store import Claim, Head, Holding

log = logging.getLogger("outlast.services")

Reason: TypeAlias = Literal[
    "healthy", "ready", "waiting", "no task", "task ended", "claim expired", "not renewed", "unreadable"
]
Outcome: TypeAlias = Literal["", "handed over", "held", "finished"]
STALLED: tuple[Reason, ...] = ("no task", "task ended", "claim expired")
INTERVAL_S, STALE_AFTER_S = 300.0, 600.0
"""Seconds between two sweeps, and seconds that a run may have no owner before it counts as stalled."""
LEASE_S = 30.0
SERVICE = "sweeper"
"""The lease of the process that sweeps."""
CONCURRENCY = 32
"""Runs that are checked at the same time."""


class RunCheck(Struct, frozen=True):
    """The check of one run: its condition, and the effect of the sweep, or of a dry run if it were carried out
    (`outcome`). `key` identifies the handover: concurrent handovers of the same interruption have the same key."""

    run: RunId
    reason: Reason
    detail: str = ""
    is_recovered: bool = False
    key: str = ""
    outcome: Outcome = ""


class Report(Struct):
    """The result of a sweep; the counts add up to `scanned`. `stalled` counts runs that were not handed over: in a dry
    run, because another process was faster, or because they are unreadable."""

    scanned: int = 0
    healthy: int = 0
    waiting: int = 0
    recovered: int = 0
    stalled: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    runs: list[RunCheck] = field(default_factory=list)

    def add(self, check: RunCheck) -> None:
        self.scanned += 1
        self.reasons[check.reason] += 1
        if check.is_recovered:
            self.recovered += 1
        elif check.reason in ("healthy", "ready"):
            self.healthy += 1
        elif check.reason == "waiting":
            self.waiting += 1
        else:
            self.stalled += 1
        if check.reason not in ("healthy", "waiting"):
            self.runs.append(check)


class Sweeper:
    """Sweeps one store. Times are in seconds; `stale_after` is how long a claim must have expired, or a run without a
    claim must be unchanged, before the run counts as stalled. With `hold`, interrupted runs are held regardless of
    their own setting."""

    def __init__(
        self, ledger: Ledger, *, interval: float = INTERVAL_S, stale_after: float = STALE_AFTER_S, hold: bool = False
    ) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._interval = interval
        self._stale = round(min(stale_after, 1e9) * 1e6)  # infinity has no integer
        self._hold = hold
        self._id: WorkerId = ledger.new_worker_id()
        self._is_enrolled = False

    async def run(self) -> None:
        """Sweep once per interval until cancelled, while no other process does."""
        has_swept = False
        try:
            while True:
                await asyncio.sleep(self._interval)
                if await acquire(self._store, SERVICE, self._id, 2 * self._interval + LEASE_S):
                    has_swept = True
                    await self.sweep()
        finally:
            if has_swept:
                with suppress(OutlastError):
                    await resign(self._store, SERVICE, self._id)

    async def sweep(self, *, dry_run: bool = False) -> Report:
        """Check every unfinished run once, and hand over the stalled ones."""
        report, now = Report(), await self._store.now()
        held = {each.run: each async for each in holdings_of(self._store)}
        try:
            async for runs in self._unfinished():
                checks = (self._check_run(run, held.get(run), now, dry_run) for run in runs)
                for check in await asyncio.gather(*checks, return_exceptions=True):
                    if isinstance(check, BaseException):
                        raise check
                    report.add(check)
        finally:
            if not dry_run:
                await self._leave()
        if report.recovered or report.stalled:
            log.info("swept %d runs: %d recovered, %d stalled", report.scanned, report.recovered, report.stalled)
        return report

    async def _leave(self) -> None:
        """Retire the sweeper, so that an interrupted sweep leaves no live lease on a run."""
        if self._is_enrolled:
            self._is_enrolled = False
            with suppress(OutlastError):
                await self._store.retire(self._id)

    async def _unfinished(self) -> AsyncIterator[list[RunId]]:
        batch: list[RunId] = []
        async for run in runs_of(self._store, unfinished=True):
            batch.append(run)
            if len(batch) == CONCURRENCY:
                yield batch
                batch = []
        yield batch

    # --- one run

    async def _check_run(self, run: RunId, holding: Holding | None, now: int, dry_run: bool) -> RunCheck:
        """Check one run, and hand it over if it is stalled."""
        try:
            check, head = await self._assess(run, holding, now)
            if check.reason not in STALLED or head is None:
                return check
            state = await self._state(head)
            if dry_run:
                is_interrupted = (await self._store.derived(run)).interrupted
                return replace(check, outcome=self._expected_outcome(state, head, is_interrupted=is_interrupted))
            if head.closed:  # the worker that claims it applies the effects of its end on other runs
                waits = [*state.waits.values(), *state.loose.values()]
                if not await self._store.rewrite(summarise(run, state), waits, closed=state.is_closed):
                    return RunCheck(check.run, "healthy", "it has just ended")
                if state.is_closed:
                    return replace(check, is_recovered=True, outcome="finished")
                head = replace(head, closed=False)
            try:
                return await self._hand_over(check, head)
            except (Conflict, Damaged):
                raise
            except OutlastError as error:
                return RunCheck(check.run, check.reason, f"it could not be handed over: {error}")
        except Conflict:
            return RunCheck(run, "healthy", "another worker took it over meanwhile")
        except (Damaged, Illegal, *STRANGE) as error:
            return RunCheck(run, "unreadable", str(error))

    async def _state(self, head: Head) -> State:
        return await state_of(
            self._store, head.run, await lineage_of(self._store, head), key=self._ledger.key, head=head
        )

    async def _assess(self, run: RunId, holding: Holding | None, now: int) -> tuple[RunCheck, Head | None]:
        """The condition of a run, with its head if the run is stalled."""
        if holding is not None and holding.is_live and now - holding.expires >= self._stale:
            late = (now - holding.expires) // 1_000_000
            detail = f"worker {holding.worker} is alive, but its claim expired {late} s ago and was not renewed"
            return RunCheck(run, "not renewed", detail), None
        if holding is not None and holding.is_live:
            return RunCheck(run, "healthy", f"worker {holding.worker} advances it"), None
        if holding is not None and now - holding.expires < self._stale:
            return RunCheck(run, "healthy", f"the claim of worker {holding.worker} expired a moment ago"), None
        stored = await self._store.derived(run)
        head, summary = stored.head, stored.summary
        if head is None or summary is None:
            missing = "it has no head" if head is None else "it has no summary"
            return RunCheck(run, "unreadable", f"{(*stored.faults, missing)[0]}; run `outlast doctor {run}`"), None
        if _is_inconsistent(head, summary, stored.waits):
            summary = summarise(run, await self._state(head))
        if head.closed:
            is_shown = summary.at >= head.version and summary.status in TERMINAL and not summary.held
            if is_shown or not self._is_old(summary, now):
                return RunCheck(run, "healthy", "it has just ended"), None
            return RunCheck(run, "task ended", "it has ended, but its summary does not show that"), head
        if holding is not None:
            return RunCheck(run, "claim expired", f"the claim of worker {holding.worker} expired"), head
        if head.ready:
            idle = (now - summary.updated) // 1_000_000
            since = f"; none has for {idle} s" if self._is_old(summary, now) else ""
            return RunCheck(run, "ready", f"a worker with workflow {summary.workflow} will claim it{since}"), None
        if summary.held or summary.awaits_start or summary.status in (RunStatus.WAITING, RunStatus.PAUSED):
            return RunCheck(run, "waiting", _awaited(summary)), None
        if not self._is_old(summary, now) or await self._store.holding(run) is not None:
            return RunCheck(run, "healthy", "it was released or claimed a moment ago"), None
        return RunCheck(run, "no task", f"its status is {summary.status}, but no worker has claimed it"), head

    def _is_old(self, summary: RunSummary, now: int) -> bool:
        return now - summary.updated >= self._stale

    # --- handing over

    async def _hand_over(self, check: RunCheck, head: Head) -> RunCheck:
        """Take the run over and release it as ready, unless another worker was faster."""
        self._is_enrolled = True
        await self._store.enrol(self._id, LEASE_S)
        claims = await self._store.claim(self._id, runs=[check.run])
        if not claims:
            return RunCheck(check.run, "healthy", "another worker claimed it meanwhile")
        claim = claims[0]
        if not await self._is_unchanged(check, head, claim):
            await self._release_unchanged(claim)
            return RunCheck(check.run, "healthy", "another worker took it over meanwhile")
        writer = await self._ledger.take_over(claim, hold=self._hold)
        await writer.release_when_read(lambda state: not state.is_closed and not state.outline.held)
        key = f"{check.run}:orchestrate:{claim.epoch}"
        outcome: Outcome = "held" if writer.state.outline.held else "handed over"
        return replace(check, is_recovered=True, key=key, outcome=outcome)

    def _expected_outcome(self, state: State, head: Head, *, is_interrupted: bool) -> Outcome:
        """The outcome that handing the run over would have."""
        if state.is_closed:
            return "finished"
        cause: decide.Cause = "expired" if is_interrupted else "claimed"
        events = decide.take_over(state, head.epoch + 1, self._id, cause=cause, hold=self._hold)
        is_held = state.outline.held or any(isinstance(event, e.RunFailed) for event in events)
        return "held" if is_held else "handed over"

    async def _is_unchanged(self, check: RunCheck, head: Head, claim: Claim) -> bool:
        """Whether the run has had no owner since it was checked. The claim reports an interruption until the next
        takeover, and every takeover appends."""
        now = await self._store.head(check.run)
        if now is None or now.closed:
            return False
        return claim.cause != "claimed" if check.reason == "claim expired" else now.version == head.version

    async def _release_unchanged(self, claim: Claim) -> None:
        """Release a claim in its former condition. At worst the run is marked as ready without need."""
        while (head := await self._store.head(claim.run)) is not None:
            if await self._store.release(claim.run, claim.worker, head.version, ready=not head.closed):
                return


def _is_inconsistent(head: Head, summary: RunSummary, waits: Collection[str]) -> bool:
    """Whether a summary contradicts the head or the waits of the run: then the log decides."""
    is_over = summary.status in TERMINAL and not summary.held
    return not head.closed and (is_over or (summary.status is RunStatus.WAITING and not waits))


def _awaited(summary: RunSummary) -> str:
    """The names of a run's waits."""
    named = ", ".join(f"{wait.kind} {wait.id}" for wait in summary.waits)
    more = summary.waiting - len(summary.waits)
    if named:
        return f"for {named}{f' and {more} more' if more > 0 else ''}"
    if summary.awaits_start:
        return "for a person to start it"
    return f"{summary.status}: {summary.reason}" if summary.reason else str(summary.status)
