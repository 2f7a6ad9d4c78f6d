"""Deletion of runs: what may be deleted, and how a run is replaced by its tombstone.

A run leaves every list in one step of the store. What remains of it, its log first, is removed afterwards in bounded steps
that any process can continue (`services.pruner`). Before a run is deleted, the effects of its end on other runs are applied:
nobody else could do that later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from outlast.client.branch_plans import signed
from outlast.client.reader import Statuses, checked_filter
from outlast.client.recovery import Recovery
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.definition.durations import Seconds, seconds
from outlast.engine.completion import end_now
from outlast.errors import Claimed, Damaged, InvalidInput, NotAllowed, NotFound, RunDeleted
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.reading import created_of, ending_of, latest_run_of, missing
from outlast.ledger.verification import STRANGE
from outlast.lifecycle.actions import Refusal, Ties, deletion_refusal
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.summary import RunSummary, state_shown
from outlast.services.pruner import Pace, collect, purge
from outlast.store import Head, Tombstone
from outlast.values.failures import failure_of

PAGE = 500
CONCURRENCY, FEW = 8, 4
"""Runs that are examined at the same time, and deleted: at first a few, so that an append does not wait for many of them."""
SLOW_S = 0.02
"""If it takes so long to delete a few, requests travel: then more of them are on their way at once."""
_KEPT = {
    "live": "is completed by a worker: try again in a moment",
    "needed": "is a child or a predecessor of a run that has not ended",
}
"""Reasons without the names of other runs, to count them."""
OLDEST_S = 3_153_600_000
"""A hundred years: the greatest age that `prune` accepts."""
TRIES = 20
"""How often a deletion is tried again if the log of the run grows meanwhile."""


class Pruned(Struct, kw_only=True):
    """What `prune` deleted, or would delete in a dry run: the number of runs and of their events, and when the first and the
    last of them ended. `refused` counts the runs that match and are kept, by the reason."""

    dry_run: bool
    runs: int = 0
    events: int = 0
    first: int = 0
    last: int = 0
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    blobs: int = 0

    def add(self, summary: RunSummary) -> None:
        at = summary.updated
        self.merge(Pruned(dry_run=self.dry_run, runs=1, events=summary.at, first=at, last=at))

    def merge(self, other: Pruned) -> None:
        self.runs += other.runs
        self.events += other.events
        self.first = min(filter(None, (self.first, other.first)), default=0)
        self.last = max(self.last, other.last)


Tell = Callable[[str], None]
"""Called with what a long deletion has done so far."""


class Deletions(Verbs):
    """The verbs that delete runs."""

    def __init__(self, claims: TemporaryClaims, recovery: Recovery) -> None:
        super().__init__(claims)
        self._recovery = recovery

    # --- one run

    async def delete(self, run: RunId, by: str, reason: str, *, force: bool = False) -> Tombstone:
        """See `Engine.delete`."""
        tombstone = await self.replace(run, by, reason, force=force)
        async for _ in purge(self._store):
            pass
        return tombstone

    async def replace(self, run: RunId, by: str, reason: str, *, force: bool = False) -> Tombstone:
        """Replace a run by its tombstone. Its rows remain until they are purged."""
        by, reason = signed(by, reason)
        found = await self._replaced(run, by, reason, force)
        if isinstance(found, Refusal):
            raise NotAllowed(f"run {run} {found.reason}")
        return found

    async def _replaced(self, run: RunId, by: str, reason: str, force: bool) -> Tombstone | Refusal:
        await self._complete(run)
        for _ in range(TRIES):
            refused, summary, head = await self._examined(run, force)
            if refused is not None:
                return refused
            created = await self._created(run)
            if summary.held and created.parent:
                await self._end_held(run, by, reason)
                continue
            tombstone = Tombstone(
                run=run,
                workflow=summary.workflow,
                status=summary.status,
                created=summary.created,
                deleted=await self._store.now(),
                key=created.key,
                by=by,
                reason=reason,
            )
            if await self._store.delete(tombstone, head.version):
                return tombstone
        return Refusal("live", "is being changed: try again in a moment")

    async def _complete(self, run: RunId) -> None:
        """Apply the effects of the end of a run whose worker died before it did."""
        head, holding = await self._store.head(run), await self._store.holding(run)
        if head is not None and head.closed and holding is not None and not holding.is_live:
            with suppress(Damaged, *STRANGE):
                await self._recovery.complete_run(run)

    async def _created(self, run: RunId) -> e.RunCreated:
        """The first event of a run; an empty one if it cannot be read."""
        with suppress(Damaged, *STRANGE):
            return await created_of(self._store, run)
        return e.RunCreated(workflow="")

    async def _end_held(self, run: RunId, by: str, reason: str) -> None:
        """End a held child: its parent waits for its end, and nobody could deliver that after the deletion."""
        who, why = f" by {by}" if by else "", f": {reason}" if reason else ""
        error = failure_of(RunDeleted(f"run {run} was held and is deleted{who}{why}"))
        with suppress(Claimed):  # somebody resumes it: the next examination shows that
            async with self._claims.owning(run, "cancel") as writer:
                await end_now(self._ledger, writer, e.RunFailed(error=error))

    async def _examined(self, run: RunId, force: bool) -> tuple[Refusal | None, RunSummary, Head]:
        """Why a run may not be deleted, and what this was decided from. Nothing is changed."""
        stored = await self._store.derived(run)
        head, summary = stored.head, stored.summary
        if head is None:
            raise await missing(self._store, run)
        if summary is None:
            raise Damaged(f"its summary cannot be read: `outlast doctor {run} --fix` writes it again", run=run)
        state = state_shown(summary)
        refused = deletion_refusal(state, force=True)
        if refused is None and state.is_closed is not head.closed:
            raise Damaged(f"its summary differs from its log: `outlast doctor {run} --fix` corrects it", run=run)
        return refused or deletion_refusal(state, await self._ties(summary, head), force=force), summary, head

    async def _ties(self, summary: RunSummary, head: Head) -> Ties:
        holding = await self._store.holding(summary.run)
        return Ties(
            worker=holding.worker if holding is not None and holding.is_live else "",
            parent=await self._needing_parent(summary),
            successor=await self._live_successor(summary, head),
        )

    async def _needing_parent(self, summary: RunSummary) -> str:
        """The parent of a run if it has not ended, or can be resumed: then it may read the log of the run."""
        parent = await self._store.summary(RunId(summary.parent)) if summary.parent else None
        if parent is None or (parent.status in TERMINAL and not parent.held and not parent.recoverable):
            return ""
        return parent.run

    async def _live_successor(self, summary: RunSummary, head: Head) -> str:
        """The run that a run continued as, if that has not ended: requests to this run go there."""
        if summary.status is not RunStatus.COMPLETED:
            return ""
        with suppress(Damaged, *STRANGE):
            if isinstance(await ending_of(self._store, head), e.RunContinued):
                latest = await self._store.summary(await latest_run_of(self._store, summary.run))
                if latest is not None and (latest.status not in TERMINAL or latest.held):
                    return latest.run
        return ""

    # --- many runs

    async def prune(
        self,
        older: Seconds,
        workflow: str,
        statuses: Statuses | None,
        *,
        force: bool = False,
        dry_run: bool = False,
        by: str = "",
        reason: str = "",
        tell: Tell = lambda _: None,
    ) -> Pruned:
        """See `Engine.prune`."""
        by, reason = signed(by, reason)
        report, pace, width = Pruned(dry_run=dry_run), Pace(), CONCURRENCY if dry_run else FEW
        ended_before = await self._ended_before(older)
        async for page in self._ended(ended_before, workflow, statuses):
            while page:
                part, page = page[:width], page[width:]
                await asyncio.gather(*[self._prune_one(each, report, by, reason, force, dry_run) for each in part])
                tell(f"{'examined' if dry_run else 'deleted'} {report.runs:,} runs")
                if not dry_run:
                    width = FEW if await pace.wait() < SLOW_S else CONCURRENCY
        if not dry_run:
            async for steps in purge(self._store):
                tell(f"freeing space: step {steps:,}")
            async for report.blobs in collect(self._store):
                tell(f"removed {report.blobs:,} blobs")
        return report

    async def candidates(
        self, older: Seconds, workflow: str, statuses: Statuses | None, *, force: bool = False, limit: int
    ) -> tuple[Pruned, list[RunId], bool]:
        """The runs that `prune` would delete according to their summaries, at most `limit` of them, and whether there are
        more. Each deletion checks again."""
        report, found = Pruned(dry_run=True), list[RunId]()
        ended_before = await self._ended_before(older)
        async for page in self._ended(ended_before, workflow, statuses):
            for summary in page:
                refused = deletion_refusal(state_shown(summary), force=force and not summary.held)
                if refused is not None:
                    report.refused[refused.reason] += 1
                elif len(found) == limit:
                    return report, found, True
                else:
                    found.append(summary.run)
                    report.add(summary)
        return report, found, False

    async def _ended_before(self, older: Seconds) -> int:
        age = seconds(older, "older")
        if not 0 <= age <= OLDEST_S:
            raise InvalidInput(f"older must be from 0 to {OLDEST_S:,} seconds")
        return await self._store.now() - round(age * 1e6)

    async def _prune_one(
        self, summary: RunSummary, report: Pruned, by: str, reason: str, force: bool, dry_run: bool
    ) -> None:
        run, force = summary.run, force and not summary.held
        try:
            found = (await self._examined(run, force))[0] if dry_run else await self._replaced(run, by, reason, force)
        except NotFound:  # another process has deleted it
            return
        except Damaged:
            report.refused["is damaged: see `outlast doctor`"] += 1
            return
        if isinstance(found, Refusal):
            report.refused[_KEPT.get(found.code, found.reason)] += 1
        else:
            report.add(summary)

    async def _ended(
        self, ended_before: int, workflow: str, statuses: Statuses | None
    ) -> AsyncIterator[Sequence[RunSummary]]:
        """The runs that ended before a time, page by page."""
        wanted = checked_filter(None, workflow, statuses if statuses is not None else sorted(TERMINAL), None)
        if unfinished := [each for each in wanted.statuses if each not in TERMINAL]:
            raise InvalidInput(
                f"status {unfinished[0]}: only runs that have ended are deleted; cancel the others first"
            )
        query = msgspec.structs.replace(wanted, created_until=ended_before, limit=PAGE)
        while True:
            page = await self._reader.list_runs(query)
            yield [each for each in page if each.updated < ended_before]
            if not page.next:
                return
            query = msgspec.structs.replace(query, after=page.next)
