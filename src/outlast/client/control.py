"""Cancel, pause, resume and retry.

A run that a live worker advances gets a request in its log, which its owner obeys. A run that no worker advances is
claimed for a moment and changed here. Either way the effect is durable before the verb returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from outlast.client import branch_plans
from outlast.client.branch_plans import signed
from outlast.client.branching import OWNER_WAIT_S, Branching
from outlast.client.handle import RunHandle
from outlast.client.recovery import Recovery
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.engine import pausing
from outlast.engine.completion import continuation_of
from outlast.errors import WORKER_RESTARTED, Claimed, Damaged, NotAllowed, Overtaken, RunGone
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.ledger.reading import created_of, latest_run_of
from outlast.lifecycle import decide, resume_plan
from outlast.lifecycle.actions import Verb
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply_all
from outlast.lifecycle.requests import newest
from outlast.lifecycle.resume_plan import Revival
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.values.checked_text import words

POLL_S = 0.02


class Control(Verbs):
    """The verbs that cancel, pause, resume and retry runs."""

    def __init__(self, claims: TemporaryClaims, recovery: Recovery, branching: Branching) -> None:
        super().__init__(claims)
        self._recovery = recovery
        self._branching = branching

    async def continued_as(self, run: RunId) -> RunId:
        """The last run that a run continued as, or the run itself."""
        await self._reader.head(run)
        return await latest_run_of(self._store, run)

    async def cancel(self, run: RunId, by: str, reason: str, force: bool) -> RunId:
        by, reason = signed(by, reason)
        asked: RunId | None = run
        while asked is not None:
            if await self._is_cancelled(asked, by, reason, force):
                return asked
            asked = await continuation_of(self._ledger, asked)
        raise RunGone(f"run {run} is over and cannot be cancelled")

    async def _is_cancelled(self, run: RunId, by: str, reason: str, force: bool) -> bool:
        """Append the cancellation to the log of a run, and carry it out if no worker does; False if the run is over."""
        try:
            outline = (await self._claims.must_allow(run, "cancel")).outline
            again = outline.cleanup is not None or newest(outline.requests, e.CancelRequested) is not None
            await self._ledger.deliver(run, [e.CancelRequested(by=by, reason=reason, force=force or again)])
        except RunGone:
            return False
        await self._claims.obey_here(run)
        if not (await self._reader.head(run)).closed:
            return True
        state = await self._reader.state(run)
        return state.status is RunStatus.CANCELLED or bool(state.outline.successor)

    async def pause(self, run: RunId, asked: e.PauseRequested) -> RunId:
        run = await self.continued_as(run)
        await self._claims.must_allow(run, "pause")
        if not await self._pause_unowned(run, asked):
            await self._ledger.deliver(run, [asked])
        return run

    async def _pause_unowned(self, run: RunId, asked: e.PauseRequested) -> bool:
        """Pause a run that no worker advances; False if a worker does."""
        try:
            async with self._claims.owning(run, "pause") as writer:
                await self._append_decision(writer, lambda state: decide.pause(state, asked))
        except Claimed:
            return False
        return True

    async def pause_all(self, runs: Iterable[RunId], asked: e.PauseRequested) -> None:
        worker = self._worker
        if worker is None:
            return
        worker.is_draining = True
        await worker.wait_for_takeovers()
        ends = []
        for driver in [each for each in pausing.top_level_runs(worker) if not each.code.is_cancelled]:
            with suppress(RunGone):
                await self._ledger.deliver(driver.run, [asked])
                ends.append(driver.ended())
        for run in [run for run in runs if not worker.has_run(run)]:
            with suppress(NotAllowed):
                await self._pause_unowned(run, asked)
        await asyncio.gather(pausing.drain(worker), *ends)
        await worker.lines.flush()

    async def drain(self) -> None:
        if self._worker is not None:
            await pausing.drain(self._worker)

    async def resume(self, run: RunId, by: str, *, force: bool = False) -> RunHandle[Any]:
        return await self._reopen(await self.continued_as(run), None, by, e.NULL, force=force)

    async def begin(self, run: RunId, *, by: str = "") -> RunHandle[Any]:
        by, created = words("by", by), await created_of(self._store, run)
        workflow = self._workflow_of(created)
        await self._claims.must_allow(run, "start")
        try:
            async with self._claims.owning(run, "start", ready=True) as writer:
                await self._append_decision(writer, lambda state: decide.begin(state, by))
        except Claimed as claimed:
            raise NotAllowed(f"run {run} cannot be started now: {claimed}") from claimed
        self._claims.advance_run(run)
        return self._claims.handle(run, workflow)

    async def take_over_later(self, run: RunId) -> str:
        self._claims.advance_run(run)
        holding = await self._store.holding(run)
        is_elsewhere = holding is not None and holding.is_live and holding.worker != self._claims.worker_id
        return holding.worker if holding is not None and is_elsewhere else ""

    async def retry(
        self, run: RunId, node: str | None, feedback: Any, by: str, reason: str, children: Children, *, force: bool
    ) -> RunHandle[Any]:
        if node is None or await self._is_failed(run, node):
            given = branch_plans.feedback_of(feedback)
            return await self._reopen(run, node, signed(by, reason)[0], given, force=force, children=children)
        plan = branch_plans.again(node, feedback, by=by, reason=reason)
        return await self._branching.open_branch(run, "jump", plan, children)

    async def preview_retry(
        self, run: RunId, node: str | None, feedback: Any, by: str, children: Children, *, force: bool
    ) -> list[e.AnyEvent]:
        if node is not None and not await self._is_failed(run, node):
            plan = branch_plans.again(node, feedback, by=by)
            return await self._branching.preview(run, "jump", branch_plans.leaving(plan, children))
        state = await self._claims.must_allow(run, "retry", force=force)
        given, outline = branch_plans.feedback_of(feedback), state.outline
        revival = await self._revival(run, node, by, given) if outline.recoverable and not outline.held else None
        if revival is not None:
            if not force:
                await self._check_not_undone(run, revival)
            new_branch = revival.plan
            return await self._branching.preview(run, "retry", branch_plans.leaving(lambda _: new_branch, children))
        taken, then = await self._recovery.taken_over(run, state)
        if not taken:
            raise NotAllowed(f"run {run} is {state.status}, there is nothing to resume: a live worker holds it")
        had_stopped = state.status in (RunStatus.FAILED, RunStatus.PAUSED)
        if node is None and not had_stopped and _resumes_by_takeover(then):
            return taken
        return [*taken, *decide.reopen(then, node, by=by, feedback=given)]

    async def preview_pause(self, run: RunId, by: str, reason: str) -> list[e.AnyEvent]:
        asked = e.PauseRequested(by=by, reason=reason)
        taken, then = await self._recovery.taken_over(run, await self._claims.must_allow(run, "pause"))
        return [*taken, *decide.pause(then, asked)] if taken else [asked]

    async def preview_cancel(self, run: RunId, by: str, reason: str, *, force: bool) -> list[e.AnyEvent]:
        asked = e.CancelRequested(by=by, reason=reason, force=force)
        state = await self._claims.must_allow(run, "cancel")
        view = Draft(state).view
        apply_all(view, [asked], state.outline.seq + 1, state.outline.time)
        taken, then = await self._recovery.taken_over(run, view)
        if not taken or not decide.ends_at_once(state, asked):
            return [asked]
        ending = decide.cancelled(then)
        return [asked, *taken, *decide.end(then, ending, decide.cut_short(ending).message)]

    async def _is_failed(self, run: RunId, node: str) -> bool:
        """Whether the run is stopped because this node or child failed or was interrupted."""
        state = await self._reader.state(run)
        known = state.nodes.get(node)
        has_stopped = state.outline.base is RunStatus.PAUSED or state.outline.recoverable
        if known is None:  # a child, by the name of its call
            return has_stopped and node == state.outline.failed_node
        return has_stopped and known.status in (NodeStatus.FAILED, NodeStatus.RETRYING, NodeStatus.STARTED)

    async def _reopen(
        self, run: RunId, node: str | None, by: str, feedback: e.Value, *, force: bool, children: Children = "cancel"
    ) -> RunHandle[Any]:
        by, created = words("by", by), await created_of(self._store, run)
        workflow = self._workflow_of(created)
        verb: Verb = "resume" if node is None else "retry"
        with suppress(Damaged):  # `must_be_sound` reports it, with the remedy
            await self._claims.must_allow(run, verb, force=force)
        await self._recovery.must_be_sound(run)
        summary = await self._reader.get(run)
        revival = await self._revival(run, node, by, feedback) if summary.recoverable and not summary.held else None
        if revival is not None:
            if not force:
                await self._check_not_undone(run, revival)
            return await self._reopen_with_children(run, revival, by, children)
        had_stopped = summary.status in (RunStatus.FAILED, RunStatus.PAUSED)
        try:
            async with self._claims.owning(run, verb, ready=True, force=force) as writer:
                await self._branching.must_not_be_ending(writer)
                pause = decide.next_request(writer.state)
                if isinstance(pause, e.PauseRequested):  # else the next owner would obey it after this resume
                    asked = pause
                    await self._append_decision(writer, lambda state: decide.pause(state, asked))
                if node is not None or had_stopped or not _resumes_by_takeover(writer.state):
                    await self._append_decision(
                        writer, lambda state: decide.reopen(state, node, by=by, feedback=feedback)
                    )
        except Claimed as claimed:
            summary = await self._reader.get(run)
            raise NotAllowed(f"run {run} is {summary.status}, there is nothing to resume: {claimed}") from claimed
        self._claims.advance_run(run)
        return self._claims.handle(run, workflow)

    async def _revival(self, run: RunId, node: str | None, by: str, feedback: e.Value) -> Revival | None:
        """The branch on which a failed run continues, or None if another attempt on the same branch is enough."""
        failed = (await self._reader.state(run)).outline.failed_node
        if node not in (None, failed):
            return None
        return resume_plan.after_failure(
            [entry async for entry in self._reader.events(run)], failed, feedback=feedback, by=by
        )

    async def _check_not_undone(self, run: RunId, revival: Revival) -> None:
        """Refuse to resume a run, or children resumed with it, whose effects were compensated after the failure."""
        resume_plan.check_not_undone(run, (await self._reader.state(run)).outline.failed_node, revival)
        for name in revival.children:
            if await self._store.head(RunId(name)) is None:
                continue
            child = await latest_run_of(self._store, RunId(name))
            theirs = await self._revival(child, None, "", e.NULL)
            if theirs is not None:
                await self._check_not_undone(child, theirs)

    async def _reopen_with_children(
        self, run: RunId, revival: Revival, by: str, children: Children = "cancel"
    ) -> RunHandle[Any]:
        """Resume the children first, then their parent, which waits for them. The order matters: after a crash in
        between, the resumed children have an end, which the parent finds when it is resumed."""
        for child in revival.children:
            await self._restart_child(RunId(child), by)
        return await self._branching.open_branch(run, "jump", lambda _: revival.plan, children)

    async def _restart_child(self, child: RunId, by: str) -> None:
        """Resume a child, or the run it continued as, that failed, or was cancelled when its parent ended."""
        if await self._store.head(child) is None:
            return  # its parent creates it
        child = await latest_run_of(self._store, child)
        status = (await self._wait_until_stopped(child)).status
        if status in (RunStatus.FAILED, RunStatus.PAUSED):
            await self._reopen(child, None, by, e.NULL, force=True)
        elif status is RunStatus.CANCELLED:
            log = [entry async for entry in self._reader.events(child)]
            await self._reopen_with_children(
                child, resume_plan.after_cancellation(log, by=by, reason="its parent continues"), by
            )

    async def _wait_until_stopped(self, run: RunId) -> RunSummary:
        """The summary of a run; waits for the end of a cancelled one."""
        deadline = asyncio.get_running_loop().time() + OWNER_WAIT_S
        while _is_ending(await self._reader.state(run)):
            if asyncio.get_running_loop().time() > deadline:
                raise NotAllowed(
                    f"run {run} was cancelled and has not ended within {OWNER_WAIT_S:g} s: try again when it has ended"
                )
            await asyncio.sleep(POLL_S)
        return await self._reader.get(run)

    async def _append_decision(self, writer: RunWriter, decision: Callable[[State], Sequence[e.AnyEvent]]) -> None:
        """Append a decision about a run that no worker advances. If a request arrives at the same time, decide again;
        a cancellation wins."""
        while True:
            await self._branching.must_not_be_ending(writer)
            try:
                await writer.append(decision(writer.state))
                return
            except Overtaken:
                continue


def _is_ending(state: State) -> bool:
    """Whether a run was cancelled and has not ended."""
    return state.outline.is_cleaning or isinstance(decide.next_request(state), e.CancelRequested)


def _resumes_by_takeover(state: State) -> bool:
    """Whether the takeover alone resumes an interrupted run. False if the takeover held the run, for example because
    of a node that must not be repeated."""
    outline = state.outline
    if outline.held:
        return outline.error is None or outline.error.kind != WORKER_RESTARTED
    return outline.base in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING)
