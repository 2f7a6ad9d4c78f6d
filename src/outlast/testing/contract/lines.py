"""Lines: what attempts said is kept in order beside the log, the newest of each, and what was dropped shows (S9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.store import LANDED, LINES_PER_ATTEMPT, Line, Store
from outlast.testing.contract.doors import Contract, Doors, with_doors
from outlast.testing.contract.samples import BEGINNING, ENDLESS, A, B, C, begin, land, summary, trace

TEXTS = ("", " ", "two\nlines\r\n", "nul \x00 inside", "ünïcödé ☃ 🐍", "'; drop table line; --", "x" * 8_000)


class LinesContract(Contract):
    """What `outlast.store.Lines` promises."""

    # --- keeping

    @with_doors
    async def test_lines_come_back_whole_and_in_order(self, doors: Doors) -> None:
        """S9"""
        store = await holding(doors, A)
        told = [Line(A, f"node {text}", 7, BEGINNING + 5, "INFO", "a.b", text) for text in TEXTS]
        await store.keep(told)
        assert await store.lines(A) == [
            replace(line, number=number, place=1) for number, line in enumerate(told, start=1)
        ]

    @with_doors
    async def test_lines_are_counted_by_run_and_by_attempt(self, doors: Doors) -> None:
        """S9: in one call or in several, whatever number they came with"""
        store = await holding(doors, A, B)
        await store.keep([said(A, "m"), said(B, "m"), said(A, "n"), replace(said(A, "m"), number=9, place=9)])
        await store.keep([said(A, "m", 2), said(A, "m"), said(B, "n")])
        assert await counted(store, A) == [
            ("m", 1, 1, 1),
            ("n", 1, 2, 1),
            ("m", 1, 3, 2),
            ("m", 2, 4, 1),
            ("m", 1, 5, 3),
        ]
        assert await counted(store, B) == [("m", 1, 1, 1), ("n", 1, 2, 1)]

    @with_doors
    async def test_lines_are_there_for_other_doors_and_after_reopening(self, doors: Doors) -> None:
        """S9: and the count goes on"""
        store, other = await holding(doors, A), await doors.open()
        await store.keep([said(A, text="one")])
        assert texts(await other.lines(A)) == ["one"]
        await other.keep([said(A, text="two")])
        store = await doors.reopen(store)
        await store.keep([said(A, text="three")])
        found = await other.lines(A)
        assert [(line.text, line.number, line.place) for line in found] == [
            ("one", 1, 1),
            ("two", 2, 2),
            ("three", 3, 3),
        ]

    @with_doors
    async def test_doors_that_keep_lines_at_once_do_not_use_a_number_twice(self, doors: Doors) -> None:
        """S9"""
        store, other = await holding(doors, A), await doors.open()
        await asyncio.gather(*(door.keep([said(A)] * 3) for _ in range(5) for door in (store, other)))
        numbers = list(range(1, 31))
        assert [(line.number, line.place) for line in await store.lines(A)] == list(zip(numbers, numbers, strict=True))

    @with_doors
    async def test_no_lines_are_nothing(self, doors: Doors) -> None:
        """S9"""
        store = await holding(doors, A)
        await store.keep([])
        assert await store.lines(A) == []

    @with_doors
    async def test_lines_of_a_run_that_is_not_there_are_left_out(self, doors: Doors) -> None:
        """S9"""
        store = await holding(doors, A)
        await store.keep([said(C), said(A), said(C)])
        assert await counted(store, A) == [("n", 1, 1, 1)]
        assert await store.lines(C) == []
        await land(store, begin(C))
        assert await store.lines(C) == []

    @with_doors
    async def test_lines_change_nothing_that_is_known_of_a_run(self, doors: Doors) -> None:
        """S9: they are no facts"""
        store = await holding(doors, A)
        before = await trace(store, A)
        await store.keep([said(A)] * 10)
        assert await trace(store, A) == before

    # --- the bound

    @with_doors
    async def test_the_newest_lines_of_an_attempt_are_kept_and_the_gap_shows(self, doors: Doors) -> None:
        """S9: a few at a time, or more at once than are kept at all"""
        store = await holding(doors, A, B)
        await store.keep([said(A, "quiet", text="first")])
        total = LINES_PER_ATTEMPT + 250
        spoken = [said(run, "loud", text=str(number)) for number in range(1, total + 1) for run in (A, B)]
        for start in range(0, len(spoken), 500):
            await store.keep(spoken[start : start + 500])
        await store.keep([said(A, "sudden", text=str(number)) for number in range(1, total + 1)])
        assert await places(store, A, "loud") == list(range(251, total + 1))
        assert await places(store, B, "loud") == list(range(251, total + 1))
        assert await places(store, A, "sudden") == list(range(251, total + 1))
        assert texts(await store.lines(A, node="quiet")) == ["first"]
        numbers = [line.number for line in await everything(store, A)]
        assert (numbers[:2], numbers[-1], len(numbers)) == ([1, 252], 1 + 2 * total, 1 + 2 * LINES_PER_ATTEMPT)

    @with_doors
    async def test_the_bound_is_that_of_an_attempt(self, doors: Doors) -> None:
        """S9: what one says pushes nothing of another out"""
        store = await holding(doors, A)
        for attempt in (1, 2, 3):
            await store.keep([said(A, "n", attempt)] * LINES_PER_ATTEMPT)
        await store.keep([said(A, "n", 2)])
        counts = [len(await everything(store, A, attempt=attempt)) for attempt in (1, 2, 3)]
        assert counts == [LINES_PER_ATTEMPT] * 3
        first = [(await store.lines(A, attempt=attempt, limit=1))[0].place for attempt in (1, 2, 3)]
        assert first == [1, 2, 1]

    # --- reading

    @with_doors
    async def test_lines_are_found_by_node_and_attempt(self, doors: Doors) -> None:
        """S9"""
        store = await holding(doors, A)
        await store.keep([said(A, node, attempt) for attempt in (1, 2, 1) for node in ("m", "n", "nn")])
        assert [number for *_, number, _ in await counted(store, A, node="n")] == [2, 5, 8]
        assert [number for *_, number, _ in await counted(store, A, node="n", attempt=1)] == [2, 8]
        assert [number for *_, number, _ in await counted(store, A, attempt=2)] == [4, 5, 6]
        assert [number for *_, number, _ in await counted(store, A, node="n", after=2)] == [5, 8]
        assert await store.lines(A, node="n", attempt=3) == []
        assert await store.lines(A, node="o") == []
        assert await store.lines(B) == []

    @with_doors
    async def test_pages_hold_every_line_once(self, doors: Doors) -> None:
        """S7, S9"""
        store = await holding(doors, A)
        await store.keep([said(A, f"n{number % 3}", text=str(number)) for number in range(23)])
        for limit in (1, 2, 5, 22, 23, 24):
            assert texts(await everything(store, A, limit=limit)) == [str(number) for number in range(23)]
            assert texts(await everything(store, A, node="n1", limit=limit)) == [str(n) for n in range(1, 23, 3)]

    @with_doors
    async def test_a_page_holds_at_least_one_line(self, doors: Doors) -> None:
        """S7, S9"""
        store = await holding(doors, A)
        for limit in (0, -1, -100):
            with pytest.raises(InvalidInput):
                await store.lines(A, limit=limit)

    @with_doors
    async def test_numbers_of_lines_beyond_any_store_are_answered(self, doors: Doors) -> None:
        """S7, S9"""
        store = await holding(doors, A)
        await store.keep([said(A, text="here")])
        for number in (1 << 63, 1 << 100):
            assert texts(await store.lines(A, limit=number)) == ["here"]
            assert texts(await store.lines(A, after=-number)) == ["here"]
            assert await store.lines(A, after=number) == []
            assert await store.lines(A, attempt=number) == []


async def holding(doors: Doors, *runs: RunId) -> Store:
    """A store that holds these runs."""
    store = await doors.open()
    assert await store.append([begin(run, summary=summary(run)) for run in runs]) == [LANDED] * len(runs)
    return store


def said(run: RunId, node: str = "n", attempt: int = 1, *, text: str = "hello") -> Line:
    return Line(run, node, attempt, BEGINNING, "INFO", "logger", text)


async def everything(store: Store, run: RunId, *, limit: int = 100, **asked: Any) -> list[Line]:
    """Every page of lines; only the last may be short."""
    found = page = await store.lines(run, limit=limit, **asked)
    while len(page) >= limit:
        page = await store.lines(run, after=page[-1].number, limit=limit, **asked)
        found = [*found, *page]
        assert len(found) < ENDLESS, "the lines never end"
    return found


async def counted(store: Store, run: RunId, **asked: Any) -> list[tuple[str, int, int, int]]:
    return [(line.node, line.attempt, line.number, line.place) for line in await store.lines(run, **asked)]


async def places(store: Store, run: RunId, node: str) -> list[int]:
    """The places of a node's lines, each of which says the place it should have."""
    found = await everything(store, run, node=node)
    assert texts(found) == [str(line.place) for line in found]
    return [line.place for line in found]


def texts(lines: Iterable[Line]) -> list[str]:
    return [line.text for line in lines]
