"""Recorded runs, replayed with the code of the day: from stores and from exports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast import testing
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.ledger.reading import records
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.processes import engine_over
from outlast.testing.recorded_runs import remembered, write

HISTORIES = Path(__file__).parents[1] / "histories"


@ol.node
async def wide(number: int) -> str:
    return "ä" * 600_000 * number


@ol.node
async def small(number: int) -> int:
    return number


def version(fn: Callable[..., Any]) -> Any:
    registry._workflows.pop("archived", None)
    return ol.workflow(name="archived")(fn)


async def old(number: int) -> int:
    length = len(await wide(number))
    return await small(length)


async def new(number: int) -> int:
    return await small(len(await wide(number)) + 1)


async def record(store: Any) -> None:
    async with engine_over(store) as engine:
        for run in ("one", "two"):
            await (await engine.start(version(old).options(id=run), 1)).result()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    async def made() -> None:
        store = MemoryStore()
        await record(store)
        await write(store.memory, tmp_path / "runs.jsonl")

    asyncio.run(made())
    return tmp_path / "runs.jsonl"


def test_an_export_holds_all_of_a_run_and_its_large_values(file: Path) -> None:
    memory = remembered(file.read_bytes().splitlines())
    assert set(memory.heads) == {"one", "two"}
    assert [len(blob) for blob in memory.blobs.values()] == [1_200_002]
    assert len(file.read_text().splitlines()) == sum(map(len, memory.logs.values())) + 2


def test_runs_that_replay_are_told_and_those_that_do_not_are_named(file: Path) -> None:
    version(old)
    found = testing.replay_check(file)
    assert [(each.run, each.agrees) for each in found] == [("one", True), ("two", True)]
    version(new)
    with pytest.raises(testing.DoesNotReplay, match=r"run one in .*runs\.jsonl: workflow archived no longer") as caught:
        testing.replay_check(str(file.parent / "*.jsonl"))
    assert str(caught.value).count("node 'small' with other inputs") == 2
    with pytest.raises(testing.DoesNotReplay) as caught:
        testing.replay_check(file, runs=["two"])
    assert "run one" not in str(caught.value)


def test_a_store_can_be_checked_as_it_is_or_by_its_path(tmp_path: Path) -> None:
    async def made() -> list[bytes]:
        store = SqliteStore(tmp_path / "runs.db")
        await record(store)
        bodies = [each.body async for each in records(store, RunId("one"))]
        await store.close()
        return bodies

    before = asyncio.run(made())
    workflow = version(old)
    assert len(testing.replay_check(tmp_path / "runs.db", workflow)) == 2
    with pytest.raises(ol.InvalidInput, match="no run to check"):
        testing.replay_check(tmp_path / "runs.db", unfinished=True)

    async def after() -> list[bytes]:
        store = SqliteStore(tmp_path / "runs.db")
        bodies = [each.body async for each in records(store, RunId("one"))]
        await store.close()
        return bodies

    assert asyncio.run(after()) == before


def test_a_large_value_that_is_missing_is_named(file: Path) -> None:
    version(old)
    lines = [line for line in file.read_text().splitlines() if not line.startswith('{"blob"')]
    file.write_text("\n".join(lines))
    with pytest.raises(testing.DoesNotReplay, match=r"blob .* of a value of .* bytes is missing"):
        testing.replay_check(file)


def test_our_golden_logs_are_in_the_same_format() -> None:
    for path in HISTORIES.glob("*.jsonl"):
        assert remembered(path.read_text().splitlines()).heads


def test_a_check_of_nothing_is_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ol.InvalidInput, match="no file matches"):
        testing.replay_check(tmp_path / "none" / "*.jsonl")
    with pytest.raises(ol.InvalidInput, match="there is no run three"):
        testing.replay_check(file, runs=["three"])
    (tmp_path / "odd.jsonl").write_text('{"run": 3}\n')
    with pytest.raises(ol.InvalidInput, match=r"odd\.jsonl, line 1: not a line of an exported run"):
        testing.replay_check(tmp_path / "odd.jsonl")


def test_a_workflow_that_is_not_known_is_named(file: Path) -> None:
    registry._workflows.pop("archived", None)
    with pytest.raises(testing.DoesNotReplay, match=r"run one .*archived"):
        testing.replay_check(file)
