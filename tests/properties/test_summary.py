"""Owners, guests and takeovers in any order, through the real ledger: the log stays sound, the summary true (V10, W1 to W3).

One run, several workers, each with a ledger of its own as in processes of their own, and guests with theirs. Whatever they
do one after another or at once, what the store keeps agrees with itself afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from outlast.errors import Fenced, Illegal, NotAllowed, Overtaken, RunGone
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.history.lineage import ROOT, Branch, holder, lineage, opened
from outlast.history.record import Entry, Kind, Record, entries
from outlast.ledger import Ledger, RunWriter
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.fold import apply, fold
from outlast.lifecycle.invariants import Violation, violations
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary, summarise
from outlast.store import Claim, Head
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.faults import hide_locks
from support.histories import EventGenerator
from support.sampling import examples

RUN = RunId("run")
TTL = 30.0
Answer = TypeVar("Answer")
SEEDS = st.integers(0, 2**32)

LOGGER = logging.getLogger("outlast.ledger")


def _is_cancel(event: e.AnyEvent) -> bool:
    return isinstance(event, e.CancelRequested)


def _is_forced(event: e.AnyEvent) -> bool:
    return isinstance(event, e.CancelRequested) and event.force


class Log:
    """A log read back from the store, up to some version, folded the plain way."""

    def __init__(self, records: Iterable[Record], version: int | None = None) -> None:
        self.entries = [
            each for record in records for each in entries(record) if version is None or each.seq <= version
        ]
        self.version = self.entries[-1].seq
        self.branches: dict[int, Branch] = {0: ROOT}
        for entry in self.entries:
            if isinstance(entry.event, e.BranchOpened):
                self.branches[entry.event.branch] = opened(entry.event, entry.seq)

    def told(self) -> list[Entry]:
        """What the branch that holds the last event sees."""
        branch = holder(self.branches.values(), self.version).id
        return [
            self.entries[seq - 1] for a, b in lineage(self.branches, branch, self.version) for seq in range(a, b + 1)
        ]

    def state(self) -> State:
        return fold(State(), self.told())

    def generator(self, seed: int) -> EventGenerator:
        generator = EventGenerator(Random(seed).randrange)
        generator.hear(self.entries)
        return generator


class Crowd(RuleBasedStateMachine):
    """Everyone who may write to one run."""

    def __init__(self) -> None:
        super().__init__()
        LOGGER.disabled = True  # being taken over is worth a warning each time
        self.loop = asyncio.new_event_loop()
        self.time = 1_700_000_000_000_000
        self.store = self.open_store()
        self.desk = Ledger(self.store, clock=lambda: self.time - 2_500)
        self.ledgers = [self.desk]
        self.writer: RunWriter | None = None
        self.fenced: list[RunWriter] = []
        self.workers = 0
        self.summary_at = 0

    def open_store(self) -> MemoryStore | SqliteStore:
        return MemoryStore()

    def teardown(self) -> None:
        for ledger in self.ledgers:
            self.do(ledger.close())
        self.do(self.store.close())
        self.loop.close()
        LOGGER.disabled = False

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(work)

    def tick(self) -> int:
        self.time += 1_000
        return self.time

    def log(self, version: int | None = None) -> Log:
        return Log(self.records(), version)

    def records(self) -> list[Record]:
        return self.do(self.store.read(RUN, limit=10_000))

    def head(self) -> Head:
        head = self.do(self.store.head(RUN))
        assert head is not None
        return head

    def new_worker(self) -> tuple[WorkerId, Ledger]:
        self.workers += 1
        worker, ledger = WorkerId(f"w{self.workers}"), Ledger(self.store, clock=self.tick)
        self.ledgers.append(ledger)
        self.do(self.store.enrol(worker, TTL))
        return worker, ledger

    # --- how it begins

    @initialize(owned=st.booleans(), hold=st.booleans())
    def create(self, owned: bool, hold: bool) -> None:
        created = e.RunCreated(workflow="flow", tags=("a",), on_restart="hold" if hold else "resume")
        if owned:
            worker, ledger = self.new_worker()
            self.writer = self.do(ledger.create(RUN, [created, e.RunStarted()], worker))
        else:
            self.do(self.desk.create_ready(RUN, created))

    # --- the owner

    def thought_out(self, writer: RunWriter, seed: int, most: int) -> list[e.AnyEvent]:
        """What the owner decides, knowing what it knows."""
        known = self.log(writer.head.version)
        generator, state = known.generator(seed), known.state()
        said: list[e.AnyEvent] = []
        for place in range(1 + generator.pick(most)):
            burst = generator.suggest(state, Kind.OWNER, branching=not place)
            for event in burst:
                if isinstance(event, e.BranchOpened):
                    return burst
                generator.hear([Entry(generator.seq + 1, 0, 0, event)])
                apply(state, event, generator.seq, self.time)
            said += burst
        return said

    @precondition(lambda self: self.writer is not None)
    @rule(seed=SEEDS, release=st.integers(0, 9))
    def append(self, seed: int, release: int) -> None:
        assert self.writer is not None
        events = self.thought_out(self.writer, seed, 4)
        if not events:
            return
        is_ahead = self.head().version > self.writer.head.version
        try:
            first = self.do(self.writer.append(events, release=release == 0))
        except Overtaken:
            assert is_ahead
            assert self.writer.head.version == self.head().version
            return
        assert [entry.event for entry in self.log().entries[first - 1 :]] == events
        if release == 0:
            self.writer = None

    @precondition(lambda self: self.writer is not None)
    @rule()
    def catch_up(self) -> None:
        assert self.writer is not None
        behind = self.writer.head.version
        taken = self.do(self.writer.catch_up())
        assert taken == self.log().entries[behind:]

    @precondition(lambda self: self.writer is not None)
    @rule(ready=st.booleans())
    def release(self, ready: bool) -> None:
        assert self.writer is not None
        before, holding = self.head(), self.do(self.store.holding(RUN))
        is_ours = holding is not None and holding.worker == self.writer.worker
        is_ahead = before.version > self.writer.head.version
        if self.do(self.writer.release(ready=ready)):
            is_wanted = ready or self.has_something_to_obey()
            assert self.head().ready is (is_wanted if is_ours else before.ready)
            self.writer = None
        else:
            assert is_ours
            assert is_ahead

    def has_something_to_obey(self) -> bool:
        """Whether the log, told anew, ends with a request that is still to be met: then the run is not to lie about."""
        state = self.log().state()
        outline = state.outline
        stands_still = outline.held or outline.base == "paused"
        asked = [each for each in outline.requests if not (stands_still and isinstance(each.event, e.PauseRequested))]
        if outline.cleanup is not None:  # it obeys its cancellation already, and nothing else but one by force
            cleans_up = outline.base == "compensating"
            asked = [each for each in asked if _is_forced(each.event) or not (cleans_up or _is_cancel(each.event))]
        return not state.is_closed and bool(asked)

    # --- guests

    def brought(self, seed: int) -> list[e.AnyEvent]:
        """What a guest may bring now: it has looked at what is shown as open."""
        log = self.log()
        generator, state = log.generator(seed), log.state()
        kind = (
            Kind.GUEST
            if state.is_closed or generator.chance(2)
            else Kind.CONTROL
            if generator.chance(4)
            else Kind.GUEST
        )
        said: list[e.AnyEvent] = []
        for _ in range(1 + generator.pick(2)):
            for event in generator.suggest(state, kind):
                generator.hear([Entry(generator.seq + 1, 0, 0, event)])
                apply(state, event, generator.seq, self.time)
                said.append(event)
        return said

    @rule(seed=SEEDS, named=st.booleans())
    def deliver(self, seed: int, named: bool) -> None:
        events = self.brought(seed)
        if events:
            before = self.head()
            first = self.do(self.desk.deliver(RUN, events, branch=before.branch if named else None))
            assert first == before.version + 1
            assert self.head().ready is not before.closed

    @rule(
        event=st.sampled_from(
            [
                e.InteractionAnswered(interaction="never-asked"),
                e.TimerFired(timer="never-set"),
                e.ChildEnded(child="never-started"),
                e.OutboxSent(message="never-enqueued"),
                e.TriggerInputReceived(trigger="never-registered", input="i"),
            ]
        )
    )
    def deliver_what_nobody_waits_for(self, event: e.AnyEvent) -> None:
        before = self.head()
        refused = False
        try:
            self.do(self.desk.deliver(RUN, [event]))
        except RunGone:
            refused = True
        assert refused
        assert self.head() == before

    @precondition(lambda self: self.writer is not None)
    @rule(seed=SEEDS)
    def append_and_deliver_at_once(self, seed: int) -> None:
        """Two guests and the owner set off together; each of them succeeds or is told that it came too late."""
        assert self.writer is not None
        mine, theirs, others = self.thought_out(self.writer, seed, 3), self.brought(seed), self.brought(seed + 1)
        work: list[Coroutine[Any, Any, object]] = [self.desk.deliver(RUN, each) for each in (theirs, others) if each]
        if mine:
            work.insert(Random(seed).randrange(len(work) + 1), self.writer.append(mine))

        async def at_once() -> list[object]:
            return await asyncio.gather(*work, return_exceptions=True)

        for outcome in self.do(at_once()):
            assert isinstance(outcome, int | Overtaken | RunGone), outcome

    # --- takeovers

    def claimed(self) -> tuple[Claim, Ledger]:
        """A new worker has claimed the run, once nobody alive held it."""
        worker, ledger = self.new_worker()
        if self.do(self.store.holding(RUN)) is not None:
            assert self.do(self.store.claim(worker, runs=[RUN])) == []
            hide_locks(self.store)
            self.store.skew += int(TTL * 1_000_000) + 1
            self.do(self.store.renew(worker, TTL))
        (claim,) = self.do(self.store.claim(worker, runs=[RUN]))
        assert claim.epoch > self.head().epoch
        return claim, ledger

    @rule(hold=st.booleans(), in_vain=st.integers(0, 4))
    def take_over(self, hold: bool, in_vain: int) -> None:
        claim, ledger = self.claimed()
        if in_vain == 0:
            return  # it died before it said so: the old owner, if there is one, is still the owner
        if self.writer is not None:
            self.fenced.append(self.writer)
        self.writer = self.do(ledger.take_over(claim, hold=hold))
        assert self.head().epoch == claim.epoch

    @precondition(lambda self: self.writer is not None)
    @rule(seed=SEEDS, hold=st.booleans(), owner_first=st.booleans())
    def take_over_while_the_owner_writes(self, seed: int, hold: bool, owner_first: bool) -> None:
        """The old owner is slow and not dead: what it says lands before the takeover, or not at all."""
        assert self.writer is not None
        old, events = self.writer, self.thought_out(self.writer, seed, 3) or [e.VersionChanged(version="9")]
        claim, ledger = self.claimed()

        async def at_once() -> tuple[object, object]:
            writing, taking = old.append(events), ledger.take_over(claim, hold=hold)
            if owner_first:
                wrote, took = await asyncio.gather(writing, taking, return_exceptions=True)
            else:
                took, wrote = await asyncio.gather(taking, writing, return_exceptions=True)
            return wrote, took

        wrote, took = self.do(at_once())
        assert isinstance(wrote, int | Overtaken | Fenced), wrote
        assert isinstance(took, RunWriter), took
        self.fenced.append(old)
        self.writer = took
        assert self.head().epoch == claim.epoch

    @precondition(lambda self: self.fenced)
    @rule(seed=SEEDS)
    def write_although_taken_over(self, seed: int) -> None:
        writer = self.fenced[seed % len(self.fenced)]
        before = self.head()
        refused = 0
        for act in (lambda: writer.append([e.VersionChanged(version="9")]), writer.catch_up):
            try:
                self.do(act())
            except Fenced:
                refused += 1
        assert refused == 2
        self.do(writer.release(ready=True))
        assert self.head() == before

    # --- what holds afterwards

    @invariant()
    def the_log_is_sound(self) -> None:
        assert violations(RUN, self.records(), self.do(self.store.summary(RUN))) == []

    @invariant()
    def the_summary_is_that_of_a_refold_at_its_version(self) -> None:
        summary = self.do(self.store.summary(RUN))
        assert summary is not None
        assert summary == summarise(RUN, self.log(summary.at).state())
        assert summary.at >= self.summary_at
        self.summary_at = summary.at

    @invariant()
    def the_catalogue_shows_what_the_run_does_once_an_owner_has_looked(self) -> None:
        """What arrived since is not shown before an owner has taken it in and written again."""
        shown, true = self.do(self.store.summary(RUN)), summarise(RUN, self.log().state())
        assert shown is not None
        newer = [record.kind for record in self.records() if record.first > shown.at]
        if newer[-1:] not in ([Kind.GUEST], [Kind.CONTROL]):
            assert is_shown(shown, true)

    @invariant()
    def the_owner_knows_what_a_refold_knows(self) -> None:
        if self.writer is not None:
            known = self.log(self.writer.head.version)
            assert self.writer.state == known.state()
            assert list(self.writer.state.waits.items()) == list(known.state().waits.items())

    @invariant()
    def what_the_store_shows_as_open_is_what_the_log_left_open(self) -> None:
        state = self.log().state()
        rows, following = self.do(self.store.waits(limit=1_000))
        assert following == ""
        shown = {row.wait.name: row.wait for row in rows}
        assert shown == {wait.name: wait for wait in opened_by(state)}

    @invariant()
    def the_head_agrees_with_the_last_record(self) -> None:
        head, records, log = self.head(), self.records(), self.log()
        last, state = records[-1], log.state()
        assert (head.version, head.digest, head.branch) == (last.last, last.digest, last.branch)
        assert head.branch == max(log.branches)
        assert head.branch_first == log.branches[head.branch].first
        assert head.epoch == max(record.epoch for record in records)
        assert head.closed is state.is_closed
        if self.writer is not None and self.writer.head.version == head.version:
            assert replace(self.writer.head, ready=head.ready) == head


def is_shown(shown: RunSummary, true: RunSummary) -> bool:
    """Whether the two say the same but for what is not written with every append."""
    return replace(shown, at=true.at, updated=true.updated, done_nodes=true.done_nodes) == true


def opened_by(state: State) -> Iterable[Wait]:
    return [*state.waits.values(), *state.loose.values()]


class CrowdOnSqlite(Crowd):
    def open_store(self) -> SqliteStore:
        self.folder = TemporaryDirectory()
        return SqliteStore(f"{self.folder.name}/runs.db", durability="relaxed", commit="inline")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class TestManyWritersInMemory(Crowd.TestCase):
    settings = settings(max_examples=examples(300), stateful_step_count=30)


class TestManyWritersInSqlite(CrowdOnSqlite.TestCase):
    settings = settings(max_examples=15, stateful_step_count=25)


# --- single stories that random ones come across ------------------------------------------------------------------------


class Stage:
    """One run on a store in memory, its owner, and a desk for guests."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.desk, self.ledger = Ledger(self.store), Ledger(self.store)

    async def begin(self, *events: e.AnyEvent) -> RunWriter:
        worker = WorkerId("w1")
        await self.store.enrol(worker, TTL)
        return await self.ledger.create(RUN, [e.RunCreated(workflow="flow"), e.RunStarted(), *events], worker)

    async def take_over(self) -> RunWriter:
        worker = WorkerId("w2")
        self.store.skew += int(TTL * 1_000_000) + 1
        await self.store.enrol(worker, TTL)
        (claim,) = await self.store.claim(worker, runs=[RUN])
        return await Ledger(self.store).take_over(claim)

    async def shown(self) -> RunSummary:
        summary = await self.store.summary(RUN)
        assert summary is not None
        return summary

    async def breaches(self) -> list[Violation]:
        return violations(RUN, await self.store.read(RUN), await self.store.summary(RUN))


