"""Lists, details, events, outputs and blobs."""

from __future__ import annotations

import asyncio
from typing import Any

Serve = Any


async def test_a_list_has_each_run_once_also_while_others_start(serve: Serve) -> None:
    async with serve() as server:
        items = [{"workflow": "served_double", "params": {"value": n}, "id": f"run-{n:02}"} for n in range(25)]
        await server("POST", "/runs/batch", json={"items": items})
        seen: list[str] = []
        cursor = ""
        while True:
            page = (await server("GET", f"/runs?limit=7&cursor={cursor}")).json()
            seen += [each["run"] for each in page["runs"]]
            await server.start("served_double", value=1)
            if page["next"] is None:
                break
            cursor = page["next"]
        assert sorted(seen) == sorted(item["id"] for item in items)


async def test_filters_choose_runs_and_a_cursor_belongs_to_its_filter(serve: Serve) -> None:
    async with serve() as server:
        for n in range(3):
            body = {"workflow": "served_asks", "tags": ["odd"] if n % 2 else [], "title": f"Number {n}"}
            await server("POST", "/runs", json=body)
        run = await server.start("served_double", value=1, wait=10)
        await server.until((await server("GET", "/runs?workflow=served_asks")).json()["runs"][0]["run"], "waiting")

        async def runs(query: str) -> list[str]:
            return [each["run"] for each in (await server("GET", f"/runs?{query}")).json()["runs"]]

        assert await runs("status=completed") == [run]
        assert len(await runs("status=completed&status=waiting&status=running&status=created")) == 4
        assert len(await runs("workflow=served_asks")) == 3
        assert len(await runs("tag=odd")) == 1
        assert len(await runs("text=number%202")) == 1
        cursor = (await server("GET", "/runs?workflow=served_asks&limit=1")).json()["next"]
        assert len(await runs(f"workflow=served_asks&limit=5&cursor={cursor}")) == 2
        for query in (f"cursor={cursor}", f"workflow=served_double&cursor={cursor}", "cursor=nonsense", "cursor=%ff"):
            refused = await server("GET", f"/runs?{query}")
            assert (refused.status_code, refused.json()["field"]) == (422, "query.cursor"), query


async def test_held_runs_those_that_ask_and_children_can_be_chosen_and_counted(serve: Serve) -> None:
    async with serve() as server:
        asking = await server.start("served_asks")
        await server.until(asking, "waiting")
        done = await server.start("served_double", value=1, wait=10)
        parent = await server.start("served_parent", wait=10)

        async def runs(query: str) -> set[str]:
            found = [each["run"] for each in (await server("GET", f"/runs?{query}")).json()["runs"]]
            count = (await server("GET", f"/count?{query}")).json()
            assert count == {"count": len(found), "more": False}
            return set(found)

        everything = await runs("")
        assert everything > {asking, done, parent}
        assert await runs("children=false") == {asking, done, parent}
        assert await runs("asks=true") == {asking}
        assert await runs("asks=false") == everything - {asking}
        assert await runs("held=true") == set()
        assert await runs("held=false") == everything
        first = (await server("GET", "/runs?asks=false&limit=1")).json()
        rest = (await server("GET", f"/runs?asks=false&limit=10&cursor={first['next']}")).json()
        assert {each["run"] for each in first["runs"] + rest["runs"]} == everything - {asking}
        assert len(first["runs"]) == 1


async def test_status_and_result_agree_while_a_run_ends(serve: Serve) -> None:
    """A run that ends between two reads of the store must not be shown as completed without its result."""
    async with serve() as server:
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        read_log = server.engine.events

        async def events(*arguments: Any, **options: Any) -> Any:
            async for entry in read_log(*arguments, **options):
                yield entry
            if not (answered := (await read(run)).status == "completed"):
                await server.engine.answer(run, True)
                while not answered:
                    answered = (await read(run)).status == "completed"
                    await asyncio.sleep(0.005)

        read, server.engine.events = server.engine.get, events
        view = (await server("GET", f"/runs/{run}")).json()
        assert (view["status"], view["result"], len(view["questions"])) == ("waiting", None, 1)
        view = (await server("GET", f"/runs/{run}")).json()
        assert (view["status"], view["result"], len(view["questions"])) == ("completed", "yes", 0)


