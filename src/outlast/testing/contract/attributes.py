"""Tests of the catalog: search attributes, prefixes, queues and the held flag (S7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pytest
from msgspec.structs import replace

from outlast.errors import InvalidInput
from outlast.history.events import AttributeValue, Moment
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import AttributeFilter, RunFilter, Store
from outlast.testing.contract.doors import Contract, Doors
from outlast.testing.contract.samples import A, B, begin, follow, land, summary
from outlast.testing.contract.search import FOREIGN_CURSORS, answers_or_refuses, listed, names, paged

Operator: TypeAlias = Literal["=", "<", "<=", ">", ">="]

VALUES: Mapping[str, AttributeValue] = {
    "no": False,
    "yes": True,
    "minus": -7,
    "zero": 0,
    "half": 0.5,
    "ten": 10,
    "tenth": 10.5,
    "big": 1 << 40,
    "text": "abc",
    "number": "10",
    "capital": "ABC",
    "snow": "☃ %_'\n",
    "empty": "",
    "noon": Moment(10),
    "night": Moment(1 << 50),
}
"""Attribute values by the run that has each of them."""
ORDER = [
    *("no", "yes"),
    *("minus", "zero", "half", "ten", "tenth", "big"),
    *("empty", "number", "capital", "text", "snow"),
    *("noon", "night"),
]


class AttributesContract(Contract):
    """Tests of filters on attributes and lists in their order."""

    # --- filters

    async def test_attributes_are_compared_within_their_type(self, doors: Doors) -> None:
        """S7"""
        store = await with_values(doors)
        cases: list[tuple[Operator, AttributeValue, list[str]]] = [
            ("=", 10, ["ten"]),
            ("=", 10.0, ["ten"]),
            ("=", "10", ["number"]),
            ("=", Moment(10), ["noon"]),
            ("=", True, ["yes"]),
            ("=", False, ["no"]),
            ("=", 1, []),
            ("=", 0, ["zero"]),
            ("=", "", ["empty"]),
            ("=", "☃ %_'\n", ["snow"]),
            ("=", "a", []),
            ("<", 10, ["half", "minus", "zero"]),
            ("<=", 10, ["half", "minus", "ten", "zero"]),
            (">", 10, ["big", "tenth"]),
            (">=", 10.5, ["big", "tenth"]),
            (">", -1e300, ["big", "half", "minus", "ten", "tenth", "zero"]),
            ("<", "abc", ["capital", "empty", "number"]),
            (">=", "abc", ["snow", "text"]),
            (">", Moment(10), ["night"]),
            ("<=", Moment(10), ["noon"]),
            ("<", True, ["no"]),
            (">=", False, ["no", "yes"]),
        ]
        for operator, value, expected in cases:
            found = await names(store, attributes=(AttributeFilter("n", operator, value),))
            assert sorted(found) == expected, (operator, value)
        assert await names(store, attributes=(AttributeFilter("m", ">=", -1e300),)) == []

    async def test_all_filters_must_match(self, doors: Doors) -> None:
        """S7"""
        store = await listed(
            doors,
            one={"attributes": {"a": 1, "b": "x"}, "created": 3},
            two={"attributes": {"a": 2, "b": "x"}, "created": 2, "workflow": "v"},
            three={"attributes": {"a": 3, "b": "y"}, "created": 1},
            four={"created": 0},
        )
        x, low, high = (
            AttributeFilter("b", "=", "x"),
            AttributeFilter("a", ">=", 2),
            AttributeFilter("a", "<", 3),
        )
        assert await names(store, attributes=(x,)) == ["one", "two"]
        assert await names(store, attributes=(low, high)) == ["two"]
        assert await names(store, attributes=(x, low, high), workflow="v") == ["two"]
        assert await names(store, attributes=(x, low, high), workflow="w") == []
        pages = await paged(store, RunFilter(attributes=(x,), limit=1))
        assert [page.items[0].summary.run for page in pages] == ["one", "two"]

    async def test_a_run_is_found_by_the_attributes_of_its_last_summary(self, store: Store) -> None:
        """S1, S7: after an append, a correction and a rewrite"""
        head = await land(store, begin(A, summary=summary(A, attributes={"a": 1, "b": True})))
        await land(store, follow(head, summary=summary(A, 2, attributes={"a": 2}, queue="q")))
        assert await with_attribute(store, "a", 2) == await names(store, queue="q") == [A]
        assert await with_attribute(store, "a", 1) == await with_attribute(store, "b", True) == []
        assert await store.correct(summary(A, 2, attributes={"a": "3"}), 2)
        assert await with_attribute(store, "a", "3") == [A]
        assert await with_attribute(store, "a", 2) == await names(store, queue="q") == []
        assert await store.rewrite(summary(A, 2, attributes={"c": 4}), [], closed=False)
        assert await with_attribute(store, "c", 4) == [A]
        assert await with_attribute(store, "a", "3") == []

    async def test_every_new_field_of_a_summary_is_stored(self, store: Store) -> None:
        """S1"""
        full = summary(A, queue="q\n☃", priority=-7, fairness_key="k'", attributes=dict(VALUES), held=True)
        await land(store, begin(A, summary=full))
        assert await store.summary(A) == full
        assert list(await store.search(RunFilter())) == [full]

    async def test_runs_are_found_by_the_beginning_of_their_id(self, doors: Doors) -> None:
        """S7"""
        runs = ["abc", "abcd", "ab%", "ab_c", "aXc", "ABC", "b-abc", "ab:c", "a"]
        store = await listed(doors, **{run: {"created": at} for at, run in enumerate(runs)})
        for prefix in ("a", "ab", "abc", "abcd", "abcde", "ab%", "ab_", "A", "ab:", "b", "x", "*"):
            assert sorted(await names(store, prefix=prefix)) == sorted(run for run in runs if run.startswith(prefix))
        pages = await paged(store, RunFilter(prefix="ab", limit=2))
        found = [item.summary.run for page in pages for item in page.items]
        assert found == ["ab:c", "ab_c", "ab%", "abcd", "abc"], "the newest first"

    async def test_runs_are_found_by_queue_and_by_the_held_flag(self, doors: Doors) -> None:
        """S7"""
        store = await listed(
            doors,
            one={"queue": "mail", "status": RunStatus.FAILED, "held": True, "created": 3},
            two={"queue": "mail", "status": RunStatus.FAILED, "created": 2},
            three={"queue": "mails", "created": 1},
            four={},
        )
        assert await names(store, queue="mail") == ["one", "two"]
        assert await names(store, held=True) == ["one"]
        assert sorted(await names(store, held=False)) == ["four", "three", "two"]
        assert await names(store, held=False, statuses=(RunStatus.FAILED,)) == ["two"]
        assert await names(store, held=True, queue="mails") == []

    # --- order

    async def test_runs_are_listed_in_the_order_of_an_attribute(self, doors: Doors) -> None:
        """S7: false before true, numbers, text, times; runs without it are not listed"""
        store = await with_values(doors)
        for limit in (1, 2, 7, len(ORDER), 100):
            assert await in_order(store, "n", limit=limit) == ORDER
            assert await in_order(store, "-n", limit=limit) == ORDER[::-1]
        assert await in_order(store, "m") == []

    async def test_runs_with_the_same_value_are_listed_once(self, doors: Doors) -> None:
        """S7: by id"""
        runs = [f"{letter}{sign}x" for letter in "aAb" for sign in (":", "-", "_", ".")]
        values: Sequence[AttributeValue] = (1, 1.0, "a:b\n", Moment(5), True)
        store = await listed(doors, **{run: {"attributes": {"n": values[at % 5]}} for at, run in enumerate(runs)})
        whole = await in_order(store, "n")
        assert sorted(whole) == sorted(runs)
        same = [run for run in whole if values[runs.index(run) % 5] == 1 and values[runs.index(run) % 5] is not True]
        assert same == sorted(same)
        for limit in (1, 2, 5):
            assert await in_order(store, "n", limit=limit) == whole
            assert sorted(await in_order(store, "-n", limit=limit)) == sorted(runs)

    async def test_an_ordered_list_is_filtered(self, doors: Doors) -> None:
        """S7"""
        store = await listed(
            doors,
            **{
                f"r{at:02}": {
                    "attributes": {"n": (at * 7) % 20, "odd": bool(at % 2)},
                    "workflow": "v" if at < 15 else "w",
                }
                for at in range(20)
            },
        )
        wanted = {"workflow": "v", "attributes": (AttributeFilter("odd", "=", True), AttributeFilter("n", ">", 3))}
        expected = sorted(
            (f"r{at:02}" for at in range(15) if at % 2 and (at * 7) % 20 > 3), key=lambda run: (int(run[1:]) * 7) % 20
        )
        assert len(expected) > 4
        for limit in (2, 100):
            assert await in_order(store, "n", limit=limit, **wanted) == expected
            assert await in_order(store, "-n", limit=limit, **wanted) == expected[::-1]

    async def test_a_cursor_of_an_ordered_list_stays_valid(self, doors: Doors) -> None:
        """S7: when runs are added and changed"""
        store = await listed(doors, **{f"r{at}": {"attributes": {"n": at}} for at in range(6)})
        first = await store.search(RunFilter(order="n", limit=3))
        await land(store, begin(B, summary=summary(B, attributes={"n": 2.5})))
        stored = await store.summary(RunId("r2"))
        assert stored is not None
        assert await store.correct(replace(stored, attributes={}), 1)
        rest = await store.search(RunFilter(order="n", limit=9, after=first.next))
        assert [each.run for each in rest] == [B, "r3", "r4", "r5"]

    async def test_an_invalid_cursor_of_an_ordered_list_is_refused(self, doors: Doors) -> None:
        """S7"""
        store = await with_values(doors)
        usual = (await store.search(RunFilter(limit=1))).next
        ordered = (await store.search(RunFilter(limit=1, order="n"))).next
        for query in (
            RunFilter(order="n", after="this is no cursor"),
            RunFilter(order="n", after=usual),
            RunFilter(after=ordered),
        ):
            with pytest.raises(InvalidInput):
                await store.search(query)
        for cursor in (*FOREIGN_CURSORS, "[]", '[1, "a", "r"]', '[9, 1, "r"]', "[2, 1, 1]", f'[1, {1 << 70}, "r"]'):
            await answers_or_refuses(store, RunFilter(order="n", after=cursor))


async def with_values(doors: Doors) -> Store:
    """Open a store with one run for each of the values, and one without attributes."""
    runs = {run: {"attributes": {"n": value, "other": 1}} for run, value in VALUES.items()}
    return await listed(doors, none={}, **runs)


async def with_attribute(store: Store, name: str, value: AttributeValue) -> list[str]:
    return await names(store, attributes=(AttributeFilter(name, "=", value),))


async def in_order(store: Store, order: str, *, limit: int = 100, **query: Any) -> list[str]:
    """Return the matching runs in an order, from all pages."""
    pages = await paged(store, RunFilter(order=order, limit=limit, **query))
    found: list[RunSummary] = [item.summary for page in pages for item in page.items]
    return [each.run for each in found]
