"""The ledger: creates runs, makes run writers, appends for guests, and announces durable appends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import perf_counter, time_ns
from weakref import WeakValueDictionary

from msgspec.structs import replace

from outlast.errors import Damaged, Illegal, InvalidInput, NotAllowed, RunGone, StoreError
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId, WorkerId, checked_run, uuid7
from outlast.history.record import Kind, Record, chained, genesis
from outlast.ledger.blob_names import hashes_in
from outlast.ledger.cursor import LogCursor
from outlast.ledger.group_commit import GroupCommit, Measures
from outlast.ledger.reading import RecordEntries, head_of, lineage_of, lost_end, missing, sound_head, state_of
from outlast.ledger.slots import exclusive_slot, refused
from outlast.ledger.verification import STRANGE
from outlast.ledger.writer import RunWriter, exists
from outlast.lifecycle import decide
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import State
from outlast.lifecycle.summary import summarise
from outlast.lifecycle.transitions import CONTROL, GUEST_DATA, RECEIPTS
from outlast.store import LANDED, Append, Claim, Head, Lost, Notify, Outcome, Store

log = logging.getLogger("outlast.ledger")

MAX_SHARED_ENDS, MAX_SHARED_BYTES = 500, 262_144
"""Ends of children in one append at most, and bytes of their outputs."""


def system_clock() -> int:
    return time_ns() // 1000


class Ledger:
    """The only writer of a process. With a `key`, the digests prove tampering; `clock` dates the events."""

    def __init__(self, store: Store, *, key: bytes = b"", clock: Callable[[], int] = system_clock) -> None:
        self.store = store
        self.key = key
        self.clock = clock
        # With a given clock, behaviour must not depend on the speed of the machine.
        pulse = perf_counter if clock is system_clock else lambda: 0.0
        self._group = GroupCommit(store, self._announce, pulse=pulse)
        self.commit: Callable[[Append], Awaitable[Outcome]] = self._group.submit
        """Submit one append to the group. Await it at once; the outcome is certain."""
        self._writers: dict[RunId, RunWriter] = {}
        self._write_locks: WeakValueDictionary[RunId, asyncio.Lock] = WeakValueDictionary()
        """Locks of the runs that guests of this process are writing to."""
        self._child_ends: dict[RunId, dict[str, e.ChildEnded]] = {}
        """The ends of children, by parent and child, that are to be delivered."""
        self._listeners: list[Notify] = []
        self._end_news: Callable[[], None] | None = None
        self.observers: list[Callable[[Sequence[Append], float], None]] = []
        """Called with the appends of this process that have landed in one flush, and its seconds."""
        self._nonce = os.urandom(8)
        self._appends = 0

    # --- ids

    def new_run_id(self) -> RunId:
        return RunId(uuid7(self.clock() // 1000, os.urandom(10)))

    def new_worker_id(self) -> WorkerId:
        return WorkerId(uuid7(self.clock() // 1000, os.urandom(10)))

    def new_append_id(self) -> AppendId:
        """Eight random bytes of this ledger and a counter: unique and cheap."""
        self._appends = number = self._appends + 1
        return self._nonce + number.to_bytes(8, "big")  # type: ignore[return-value]

    # --- owners

    def begin(self, run: RunId, worker: WorkerId) -> RunWriter:
        """A writer for a new run; its first append, which begins with RunCreated, creates the run."""
        return RunWriter(self, worker, 1, Head(checked_run(run), 0, genesis(run, self.key), 1), State())

    async def create(self, run: RunId, events: Sequence[e.AnyEvent], worker: WorkerId) -> RunWriter:
        """Create a run that `worker` owns from the first append on. The first event must be RunCreated."""
        writer = self.begin(run, worker)
        await writer.append(events)
        return writer

    def remember(self, writer: RunWriter) -> None:
        """Register the writer as the owner of its run: it receives the news of the run."""
        self._writers[writer.run] = writer

    async def take_over(
        self,
        claim: Claim,
        *,
        hold: bool = False,
        upto: int | None = None,
        check: Callable[[State], object] = lambda _: None,
    ) -> RunWriter:
        """Become the owner of a claimed run: ownership begins when the takeover is in the log. A damaged log can only be
        read `upto` an event; the caller may then only open a branch there.

        Raises `Damaged` if the log cannot be read, its head differs from its end (G3) or its summary is ahead of it (G5).
        Then no event was appended, and the claim is released; the same holds if `check` raises `NotAllowed`."""

        def decided(known: State) -> Sequence[e.AnyEvent]:
            check(known)
            previous, cause, seen = claim.previous, claim.cause, claim.seen
            return decide.take_over(
                known, claim.epoch, claim.worker, previous=previous, cause=cause, seen=seen, hold=hold
            )

        try:
            writer = await self._open(claim, upto)
            self.remember(writer)  # before its first append: it must not miss news of what follows that
            try:
                await writer.take_over(decided)
            except BaseException:
                self.forget(writer)
                raise
        except NotAllowed:
            with suppress(StoreError, Damaged):
                await self.release_as_found(claim)
            raise
        except (Damaged, Illegal, *STRANGE) as error:
            await self._release_unready(claim)
            if isinstance(error, Damaged):
                raise
            raise Damaged(f"the log cannot be read: {error!r}", run=claim.run) from error
        return writer

    async def _open(self, claim: Claim, upto: int | None) -> RunWriter:
        """A writer for a run whose log, head and summary agree."""
        run, read_events = claim.run, list[RecordEntries]()
        stored = await self.store.derived(run)
        head = stored.head or await head_of(self.store, run)  # raises NotFound if there is none
        at = stored.summary.at if stored.summary is not None else 0
        intervals = await lineage_of(self.store, head)
        if upto is None:
            state = await state_of(self.store, run, intervals, read_events, key=self.key, head=head)
            # an owner that counted as dead may have appended after the head was read
            if at > head.version and at > (version := (await head_of(self.store, run)).version):
                raise Damaged(lost_end(version, at), run=run, seq=version)
        else:
            intervals = [(first, min(last, upto)) for first, last in intervals if first <= upto]
            state = await state_of(self.store, run, intervals, read_events, key=self.key)
            # the event may lie on an earlier branch; new events belong to the current one
            state.outline.branch, state.outline.branch_first = head.branch, head.branch_first
            for record in await self.store.read(run, head.version, head.version, 1):
                head = replace(head, digest=record.digest)
        writer = RunWriter(self, claim.worker, claim.epoch, head, state)
        writer.remembered = read_events
        return writer

    async def release_as_found(self, claim: Claim) -> None:
        """Release a claimed run that was not taken over. If its owner was interrupted, it needs another one."""
        while (head := await self.store.head(claim.run)) is not None:
            ready = head.ready or (bool(claim.previous) and not head.closed)
            if await self.store.release(claim.run, claim.worker, head.version, ready=ready):
                return

    async def _release_unready(self, claim: Claim) -> None:
        """Release a run that cannot be advanced, so that no worker claims it again."""
        with suppress(StoreError, Damaged):
            while (head := await self.store.head(claim.run)) is not None:
                if await self.store.release(claim.run, claim.worker, head.version):
                    return

    def forget(self, writer: LogCursor) -> None:
        """Unregister a writer that does not own its run any more."""
        if self._writers.get(writer.run) is writer:
            del self._writers[writer.run]

    def forget_fenced(self, writer: LogCursor) -> None:
        self.measures.fenced += 1
        log.warning(
            "run %s was taken over; epoch %d of worker %s is fenced off", writer.run, writer.epoch, writer.worker
        )
        self.forget(writer)

    # --- guests

    async def create_ready(self, run: RunId, created: e.RunCreated, *, succeeds: bool = False) -> None:
        """Create a run without an owner; the first worker that claims it starts it. A run that `succeeds` another one has
        its exclusive key too. Raises `NotAllowed` if another run has the key."""
        checked_run(run)
        state, now = State(), self.clock()
        apply(state, created, 1, now)
        birth = Head(run, 0, genesis(run, self.key))
        append = self._guest_append(birth, [created], Kind.GUEST, self.new_append_id(), now)
        takes = (exclusive_slot(created.exclusive, succeeds=succeeds),) if created.exclusive else ()
        outcome = await self.commit(replace(append, summary=summarise(run, state), takes=takes))
        if isinstance(outcome, Lost):
            raise refused(outcome, run) if outcome.why == "slot" else await exists(self.store, run, outcome)

    async def deliver(self, run: RunId, events: Sequence[e.AnyEvent], *, branch: int | None = None) -> int:
        """Append a guest's data or requests; returns the seq of the first event. An event that ends a wait needs it open.

        Guests of one run write one after the other: if a thousand wrote at once, all but one would lose, again and
        again."""
        async with self._write_lock(run):
            return await self._deliver(run, events, branch)

    async def deliver_end(self, run: RunId, ended: e.ChildEnded) -> None:
        """Append the end of a child. Ends that wait until this process may write to the run share one append. `RunGone` if
        the run does not wait for the child, also because it has the end already."""
        waiting = self._child_ends.setdefault(run, {})
        waiting[ended.child] = ended
        try:
            async with self._write_lock(run):
                if ended.child in waiting:  # else it was in the append of another one
                    await self._deliver_ends(run, ended, waiting)
        finally:
            waiting.pop(ended.child, None)
            if not waiting:
                self._child_ends.pop(run, None)

    async def _deliver_ends(self, run: RunId, first: e.ChildEnded, waiting: dict[str, e.ChildEnded]) -> None:
        ends, size = [first], 0
        for each in waiting.values():
            size += len(each.output)
            if each is not first and size < MAX_SHARED_BYTES and len(ends) < MAX_SHARED_ENDS:
                ends.append(each)
        try:
            await self._deliver(run, ends, None)
        except RunGone:
            if len(ends) == 1:
                raise
            await self._deliver(run, [first], None)  # the run does not wait for one of the others
        else:
            for each in ends:
                waiting.pop(each.child, None)

    def _write_lock(self, run: RunId) -> asyncio.Lock:
        lock = self._write_locks.get(run)
        if lock is None:
            lock = self._write_locks[run] = asyncio.Lock()
        return lock

    async def _deliver(self, run: RunId, events: Sequence[e.AnyEvent], branch: int | None) -> int:
        kind = _guest_kind(events)
        needs, closes = _ends(events)
        head = await sound_head(self.store, run)
        id = self.new_append_id()
        while True:
            _check_accepts(head, events, branch)
            append = self._guest_append(head, events, kind, id, self.clock(), needs, closes)
            outcome = await self.commit(append)
            if outcome is LANDED:
                return append.record.first
            assert isinstance(outcome, Lost)
            if outcome.why == "wait":
                raise RunGone(
                    f"run {run} does not wait for {' or '.join(needs)}: it was answered, withdrawn or never opened"
                )
            if outcome.head is None:
                raise await missing(self.store, run)
            head = outcome.head

    def _guest_append(
        self,
        head: Head,
        events: Sequence[e.AnyEvent],
        kind: Kind,
        id: AppendId,
        now: int,
        needs: tuple[str, ...] = (),
        closes: tuple[str, ...] = (),
    ) -> Append:
        body = encode(events)
        first, count = head.version + 1, len(events)
        digest = chained(head.digest, first, count, head.branch, 0, kind, now, id, body, self.key)
        record = Record(head.run, first, count, head.branch, 0, kind, id, now, body, digest)
        after = Head(
            head.run, record.last, digest, head.epoch, head.branch, head.branch_first, head.closed, not head.closed
        )
        return Append(
            record, after, None, (), closes, needs, blobs=hashes_in(events, body, frozenset(map(type, events)))
        )

    # --- committing and announcing

    async def close(self) -> None:
        """Finish pending appends. The store stays open; its opener closes it."""
        await self._group.drain()
        if self._end_news is not None:
            self._end_news()
            self._end_news = None
        self._writers.clear()
        self._listeners.clear()

    @property
    def measures(self) -> Measures:
        return self._group.measures

    def listen(self, notify: Notify) -> Callable[[], None]:
        """Call `notify` with the runs whose logs grew, in this process or another one, soon and at least once."""
        if self._end_news is None:
            self._end_news = self.store.subscribe(self._on_changes)
        self._listeners.append(notify)

        def end() -> None:
            if notify in self._listeners:
                self._listeners.remove(notify)

        return end

    def _notify_writer(self, run: RunId) -> None:
        writer = self._writers.get(run)
        if writer is None:
            return
        if writer.news is None:
            writer.has_missed_news = True
        else:
            writer.news()

    def _on_changes(self, runs: frozenset[RunId]) -> None:
        for run in runs:
            self._notify_writer(run)
        for notify in list(self._listeners):
            notify(runs)

    def _announce(self, landed: Sequence[Append], seconds: float) -> None:
        for observe in self.observers:
            observe(landed, seconds)
        for append in landed:
            if not append.record.epoch:
                self._notify_writer(append.record.run)
        if self._listeners:
            runs = frozenset([append.record.run for append in landed])
            for notify in list(self._listeners):
                notify(runs)


def _guest_kind(events: Sequence[e.AnyEvent]) -> Kind:
    if not events:
        raise InvalidInput("the list of events to deliver is empty")
    if all(isinstance(event, CONTROL) for event in events):
        return Kind.CONTROL
    for event in events:
        if not isinstance(event, GUEST_DATA):
            raise InvalidInput(f"a guest may not append {type(event).__name__}: claim the run first")
        if isinstance(event, e.TriggerInputReceived) and event.cursor is not None:
            raise InvalidInput("a guest's input may not have a cursor: only the owner of the run moves the cursor")
    return Kind.GUEST


def _ends(events: Sequence[e.AnyEvent]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The waits that these events need open, and those among them that they close."""
    needs: list[str] = []
    closes: list[str] = []
    for event in events:
        match event:
            case e.InteractionAnswered():
                closes.append(f"interaction:{event.interaction}")
            case e.TimerFired():
                closes.append(f"timer:{event.timer}")
            case e.ChildEnded():
                closes.append(f"child:{event.child}")
            case e.OutboxSent():
                closes.append(f"outbox:{event.message}")
            case e.TriggerInputReceived():
                needs.append(f"trigger:{event.trigger}")
            case _:
                pass
    if len(set(closes)) != len(closes):
        raise InvalidInput("two events of one append end the same wait: append one of them")
    return (*needs, *closes), tuple(closes)


def _check_accepts(head: Head, events: Sequence[e.AnyEvent], branch: int | None) -> None:
    if branch is not None and head.branch != branch:
        raise RunGone(f"branch {branch} of run {head.run} is not current: the run continues on branch {head.branch}")
    if head.closed and not all(isinstance(event, RECEIPTS) for event in events):
        raise RunGone(f"run {head.run} is over: it accepts no answers, signals, inputs or requests")
