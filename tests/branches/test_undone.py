"""Going on with runs whose code undid something after the failure: nobody goes on without what was undone unawares."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import outlast as ol
from outlast.errors import NotAllowed
from outlast.history import events as e

booked: Counter[str] = Counter()
has_rooms: set[str] = set()


@pytest.fixture(autouse=True)
def _anew() -> None:
    booked.clear()
    has_rooms.clear()


@ol.node
async def pay(name: str) -> str:
    return name


@ol.node
async def book(name: str) -> str:
    if name == "hotel" and not has_rooms:
        raise LookupError("no rooms")
    booked[name] += 1
    return name


@ol.node
async def cancel(name: str) -> None:
    booked[name] -= 1


def trip() -> Any:
    @ol.workflow
    async def trip_of_two() -> list[str]:
        await pay("all")
        flight = await book("flight")
        try:
            return [flight, await book("hotel")]
        except LookupError:
            await cancel("flight")
            raise

    return trip_of_two


async def failed(stage: Any) -> tuple[Any, Any]:
    engine = await stage.engine()
    handle = await engine.start(trip())
    with pytest.raises(LookupError, match="no rooms"):
        await handle.result()
    has_rooms.add("hotel")
    return engine, handle


@pytest.mark.parametrize("verb", ["resume", "retry", "retry by name", "dry run of retry"])
async def test_a_run_that_undid_something_after_its_failure_does_not_simply_go_on(stage: Any, verb: str) -> None:
    engine, handle = await failed(stage)
    before = await stage.events(engine, handle.run)
    actions = {
        "resume": lambda: engine.resume(handle.run),
        "retry": lambda: engine.retry(handle.run),
        "retry by name": lambda: engine.retry(handle.run, "book#2", feedback="!"),
        "dry run of retry": lambda: engine.diagnostics.preview_retry(handle.run),
    }
    with pytest.raises(NotAllowed, match="cancel ran after it failed and its effect stays") as refusal:
        await actions[verb]()
    assert "book" in str(refusal.value)
    assert "--force" in str(refusal.value)
    assert await stage.events(engine, handle.run) == before
    assert booked["flight"] == 0


@pytest.mark.parametrize("verb", ["resume", "retry"])
async def test_by_force_it_goes_on_all_the_same(stage: Any, verb: str) -> None:
    engine, handle = await failed(stage)
    if verb == "retry":
        assert await engine.diagnostics.preview_retry(handle.run, force=True)
    again = await getattr(engine, verb)(handle.run, force=True)
    assert await again.result() == ["flight", "hotel"]
    assert booked == {"flight": 0, "hotel": 1}


async def test_explain_offers_the_jump_to_before_what_was_undone(stage: Any) -> None:
    engine, handle = await failed(stage)
    offered = {each.verb: each for each in (await engine.explain(handle.run)).actions}
    assert "resume" not in offered
    assert offered["jump"].arguments == ("--to", "book")
    assert "cancel" in offered["jump"].effect
    await engine.jump(handle.run, offered["jump"].arguments[1])
    assert await handle.result() == ["flight", "hotel"]
    assert booked == {"flight": 1, "hotel": 1}


async def test_what_was_under_way_beside_the_failure_is_no_reason_to_refuse(stage: Any) -> None:
    """It was asked for before the failure, so its result is used, whenever it came."""

    @ol.workflow
    async def beside() -> list[Any]:
        got = await ol.gather(book("hotel"), pay("all"), return_exceptions=True)
        if isinstance(got[0], BaseException):
            await ol.sleep(0.001)
            raise got[0]
        return list(got)

    engine = await stage.engine()
    handle = await engine.start(beside)
    with pytest.raises(LookupError):
        await handle.result()
    has_rooms.add("hotel")
    assert await (await engine.resume(handle.run)).result() == ["hotel", "all"]


async def test_a_child_that_completed_since_is_named_too(stage: Any) -> None:
    @ol.workflow
    async def undo_flight() -> None:
        await cancel("flight")

    @ol.workflow
    async def trip_with_child() -> list[str]:
        flight = await book("flight")
        try:
            return [flight, await book("hotel")]
        except LookupError:
            await undo_flight()
            raise

    engine = await stage.engine()
    handle = await engine.start(trip_with_child)
    with pytest.raises(LookupError):
        await handle.result()
    with pytest.raises(NotAllowed, match="undo_flight ran after it failed and its effect stays"):
        await engine.resume(handle.run)
    assert not any(isinstance(event, e.BranchOpened) for event in await stage.events(engine, handle.run))


async def test_a_child_that_undid_something_keeps_its_parent_from_going_on_unawares(stage: Any) -> None:
    child = trip()

    @ol.workflow
    async def tour() -> list[str]:
        return await child()

    engine = await stage.engine()
    handle = await engine.start(tour)
    with pytest.raises(LookupError):
        await handle.result()
    has_rooms.add("hotel")
    before = await stage.events(engine, handle.run)
    with pytest.raises(NotAllowed, match="cancel ran after it failed and its effect stays"):
        await engine.resume(handle.run)
    assert await stage.events(engine, handle.run) == before
    assert await (await engine.resume(handle.run, force=True)).result() == ["flight", "hotel"]