ASKED = e.InteractionRequested(interaction="q", prompt="go on?")
ANSWERED = e.InteractionAnswered(interaction="q")


def test_a_takeover_shows_what_guests_had_brought_before_it() -> None:
    """Nobody owned the run when the answer came; once someone does, lists must not show the question as open."""

    async def story() -> None:
        stage = Stage()
        await (await stage.begin(ASKED)).release()
        await stage.desk.deliver(RUN, [ANSWERED])
        writer = await stage.take_over()
        await writer.append([e.NodeScheduled(node="a"), e.NodeStarted(node="a")])
        assert is_shown(await stage.shown(), summarise(RUN, writer.state))

    asyncio.run(story())


def test_an_owner_that_was_taken_over_puts_no_older_summary_back() -> None:
    async def story() -> None:
        stage = Stage()
        old = await stage.begin(ASKED)
        await stage.desk.deliver(RUN, [ANSWERED])
        await old.catch_up()
        new = await stage.take_over()
        await new.append([e.RunCompleted()])
        await old.release()
        assert (await stage.shown()).status is RunStatus.COMPLETED

    asyncio.run(story())


OWED = pytest.mark.parametrize(
    ("owed", "receipt"),
    [
        (e.OutboxEnqueued(message="m"), e.OutboxSent(message="m")),
        (e.ChildStarted(child="c"), e.ChildEnded(child="c")),
    ],
    ids=["a message that was sent", "a child that ended"],
)


