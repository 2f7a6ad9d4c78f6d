"""Tests of the catalog: searches by summary fields, and complete lists (S7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.store import LANDED, Page, RunFilter, Store
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import BEGINNING, ENDLESS, A, begin, follow, land, summary

FOREIGN_CURSORS = ("²:x", "--1:x", ":", "-:", "9" * 40 + ":x", "\x00", "1", "x:1", "'; drop table head; --", "☃" * 500)


class SearchContract(Contract):
    """Tests of filters and pages."""

    # --- filters

    async def test_every_field_of_a_query_filters(self, doors: Doors) -> None:
        """S7"""
        store = await listed(
            doors,
            one={
                "status": RunStatus.RUNNING,
                "workflow": "bake",
                "tags": ("red", "round"),
                "title": "Plum cake",
                "created": 10,
            },
            two={
                "status": RunStatus.FAILED,
                "workflow": "bake",
                "tags": ("red",),
                "reason": "oven cold",
                "exclusive": "oven",
                "created": 20,
            },
            three={"status": RunStatus.WAITING, "workflow": "brew", "parent": "one", "tags": ("round",), "created": 30},
            four={"status": RunStatus.COMPLETED, "workflow": "brewery", "parent": "two", "created": 40},
        )
        assert await names(store) == ["four", "three", "two", "one"]
        assert await names(store, statuses=(RunStatus.FAILED,)) == ["two"]
        assert await names(store, statuses=(RunStatus.WAITING, RunStatus.RUNNING, RunStatus.PAUSED)) == ["three", "one"]
        assert await names(store, statuses=(RunStatus.PAUSED,)) == []
        assert await names(store, workflow="brew") == ["three"]
        assert await names(store, parent="one") == ["three"]
        assert await names(store, roots=True) == ["two", "one"]
        assert await names(store, tags=("red",)) == ["two", "one"]
        assert await names(store, tags=("round", "red")) == ["one"]
        assert await names(store, tags=("re",)) == []
        assert await names(store, created_from=20) == ["four", "three", "two"]
        assert await names(store, created_until=20) == ["one"]
        assert await names(store, created_from=20, created_until=40) == ["three", "two"]
        assert await names(store, created_from=0, created_until=0) == []

    async def test_the_fields_of_a_query_combine(self, doors: Doors) -> None:
        """S7"""
        fields: dict[str, tuple[Any, Any]] = {
            "status": (RunStatus.RUNNING, RunStatus.FAILED),
            "workflow": ("bake", "brew"),
            "parent": ("p", "q"),
            "tags": (("red",), ("blue",)),
            "title": ("plum", "pear"),
            "created": (100, 50),
        }
        right = {name: values[0] for name, values in fields.items()}
        wrong = {f"but-{name}": {**right, name: values[1]} for name, values in fields.items()}
        store = await listed(doors, right=right, **wrong)
        query: dict[str, Any] = {
            "statuses": (RunStatus.RUNNING,),
            "workflow": "bake",
            "parent": "p",
            "tags": ("red",),
            "text": "PLUM",
        }
        assert await names(store, **query, created_from=100, created_until=101) == ["right"]
        assert await names(store, **query, created_from=101) == []
        assert set(await names(store, **query)) == {"right", "but-created"}

    async def test_text_is_found_anywhere_and_in_any_case(self, doors: Doors) -> None:
        """S7"""
        store = await listed(
            doors,
            Alpha={"workflow": "Nightly-Import", "title": "Grüne STRASSE", "created": 3},
            beta={"workflow": "w", "tags": ("Tag_One",), "created": 2},
            gamma={"workflow": "w", "reason": "It FAILED at 50% of 'x'", "created": 1},
        )
        assert await names(store, text="alpha") == ["Alpha"]
        assert await names(store, text="NIGHTLY") == ["Alpha"]
        assert await names(store, text="GRÜNE straße") == ["Alpha"]
        assert await names(store, text="g_one") == ["beta"]
        assert await names(store, text="failed AT 50%") == ["gamma"]
        assert await names(store, text="of 'x'") == ["gamma"]
        assert await names(store, text="A") == ["Alpha", "beta", "gamma"]
        for nothing in ("l%a", "a__a", "*", "delta"):
            assert await names(store, text=nothing) == []

    async def test_a_run_is_found_by_its_last_summary(self, store: Store) -> None:
        """S1"""
        head = await land(
            store, begin(A, summary=summary(A, status=RunStatus.RUNNING, tags=("old", "both"), title="old"))
        )
        now = summary(A, 2, status=RunStatus.COMPLETED, tags=("new", "both"), title="new", reason="because")
        head = await land(store, follow(head, summary=now))
        for field, new, old in (
            ("statuses", (RunStatus.COMPLETED,), (RunStatus.RUNNING,)),
            ("tags", ("new", "both"), ("old",)),
            ("text", "because", "old"),
        ):
            assert await names(store, **{field: new}) == [A], field
            assert await names(store, **{field: old}) == [], field
        await land(store, follow(head, summary=summary(A, 3, status=RunStatus.COMPLETED)))
        assert await names(store, tags=("both",)) == [], "the last summary has no tags"

    # --- pages

    async def test_pages_contain_every_run_once_and_the_newest_first(self, doors: Doors) -> None:
        """S7"""
        store = await listed(doors, **{f"r{number:02}": {"created": number // 3} for number in range(23)})
        expected = {f"r{number:02}": number // 3 for number in range(23)}
        for limit in (1, 2, 5, 22, 23, 24):
            pages = await paged(store, RunFilter(limit=limit))
            assert [len(page.items) for page in pages[:-1]] == [limit] * (len(pages) - 1), "only the last page is short"
            found = [item.summary for page in pages for item in page.items]
            assert {each.run: each.created for each in found} == expected
            assert len(found) == len(expected), "a run is repeated"
            assert [each.created for each in found] == sorted(expected.values(), reverse=True)

    async def test_pages_contain_every_run_of_the_same_time_once(self, doors: Doors) -> None:
        """S7"""
        runs = [f"{letter}{sign}x" for letter in "aAbB" for sign in (":", "-", "_", ".")]
        store = await listed(doors, **{run: {"created": BEGINNING} for run in runs})
        for limit in (1, 3, 8):
            found = [item.summary.run for page in await paged(store, RunFilter(limit=limit)) for item in page.items]
            assert sorted(found) == sorted(runs)

    async def test_a_filtered_list_has_pages(self, doors: Doors) -> None:
        """S7"""
        store = await listed(
            doors,
            **{f"r{number:02}": {"created": number, "tags": ("odd",) if number % 2 else ()} for number in range(21)},
        )
        pages = await paged(store, RunFilter(tags=("odd",), limit=4))
        assert [len(page.items) for page in pages] == [4, 4, 2]
        found = [item.summary.run for page in pages for item in page.items]
        assert found == [f"r{number:02}" for number in range(19, 0, -2)]

    async def test_a_cursor_stays_valid_when_runs_are_added(self, doors: Doors) -> None:
        """S7"""
        store = await listed(doors, **{f"r{number}": {"created": number} for number in range(6)})
        first = await store.search(RunFilter(limit=3))
        await land(store, begin(RunId("newer"), summary=summary(RunId("newer"), created=99)))
        rest = await store.search(RunFilter(limit=3, after=first.next))
        assert [item.summary.run for item in (*first.items, *rest.items)] == ["r5", "r4", "r3", "r2", "r1", "r0"]
        assert rest.next == ""

    async def test_an_invalid_cursor_is_refused(self, doors: Doors) -> None:
        """S7"""
        store = await listed(doors, a={})
        with pytest.raises(InvalidInput):
            await store.search(RunFilter(after="this is no cursor"))
        for cursor in FOREIGN_CURSORS:
            await answers_or_refuses(store, RunFilter(after=cursor))

    async def test_a_limit_of_runs_below_1_is_refused(self, doors: Doors) -> None:
        """S7"""
        store = await listed(doors, a={}, b={})
        for limit in (0, -1, -100):
            with pytest.raises(InvalidInput):
                await store.search(RunFilter(limit=limit))

    async def test_very_large_numbers_are_accepted_or_refused(self, doors: Doors) -> None:
        """S7"""
        store = await listed(doors, a={})
        for number in (1 << 63, 1 << 100, -(1 << 70)):
            await answers_or_refuses(store, RunFilter(created_from=number))
            await answers_or_refuses(store, RunFilter(created_until=number))
            await answers_or_refuses(store, RunFilter(limit=number))
        assert await names(store) == ["a"]


async def listed(doors: Doors, **runs: dict[str, Any]) -> Store:
    """Open a store with these runs and summaries."""
    store = await doors.open()
    made = [begin(RunId(run), summary=summary(RunId(run), **parts)) for run, parts in runs.items()]
    assert await store.append(made) == [LANDED] * len(made)
    return store


async def names(store: Store, **query: Any) -> list[str]:
    """Return the matching runs, which must fit one page."""
    page = await store.search(RunFilter(**query))
    assert page.next == ""
    return [item.summary.run for item in page.items]


async def paged(store: Store, query: RunFilter) -> list[Page]:
    pages = [await store.search(query)]
    while pages[-1].next:
        assert len(pages) < ENDLESS, "the list has too many pages"
        pages.append(await store.search(msgspec.structs.replace(query, after=pages[-1].next)))
    return pages


async def answers_or_refuses(store: Store, query: RunFilter) -> None:
    """Search; the only possible error is a refusal."""
    try:
        await store.search(query)
    except InvalidInput:
        return
