"""What may be asked of runs that are there: stop, go on, go back, go another way.

A run that a live worker advances is asked by a request in its log, which its owner obeys; one that nobody advances is owned
for a moment and changed. Either way the answer is durable before the verb returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from outlast.client.handle import Handle
from outlast.client.healing import Healer
from outlast.errors import BadInput, Claimed, Damaged, Gone, Illegal, NotFound, OutlastError, Overtaken, Refused
from outlast.history import events as e
from outlast.history.ids import RunId, checked_run
from outlast.history.lineage import holder
from outlast.history.record import Entry
from outlast.ledger import Pen
from outlast.ledger.proof import STRANGE
from outlast.ledger.reading import branches_of, state_of, told
from outlast.lifecycle import decide, reviving, turning
from outlast.lifecycle.forking import forked
from outlast.lifecycle.reviving import Revival
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import Status
from outlast.lifecycle.summary import Summary
from outlast.lifecycle.turning import Turn
from outlast.runtime import pausing
from outlast.runtime.ends import created_of, end_as_asked, end_now, gone_on_as, newest_of, open_children
from outlast.runtime.finding import find_workflow
from outlast.runtime.turns import turn_as_requested, turn_to
from outlast.runtime.values import INLINE_LIMIT, encode
from outlast.runtime.words import words

PATIENCE = 30.0
"""Seconds that a verb waits for the owner of a run to obey."""
POLL, SOON = 0.5, 0.02
Plan: TypeAlias = Callable[[Sequence[Entry]], Turn]
"""From the events of the current lineage to the branch that is wanted."""


class Steering(Healer):
    """The verbs that change the course of a run."""

    # --- stopping and going on

    async def goes_on_as(self, run: RunId) -> RunId:
        """The run that a run goes on as by now: itself, or if it continued as another one, the last of them."""
        await self._head(run)
        return await newest_of(self._store, run)

    async def cancel(self, run: RunId, *, by: str = "", reason: str = "") -> RunId:
        """Ask a run to stop, or the one that it goes on as by now; with nobody advancing it, stop it. Returns which one
        that is."""
        by, reason = signed(by, reason)
        asked: RunId | None = run
        while asked is not None:
            if await self._is_cancelled(asked, by, reason):
                return asked
            asked = await gone_on_as(self._ledger, asked)
        raise Gone(f"run {run} is over and cannot be cancelled")

    async def _is_cancelled(self, run: RunId, by: str, reason: str) -> bool:
        """Stop a run, or ask whoever advances it; False if it is over."""
        if (await self._head(run)).closed:
            return False
        try:
            async with self._owning(run) as pen:
                if pen.state.is_closed:  # a moment ago
                    return False
                children = open_children(pen.state)
                await end_now(self._ledger, pen, e.RunCancelled(by=by, reason=reason))
        except Claimed:
            with suppress(Gone):
                await self._ledger.deliver(run, [e.CancelRequested(by=by, reason=reason)])
                return True
            return False
        for child in children:
            with suppress(OutlastError):
                await self.cancel(child, by=by, reason="its parent was cancelled")
        return True

    async def pause(self, run: RunId, *, by: str = "", reason: str = "") -> RunId:
        """Ask a run, or the one that it goes on as by now, to stop where it can go on later; with nobody advancing it, it is
        paused when this returns. Otherwise its nodes have the grace time to reach a checkpoint or their end first. `resume`
        goes on with it; its children go on meanwhile. Returns which run that is."""
        by, reason = signed(by, reason)
        named, run = run, await self.goes_on_as(run)
        head, summary = await self._head(run), await self.get(run)
        if head.closed:
            raise Gone(f"run {named} is over and cannot be paused")
        if summary.status is Status.PAUSED:
            raise Refused(f"run {run} is paused already")
        if summary.held:
            raise Refused(f"run {run} is held and cannot be paused: a person has to decide; resume it, or cancel it")
        if not await self._paused_as_nobodys(run, by, reason):
            await self._ledger.deliver(run, [e.PauseRequested(by=by, reason=reason)])
        return run

    async def _paused_as_nobodys(self, run: RunId, by: str, reason: str) -> bool:
        """Pause a run that nobody advances; False if somebody does."""
        try:
            async with self._owning(run) as pen:
                await self._said(pen, lambda state: decide.pause(state, reason, by))
        except Claimed:
            return False
        return True

    async def wind_down(self, runs: Iterable[RunId] = (), *, by: str = "", reason: str = "") -> None:
        """Pause all that this process advances, and those of `runs` that nobody does; return when that is done. Children are
        not paused: their nodes have the grace time as well, and whoever goes on with the parent goes on with them."""
        worker = self._worker
        if worker is None:
            return
        by, reason = signed(by, reason)
        worker.is_draining = True
        await worker.settled()
        ends = []
        for driver in pausing.on_top(worker):
            with suppress(Gone):
                await self._ledger.deliver(driver.run, [e.PauseRequested(by=by, reason=reason)])
                ends.append(driver.ended())
        for run in [run for run in runs if not worker.knows(run)]:
            with suppress(Refused):
                await self._paused_as_nobodys(run, by, reason)
        await asyncio.gather(pausing.drain(worker), *ends)
        await worker.lines.flush()

    async def drain(self) -> None:
        """Let nothing more begin here, and return when no node is at work: each has the grace time to reach a checkpoint or
        its end. Nothing is paused: what this process advances is left where it stands, for whoever claims it."""
        if self._worker is not None:
            await pausing.drain(self._worker)

    async def resume(self, run: RunId, *, by: str = "") -> Handle[Any]:
        """Go on with a run that was interrupted, is paused or held, or failed and is recoverable, or with the one that it
        goes on as by now: what was in flight or failed last gets another attempt."""
        return await self._reopen(await self.goes_on_as(run), None, by, e.NULL)

    async def stand_by(self, run: RunId) -> str:
        """Go on with a run that somebody else advances as soon as they are gone: this process then takes it over. Returns
        the worker that has it, empty if that is this one, or nobody alive."""
        self._take_on(run)
        holding = await self._store.holding(run)
        return holding.worker if holding is not None and holding.is_live and holding.worker != self.worker_id else ""

    async def retry(
        self, run: RunId, node: str | None = None, *, feedback: Any = None, by: str = "", reason: str = ""
    ) -> Handle[Any]:
        """Do a node again and go on from there: the one that is named, or that which the run failed of. A failed one gets
        another attempt where it is, one that completed is done again on a new branch. `feedback` is given to the node."""
        by, reason = signed(by, reason)
        given = e.NULL if feedback is None else _plain(feedback, "feedback")
        if node is None or await self._is_failed(run, node):
            return await self._reopen(run, node, by, given)
        return await self._turn(run, lambda log: turning.again(log, node, feedback=given, by=by, reason=reason))

    async def _is_failed(self, run: RunId, node: str) -> bool:
        """Whether a node failed and its run stands still because something did."""
        state = await self._state(run)
        known = state.nodes.get(node)
        has_stopped = state.outline.base is Status.PAUSED or state.outline.recoverable
        if known is None:  # or a child, by the name it was called by
            return has_stopped and node == state.outline.failed_node
        return has_stopped and known.status in (NodeStatus.FAILED, NodeStatus.RETRYING)

    async def _reopen(self, run: RunId, node: str | None, by: str, feedback: e.Value) -> Handle[Any]:
        by, created = words("by", by), await created_of(self._store, run)
        workflow = find_workflow(created, self._apps) if self._worker is not None else None
        await self._must_be_sound(run)
        if created.exclusive:
            await self._must_be_free(created.exclusive, run)
        summary = await self.get(run)
        revival = await self._revival(run, node, by, feedback) if summary.recoverable and not summary.held else None
        if revival is not None:
            return await self._revived(run, revival, by)
        had_stopped = summary.status in (Status.FAILED, Status.PAUSED)
        try:
            async with self._owning(run, ready=True) as pen:
                await self._must_not_be_ending(pen)
                if pen.state.outline.pause_requested and pen.state.outline.base in (Status.CREATED, Status.RUNNING):
                    await self._said(pen, decide.pause)  # or the next owner would, after this resume
                if node is not None or had_stopped or not _needs_no_word(pen.state):
                    await self._said(pen, lambda state: decide.reopen(state, node, by=by, feedback=feedback))
                    await self._must_still_be_free(created.exclusive, pen)
        except Claimed as claimed:
            summary = await self.get(run)
            raise Refused(f"run {run} is {summary.status}, there is nothing to resume: {claimed}") from claimed
        self._take_on(run)
        return self._handle(run, workflow)

    async def _revival(self, run: RunId, node: str | None, by: str, feedback: e.Value) -> Revival | None:
        """How a run that failed goes back to go on, if another attempt where it stands would not do."""
        failed = (await self._state(run)).outline.failed_node
        if node not in (None, failed):
            return None
        return reviving.after_failure([entry async for entry in self.events(run)], failed, feedback=feedback, by=by)

    async def _revived(self, run: RunId, revival: Revival, by: str) -> Handle[Any]:
        """Set children going again, and have their parent wait for them. In this order: whoever dies in between leaves
        children whose end is found when somebody goes on with the parent."""
        for child in revival.children:
            await self._set_going(RunId(child), by)
        return await self._turn(run, lambda _: revival.turn)

    async def _set_going(self, child: RunId, by: str) -> None:
        """Have a child go on that failed, or was cancelled when its parent ended, or what it goes on as by now."""
        if await self._store.head(child) is None:
            return  # its parent creates it
        child = await newest_of(self._store, child)
        status = (await self._stopped(child)).status
        if status in (Status.FAILED, Status.PAUSED):
            await self._reopen(child, None, by, e.NULL)
        elif status is Status.CANCELLED:
            log = [entry async for entry in self.events(child)]
            await self._revived(child, reviving.after_cancellation(log, by=by, reason="its parent goes on"), by)

    async def _stopped(self, run: RunId) -> Summary:
        """The summary of a run; of one that was asked to end, when it has."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not (await self._head(run)).closed and (await self._state(run)).outline.cancel_requested is not None:
            if asyncio.get_running_loop().time() > deadline:
                raise Refused(f"run {run} was asked to end and has not within {PATIENCE:g} s: try again when it has")
            await asyncio.sleep(SOON)
        return await self.get(run)

    async def _said(self, pen: Pen, decision: Callable[[State], Sequence[e.AnyEvent]]) -> None:
        """Append what is decided of a run that nobody drives. Others may ask for something at the same time: what is asked
        for is then decided again, and nothing but its end is if somebody wants that."""
        while True:
            await self._must_not_be_ending(pen)
            try:
                await pen.append(decision(pen.state))
                return
            except Overtaken:
                continue

    async def _must_not_be_ending(self, pen: Pen) -> None:
        """A request to end a run wins over whatever else is asked of it; whoever owns the run obeys."""
        asked = pen.state.outline.cancel_requested
        if asked is not None and not pen.state.is_closed:
            await end_as_asked(self._ledger, pen)
            who, why = asked.by or "somebody else", f": {asked.reason}" if asked.reason else ""
            raise Gone(f"run {pen.run} was cancelled by {who} before that{why}")

    async def _must_still_be_free(self, exclusive: str, pen: Pen) -> None:
        """Somebody may have begun at the same moment: then this one stands still again."""
        try:
            if exclusive:
                await self._must_be_free(exclusive, pen.run)
        except Refused as refusal:
            await pen.append(decide.pause(pen.state, str(refusal)))
            raise

    # --- going back

    async def jump(
        self,
        run: RunId,
        to: str | int,
        *,
        inputs: dict[str, Any] | None = None,
        output: Any = msgspec.UNSET,
        by: str = "",
        reason: str = "",
    ) -> Handle[Any]:
        """Go back to an event by its number, to before a node or a question by its name, or to the `start`, and go on from
        there as a new branch. At a node, `inputs` replaces some of what the code calls it with, and `output` what it
        returned."""
        by, reason = signed(by, reason)
        place = str(to)
        if inputs is not None and output is not msgspec.UNSET:
            raise BadInput("either other inputs or another output: with an output, the node is not done again")
        if output is not msgspec.UNSET:
            given = _plain(output, "output")
            return await self._turn(run, lambda log: turning.instead(log, place, given, by=by, reason=reason))
        if inputs is not None:
            return await self._turn(
                run, lambda log: turning.again(log, place, inputs=_changed(inputs), cause="jump", by=by, reason=reason)
            )
        return await self._turn(run, lambda log: turning.to_place(log, place, by=by, reason=reason))

    async def rewind(self, run: RunId, nodes: int = 1, *, by: str = "", reason: str = "") -> Handle[Any]:
        """Go back over the last completed nodes and do them again, as a new branch."""
        by, reason = signed(by, reason)
        return await self._turn(run, lambda log: turning.back(log, nodes, by=by, reason=reason))

    async def activate(self, run: RunId, branch: int, *, by: str = "", reason: str = "") -> Handle[Any]:
        """Go on from the end of an older branch, as a new one."""
        (by, reason), head = signed(by, reason), await self._head(run)
        if branch == head.branch:
            raise Refused(f"branch {branch} of run {run} is the current one")
        following = (await branches_of(self._store, head)).get(branch + 1)
        if branch < 0 or following is None:
            raise NotFound(f"run {run} has no branch {branch}; its newest is {head.branch}")
        turn = Turn(cutoff=following.first - 1, cause="activate", by=by, reason=reason or f"branch {branch}")
        return await self._turn(run, lambda _: turn)

    async def fork(
        self, run: RunId, at: str | int | None = None, *, id: str | None = None, title: str = "", by: str = ""
    ) -> Handle[Any]:
        """A new run that has the history of this one up to an event, a node or a question, and goes on by itself. Without a
        place it is forked where it stands, or, if it is over, from the last thing it did."""
        fork = checked_run(words("id", id)) if id else self._ledger.new_run_id()
        title, by = words("title", title), words("by", by)
        log = [entry async for entry in self.events(run)]
        cutoff = turning.to_place(log, str(at)).cutoff if at is not None else turning.last_place(log)
        if cutoff and not any(entry.seq == cutoff for entry in log):  # it is on a branch that was left
            left = holder((await self._branches(run)).values(), cutoff).id
            log = [entry async for entry in self.events(run, branch=left)]
        events = forked(log, run, cutoff, fork, title, by)
        created = await created_of(self._store, run)
        workflow = find_workflow(created, self._apps) if self._worker is not None else None
        if created.exclusive:
            await self._must_be_free(created.exclusive, fork)
        pen = await self._ledger.create(fork, events, await self._own_worker())
        async with self._holding(pen, ready=True):
            await self._must_still_be_free(created.exclusive, pen)
        self._take_on(fork)
        return self._handle(fork, workflow)

    async def _turn(self, run: RunId, plan: Plan) -> Handle[Any]:
        """Open a branch, or have the owner of the run open it; returns when it is open."""
        created = await created_of(self._store, run)
        workflow = find_workflow(created, self._apps) if self._worker is not None else None
        head = await self._head(run)
        log, upto = await self._legible(run)
        turn = plan(log)
        if upto is not None and turn.cutoff > upto:
            raise Refused(f"the log of run {run} reads only up to event {upto}: go back to there or further")
        if upto is None:
            await self._must_be_possible(run, turn)
        if created.exclusive:
            await self._must_be_free(created.exclusive, run)
        try:
            await self._turn_here(run, turn, created.exclusive, upto)
        except Claimed:
            await self._turn_there(run, turn, head.branch)
        self._take_on(run)
        return self._handle(run, workflow)

    async def _turn_there(self, run: RunId, turn: Turn, branch: int) -> None:
        """Have the owner of a run open a branch; if it has let go of the run by now, open it here."""
        try:
            asked = await self._ledger.deliver(run, [turning.request_of(turn, branch + 1)], branch=branch)
        except Gone:
            if not await self._is_turned_after_all(run, turn, branch):
                raise
        else:
            await self._until_turned(run, turn, branch, asked)

    async def _turn_here(self, run: RunId, turn: Turn, exclusive: str, upto: int | None = None) -> None:
        """Open a branch of a run that nobody advances."""
        async with self._owning(run, ready=True, upto=upto) as pen:
            await self._must_not_be_ending(pen)
            try:
                await turn_to(pen, turn)
            except Overtaken as overtaken:
                await self._must_not_be_ending(pen)
                await turn_as_requested(pen)
                raise Gone(
                    f"somebody else asked run {run} to go back at the same time: look, and ask again"
                ) from overtaken
            if not pen.state.is_closed:
                await self._must_still_be_free(exclusive, pen)

    async def _legible(self, run: RunId) -> tuple[Sequence[Entry], int | None]:
        """The current lineage; if it is damaged, as far as it can be believed, and how far that is."""
        try:
            await state_of(self._store, run, list(await self.lineage(run)), key=self._key)
            return [entry async for entry in self.events(run)], None
        except (Damaged, Illegal, *STRANGE):
            upto = (await self._evidence(run)).last_good
            intervals = [(first, min(last, upto)) for first, last in await self.lineage(run) if first <= upto]
            return [entry async for entry in told(self._store, run, intervals)], upto

    async def _must_be_possible(self, run: RunId, turn: Turn) -> None:
        """Refuse here, where nothing has changed yet, what would be refused later, perhaps when nobody listens."""
        head = await self._head(run)
        if not 0 <= turn.cutoff <= head.version:
            raise Refused(f"event {turn.cutoff} is not in the log of run {run}, which ends at {head.version}")
        turning.must_lead_on(turn, await self._state_at(run, turn.cutoff))

    async def _until_turned(self, run: RunId, turn: Turn, branch: int, asked: int) -> None:
        """Wait until whoever owns the run has obeyed. If nobody does any more, it has ended, stopped or lost its owner."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while (await self._head(run)).branch == branch:
            if asyncio.get_running_loop().time() > deadline:
                raise Refused(
                    f"run {run} was asked to go back, and its worker has not done so within {PATIENCE:g} s; the request "
                    "is in its log and will be met"
                )
            heard = self._news.subscribed(run)
            try:
                if await self._is_turned_after_all(run, turn, branch):
                    return
                await asyncio.wait({heard}, timeout=POLL)
            finally:
                self._news.unsubscribe(run, heard)
        await self._must_have_been_met(run, turn, branch + 1, asked)

    async def _is_turned_after_all(self, run: RunId, turn: Turn, branch: int) -> bool:
        """A run that ended or stopped before its owner heard of the request has no owner who could obey it."""
        head, summary = await self._head(run), await self.get(run)
        if head.branch != branch or not (head.closed or summary.status is Status.PAUSED or summary.held):
            return False
        if head.closed and summary.status is Status.CANCELLED:
            raise Gone(f"run {run} was cancelled before it could go back")
        with suppress(Claimed):
            await self._turn_here(run, turn, (await created_of(self._store, run)).exclusive)
            return True
        return False

    async def _must_have_been_met(self, run: RunId, turn: Turn, branch: int, asked: int) -> None:
        """The branch that was opened is the one that was asked for, and not somebody else's or none but in name (D2)."""
        opened = (await branches_of(self._store, await self._head(run)))[branch]
        async for entry in self.events(run, everything=True, after=opened.first - 1):
            event = entry.event
            if isinstance(event, e.BranchOpened) and (event.cutoff, event.cause) == (turn.cutoff, turn.cause):
                return
            if isinstance(event, e.BranchOpened) and event.cutoff == asked - 1 and event.cause == "recovery":
                raise Refused(f"run {run} cannot go back to event {turn.cutoff}: {event.reason}")
            break
        raise Gone(
            f"somebody else had run {run} go back at the same time, to event {opened.cutoff}: look, and ask again"
        )


def signed(by: str, reason: str) -> tuple[str, str]:
    """Who wants something and why, in words that the log can hold."""
    return words("by", by), words("reason", reason)


def _plain(value: Any, where: str) -> e.Value:
    return _within_limits(encode(value, where=where), where)


def _within_limits(raw: e.Value, where: str) -> e.Value:
    if len(raw) > INLINE_LIMIT:
        raise BadInput(f"the {where} has {len(raw)} bytes; what a person gives a node stands in the log, up to 1 MB")
    return raw


def _changed(inputs: dict[str, Any]) -> e.Value:
    """What replaces some of the inputs that the code calls a node with."""
    raw = {name: encode(value, where=f"inputs.{name}") for name, value in inputs.items()}
    return _within_limits(msgspec.Raw(msgspec.json.encode(raw)), "inputs")


def _needs_no_word(state: State) -> bool:
    """Whether a run that was merely interrupted goes on by having been taken over. Or, if that showed something a person has
    to know first, such as a node that must not be repeated, whether it is to stay held."""
    outline = state.outline
    if outline.held:
        return outline.reason != decide.RESTARTED
    return outline.base in (Status.CREATED, Status.RUNNING, Status.COMPENSATING)
