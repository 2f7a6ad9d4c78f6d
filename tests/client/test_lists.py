"""Lists of runs by search attributes, held and id prefix, from Python and over HTTP, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import served

import outlast as ol
from outlast.history import events as e
from outlast.store import AttributeFilter
from support.http_server import Served, serving

assert served, "its workflows are known"

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUNS: dict[str, dict[str, Any]] = {
    "a-1": {"customer": "acme", "total": 12.5, "paid": True},
    "a-2": {"customer": "acme", "total": 3, "due": NOON},
    "b-1": {"customer": "bolt", "total": "12", "paid": False},
    "b-2": {"customer": "12"},
    "c-1": {},
}


@asynccontextmanager
async def shop() -> AsyncIterator[Served]:
    """Runs that were created with these attributes and wait to be started."""
    async with serving("memory:") as server:
        for run, attributes in RUNS.items():
            await server.engine.start(_workflow().options(id=run, attributes=attributes, start=False), "x")
        yield server


def _workflow() -> Any:
    return served.served_asks


CHOSEN: list[tuple[list[str], str, str]] = [
    (["customer=acme"], "", "a-2 a-1"),
    (["customer=acme", "total>=10"], "", "a-1"),
    (["total<10"], "", "a-2"),
    (['total="12"'], "", "b-1"),
    (["customer=12"], "", ""),
    (['customer="12"'], "", "b-2"),
    (["paid=true"], "", "a-1"),
    (["paid=false"], "", "b-1"),
    (["due<=2026-11-30T13:00:00+01:00"], "", "a-2"),
    (["due<2026-11-30T12:00Z"], "", ""),
    ([], "total", "a-2 a-1 b-1"),
    ([], "-total", "b-1 a-1 a-2"),
    (["customer=acme"], "-total", "a-1 a-2"),
    ([], "missing", ""),
]


@pytest.mark.parametrize(("conditions", "sort", "runs"), CHOSEN, ids=lambda each: " ".join(each) or "-")
async def test_runs_are_listed_by_their_attributes(conditions: list[str], sort: str, runs: str) -> None:
    async with shop() as server:
        page = await server.engine.list_runs(attributes=conditions, sort=sort or None)
        assert [run.run for run in page] == runs.split()
        each = [
            run.run async for run in server.engine.iter_runs(ol.RunFilter(limit=1), attributes=conditions, sort=sort)
        ]
        assert each == runs.split()
        query = {"attribute": conditions, "sort": sort, "limit": 2}
        found = (await server("GET", "/runs", params=query)).json()
        rest = (await server("GET", "/runs", params={**query, "cursor": found["next"] or ""})).json()
        listed = [*found["runs"], *(rest["runs"] if found["next"] else ())]
        assert [run["run"] for run in listed] == runs.split()
        count = (await server("GET", "/count", params={"attribute": conditions})).json()
        assert sort or count == {"count": len(runs.split()), "more": False}


async def test_values_may_be_given_as_python_has_them() -> None:
    async with shop() as server:
        for wanted, runs in (
            ({"customer": "acme", "total": 3.0}, ["a-2"]),
            ({"customer": "12"}, ["b-2"]),
            ({"due": NOON}, ["a-2"]),
            ([AttributeFilter("due", ">", datetime(2026, 1, 1, tzinfo=UTC)), "total=3"], ["a-2"]),  # type: ignore[arg-type]
            ("paid=true", ["a-1"]),
        ):
            assert [run.run for run in await server.engine.list_runs(attributes=wanted)] == runs  # type: ignore[arg-type]
        filtered = ol.RunFilter(attributes=(AttributeFilter("due", "=", e.Moment(1_796_040_000_000_000)),))
        assert [run.run for run in await server.engine.list_runs(filtered)] == ["a-2"]


REFUSED = [
    ("customer", "'customer' is not a condition: write the name of an attribute, one of = < <= > >=, and a value"),
    ("Customer=x", "'Customer=x' is not a condition"),
    ("due<2026-12-01", "'2026-12-01' is a time without a zone"),
    ("total>99999999999999999999", "does not fit into 64 bits"),
    ("note=" + "x" * 501, "note has 501 characters"),
]


@pytest.mark.parametrize(("condition", "message"), REFUSED)
async def test_what_is_no_condition_is_refused(condition: str, message: str) -> None:
    async with serving("memory:") as server:
        with pytest.raises(ol.InvalidInput, match=r"attributes: ") as refused:
            await server.engine.list_runs(attributes=[condition])
        assert message in str(refused.value)
        found = await server("GET", "/runs", params={"attribute": condition})
        assert found.status_code == 422
        assert message in found.json()["detail"]


async def test_a_number_with_more_digits_than_python_reads_is_refused() -> None:
    """P11"""
    async with serving("memory:") as server:
        for wanted in (["total>" + 5000 * "9"], {"total": 10**5000}):
            with pytest.raises(ol.InvalidInput, match=r"total does not fit into 64 bits"):
                await server.engine.list_runs(attributes=wanted)


async def test_what_is_no_name_is_refused_as_an_order() -> None:
    async with serving("memory:") as server:
        for sort in ("Total", "--total", "-"):
            with pytest.raises(ol.InvalidInput, match=r"filter.order: .* is not a name of an attribute"):
                await server.engine.list_runs(sort=sort)
            assert (await server("GET", "/runs", params={"sort": sort})).json()["field"] == "query.sort"


async def test_a_cursor_belongs_to_its_order_and_conditions() -> None:
    async with shop() as server:
        cursor = (await server("GET", "/runs", params={"sort": "total", "limit": 1})).json()["next"]
        for query in ({"sort": "-total"}, {}, {"sort": "total", "attribute": "paid=true"}):
            refused = await server("GET", "/runs", params={**query, "cursor": cursor})
            assert refused.json()["field"] == "query.cursor"


async def test_runs_are_found_by_the_beginning_of_their_id() -> None:
    async with shop() as server:
        assert await server.engine.find("c") == "c-1"
        with pytest.raises(
            ol.InvalidInput, match="more than one run begins with a, give more of the id:\n  a-2\n  a-1"
        ):
            await server.engine.find("a")
        with pytest.raises(ol.NotFound, match="there is no run 1"):
            await server.engine.find("1")
        assert [run["run"] for run in (await server("GET", "/runs?prefix=b-")).json()["runs"]] == ["b-2", "b-1"]
        assert (await server("GET", "/run-ids?prefix=a-")).json()["runs"] == ["a-2", "a-1"]


async def test_a_run_starts_over_http_with_attributes_of_each_type() -> None:
    given = {
        "customer": "acme",
        "total": 12.5,
        "items": 3,
        "paid": True,
        "due": {"time": "2026-11-30T13:00:00+01:00"},
        "code": "12",
    }
    async with serving("memory:") as server:
        body = {"workflow": "served_double", "params": {"value": 1}, "attributes": given}
        run = (await server("POST", "/runs", json=body)).json()["run"]
        view = (await server("GET", f"/runs/{run}")).json()
        assert view["attributes"] == {**given, "due": {"time": "2026-11-30T12:00:00.000000Z"}}
        created = (await server("GET", f"/runs/{run}/events")).json()["events"][0]
        assert created["fields"]["attributes"] == view["attributes"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Total": 1}, "attributes: 'Total' is not a name of an attribute"),
        ({"total": None}, "attributes.total must be a text, a number, true or false, or a datetime, not NoneType"),
        ({"total": [1]}, "attributes.total must be"),
        ({"total": 2**64}, "attributes.total does not fit into 64 bits"),
        ({"due": {"time": "tomorrow"}}, "attributes.due: 'tomorrow' is not a time"),
        ({"due": {"time": "2026-11-30T12:00:00"}}, "attributes.due: 2026-11-30T12:00:00 has no time zone"),
        ({"due": {"time": 1}}, "attributes.due: 1 is not a time"),
        ({f"a{n}": n for n in range(33)}, "attributes: a run can have 32 attributes, and these are 33"),
    ],
)
async def test_a_start_with_other_attributes_is_refused(given: Any, message: str) -> None:
    async with serving("memory:") as server:
        body = {"workflow": "served_double", "params": {"value": 1}, "attributes": given}
        refused = await server("POST", "/runs", json=body)
        assert refused.status_code == 422
        assert message in refused.json()["detail"]
