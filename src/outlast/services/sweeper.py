"""Finds runs that nobody advances though they should go on, and hands them to the next worker.

It looks at unfinished runs only, never at all of them. A run in flight is known by its claim: there is no other record of
its task that could be lost. What it finds stalled it takes over, which counts what was interrupted, and gives back as ready;
a claim is one atomic step, and tells whether the run is still as it was seen, so any number of sweepers at once hand each
run over once.
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
from outlast.ledger.reading import lineage_of, runs_of, state_of
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import decide
from outlast.lifecycle.state import State
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.summary import RunSummary, summarise
from outlast.store import Claim, Head, Holding

log = logging.getLogger("outlast.services")

Reason: TypeAlias = Literal[
    "healthy", "ready", "waiting", "no task", "task ended", "claim expired", "not renewed", "unreadable"
]
Outcome: TypeAlias = Literal["", "handed over", "held", "finished"]
STALLED: tuple[Reason, ...] = ("no task", "task ended", "claim expired")
PAGE = 1000
INTERVAL_S, STALE_AFTER_S = 300.0, 600.0
"""Seconds between two sweeps, and for how long a run may be nobody's before that counts."""
LEASE_S = 30.0
CONCURRENCY = 32
"""Runs that are looked at at the same time."""


class RunCheck(Struct, frozen=True):
    """One run that was looked at: how it stands, and what was done about it, or would be done in a sweep that is no dry run
    (`outcome`). `key` names the attempt to hand it over: many who try it under one key try the same thing."""

    run: RunId
    reason: Reason
    detail: str = ""
    is_recovered: bool = False
    key: str = ""
    outcome: Outcome = ""


