"""Deleting runs over HTTP: who may, what is refused, what remains, and pruning as a bulk action."""

from __future__ import annotations

from typing import Any

Serve = Any


async def ended(server: Any, number: int = 1) -> str:
    run = await server.start("served_echo", value=number)
    await server.until(run, "completed")
    return str(run)


async def test_a_run_is_deleted_by_who_may_and_then_gone(serve: Serve) -> None:
    async with serve() as server:
        run = await ended(server)
        for role in ("viewer", "operator"):
            assert (await server("DELETE", f"/runs/{run}", role=role)).status_code == 403
        actions = (await server("GET", f"/runs/{run}")).json()["actions"]
        assert [each["command"] for each in actions if each["action"] == "delete"] == [f"outlast delete {run}"]
        answer = await server("DELETE", f"/runs/{run}?reason=asked%20to")
        assert answer.status_code == 200, answer.text
        assert (answer.json()["run"], answer.json()["reason"]) == (run, "asked to")
        for path in ("", "/events", "/head", "/explain", "/logs", "/verify", "/doctor", "/output"):
            gone = await server("GET", f"/runs/{run}{path}")
            assert (gone.status_code, gone.json()["code"]) == (410, "outlast.run_deleted"), path
            assert f"run {run} was deleted on" in gone.json()["detail"]
        for verb in ("resume", "cancel", "pause", "retry", "start"):
            assert (await server("POST", f"/runs/{run}/{verb}")).status_code == 410, verb
        assert (await server("DELETE", f"/runs/{run}")).status_code == 410
        again = await server("POST", "/runs", json={"workflow": "served_echo", "params": {"value": 1}, "id": run})
        assert (again.status_code, again.json()["code"]) == (409, "outlast.already_exists")
        assert f"run {run} was deleted on" in again.json()["detail"]
        assert (await server("GET", "/runs")).json()["runs"] == []
        entry = (await server("GET", "/audit?action=delete_run")).json()["entries"][-3]
        assert (entry["subject"], entry["status"], entry["note"]) == (run, 200, "served_echo, completed")


async def test_what_has_not_ended_is_refused_and_what_can_be_resumed_needs_force(serve: Serve) -> None:
    async with serve() as server:
        asks = await server.start("served_asks")
        await server.until(asks, "waiting")
        refused = await server("DELETE", f"/runs/{asks}?force=true")
        assert (refused.status_code, "cancel it first" in refused.json()["detail"]) == (409, True)
        failed = await server.start("served_fails", name="x")
        view = await server.until(failed, "failed")
        (offered,) = [each for each in view["actions"] if each["action"] == "delete"]
        assert (offered["command"], offered["effects"]) == (
            f"outlast delete {failed} --force",
            ["the run failed and can be resumed"],
        )
        assert (await server("DELETE", f"/runs/{failed}")).status_code == 409
        assert (await server("DELETE", f"/runs/{failed}?force=true")).status_code == 200


async def test_pruning_is_a_bulk_action(serve: Serve) -> None:
    async with serve() as server:
        runs = [await ended(server, number) for number in range(3)]
        asks = await server.start("served_asks")
        await server.until(asks, "waiting")
        body = {"older": 0, "workflow": "served_echo"}
        assert (await server("POST", "/prune", json=body, role="operator")).status_code == 403
        planned = await server("POST", "/prune", json=body | {"dry_run": True})
        assert (planned.status_code, planned.json()["runs"], planned.json()["bulk"]) == (200, 3, None)
        assert len((await server("GET", "/runs")).json()["runs"]) == 4
        made = await server("POST", "/prune", json=body | {"reason": "old"})
        assert made.status_code == 201, made.text
        bulk = made.json()["bulk"]
        await server.until(bulk, "completed")
        view = (await server("GET", f"/bulk/{bulk}")).json()
        assert (view["action"], view["done"], view["failed"]) == ("delete", 3, 0)
        for run in runs:
            gone = await server("GET", f"/runs/{run}")
            assert (gone.status_code, f"bulk {bulk}: old" in gone.json()["detail"]) == (410, True)
        assert (await server("POST", "/prune", json=body)).json()["runs"] == 0
        assert (await server("POST", "/prune", json={"older": 0, "status": ["waiting"]})).status_code == 422
        bulk_body = {"action": "delete", "runs": [{"run": asks}]}
        assert (await server("POST", "/bulk", json=bulk_body, role="operator")).status_code == 403
        wrong = await server("POST", "/bulk", json={"action": "cancel", "runs": [{"run": asks}], "force": True})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "body.force")
