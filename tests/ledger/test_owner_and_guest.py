"""Owners and guests on one log: W1, W2, W3, P1, P3, P7."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Raw

from outlast.errors import AlreadyExists, Fenced, Illegal, InvalidInput, NotAllowed, NotFound, Overtaken, RunGone
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger, RunWriter
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import RunFilter, Store, Tombstone
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.faults import hide_locks

RUN = RunId("run-1")
WORKER = WorkerId("worker-1")
BIRTH = (e.RunCreated(workflow="w"), e.RunStarted(), e.NodeScheduled(node="a"), e.NodeStarted(node="a"))


class Desk:
    """Two processes on one set of data: `mine` owns the run, `theirs` are guests and rivals."""

    def __init__(self, mine: Store, theirs: Store) -> None:
        self.store = mine
        self.mine = Ledger(mine)
        self.theirs = Ledger(theirs)

    async def owner(self) -> RunWriter:
        await self.store.enrol(WORKER, 30)
        hide_locks(self.store)
        return await self.mine.create(RUN, BIRTH, WORKER)

    async def rival(self) -> RunWriter:
        """Another worker takes the run over once the first one's time has run out."""
        worker = WorkerId("worker-2")
        self.theirs.store.skew = 60_000_000
        await self.theirs.store.enrol(worker, 30)
        (claim,) = await self.theirs.store.claim(worker, runs=[RUN])
        return await self.theirs.take_over(claim)

    async def is_sound(self) -> bool:
        records = await self.store.read(RUN, limit=10_000)
        return violations(RUN, records, await self.store.summary(RUN)) == []


@asynccontextmanager
async def desk_on(kind: str, folder: Path) -> AsyncIterator[Desk]:
    stores: list[Store]
    if kind == "memory":
        memory = Memory()
        stores = [MemoryStore(memory), MemoryStore(memory)]
    else:
        stores = [SqliteStore(folder / "r.db", durability="relaxed") for _ in range(2)]
    desk = Desk(*stores)
    yield desk
    assert await desk.is_sound()
    await desk.mine.close()
    await desk.theirs.close()
    for store in stores:
        await store.close()


Play = Callable[[Callable[[Desk], Awaitable[None]]], None]


