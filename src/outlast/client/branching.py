"""Jump, rewind, activate and fork: a run continues from an earlier point, on a new branch or as another run.

Later events stay on the old branch. If a live worker advances the run, the branch is requested and awaited; otherwise
it is opened here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from outlast.client import branch_plans
from outlast.client.branch_plans import Plan, check_edit
from outlast.client.handle import RunHandle
from outlast.client.recovery import Recovery
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.engine.branch_requests import open_requested_branch
from outlast.errors import Claimed, Damaged, Illegal, NotAllowed, Overtaken, RunGone
from outlast.functions import registry
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId, checked_run
from outlast.history.record import Entry
from outlast.ledger import RunWriter
from outlast.ledger.blob_names import blobs_of
from outlast.ledger.reading import created_of, end_of_branch, head_at, lineage_of, read_events, state_of
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import branch_plan, decide
from outlast.lifecycle.actions import Verb
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.forking import forked
from outlast.lifecycle.status import RunStatus
from outlast.store import BlobRef
from outlast.values.checked_text import words

OWNER_WAIT_S = 30.0
"""Seconds that a verb waits for the owner of a run to obey."""
POLL_S = 0.5


class Branching(Verbs):
    """The verbs that continue a run from an earlier point."""

    def __init__(self, claims: TemporaryClaims, recovery: Recovery) -> None:
        super().__init__(claims)
        self._recovery = recovery

    async def preview(self, run: RunId, verb: Verb, plan: Plan) -> list[e.AnyEvent]:
        await self._claims.must_allow(run, verb)
        new_branch = plan([entry async for entry in self._reader.events(run)])
        await self._check_possible(run, new_branch)
        taken, state = await self._recovery.taken_over(run, await self._reader.state(run))
        return [*taken, *await self._recovery.branch(run, state, new_branch)]

    async def activate(self, run: RunId, branch: int, by: str, reason: str, children: Children) -> RunHandle[Any]:
        return await self.open_branch(run, "activate", await self.activation(run, branch, by, reason), children)

    async def activation(self, run: RunId, branch: int, by: str, reason: str) -> Plan:
        """The plan of a branch that continues from the end of an older one."""
        (by, reason), head = branch_plans.signed(by, reason), await self._reader.head(run)
        if branch == head.branch:
            raise NotAllowed(f"cannot activate branch {branch} of run {run}: it is the current branch already")
        end = await end_of_branch(self._store, head, branch)
        new_branch = BranchPlan(cutoff=end.version, cause="activate", by=by, reason=reason or f"branch {branch}")
        return lambda _: new_branch

    async def fork(self, run: RunId, at: str | int | None, id: str | None, title: str, by: str) -> RunHandle[Any]:
        fork = checked_run(words("id", id)) if id else self._ledger.new_run_id()
        title, by = words("title", title), words("by", by)
        log = [entry async for entry in self._reader.events(run)]
        cutoff = branch_plan.to_place(log, str(at)).cutoff if at is not None else branch_plan.last_place(log)
        if cutoff and not any(entry.seq == cutoff for entry in log):  # the event is on an older branch
            left = await head_at(self._store, await self._reader.head(run), cutoff)
            log = [entry async for entry in self._reader.events(run, branch=left.branch)]
        events = forked(log, run, cutoff, fork, title, by)
        created = await created_of(self._store, run)
        workflow = self._workflow_of(created)
        await self._put_again(events)
        writer = await self._ledger.create(fork, events, await self._claims.own_worker())
        async with self._claims.holding(writer, ready=True):
            pass
        self._claims.advance_run(fork)
        return self._claims.handle(fork, workflow)

    async def _put_again(self, events: Sequence[e.AnyEvent]) -> None:
        """Keep the blobs that a fork names until it is in the log: the run it copies may be deleted meanwhile (S13)."""
        for hash in {ref.hash for event in events for ref in blobs_of(event)}:
            if await self._store.blobs.has(hash):
                await self._store.blobs.put(self._store.blobs.open(BlobRef(hash, 0)))

    async def undo_pause_before_start(self, run: RunId, *, by: str) -> bool:
        """Let a run await its start again that was paused before a user started it. False: it was not."""
        state = await self._reader.state(run)
        if not state.outline.deferred or state.outline.base is not RunStatus.PAUSED:
            return False
        pauses = [entry.seq async for entry in self._reader.events(run) if isinstance(entry.event, e.RunPaused)]
        reason = "the run was paused before its start, and awaits it again"
        async with self._claims.owning(run, "resume", force=True) as writer:
            await writer.open_branch(BranchPlan(cutoff=pauses[0] - 1, cause="recovery", by=by, reason=reason))
        return True

    # --- how

    async def open_branch(self, run: RunId, verb: Verb, plan: Plan, children: Children) -> RunHandle[Any]:
        """Open a branch, or have the owner of the run open it; returns when it is open."""
        plan = branch_plans.leaving(plan, children)
        created = await created_of(self._store, run)
        workflow = self._workflow_of(created)
        head = await self._reader.head(run)
        log, upto = await self._readable_lineage(run)
        new_branch = plan(log)
        if upto is not None and new_branch.cutoff > upto:
            raise NotAllowed(
                f"the log of run {run} is readable only up to event {upto}: choose that event or an earlier one"
            )
        if upto is None:
            await self._check_possible(run, new_branch)
            await self._claims.must_allow(run, verb)
            known = workflow or registry.known(created.workflow)
            if known is not None:
                await check_edit(self._store, run, known, new_branch)
        try:
            await self._open_branch_here(run, new_branch, upto)
        except Claimed:
            await self._request_branch(run, new_branch, head.branch)
        self._claims.advance_run(run)
        return self._claims.handle(run, workflow)

    async def _request_branch(self, run: RunId, new_branch: BranchPlan, branch: int) -> None:
        """Request a branch from the owner of a run; if the owner has released the run meanwhile, open the branch
        here."""
        try:
            asked = await self._ledger.deliver(run, [branch_plan.request_of(new_branch, branch + 1)], branch=branch)
        except RunGone:
            if not await self._open_if_unowned(run, new_branch, branch):
                raise
        else:
            await self._wait_for_branch(run, new_branch, branch, asked)

    async def _open_branch_here(self, run: RunId, new_branch: BranchPlan, upto: int | None = None) -> None:
        """Open a branch of a run that no worker advances."""
        async with self._claims.owning(run, "jump", ready=True, upto=upto) as writer:
            await self.must_not_be_ending(writer)
            try:
                await writer.open_branch(new_branch)
            except Overtaken as overtaken:
                await self.must_not_be_ending(writer)
                await open_requested_branch(writer)
                raise RunGone(
                    f"another caller opened a branch of run {run} at the same time: check the run, then repeat the call"
                ) from overtaken

    async def _readable_lineage(self, run: RunId) -> tuple[Sequence[Entry], int | None]:
        """The current lineage and None; of a damaged one the readable part and its last event."""
        try:
            head = await self._reader.head(run)
            await state_of(self._store, run, await lineage_of(self._store, head), key=self._reader.key, head=head)
            return [entry async for entry in self._reader.events(run)], None
        except (Damaged, Illegal, *STRANGE):
            upto = (await self._recovery.evidence(run)).last_good
            intervals = [(first, min(last, upto)) for first, last in await self._reader.lineage(run) if first <= upto]
            return [entry async for entry in read_events(self._store, run, intervals)], upto

    async def _check_possible(self, run: RunId, new_branch: BranchPlan) -> None:
        """Refuse an impossible branch before anything is appended: a refusal by the owner may come when the caller is
        gone."""
        head = await self._reader.head(run)
        if not 0 <= new_branch.cutoff <= head.version:
            raise NotAllowed(f"event {new_branch.cutoff} is not in the log of run {run}, which ends at {head.version}")
        branch_plan.check_continues(new_branch, await self._reader.state_at(run, new_branch.cutoff))

    async def _wait_for_branch(self, run: RunId, new_branch: BranchPlan, branch: int, asked: int) -> None:
        """Wait until the owner of the run has opened the branch. If the run has no owner any more, open it here."""
        new_branch = msgspec.structs.replace(new_branch, request=asked)
        deadline = asyncio.get_running_loop().time() + OWNER_WAIT_S
        while (await self._reader.head(run)).branch == branch:
            if asyncio.get_running_loop().time() > deadline:
                raise NotAllowed(
                    f"the worker of run {run} has not opened the branch within {OWNER_WAIT_S:g} s; the request is "
                    "in the log and will be obeyed"
                )
            with self._news.next_change(run) as change:
                if await self._open_if_unowned(run, new_branch, branch):
                    return
                await asyncio.wait({change}, timeout=POLL_S)
        await self._check_request_met(run, new_branch)

    async def _open_if_unowned(self, run: RunId, new_branch: BranchPlan, branch: int) -> bool:
        """Open the branch here if the run ended or stopped before its owner read the request."""
        head, summary = await self._reader.head(run), await self._reader.get(run)
        if head.branch != branch or not (head.closed or summary.status is RunStatus.PAUSED or summary.held):
            return False
        if head.closed and summary.status is RunStatus.CANCELLED:
            raise RunGone(f"run {run} was cancelled before the branch opened")
        with suppress(Claimed):
            await self._open_branch_here(run, new_branch)
            return True
        return False

    async def _check_request_met(self, run: RunId, new_branch: BranchPlan) -> None:
        """Check that the branch that was opened is the one of this request, not of another caller."""
        async for entry in self._reader.events(run, everything=True, after=new_branch.request):
            match entry.event:
                case e.BranchOpened(request=request) if request == new_branch.request:
                    return
                case e.RequestRefused(request=request, code="superseded") if request == new_branch.request:
                    break
                case e.RequestRefused(request=request, reason=reason) if request == new_branch.request:
                    raise NotAllowed(f"run {run} cannot continue from event {new_branch.cutoff}: {reason}")
                case _:
                    pass
        raise RunGone(
            f"another caller opened a branch of run {run} at the same time: check the run, then repeat the call"
        )

    async def must_not_be_ending(self, writer: RunWriter) -> None:
        """Refuse if the run was cancelled: a cancellation wins over every other request, and its owner obeys it."""
        asked = decide.next_request(writer.state)
        if isinstance(asked, e.CancelRequested):
            await self._claims.obey_cancellation(writer)
            who, why = asked.by or "another caller", f": {asked.reason}" if asked.reason else ""
            raise RunGone(f"run {writer.run} was cancelled by {who} before that{why}")
