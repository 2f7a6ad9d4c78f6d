"""Tests of lines: the newest of each attempt are stored in order, and their places show how many were dropped (S9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.store import LANDED, LINES_PER_ATTEMPT, Line, Store
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import BEGINNING, A, B, C, begin, in_pages, land, summary, trace

TEXTS = ("", " ", "two\nlines\r\n", "nul \x00 inside", "ünïcödé ☃ 🐍", "'; drop table line; --", "x" * 8_000)


class LinesContract(Contract):
    """Tests of `outlast.store.Lines`."""

    # --- writing

    async def test_lines_are_stored_completely_and_in_order(self, doors: Doors) -> None:
        """S9"""
        store = await with_runs(doors, A)
        lines = [Line(A, f"node {text}", 7, BEGINNING + 5, "INFO", "a.b", text) for text in TEXTS]
        await store.keep(lines)
        assert await store.lines(A) == [
            replace(line, number=number, place=1) for number, line in enumerate(lines, start=1)
        ]

    async def test_lines_are_counted_by_run_and_by_attempt(self, doors: Doors) -> None:
        """S9: in one or several calls, ignoring the numbers passed in"""
        store = await with_runs(doors, A, B)
        await store.keep(
            [line_of(A, "m"), line_of(B, "m"), line_of(A, "n"), replace(line_of(A, "m"), number=9, place=9)]
        )
        await store.keep([line_of(A, "m", 2), line_of(A, "m"), line_of(B, "n")])
        assert await counted(store, A) == [
            ("m", 1, 1, 1),
            ("n", 1, 2, 1),
            ("m", 1, 3, 2),
            ("m", 2, 4, 1),
            ("m", 1, 5, 3),
        ]
        assert await counted(store, B) == [("m", 1, 1, 1), ("n", 1, 2, 1)]

    async def test_lines_are_visible_to_other_connections_and_after_reopening(self, doors: Doors) -> None:
        """S9: the numbers continue"""
        store, other = await with_runs(doors, A), await doors.open()
        await store.keep([line_of(A, text="one")])
        assert texts(await other.lines(A)) == ["one"]
        await other.keep([line_of(A, text="two")])
        store = await doors.reopen(store)
        await store.keep([line_of(A, text="three")])
        found = await other.lines(A)
        assert [(line.text, line.number, line.place) for line in found] == [
            ("one", 1, 1),
            ("two", 2, 2),
            ("three", 3, 3),
        ]

    async def test_concurrent_connections_use_no_line_number_twice(self, doors: Doors) -> None:
        """S9"""
        store, other = await with_runs(doors, A), await doors.open()
        await asyncio.gather(*(each.keep([line_of(A)] * 3) for _ in range(5) for each in (store, other)))
        numbers = list(range(1, 31))
        assert [(line.number, line.place) for line in await store.lines(A)] == list(zip(numbers, numbers, strict=True))

    async def test_an_empty_list_of_lines_stores_nothing(self, doors: Doors) -> None:
        """S9"""
        store = await with_runs(doors, A)
        await store.keep([])
        assert await store.lines(A) == []

    async def test_lines_of_an_absent_run_are_ignored(self, doors: Doors) -> None:
        """S9"""
        store = await with_runs(doors, A)
        await store.keep([line_of(C), line_of(A), line_of(C)])
        assert await counted(store, A) == [("n", 1, 1, 1)]
        assert await store.lines(C) == []
        await land(store, begin(C))
        assert await store.lines(C) == []

    async def test_lines_do_not_change_the_run(self, doors: Doors) -> None:
        """S9: lines are not facts"""
        store = await with_runs(doors, A)
        before = await trace(store, A)
        await store.keep([line_of(A)] * 10)
        assert await trace(store, A) == before

    # --- the limit

    async def test_the_newest_lines_of_an_attempt_are_stored_and_show_the_gap(self, doors: Doors) -> None:
        """S9: in several calls, and in one call with more lines than the limit"""
        store = await with_runs(doors, A, B)
        await store.keep([line_of(A, "quiet", text="first")])
        total = LINES_PER_ATTEMPT + 250
        written = [line_of(run, "loud", text=str(number)) for number in range(1, total + 1) for run in (A, B)]
        for start in range(0, len(written), 500):
            await store.keep(written[start : start + 500])
        await store.keep([line_of(A, "sudden", text=str(number)) for number in range(1, total + 1)])
        assert await places(store, A, "loud") == list(range(251, total + 1))
        assert await places(store, B, "loud") == list(range(251, total + 1))
        assert await places(store, A, "sudden") == list(range(251, total + 1))
        assert texts(await store.lines(A, node="quiet")) == ["first"]
        numbers = [line.number for line in await everything(store, A)]
        assert (numbers[:2], numbers[-1], len(numbers)) == ([1, 252], 1 + 2 * total, 1 + 2 * LINES_PER_ATTEMPT)

    async def test_each_attempt_has_its_own_limit(self, doors: Doors) -> None:
        """S9: lines of one attempt displace none of another"""
        store = await with_runs(doors, A)
        for attempt in (1, 2, 3):
            await store.keep([line_of(A, "n", attempt)] * LINES_PER_ATTEMPT)
        await store.keep([line_of(A, "n", 2)])
        counts = [len(await everything(store, A, attempt=attempt)) for attempt in (1, 2, 3)]
        assert counts == [LINES_PER_ATTEMPT] * 3
        first = [(await store.lines(A, attempt=attempt, limit=1))[0].place for attempt in (1, 2, 3)]
        assert first == [1, 2, 1]

    # --- reading

    async def test_lines_are_found_by_node_and_attempt(self, doors: Doors) -> None:
        """S9"""
        store = await with_runs(doors, A)
        await store.keep([line_of(A, node, attempt) for attempt in (1, 2, 1) for node in ("m", "n", "nn")])
        assert [number for *_, number, _ in await counted(store, A, node="n")] == [2, 5, 8]
        assert [number for *_, number, _ in await counted(store, A, node="n", attempt=1)] == [2, 8]
        assert [number for *_, number, _ in await counted(store, A, attempt=2)] == [4, 5, 6]
        assert [number for *_, number, _ in await counted(store, A, node="n", after=2)] == [5, 8]
        assert await store.lines(A, node="n", attempt=3) == []
        assert await store.lines(A, node="o") == []
        assert await store.lines(B) == []

    async def test_pages_contain_every_line_once(self, doors: Doors) -> None:
        """S7, S9"""
        store = await with_runs(doors, A)
        await store.keep([line_of(A, f"n{number % 3}", text=str(number)) for number in range(23)])
        for limit in (1, 2, 5, 22, 23, 24):
            assert texts(await everything(store, A, limit=limit)) == [str(number) for number in range(23)]
            assert texts(await everything(store, A, node="n1", limit=limit)) == [str(n) for n in range(1, 23, 3)]

    async def test_a_limit_of_lines_below_1_is_refused(self, doors: Doors) -> None:
        """S7, S9"""
        store = await with_runs(doors, A)
        for limit in (0, -1, -100):
            with pytest.raises(InvalidInput):
                await store.lines(A, limit=limit)

    async def test_very_large_line_numbers_are_accepted(self, doors: Doors) -> None:
        """S7, S9"""
        store = await with_runs(doors, A)
        await store.keep([line_of(A, text="here")])
        for number in (1 << 63, 1 << 100):
            assert texts(await store.lines(A, limit=number)) == ["here"]
            assert texts(await store.lines(A, after=-number)) == ["here"]
            assert await store.lines(A, after=number) == []
            assert await store.lines(A, attempt=number) == []


async def with_runs(doors: Doors, *runs: RunId) -> Store:
    """Open a store with these runs."""
    store = await doors.open()
    assert await store.append([begin(run, summary=summary(run)) for run in runs]) == [LANDED] * len(runs)
    return store


def line_of(run: RunId, node: str = "n", attempt: int = 1, *, text: str = "hello") -> Line:
    return Line(run, node, attempt, BEGINNING, "INFO", "logger", text)


async def everything(store: Store, run: RunId, *, limit: int = 100, **filters: Any) -> list[Line]:
    """Read all lines in pages; only the last may be short."""
    return await in_pages(
        lambda last: store.lines(run, after=last.number if last else 0, limit=limit, **filters), limit
    )


async def counted(store: Store, run: RunId, **filters: Any) -> list[tuple[str, int, int, int]]:
    return [(line.node, line.attempt, line.number, line.place) for line in await store.lines(run, **filters)]


async def places(store: Store, run: RunId, node: str) -> list[int]:
    """Return the places of a node's lines; the text of each is its expected place."""
    found = await everything(store, run, node=node)
    assert texts(found) == [str(line.place) for line in found]
    return [line.place for line in found]


def texts(lines: Iterable[Line]) -> list[str]:
    return [line.text for line in lines]