@pytest.fixture(params=["memory", "sqlite"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Run a scene on each store; every scene ends with the invariants."""

    def run(scene: Callable[[Desk], Awaitable[None]]) -> None:
        async def staged() -> None:
            async with desk_on(request.param, tmp_path) as desk:
                await scene(desk)

        asyncio.run(staged())

    return run


def answer(question: str = "q") -> e.InteractionAnswered:
    return e.InteractionAnswered(interaction=question, answer=Raw(b"true"), by="someone")


def test_an_owner_takes_in_what_a_guest_wrote_and_goes_on(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.InteractionRequested(interaction="q", prompt="ok?")])
        await desk.theirs.deliver(RUN, [answer(), e.SignalReceived(signal="s", name="go")])
        first = await writer.append([e.NodeCompleted(node="a", output=Raw(b"1"))])
        assert first == 8
        assert writer.state.interactions.get("q").answer == Raw(b"true")
        assert writer.state.signals.get("s").name == "go"
        assert desk.mine.measures.taken_in == 2

    play(scene)


def test_guests_that_write_at_once_do_not_make_each_other_lose(play: Play) -> None:
    """P10: a parent of a thousand children is told of a thousand ends, and not of half a million tries."""

    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.InteractionRequested(interaction=f"q{number}", prompt="ok?") for number in range(30)])
        seqs = await asyncio.gather(*(desk.theirs.deliver(RUN, [answer(f"q{number}")]) for number in range(30)))
        assert sorted(seqs) == list(range(35, 65))
        assert desk.theirs.measures.lost == 0

    play(scene)


def test_a_guest_never_writes_the_summary_and_leaves_the_run_ready(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.NodeCompleted(node="a"), e.InteractionRequested(interaction="q")])
        before = await desk.store.summary(RUN)
        await desk.theirs.deliver(RUN, [answer()])
        assert await desk.store.summary(RUN) == before
        assert (await desk.store.head(RUN)).ready

    play(scene)


def test_a_request_makes_the_owner_decide_again(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await desk.theirs.deliver(RUN, [e.PauseRequested(by="someone")])
        with pytest.raises(Overtaken):
            await writer.append([e.NodeCompleted(node="a")])
        assert decide.next_request(writer.state) == e.PauseRequested(by="someone")
        await writer.append([e.NodeCompleted(node="a"), *decide.pause(writer.state, e.PauseRequested())])
        assert (await desk.store.summary(RUN)).status is RunStatus.PAUSED

    play(scene)


def test_a_decision_that_guest_data_made_wrong_is_not_written(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.InteractionRequested(interaction="q")])
        await desk.theirs.deliver(RUN, [answer()])
        with pytest.raises(Overtaken, match="V7"):
            await writer.append([e.InteractionWithdrawn(interaction="q")])
        assert writer.state.interactions.get("q").answer is not None

    play(scene)


def test_nobody_is_answered_twice(play: Play) -> None:
    """P7."""

    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.InteractionRequested(interaction="q")])
        results = await asyncio.gather(
            *(ledger.deliver(RUN, [answer()]) for ledger in (desk.mine, desk.theirs) for _ in range(10)),
            return_exceptions=True,
        )
        assert sum(isinstance(result, int) for result in results) == 1
        assert all(isinstance(result, int | RunGone) for result in results)

    play(scene)


def test_an_answer_to_a_dead_branch_is_refused(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.InteractionRequested(interaction="q")])
        await writer.open_branch(BranchPlan(cutoff=4))
        with pytest.raises(RunGone):
            await desk.theirs.deliver(RUN, [answer()])
        with pytest.raises(RunGone, match="branch 0"):
            await desk.theirs.deliver(RUN, [e.SignalReceived(signal="s", name="go")], branch=0)
        await desk.theirs.deliver(RUN, [e.SignalReceived(signal="s", name="go")], branch=1)

    play(scene)


def test_a_run_that_is_over_takes_receipts_and_nothing_else(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.OutboxEnqueued(message="m"), e.ChildStarted(child="c", detached=True)])
        await writer.append([e.NodeCompleted(node="a"), e.RunCompleted()], release=True)
        await desk.theirs.deliver(RUN, [e.OutboxSent(message="m")])
        await desk.theirs.deliver(RUN, [e.ChildEnded(child="c")])
        with pytest.raises(RunGone):
            await desk.theirs.deliver(RUN, [e.OutboxSent(message="m")])
        with pytest.raises(RunGone, match="over"):
            await desk.theirs.deliver(RUN, [e.SignalReceived(signal="s", name="go")])
        assert not (await desk.store.head(RUN)).ready
        assert await desk.store.holding(RUN) is None

    play(scene)


CHILDREN = [f"c{number}" for number in range(20)]


def test_the_ends_of_children_that_end_together_share_appends(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.ChildStarted(child=child) for child in CHILDREN])
        before = desk.theirs.measures.appends
        await asyncio.gather(*(desk.theirs.deliver_end(RUN, e.ChildEnded(child=child)) for child in CHILDREN))
        assert desk.theirs.measures.appends - before == 2
        arrived = [entry.event for entry in await writer.catch_up()]
        assert arrived == [e.ChildEnded(child=child) for child in CHILDREN]
        assert await desk.is_sound()

    play(scene)


def test_an_end_that_the_run_has_already_does_not_keep_others_from_being_delivered(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.ChildStarted(child=child) for child in CHILDREN])
        await desk.mine.deliver(RUN, [e.ChildEnded(child=CHILDREN[7])])
        ends = [desk.theirs.deliver_end(RUN, e.ChildEnded(child=child)) for child in CHILDREN]
        results = await asyncio.gather(*ends, return_exceptions=True)
        assert [type(each) for each in results if each is not None] == [RunGone]
        assert isinstance(results[7], RunGone)
        await writer.catch_up()
        assert {child.status for child in writer.state.children.values()} == {"completed"}
        assert await desk.is_sound()

    play(scene)


def test_the_ends_of_children_are_delivered_though_one_of_the_callers_is_cancelled(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.ChildStarted(child=child) for child in CHILDREN])
        ends = [asyncio.create_task(desk.theirs.deliver_end(RUN, e.ChildEnded(child=child))) for child in CHILDREN]
        for turns in range(3):
            await asyncio.sleep(0)
            ends[turns].cancel()
        results = await asyncio.gather(*ends, return_exceptions=True)
        assert all(each is None or isinstance(each, RunGone) for each in results[3:])
        await writer.catch_up()
        ended = [name for name, child in writer.state.children.items() if child.status]
        assert set(ended) >= set(CHILDREN[3:])
        assert await desk.is_sound()

    play(scene)


def test_an_owner_that_was_taken_over_is_fenced_off(play: Play) -> None:
    """P3, W2."""

    async def scene(desk: Desk) -> None:
        old = await desk.owner()
        new = await desk.rival()
        version = new.head.version
        for _ in range(2):
            with pytest.raises(Fenced):
                await old.append([e.NodeCompleted(node="a")])
        assert (await desk.store.head(RUN)).version == version
        assert new.state.nodes.get("a").attempt == 2
        await new.append([e.NodeStarted(node="a", attempt=2), e.NodeCompleted(node="a", attempt=2)])

    play(scene)


def test_an_owner_is_fenced_off_whose_run_was_ended_by_another_one_and_deleted() -> None:
    """P3: a frozen worker wakes when its run has a tombstone"""

    async def scene(desk: Desk) -> None:
        old = await desk.owner()
        new = await desk.rival()
        await new.append(decide.end(new.state, e.RunCancelled()), release=True)
        tombstone = Tombstone(RUN, "w", RunStatus.CANCELLED, 1, 2)
        assert await desk.theirs.store.delete(tombstone, new.head.version)
        with pytest.raises(Fenced, match="has ended and was deleted"):
            await old.append([e.NodeCompleted(node="a")])

    asyncio.run(scene(Desk(*(MemoryStore(memory) for memory in 2 * [Memory()]))))


def test_a_run_whose_owner_died_stays_claimable_when_a_takeover_is_refused(play: Play) -> None:
    """P6: a verb claimed it and was refused, because the state had changed"""

    async def scene(desk: Desk) -> None:
        def refuse(_: State) -> None:
            raise NotAllowed("no")

        await desk.owner()
        caller, worker = WorkerId("caller"), WorkerId("worker-2")
        desk.theirs.store.skew = 60_000_000
        for each in (caller, worker):
            await desk.theirs.store.enrol(each, 30)
        (claim,) = await desk.theirs.store.claim(caller, runs=[RUN])
        with pytest.raises(NotAllowed):
            await desk.theirs.take_over(claim, check=refuse)
        (again,) = await desk.theirs.store.claim(worker)
        assert (again.run, again.previous) == (RUN, WORKER)

    play(scene)


def test_a_takeover_takes_in_what_the_old_owner_still_wrote(play: Play) -> None:
    """Ownership begins when the takeover is in the log, not when the claim is granted."""

    async def scene(desk: Desk) -> None:
        old = await desk.owner()
        rival = WorkerId("worker-2")
        desk.theirs.store.skew = 60_000_000
        await desk.theirs.store.enrol(rival, 30)
        (claim,) = await desk.theirs.store.claim(rival, runs=[RUN])
        await old.append([e.NodeCompleted(node="a")])
        new = await desk.theirs.take_over(claim)
        assert new.state.nodes.get("a").attempt == 1
        with pytest.raises(Fenced):
            await old.append([e.RunCompleted()])

    play(scene)


def test_a_live_worker_keeps_its_run(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        await desk.owner()
        rival = WorkerId("worker-2")
        await desk.theirs.store.enrol(rival, 30)
        assert await desk.theirs.store.claim(rival, runs=[RUN]) == []
        assert (await desk.theirs.store.holding(RUN)).worker == WORKER

    play(scene)


def test_an_illegal_event_is_refused_before_it_is_written(play: Play) -> None:
    """W3."""

    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        head = writer.head
        with pytest.raises(Illegal, match="V4"):
            await writer.append([e.NodeCompleted(node="a"), e.NodeCompleted(node="a")])
        assert writer.head == head
        assert writer.state.outline.done_nodes == 0
        await writer.append([e.NodeCompleted(node="a")])

    play(scene)


def test_a_run_id_is_used_once(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        await desk.owner()
        with pytest.raises(AlreadyExists):
            await desk.theirs.create(RUN, BIRTH, WORKER)
        with pytest.raises(AlreadyExists):
            await desk.theirs.create_ready(RUN, e.RunCreated(workflow="other"))

    play(scene)


def test_a_run_created_by_a_guest_is_started_by_whichever_worker_comes_first(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        await desk.theirs.create_ready(RUN, e.RunCreated(workflow="w"))
        assert (await desk.store.summary(RUN)).status is RunStatus.CREATED
        await desk.store.enrol(WORKER, 30)
        assert await desk.store.claim(WORKER, workflows=["other"]) == []
        (claim,) = await desk.store.claim(WORKER, workflows=["w"])
        writer = await desk.mine.take_over(claim)
        await writer.append([e.RunStarted()])
        assert (await desk.store.search(RunFilter(statuses=(RunStatus.RUNNING,)))).items[0].summary.run == RUN

    play(scene)


def test_a_guest_may_not_tell_the_owners_story(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        await desk.owner()
        for event in (e.NodeCompleted(node="a"), e.RunCompleted(), e.RunStarted()):
            with pytest.raises(InvalidInput):
                await desk.theirs.deliver(RUN, [event])
        with pytest.raises(InvalidInput):
            await desk.theirs.deliver(RUN, [])
        with pytest.raises(NotFound):
            await desk.theirs.deliver(RunId("nobody"), [e.CancelRequested()])

    play(scene)


def test_letting_go_notices_what_arrived_meanwhile(play: Play) -> None:
    """P6: a run is not put to rest with an answer it has not seen."""

    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        await writer.append([e.NodeCompleted(node="a"), e.InteractionRequested(interaction="q")])
        await desk.theirs.deliver(RUN, [answer()])
        assert not await writer.release()
        assert writer.state.interactions.get("q").answer is not None
        await writer.append([e.InteractionRequested(interaction="r")])
        assert await writer.release()
        assert await desk.store.holding(RUN) is None

    play(scene)


def test_a_guest_in_the_same_process_wakes_the_owner_and_others_hear_of_it(play: Play) -> None:
    async def scene(desk: Desk) -> None:
        writer = await desk.owner()
        woken, heard = asyncio.Event(), asyncio.Event()
        writer.news = woken.set
        end = desk.theirs.listen(lambda runs: heard.set() if RUN in runs else None)
        await desk.mine.deliver(RUN, [e.SignalReceived(signal="s", name="go")])
        await asyncio.wait_for(woken.wait(), 5)
        await asyncio.wait_for(heard.wait(), 5)
        assert [entry.event.signal for entry in await writer.catch_up()] == ["s"]
        end()

    play(scene)