@OWED
def test_a_receipt_on_the_part_that_is_cut_off_is_not_waited_for_again(owed: e.AnyEvent, receipt: e.AnyEvent) -> None:
    """V7: it happens once in the whole log, so the new branch neither shows it as open nor takes a second one."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin(owed)
        await stage.desk.deliver(RUN, [receipt])
        await writer.catch_up()
        await writer.open_branch(BranchPlan(cutoff=3))
        assert opened_by(writer.state) == []
        with pytest.raises(RunGone):
            await stage.desk.deliver(RUN, [receipt])

    asyncio.run(story())


@OWED
def test_a_receipt_that_arrives_while_a_branch_opens_is_not_waited_for_again(
    owed: e.AnyEvent, receipt: e.AnyEvent
) -> None:
    """The same, when the owner decides without knowing of it: the receipt lands first and is cut off unseen."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin(owed)
        await stage.desk.deliver(RUN, [receipt])
        with suppress(Overtaken):
            await writer.open_branch(BranchPlan(cutoff=3))
        assert opened_by(writer.state) == []

    asyncio.run(story())


@OWED
def test_a_receipt_on_a_branch_left_long_ago_may_come_again(owed: e.AnyEvent, receipt: e.AnyEvent) -> None:
    """V7: once per lineage. The branch in between knew neither what was owed nor that it came, so it is open again."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin(owed)
        await stage.desk.deliver(RUN, [receipt])
        await writer.catch_up()
        await writer.open_branch(BranchPlan(cutoff=2))
        await writer.open_branch(BranchPlan(cutoff=3))
        await stage.desk.deliver(RUN, [receipt])
        with pytest.raises(RunGone):
            await stage.desk.deliver(RUN, [receipt])
        assert await stage.breaches() == []

    asyncio.run(story())


@OWED
def test_what_is_asked_for_again_on_a_new_branch_leaves_the_log_sound(owed: e.AnyEvent, receipt: e.AnyEvent) -> None:
    """W3: a node that is done again starts the same child and sends the same message, by ids that are derived. Whether the
    second time is refused, adopts the receipt or gets its own, what the ledger wrote has no violations."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin(owed)
        await stage.desk.deliver(RUN, [receipt])
        await writer.catch_up()
        await writer.open_branch(BranchPlan(cutoff=2))
        with suppress(NotAllowed):
            await writer.append([owed])
            await stage.desk.deliver(RUN, [receipt])
        assert await stage.breaches() == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "events",
    [
        [e.OutboxSent(message="never-enqueued")],
        [e.OutboxEnqueued(message="m"), e.OutboxSent(message="m"), e.OutboxSent(message="m")],
        [e.ChildEnded(child="never-started")],
    ],
    ids=["for no message", "twice", "for no child"],
)
def test_a_receipt_without_its_antecedent_is_refused_before_it_is_written(events: list[e.AnyEvent]) -> None:
    """W3: a log that the ledger wrote has no violations."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin()
        with suppress(Illegal):
            await writer.append(events)
        assert await stage.breaches() == []

    asyncio.run(story())


def cut(**fields: int) -> e.BranchOpened:
    return replace(e.BranchOpened(branch=1, parent=0, cutoff=2), **fields)


@pytest.mark.parametrize(
    "events",
    [
        [e.VersionChanged(version="2"), cut(cutoff=3)],
        [cut(branch=5)],
        [cut(parent_first=2)],
        [cut(previous_first=2)],
        [cut(), cut(branch=2, cutoff=3, parent=1, parent_first=3, previous_first=3)],
    ],
    ids=[
        "in the middle of an append",
        "of a number too high",
        "with a wrong parent_first",
        "with a wrong previous",
        "two",
    ],
)
def test_a_branch_that_opens_wrongly_is_refused_before_it_is_written(events: list[e.AnyEvent]) -> None:
    """W3 and V8."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin()
        with suppress(Illegal):
            await writer.append(events)
        assert await stage.breaches() == []

    asyncio.run(story())


def test_a_timer_named_like_that_of_a_retry_is_not_silently_replaced() -> None:
    """V7 and V10: two waits of one name, one of which is lost; and the summary lists them in another order than a refold."""

    async def story() -> None:
        stage = Stage()
        writer = await stage.begin(e.NodeScheduled(node="a"), e.NodeStarted(node="a"))
        with suppress(Illegal):
            await writer.append([e.TimerSet(timer="retry:a", due=1), e.TimerSet(timer="later", due=2)])
            await writer.append([e.NodeFailed(node="a", error=e.Failure("Error"), retry_at=3)])
        assert await stage.breaches() == []

    asyncio.run(story())


def test_an_append_of_nothing_is_refused_in_words() -> None:
    async def story() -> None:
        writer = await Stage().begin()
        with pytest.raises(NotAllowed):
            await writer.append([])

    asyncio.run(story())
