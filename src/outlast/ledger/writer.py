"""The writer of one run: the appends of its owner, new branches, and the release of the claim."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from outlast.errors import AlreadyExists, Illegal, InvalidInput, NotAllowed, OutcomeUnknown, Overtaken, StoreError
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId
from outlast.history.record import Entry, Kind, Record, chained
from outlast.ledger.blob_names import hashes_in
from outlast.ledger.cursor import LogCursor
from outlast.ledger.reading import missing
from outlast.ledger.slots import refused, slot_changes
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan, check_continues
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply_all
from outlast.lifecycle.invariants import RUN_TAKEN_OVER_PLACE, branch_violations
from outlast.lifecycle.requests import newest, request_violations
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.status import TERMINAL
from outlast.lifecycle.summary import is_changed, summarise
from outlast.store import LANDED, Append, Head, Lost, Store

_OWNER, _TAKEOVER = Kind.OWNER, Kind.TAKEOVER
_BEGINS: dict[type[e.Event], Kind] = {e.BranchOpened: Kind.OWNER, e.RunTakenOver: Kind.TAKEOVER}
"""Events that may only begin an append, and the kind of that append."""
_BEGINNINGS = frozenset(_BEGINS)


class RunWriter(LogCursor):
    """Writes the events of one run under one epoch. `Ledger.create` and `Ledger.take_over` make it; one task at a time may
    use it. It may be used again after any exception except `Fenced`.

    An append that makes the run live takes its exclusive key, and raises `NotAllowed` if another run has it."""

    # --- writing

    def append(
        self, events: Sequence[e.AnyEvent], *, release: bool = False, time: int | None = None, in_place: bool = False
    ) -> Coroutine[Any, Any, int]:
        """Append these events durably; returns the seq of the first one. `time` is the time of the record (default: now).

        After `OutcomeUnknown` the caller may pass the same list object again: it is written only if it is not in the log.

        Raises `Illegal` if the events may not follow, `Overtaken` if other events arrived first (the state then includes
        them: decide again), `Fenced` if the run has a newer owner. With `release` the append also releases the claim. With
        `in_place` the events are not renumbered: data of guests before them also raises `Overtaken`."""
        return self._write(events, None, _OWNER, release, time, in_place)

    def take_over(self, decision: Callable[[State], Sequence[e.AnyEvent]]) -> Coroutine[Any, Any, int]:
        """The first append of a new epoch. If other events arrive before it, they are folded and `decision` is called again.
        The append includes the summary: guests may have appended since it was made."""
        self._summary_behind = True
        return self._write((), decision, Kind.TAKEOVER, False, None)

    async def _write(
        self,
        events: Sequence[e.AnyEvent],
        decision: Callable[[State], Sequence[e.AnyEvent]] | None,
        kind: Kind,
        release: bool,
        time: int | None,
        in_place: bool = False,
    ) -> int:
        """Draft, commit, absorb; while the append loses to data, fold the data and try again. This is the hot path, in one
        coroutine: every further layer would cost time at every wake-up."""
        if self._busy:
            raise RuntimeError(f"two tasks use the writer of run {self.run} at the same time")
        self._busy = True
        pending: AppendId | None = None
        try:
            if self._unconfirmed:
                taken = await self.catch_up()
                if self._unconfirmed_events is events and self._confirmed_at:  # the log shows that they had landed
                    if release:
                        self._ledger.forget(self)
                    return self._confirmed_at
                if in_place and taken:
                    raise _out_of_place(taken)
            self._unconfirmed_events, self._confirmed_at = events, 0
            id = self._ledger.new_append_id()
            overtaken = 0
            while True:
                if decision is not None:
                    events = decision(self.state)
                if not events:
                    raise InvalidInput("the list of events to append is empty")
                draft = await self._branch_draft(events) if type(events[0]) is e.BranchOpened else self._draft
                append = self._compose(draft, events, id, kind, release, time, overtaken)
                pending = id
                outcome = await self._ledger.commit(append)
                pending = None
                if outcome is LANDED:
                    self._landed(append, draft)
                    return append.record.first
                assert isinstance(outcome, Lost)
                draft.drop()
                taken = await self._absorb_lost_race(outcome, kind)
                if in_place:
                    raise _out_of_place(taken)
                overtaken += len(taken)
                if type(events[0]) is e.BranchOpened:
                    raise Overtaken(f"{overtaken} events arrived before the branch could open: decide again")
        except BaseException as error:
            self._draft.drop()
            if pending is not None and (isinstance(error, OutcomeUnknown) or not isinstance(error, StoreError)):
                self._unconfirmed |= {pending}
            raise
        finally:
            self._busy = False

    def _compose(
        self,
        draft: Draft,
        events: Sequence[e.AnyEvent],
        id: AppendId,
        kind: Kind,
        release: bool,
        time: int | None,
        overtaken: int,
    ) -> Append:
        """Check the events by folding them into the draft, and compose the append."""
        view, old, epoch = draft.view, self.head, self.epoch
        if time is None:
            time = max(self._ledger.clock(), self.state.outline.time)
        run, first, count = old.run, old.version + 1, len(events)
        last = old.version + count
        kinds = frozenset(map(type, events))
        if not _BEGINNINGS.isdisjoint(kinds):
            _check_first(events, first, kind)
        try:
            apply_all(view, events, first, time)
        except Illegal as objection:
            if overtaken:
                raise Overtaken(f"{overtaken} events arrived first: {objection}") from objection
            raise
        outline = view.outline
        branch, is_closed = outline.branch, outline.base in TERMINAL and not outline.held
        body = encode(events)
        digest = chained(old.digest, first, count, branch, epoch, kind, time, id, body, self._ledger.key)
        record = Record(run, first, count, branch, epoch, kind, id, time, body, digest)
        # An owner that releases the run has not processed the events that arrived just before: the next owner must.
        ready = release and not is_closed and (overtaken > 0 or decide.next_request(view) is not None)
        head = Head(run, last, digest, epoch, branch, outline.branch_first, is_closed, ready)
        blobs = hashes_in(events, body, kinds)
        is_branch = draft is not self._draft
        if not (is_branch or self._summary_behind or is_changed(draft, kinds)):
            return Append(record, head, None, (), (), (), None, release, (), False, blobs)
        claim = self.worker if old.version == 0 and not release else None
        opened, closed = _wait_changes(self.state, view) if is_branch else draft.ends()
        takes, frees = slot_changes(self.state.outline, outline, kinds)
        return Append(record, head, summarise(run, view), opened, closed, (), claim, release, takes, frees, blobs)

    def _landed(self, append: Append, draft: Draft) -> None:
        draft.absorb()
        self._unconfirmed_events = ()
        if self._unconfirmed:
            self._unconfirmed = frozenset()  # they expected the version that this append now follows
        if self.head.version == 0:
            self._ledger.remember(self)
        self.head = append.head
        self._summary_behind = False
        if draft is not self._draft:
            self.state, self._draft = draft.state, draft
            self.remembered = []  # the records belong to the branch that was left
        elif append.record.kind is _TAKEOVER:
            self._remember(append.record)
        if append.release:
            self._ledger.forget(self)

    def _remember(self, takeover: Record) -> None:
        """Keep the record of the takeover with those that it read, if it follows them: then they need not be read again."""
        if self.remembered and self.remembered[-1][0].last == takeover.first - 1:
            self.remembered.append((takeover, takeover.events(), takeover.first, takeover.last))

    # --- branches

    async def open_branch(self, plan: BranchPlan) -> int:
        """Open a branch at the cutoff of the plan. Events after the cutoff stay on their branch."""
        if not 0 <= plan.cutoff <= self.head.version:
            raise NotAllowed(
                f"event {plan.cutoff} is not in the log of run {self.run}, which ends at {self.head.version}"
            )
        while True:
            known = await self.branches(plan.cutoff)
            then = await self.state_at(plan.cutoff)
            check_continues(plan, then)
            try:
                return await self.append(decide.open_branch(self.state, then, known.values(), plan))
            except Overtaken:
                request = newest(self.state.outline.requests, e.JumpRequested)
                is_elsewhere = request is not None and request.seq != plan.request
                if is_elsewhere or isinstance(decide.next_request(self.state), e.CancelRequested):
                    raise  # a cancellation or another jump was requested: the caller decides again

    async def _branch_draft(self, events: Sequence[e.AnyEvent]) -> Draft:
        """A draft over the state at the cutoff of a new branch."""
        event = events[0]
        assert isinstance(event, e.BranchOpened)
        seq, branches = self.head.version + 1, await self.branches(event.cutoff)
        wrong = branch_violations(event, seq, branches)
        if wrong:
            raise Illegal("V8", "; ".join(wrong), seq=seq)
        unsettled = request_violations(self.state.outline.requests, events, seq)
        if unsettled:
            raise Illegal("V12", "; ".join(unsettled), seq=seq)
        return Draft(await self.state_at(event.cutoff))

    async def _absorb_lost_race(self, lost: Lost, kind: Kind) -> list[Entry]:
        """Fold the events that the append lost to. A request among them invalidates the decision."""
        if lost.why == "slot":
            raise refused(lost, self.run)
        if self.head.version == 0:
            raise await exists(self.store, self.run, lost)
        if lost.why == "deleted":
            if kind is Kind.OWNER:  # only a newer owner can have ended the run
                raise self._fenced("the run has ended and was deleted")
            raise await missing(self.store, self.run)
        if lost.why != "version" or lost.head is None:
            raise self._fenced(f"epoch {lost.head.epoch if lost.head else 0} is in the log")
        newer = list(lost.tail)
        if not newer or newer[-1].last < lost.head.version:
            newer = [record async for record in self._newer()]
        taken = await self._fold_newer(newer, kind)
        if kind is Kind.OWNER and any(record.kind is Kind.CONTROL for record in newer):
            raise Overtaken(f"a request to run {self.run} arrived first: decide again")
        return taken

    # --- release

    async def release(self, *, ready: bool = False) -> bool:
        """Release the claim; False if events arrived meanwhile, which are then folded: check the state again. A run with an
        open request is released as ready."""
        if self._summary_behind:
            await self._rewrite_summary()
        ready = ready or (not self.state.is_closed and decide.next_request(self.state) is not None)
        if await self.store.release(self.run, self.worker, self.head.version, ready=ready):
            self._ledger.forget(self)
            return True
        await self.catch_up()
        return False

    async def release_when_read(self, ready: Callable[[State], bool] = lambda _: False) -> None:
        """Release the claim after everything that guests appended has been read. `ready` decides from the state."""
        while not await self.release(ready=ready(self.state)):
            pass

    async def _rewrite_summary(self) -> None:
        """Write the summary after events of guests were folded without an append of our own."""
        stored = await self.store.summary(self.run)
        at = stored.at if stored else 0
        if at > self.head.version or await self.store.correct(summarise(self.run, self.state), at):
            self._summary_behind = False


async def exists(store: Store, run: RunId, lost: Lost) -> AlreadyExists:
    """The error for the first append of a run whose id is used."""
    if lost.why == "deleted":
        return AlreadyExists(f"{await missing(store, run)}: its id stays used; choose another one")
    return AlreadyExists(f"run {run} already exists")


def _out_of_place(taken: Sequence[Entry]) -> Overtaken:
    return Overtaken(f"{len(taken)} events arrived first: the append must follow event {taken[0].seq - 1} directly")


def _check_first(events: Sequence[e.AnyEvent], first: int, kind: Kind) -> None:
    for place, event in enumerate(events):
        if type(event) in _BEGINS and (place or _BEGINS[type(event)] is not kind):
            raise _not_first(event, first + place)


def _not_first(event: e.AnyEvent, seq: int) -> Illegal:
    if isinstance(event, e.BranchOpened):
        return Illegal("V8", "BranchOpened must be the first event of an owner's append", seq=seq)
    return Illegal("V11", RUN_TAKEN_OVER_PLACE, seq=seq)


def _wait_changes(old: State, new: State) -> tuple[tuple[Wait, ...], tuple[str, ...]]:
    """The waits and loose ends that a change of branch opens, and the names of those it closes."""
    before = dict([*old.waits.items(), *old.loose.items()])
    after = dict([*new.waits.items(), *new.loose.items()])
    opens = tuple(wait for name, wait in after.items() if before.get(name) != wait)
    return opens, tuple(name for name in before if name not in after)
