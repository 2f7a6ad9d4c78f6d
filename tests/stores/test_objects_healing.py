"""A process dies at any request it makes to its bucket, before it has its effect or after: nothing is lost from sight.

Each scene is one thing a process does to a run. It is played once for every request it makes, and dies there. Then others
look: the log is whole and the head fits it, the run is listed once, and, unless it is over, somebody can claim it or it
waits for what is listed (S1, S3, S8, O1, O4)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from obstore.store import MemoryStore

from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Head, RunFilter, Store
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.keys import by_class, due_at
from outlast.stores.objects.opening import bucket_over
from outlast.stores.objects.shared import GRACE
from outlast.testing.contract.samples import (
    ANN,
    BEN,
    CAT,
    A,
    all_waits,
    answer,
    begin,
    begin_ready,
    follow,
    land,
    summary,
)

QUESTION, TIMER = Wait("interaction", "q", text="ok?"), Wait("timer", "t", due=5)
REQUESTS = ("create", "update", "put", "get", "delete", "written", "folders")


class Died(Exception):
    """The process is gone."""


class Dying:
    """A bucket whose process dies at the request of that number, before or after its effect."""

    def __init__(self, bucket: Bucket, number: int, *, after: bool) -> None:
        self._bucket, self._left, self._after = bucket, number, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bucket, name)
        if name not in REQUESTS:
            return found

        async def request(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0 or (self._left == 0 and not self._after):
                raise Died(name)
            answer = await found(*arguments)
            if self._left == 0:
                raise Died(name)
            return answer

        return request


# --- scenes


async def nothing(_: Store) -> Head | None:
    return None


async def held(store: Store) -> Head:
    await store.enrol(ANN, 30)
    return await land(store, begin(A, summary=summary(A), claim=ANN))


async def asking(store: Store) -> Head:
    head = await held(store)
    now = summary(A, 2, status=RunStatus.WAITING)
    return await land(store, follow(head, opens=[QUESTION, TIMER], summary=now))


async def asking_alone(store: Store) -> Head:
    head = await asking(store)
    assert await store.release(A, ANN, head.version)
    return head


async def interrupted(store: Store) -> Head:
    head = await held(store)
    store.skew += 60_000_000
    await store.enrol(BEN, 30)
    return head


Scene = tuple[Callable[[Store], Awaitable[Any]], Callable[[Store, Any], Awaitable[Any]]]


async def create(store: Store, _: None) -> None:
    await store.enrol(ANN, 30)
    await land(store, begin(A, summary=summary(A), claim=ANN, opens=[TIMER]))


async def take_over(store: Store, head: Head) -> None:
    (claim,) = await store.claim(BEN)
    await land(store, follow(head, kind=Kind.TAKEOVER, epoch=claim.epoch, summary=summary(A, 2)))


DONE = summary(A, 3, status=RunStatus.COMPLETED)
SCENES: dict[str, Scene] = {
    "create": (nothing, create),
    "create ready": (nothing, lambda store, _: land(store, begin_ready(A))),
    "go on": (held, lambda store, head: land(store, follow(head))),
    "ask": (held, lambda store, head: land(store, follow(head, opens=[QUESTION, TIMER], summary=summary(A, 2)))),
    "answer an owner": (asking, lambda store, head: land(store, answer(head, QUESTION.name))),
    "answer nobody": (asking_alone, lambda store, head: land(store, answer(head, QUESTION.name))),
    "fire": (asking, lambda store, head: land(store, follow(head, closes=[TIMER.name], summary=summary(A, 3)))),
    "end": (asking, lambda store, head: land(store, follow(head, closed=True, release=True, summary=DONE))),
    "hand on": (held, lambda store, head: land(store, follow(head, release=True, ready=True))),
    "give back": (asking, lambda store, head: store.release(A, ANN, head.version)),
    "give back ready": (held, lambda store, head: store.release(A, ANN, head.version, ready=True)),
    "retire": (held, lambda store, _: store.retire(ANN)),
    "claim": (interrupted, lambda store, _: store.claim(BEN)),
    "take over": (interrupted, take_over),
    "correct": (held, lambda store, _: store.correct(summary(A, 1, status=RunStatus.FAILED, created=7), 1)),
}


async def play(scene: Scene, number: int, *, after: bool) -> bool:
    """Whether the process died."""
    before, act = scene
    objects = MemoryStore()
    store = ObjectStore(bucket_over(objects, "memory"))
    head = await before(store)
    dying = ObjectStore(Dying(bucket_over(objects, "memory"), number, after=after))  # type: ignore[arg-type]
    dying.skew = store.skew
    if head is not None:
        await dying_knows(dying, head.run, number)
    is_dead = False
    try:
        await act(dying, head)
    except Died:
        is_dead = True
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    fresh = ObjectStore(bucket_over(objects, "memory"))
    fresh.skew = store.skew
    await judge(fresh)
    return is_dead


async def dying_knows(store: ObjectStore, run: RunId, number: int) -> None:
    """A process has read what it goes on with; those requests are not of the scene."""
    bucket = store._bucket
    assert isinstance(bucket, Dying)
    bucket._left = 1_000_000
    await store.head(run)
    bucket._left = number


# --- the judge


async def judge(store: ObjectStore) -> None:
    head = await store.head(A)
    if head is None:
        assert await store.read(A) == []
        return
    log = await store.read(A)
    assert [record.first for record in log] == [1, *(record.last + 1 for record in log[:-1])]
    assert (head.version, head.digest) == (log[-1].last, log[-1].digest)
    told = await store.summary(A)
    assert [item.summary.run for item in (await store.search(RunFilter())).items] == ([A] if told else [])
    if head.closed:
        await must_be_shown(store)
    else:
        await must_be_found(store)


async def must_be_shown(store: ObjectStore) -> None:
    """After everybody who was alive is dead: whoever looks for work leaves lists that show that it is over."""
    store.skew += 120_000_000
    await store.enrol(CAT, 30)
    assert await store.claim(CAT, limit=9) == []
    assert [item.summary for item in (await store.search(RunFilter())).items] == [DONE]


async def must_be_found(store: ObjectStore) -> None:
    """After everybody who was alive is dead: whoever looks finds it, or what it waits for is listed."""
    store.skew += 120_000_000
    async with store._locked(A) as known:
        run_index = await store._look(A, known)
    assert run_index is not None
    listed = {due.wait.name for due in await all_waits(store)}
    is_named = bool(run_index.waits) and run_index.waits.keys() <= listed
    await store.enrol(CAT, 30)
    claims = await store.claim(CAT, limit=9)
    if run_index.head.ready or run_index.held is not None or TIMER.name in run_index.waits:
        assert [claim.run for claim in claims] == [A]
    else:
        assert is_named, "neither ready nor held nor waiting"
        assert await store.due() == []
        claims = await store.claim(CAT, runs=[A])
    head = await store.head(A)
    assert head is not None
    (landed,) = await store.append([follow(head, kind=Kind.TAKEOVER, epoch=claims[0].epoch)])
    assert landed is LANDED


@pytest.mark.parametrize("name", SCENES)
def test_nothing_is_lost_from_sight_at_whichever_request_a_process_dies(name: str) -> None:
    """S1, S8, O1, O4"""
    points = 0
    for after in (False, True):
        for number in itertools.count(1):
            if not asyncio.run(play(SCENES[name], number, after=after)):
                break
            points += 1
    print(f"\n{name}: {points} points")
    assert points >= 2


def test_marks_that_were_left_behind_are_removed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """O4: a process put them and died before they came true"""

    async def left() -> None:
        bucket = bucket_over(MemoryStore(), "memory")
        store = ObjectStore(bucket)
        head = await held(store)
        paused = summary(A, 2, status=RunStatus.PAUSED)
        head = await land(store, follow(head, opens=[QUESTION, TIMER], summary=paused, release=True))
        for place in (by_class("ready", summary(A)), due_at(1)):
            await store._mark(A, [place])
        await store.enrol(BEN, 30)
        assert await store.claim(BEN) == [], "a mark alone makes no run ready"
        assert [due.wait for due in await store.due()] == [TIMER]
        assert len([each async for each in bucket.listing("ready")]) == 1, "it may yet come true"
        monkeypatch.setattr("outlast.stores.objects.shared.GRACE", -GRACE)
        assert await store.claim(BEN) == []
        await store.due()
        assert [each async for each in bucket.listing("ready")] == []
        assert len([each async for each in bucket.listing("timers")]) == 1
        assert await store.head(A) == head

    asyncio.run(left())