async def test_what_is_known_of_a_run(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_double", value=21, wait=10)
        view = (await server("GET", f"/runs/{run}")).json()
        assert (view["status"], view["result"], view["params"]) == ("completed", 42, {"value": 21})
        assert [(each["node"], each["status"], each["output"]) for each in view["nodes"]] == [
            ("double", "completed", 42)
        ]
        nodes = (await server("GET", f"/runs/{run}/nodes")).json()
        assert [each["node"] for each in nodes["nodes"]] == ["double"]
        events = (await server("GET", f"/runs/{run}/events")).json()
        assert [each["seq"] for each in events["events"]] == list(range(1, view["at"] + 1))
        assert events["next"] is None
        some = (await server("GET", f"/runs/{run}/events?limit=2")).json()
        assert some["next"] == 2
        rest = (await server("GET", f"/runs/{run}/events?after=2")).json()
        assert some["events"] + rest["events"] == events["events"]
        of_node = (await server("GET", f"/runs/{run}/events?node=double")).json()["events"]
        assert {each["type"] for each in of_node} >= {"NodeStarted", "NodeCompleted"}
        assert all(each["fields"]["node"] == "double" for each in of_node)
        assert (await server("GET", f"/runs/{run}/lineage")).json()["intervals"] == [{"first": 1, "last": view["at"]}]
        assert [each["branch"] for each in (await server("GET", f"/runs/{run}/branches")).json()["branches"]] == [0]
        told = (await server("GET", f"/runs/{run}/explain")).json()
        assert "completed" in told["headline"]
        timeline = (await server("GET", f"/runs/{run}/timeline")).json()
        assert len(timeline["timeline"]["entries"]) >= len(told["timeline"]["entries"])
        assert (await server("GET", f"/runs/{run}/verify")).json()["sound"] is True
        assert (await server("GET", f"/runs/{run}/lineage?branch=7")).status_code == 404
        assert (await server("GET", f"/runs/{run}/logs")).json() == {"lines": [], "next": None}


async def test_workflows_and_their_versions(serve: Serve) -> None:
    async with serve() as server:
        found = {each["workflow"]: each for each in (await server("GET", "/workflows")).json()["workflows"]}
        assert found["served_double"]["parameters"] == [
            {"name": "value", "required": True, "schema": {"type": "integer"}}
        ]
        assert found["served_double"]["doc"] == "Twice a number."
        assert (await server("GET", "/workflows/served_double")).json() == found["served_double"]
        await server.start("served_double", value=1, wait=10)
        versions = (await server("GET", "/workflows/served_double/versions")).json()["versions"]
        assert [(each["runs"], each["version"]) for each in versions] == [(1, found["served_double"]["version"])]


async def test_outputs_and_blobs_come_in_ranges_as_attachments(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_large", size=1_500_000, wait=20)
        whole = await server("GET", f"/runs/{run}/output")
        assert whole.status_code == 200
        expected = '"' + "".join(chr(97 + place % 26) for place in range(1_500_000)) + '"'
        assert whole.text == expected
        assert whole.headers["content-disposition"] == f'attachment; filename="{run}.json"'
        assert "sandbox" in whole.headers["content-security-policy"]
        for header, part, shown in (
            ("bytes=0-9", expected[:10], "bytes 0-9/1500002"),
            ("bytes=1000000-", expected[1_000_000:], "bytes 1000000-1500001/1500002"),
            ("bytes=-5", expected[-5:], "bytes 1499997-1500001/1500002"),
        ):
            some = await server("GET", f"/runs/{run}/output?node=large", headers={"Range": header})
            assert (some.status_code, some.text, some.headers["content-range"]) == (206, part, shown)
        past = await server("GET", f"/runs/{run}/output", headers={"Range": "bytes=1500002-"})
        assert (past.status_code, past.headers["content-range"]) == (416, "bytes */1500002")
        for ignored in ("bytes=5-2", "lines=1-2", "bytes=-", "bytes=0-1,3-4"):
            assert (await server("GET", f"/runs/{run}/output", headers={"Range": ignored})).status_code == 200
        events = (await server("GET", f"/runs/{run}/events?node=large")).json()["events"]
        hash = next(each["fields"]["output"]["hash"] for each in events if each["type"] == "NodeCompleted")
        blob = await server("GET", f"/runs/{run}/blobs/{hash}", headers={"Range": "bytes=1-3"})
        assert (blob.status_code, blob.content, blob.headers["content-type"]) == (
            206,
            b"abc",
            "application/octet-stream",
        )
        other = await server.start("served_double", value=1, wait=10)
        assert (await server("GET", f"/runs/{other}/blobs/{hash}")).status_code == 404, "it is of another run"
        assert (await server("GET", f"/runs/{other}/blobs/..%2f..%2fruns.db")).status_code == 404


async def test_the_inbox_lists_every_open_question(serve: Serve) -> None:
    async with serve() as server:
        runs = [await server.start("served_asks", text=f"Publish {n}?") for n in range(5)]
        for run in runs:
            await server.until(run, "waiting")
        seen: list[str] = []
        cursor = ""
        while True:
            page = (await server("GET", f"/inbox?limit=2&cursor={cursor}")).json()
            seen += [each["run"] for each in page["questions"]]
            assert all(each["schema"] == {"type": "boolean"} for each in page["questions"])
            if page["next"] is None:
                break
            cursor = page["next"]
        assert sorted(seen) == sorted(runs)


async def test_the_workers_of_the_store_are_listed(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        found = (await server("GET", "/workers")).json()["workers"]
        assert [each["live"] for each in found] == [True]
        await asyncio.sleep(0)