class Report(Struct):
    """What a sweep found; the counts add up to `scanned`. `stalled` are those that were found and not handed over: because
    nothing was to be changed, somebody else was at it, or they do not read."""

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
    """Sweeps one store. Times are seconds; `stale_after` is how long a claim may have expired, or a run nobody has claimed
    may be untouched, before it counts. With `hold`, what was interrupted is held, whatever it says itself."""

    def __init__(
        self, ledger: Ledger, *, interval: float = INTERVAL_S, stale_after: float = STALE_AFTER_S, hold: bool = False
    ) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._interval = interval
        self._stale = round(min(stale_after, 1e9) * 1e6)  # even what has no end has to be a time
        self._hold = hold
        self._id: WorkerId = ledger.new_worker_id()
        self._is_enrolled = False

    async def run(self) -> None:
        """Sweep once per interval until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            await self.sweep()

    async def sweep(self, *, dry_run: bool = False) -> Report:
        """Look at every unfinished run once, and hand over what is stalled."""
        report, now = Report(), await self._store.now()
        held = await self._holdings()
        try:
            async for some in self._unfinished():
                looks = (self._check_run(run, held.get(run), now, dry_run) for run in some)
                for check in await asyncio.gather(*looks, return_exceptions=True):
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
        """Nobody shall wait for a lease to run out because a sweep was interrupted."""
        if self._is_enrolled:
            self._is_enrolled = False
            with suppress(OutlastError):
                await self._store.retire(self._id)

    async def _holdings(self) -> dict[RunId, Holding]:
        """Who holds what, in a few reads for all."""
        found: dict[RunId, Holding] = {}
        after = ""
        while True:
            page = await self._store.holdings(after=after, limit=PAGE)
            found |= {each.run: each for each in page}
            if len(page) < PAGE:
                return found
            after = page[-1].run

    async def _unfinished(self) -> AsyncIterator[list[RunId]]:
        some: list[RunId] = []
        async for run in runs_of(self._store, unfinished=True):
            some.append(run)
            if len(some) == CONCURRENCY:
                yield some
                some = []
        yield some

    # --- one run

    async def _check_run(self, run: RunId, holding: Holding | None, now: int, dry_run: bool) -> RunCheck:
        """How one run stands, and what came of it."""
        try:
            check, head = await self._assess(run, holding, now)
            if check.reason not in STALLED or head is None:
                return check
            state = await self._state(head)
            if dry_run:
                return replace(check, outcome=self._expected_outcome(state, head, check))
            if head.closed:  # what its end owes to others is done by the worker that claims it
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
            return RunCheck(run, "healthy", "somebody else has taken it over meanwhile")
        except (Damaged, Illegal, *STRANGE) as error:
            return RunCheck(run, "unreadable", str(error))

    async def _state(self, head: Head) -> State:
        return await state_of(
            self._store, head.run, await lineage_of(self._store, head), key=self._ledger.key, head=head
        )

    async def _assess(self, run: RunId, holding: Holding | None, now: int) -> tuple[RunCheck, Head | None]:
        """How a run stands; what is stalled comes with its head."""
        if holding is not None and holding.is_live and now - holding.expires >= self._stale:
            late = (now - holding.expires) // 1_000_000
            said = f"worker {holding.worker} is alive, but its claim expired {late} s ago and it has not renewed it"
            return RunCheck(run, "not renewed", said), None
        if holding is not None and holding.is_live:
            return RunCheck(run, "healthy", f"worker {holding.worker} advances it"), None
        if holding is not None and now - holding.expires < self._stale:
            return RunCheck(run, "healthy", f"worker {holding.worker} was lost a moment ago"), None
        stored = await self._store.derived(run)
        head, summary = stored.head, stored.summary
        if head is None or summary is None:
            lost = "its head is gone" if head is None else "it has no summary"
            return RunCheck(run, "unreadable", f"{(*stored.faults, lost)[0]}; outlast doctor {run} says more"), None
        if _is_inconsistent(head, summary, stored.waits):
            summary = summarise(run, await self._state(head))
        if head.closed:
            is_shown = summary.at >= head.version and summary.status in TERMINAL and not summary.held
            if is_shown or not self._is_old(summary, now):
                return RunCheck(run, "healthy", "it has just ended"), None
            return RunCheck(run, "task ended", "it is over, and lists do not show it"), head
        if holding is not None:
            return RunCheck(run, "claim expired", f"worker {holding.worker} is gone"), head
        if head.ready:
            whom = f"a worker that knows {summary.workflow}"
            long = f"; for {(now - summary.updated) // 1_000_000} s nobody has" if self._is_old(summary, now) else ""
            return RunCheck(run, "ready", f"{whom} takes it{long}"), None
        if summary.held or summary.status in (RunStatus.WAITING, RunStatus.PAUSED):
            return RunCheck(run, "waiting", _awaited(summary)), None
        if not self._is_old(summary, now) or await self._store.holding(run) is not None:
            return RunCheck(run, "healthy", "it was given back or taken up a moment ago"), None
        return RunCheck(run, "no task", f"it says that it is {summary.status}, and nobody has claimed it"), head

    def _is_old(self, summary: RunSummary, now: int) -> bool:
        return now - summary.updated >= self._stale

    # --- handing over

    async def _hand_over(self, check: RunCheck, head: Head) -> RunCheck:
        """Take the run over and give it back, ready. Somebody else may be quicker, which is as good."""
        self._is_enrolled = True
        await self._store.enrol(self._id, LEASE_S)
        claims = await self._store.claim(self._id, runs=[check.run])
        if not claims:
            return RunCheck(check.run, "healthy", "somebody else has claimed it meanwhile")
        claim = claims[0]
        if not await self._is_unchanged(check, head, claim):
            await self._release_unchanged(claim)
            return RunCheck(check.run, "healthy", "somebody else has taken it over meanwhile")
        writer = await self._ledger.take_over(claim, hold=self._hold)
        while not await writer.release(ready=not writer.state.is_closed and not writer.state.outline.held):
            pass
        key = f"{check.run}:orchestrate:{claim.epoch}"
        outcome: Outcome = "held" if writer.state.outline.held else "handed over"
        return replace(check, is_recovered=True, key=key, outcome=outcome)

    def _expected_outcome(self, state: State, head: Head, check: RunCheck) -> Outcome:
        """What handing the run over would come to."""
        if state.is_closed:
            return "finished"
        cause: Literal["claimed", "expired"] = "expired" if check.reason == "claim expired" else "claimed"
        events = decide.take_over(state, head.epoch + 1, self._id, cause=cause, hold=self._hold)
        is_held = state.outline.held or any(isinstance(event, e.RunFailed) for event in events)
        return "held" if is_held else "handed over"

    async def _is_unchanged(self, check: RunCheck, head: Head, claim: Claim) -> bool:
        """Whether nobody has owned the run since it was looked at: an interruption is told until somebody takes over, and
        whoever takes over writes."""
        now = await self._store.head(check.run)
        if now is None or now.closed:
            return False
        return claim.cause != "claimed" if check.reason == "claim expired" else now.version == head.version

    async def _release_unchanged(self, claim: Claim) -> None:
        """As it was, as far as that can be told; one look too many does no harm."""
        while (head := await self._store.head(claim.run)) is not None:
            if await self._store.release(claim.run, claim.worker, head.version, ready=not head.closed):
                return


def _is_inconsistent(head: Head, summary: RunSummary, waits: Collection[str]) -> bool:
    """Whether a summary cannot be right: then the log is asked."""
    is_over = summary.status in TERMINAL and not summary.held
    return not head.closed and (is_over or (summary.status is RunStatus.WAITING and not waits))


def _awaited(summary: RunSummary) -> str:
    """What a run waits for, by name."""
    named = ", ".join(f"{wait.kind} {wait.id}" for wait in summary.waits)
    more = summary.waiting - len(summary.waits)
    if named:
        return f"for {named}{f' and {more} more' if more > 0 else ''}"
    return f"{summary.status}: {summary.reason}" if summary.reason else str(summary.status)
