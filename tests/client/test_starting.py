"""Starting a run: the options of a start, and which one is the same as one before (D6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast as ol


@ol.node
async def echo(value: int) -> int:
    return value


@ol.workflow
async def counted(first: int, second: int = 2, *, more: dict[str, Any] | None = None) -> int:
    return first + second + len(more or {})


@ol.workflow(exclusive="place:{place}")
async def alone(place: str) -> str:
    return place


@ol.workflow(exclusive="place:{place}")
async def stays_open(place: str) -> bool:
    return await ol.approve(f"Leave {place}?")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ol.BlockingEngine]:
    with ol.open(tmp_path / "runs.db") as engine:
        yield engine


# --- options


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
def test_options_build_on_those_before(engine: ol.BlockingEngine, name: str) -> None:
    chosen = counted.options(**{name: "mine"}, tags=("nightly",), exclusive="it").options(title="A title")  # type: ignore[arg-type]
    assert chosen._start_options == {name: "mine", "tags": ("nightly",), "exclusive": "it", "title": "A title"}
    assert engine.start(chosen, 1).run == engine.start(chosen, 1).run


def test_an_option_that_is_given_again_replaces_the_one_before() -> None:
    assert counted.options(id="a", tags=("x",)).options(id="b", tags=("y",))._start_options == {
        "id": "b",
        "tags": ("y",),
    }


def test_options_leave_those_they_build_on_as_they_are() -> None:
    before = counted.options(id="a")
    before.options(id="b", title="B")
    assert before._start_options == {"id": "a"}


def test_an_id_and_a_key_are_refused_one_after_the_other_too() -> None:
    with pytest.raises(ol.InvalidInput, match="not both"):
        counted.options(id="a").options(idempotency_key="b")


def test_options_of_a_node_build_on_those_before() -> None:
    @ol.workflow
    async def keyed() -> int:
        return await echo.options(id="mine").options(timeout=60)(1)

    with ol.open("memory:") as engine:
        handle = engine.start(keyed)
        assert handle.result() == 1
        names = {getattr(entry.event, "node", "") for entry in engine.events(handle.run)}
    assert names == {"", "echo[mine]"}


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ol.InvalidInput, match="cannot be a run id"):
        counted.options(id="")


def test_a_text_alone_is_no_list_of_tags() -> None:
    with pytest.raises(ol.InvalidInput, match=r"tags=\('nightly',\)"):
        counted.options(tags="nightly")  # type: ignore[arg-type]


# --- the same start again


def test_the_order_of_keys_makes_no_other_start(engine: ol.BlockingEngine) -> None:
    once = counted.options(idempotency_key="k")
    one = engine.start(once, 1, more={"a": 1, "b": {"c": 2, "d": 3}})
    assert engine.start(once, 1, more={"b": {"d": 3, "c": 2}, "a": 1}).run == one.run


def test_the_order_of_keys_makes_no_other_start_of_large_parameters(engine: ol.BlockingEngine) -> None:
    once, large = counted.options(idempotency_key="k"), "x" * 2_000_000
    one = engine.start(once, 1, more={"a": large, "b": 1})
    assert engine.start(once, 1, more={"b": 1, "a": large}).run == one.run


@pytest.mark.parametrize("given", [{"second": 2}, {"more": None}, {"second": 2, "more": None}])
def test_what_equals_its_default_makes_no_other_start(engine: ol.BlockingEngine, given: dict[str, Any]) -> None:
    once = counted.options(idempotency_key="k")
    assert engine.start(once, 1, **given).run == engine.start(once, 1).run


@pytest.mark.parametrize("given", [{"second": 3}, {"more": {}}, {"more": {"a": True}}])
def test_what_differs_from_what_was_given_before_makes_another_start(
    engine: ol.BlockingEngine, given: dict[str, Any]
) -> None:
    once = counted.options(idempotency_key="k")
    engine.start(once, 1, **({"more": {"a": 1}} if "a" in (given.get("more") or {}) else {}))
    with pytest.raises(ol.AlreadyExists, match="with different parameters"):
        engine.start(once, 1, **given)


def test_the_same_start_of_an_exclusive_run_is_answered_while_another_run_has_what_it_had(
    engine: ol.BlockingEngine,
) -> None:
    once = alone.options(id="first")
    assert engine.start(once, "north").result() == "north"
    engine.start(stays_open, "north")
    assert engine.start(once, "north").result() == "north"


def test_a_workflow_starts_itself_on_the_engine_that_is_open_here(tmp_path: Path) -> None:
    async def story() -> None:
        async with ol.open("memory:") as outer, ol.open(tmp_path / "runs.db") as engine:
            handle = await counted.options(id="inner").start(2)
            assert await handle.result() == 4
            assert (await engine.get(handle.run)).workflow == "counted"
            with pytest.raises(ol.NotFound):
                await outer.get(handle.run)
        with pytest.raises(ol.InvalidInput, match=r"test_starting.py:\d+: counted.start\(\) needs an engine"):
            counted.start(2)

    asyncio.run(story())


def test_a_workflow_does_not_start_itself_on_a_blocking_engine() -> None:
    with ol.open("memory:"), pytest.raises(ol.InvalidInput, match=r"or call engine.start\(counted, ...\)"):
        counted.start(2)


@ol.workflow
async def starting() -> None:
    await counted.start(2)


def test_workflow_code_does_not_start_runs(engine: ol.BlockingEngine) -> None:
    with pytest.raises(ol.NotDurable, match=r"test_starting.py:\d+: a workflow cannot start counted"):
        engine.start(starting).result()


def test_a_tag_that_reads_like_a_key_keeps_nobody_out_and_a_key_is_no_tag(engine: ol.BlockingEngine) -> None:
    engine.start(counted.options(tags=("exclusive:place:south", "place:south")), 1)
    run = engine.start(stays_open, "south").run
    assert engine.get(run).tags == ()
    with pytest.raises(ol.NotAllowed, match=f"exclusive key 'place:south' is held by live run {run}"):
        engine.start(alone, "south")
