"""The verbs over HTTP, their refusals, and who is recorded for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import served
from msgspec import UNSET
from msgspec.structs import fields

import outlast as ol
from outlast.functions import registry
from outlast.http import requests as r
from outlast.views.actions import planned

Serve = Any


async def test_answers_are_checked_and_recorded(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_asks")
        view = await server.until(run, "waiting")
        assert view["questions"][0]["text"] == "Publish?"
        refused = await server("POST", f"/runs/{run}/answer", json={"value": "perhaps"})
        assert (refused.status_code, refused.json()["code"]) == (422, "outlast.invalid_input")
        accepted = await server("POST", f"/runs/{run}/answer", json={"value": True}, role="operator")
        assert accepted.json() == {"run": run, "interaction": "approve", "answer": True}
        await server.until(run, "completed")
        again = await server("POST", f"/runs/{run}/answer", json={"value": True, "interaction": "approve"})
        assert (again.status_code, again.json()["code"]) == (409, "outlast.already_answered")
        events = (await server("GET", f"/runs/{run}/events")).json()["events"]
        answered = next(each for each in events if each["type"] == "InteractionAnswered")
        assert answered["fields"]["by"].startswith("operator (token ")


@pytest.mark.parametrize(("verb", "result"), [("approve", "yes"), ("reject", "no")])
async def test_approvals_are_answered_by_a_verb(serve: Serve, verb: str, result: str) -> None:
    async with serve() as server:
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        assert (await server("POST", f"/runs/{run}/{verb}")).status_code == 200
        assert (await server.until(run, "completed"))["result"] == result


async def test_pause_resume_and_cancel(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_sleeps")
        await server.until(run, "waiting")
        assert (await server("POST", f"/runs/{run}/pause", json={"reason": "lunch"})).status_code == 200
        view = await server.until(run, "paused")
        assert view["reason"] == "lunch"
        again = await server("POST", f"/runs/{run}/pause")
        assert (again.status_code, "already paused" in again.json()["detail"]) == (409, True)
        assert (await server("POST", f"/runs/{run}/resume")).status_code == 200
        await server.until(run, "waiting")
        assert (await server("POST", f"/runs/{run}/cancel", json={"reason": "no more"})).status_code == 200
        await server.until(run, "cancelled")
        over = await server("POST", f"/runs/{run}/cancel")
        assert (over.status_code, over.json()["code"]) == (409, "outlast.run_gone")
        resumed = await server("POST", f"/runs/{run}/resume")
        assert (resumed.status_code, "is cancelled" in resumed.json()["detail"]) == (409, True)


async def test_resume_of_a_run_that_waits_answers_with_its_questions(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        found = (await server("POST", f"/runs/{run}/resume")).json()
        assert (found["status"], found["branch"], found["recovered"]) == ("waiting", 0, [])
        assert [(each["id"], each["schema"]) for each in found["questions"]] == [("approve", {"type": "boolean"})]


async def test_resume_of_a_run_that_is_being_advanced_is_refused(serve: Serve, tmp_path: Path) -> None:
    async with serve() as server:
        run = await server.start("served_slow", path=str(tmp_path / "go"))
        await server.until(run, "running")
        refused = await server("POST", f"/runs/{run}/resume")
        assert (refused.status_code, "is running" in refused.json()["detail"]) == (409, True)
        (tmp_path / "go").write_text("gone")
        assert (await server.until(run, "completed"))["result"] == "gone"


async def test_retry_and_resume_of_what_failed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as server:
        monkeypatch.setenv("SERVED_FLAKY", "ill")
        first, second = [await server.start("served_fails", name=name) for name in ("a", "b")]
        for run in (first, second):
            view = await server.until(run, "failed")
            assert view["recoverable"] is True
        monkeypatch.setenv("SERVED_FLAKY", "well")
        assert (await server("POST", f"/runs/{first}/retry", json={"node": "flaky"})).status_code == 200
        assert (await server("POST", f"/runs/{second}/resume")).json()["status"] in ("running", "completed")
        assert (await server.until(first, "completed"))["result"] == "a"
        assert (await server.until(second, "completed"))["result"] == "b"
        third = await server.start("served_rejected", name="c", wait=10)
        refused = await server("POST", f"/runs/{third}/resume")
        assert (refused.status_code, "failed for good" in refused.json()["detail"]) == (409, True)


async def test_going_back_opens_branches(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_double", value=2, wait=10)
        jumped = await server("POST", f"/runs/{run}/jump", json={"to": "double", "output": 100, "reason": "try"})
        assert (jumped.status_code, jumped.json()["branch"]) == (200, 1)
        assert (await server.until(run, "completed"))["result"] == 100
        compared = (await server("GET", f"/runs/{run}/compare")).json()
        assert compared["same"] is False
        assert (await server("POST", f"/runs/{run}/rewind", json={"nodes": 1})).json()["branch"] == 2
        assert (await server.until(run, "completed"))["result"] == 4
        assert (await server("POST", f"/runs/{run}/activate", json={"branch": 1})).json()["branch"] == 3
        forked = await server("POST", f"/runs/{run}/fork", json={"id": "fork", "at": "double"})
        assert (forked.status_code, forked.json()["run"]) == (201, "fork")
        assert (await server.until("fork", "completed"))["result"] == 4
        branches = (await server("GET", f"/runs/{run}/branches")).json()["branches"]
        assert [each["cause"] for each in branches] == [None, "jump", "jump", "activate"]
        assert branches[1]["by"].startswith("admin (token ")
        for path, body in (
            ("jump", {"to": 99_999}),
            ("jump", {"to": "nowhere"}),
            ("activate", {"branch": 77}),
            ("rewind", {"nodes": 500}),
        ):
            refused = await server("POST", f"/runs/{run}/{path}", json=body)
            assert refused.status_code in (404, 409, 422), (path, refused.text)


async def test_the_doctor_looks_and_repairs(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_double", value=2, wait=10)
        found = (await server("GET", f"/runs/{run}/doctor")).json()
        assert (found["sound"], found["repairs"]) == (True, [])
        found = (await server("POST", f"/runs/{run}/doctor", json={"fix": True})).json()
        assert found["sound"] is True
        report = (await server("POST", "/sweep", json={"dry_run": True})).json()
        assert (report["scanned"], report["dry_run"]) == (0, True)


async def test_an_exclusive_resource_names_who_has_it(serve: Serve) -> None:
    async with serve() as server:
        first = await server.start("served_alone", place="here")
        await server.until(first, "waiting")
        refused = await server("POST", "/runs", json={"workflow": "served_alone", "params": {"place": "here"}})
        assert (refused.status_code, first in refused.json()["detail"]) == (409, True)


# --- the routes under /api/workflows


async def test_the_alias_routes_do_the_same(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as server:
        unknown = await server("POST", "/api/workflows/unknown/resume")
        assert (unknown.status_code, unknown.json()["detail"]) == (404, "Workflow not found")
        asks = [await server.start("served_asks") for _ in range(3)]
        for run in asks:
            await server.until(run, "waiting")
        assert (await server("POST", f"/api/workflows/{asks[0]}/approve")).status_code == 200
        assert (await server("POST", f"/api/workflows/{asks[1]}/reject")).status_code == 200
        assert (await server("POST", f"/api/workflows/{asks[2]}/cancel")).status_code == 200
        results = [(await server.until(run, "completed"))["result"] for run in asks[:2]]
        assert results == ["yes", "no"]
        await server.until(asks[2], "cancelled")
        refused = await server("POST", f"/api/workflows/{asks[0]}/resume")
        assert (refused.status_code, "is completed" in refused.json()["detail"]) == (409, True)
        monkeypatch.setenv("SERVED_FLAKY", "ill")
        run = await server.start("served_fails", name="x", wait=10)
        monkeypatch.setenv("SERVED_FLAKY", "well")
        resumed = await server("POST", f"/api/workflows/{run}/resume")
        assert resumed.status_code == 200
        assert resumed.json().keys() == {"run", "status", "branch", "recovered", "questions"}
        await server.until(run, "completed")


async def test_a_plan_shows_what_an_action_would_append_and_is_refused_like_it(serve: Serve) -> None:
    async with serve() as server:
        run = await server.start("served_asks")
        await server.until(run, "waiting")
        before = (await server("GET", f"/runs/{run}/events")).json()
        body = {"action": "cancel", "reason": "enough", "force": True}
        plan = await server("POST", f"/runs/{run}/plan", json=body, role="viewer")
        assert plan.status_code == 200, plan.text
        events = plan.json()["would_append"]
        assert events[0]["type"] == "CancelRequested"
        assert events[0]["fields"]["reason"] == "enough"
        assert (await server("GET", f"/runs/{run}/events")).json() == before
        refused = await server("POST", f"/runs/{run}/plan", json={"action": "resume"})
        again = await server("POST", f"/runs/{run}/plan", json={"action": "jump", "to": "nobody"})
        assert [(each.status_code, each.json()["code"]) for each in (refused, again)] == [
            (409, "outlast.not_allowed"),
            (409, "outlast.not_allowed"),
        ]
        wrong = await server("POST", f"/runs/{run}/plan", json={"action": "delete"})
        assert wrong.status_code == 422


@pytest.fixture
def deploy() -> Iterator[Callable[[Any], None]]:
    """Replace the code of the workflow `published`."""
    known = dict(registry._workflows)

    def deployed(function: Any) -> None:
        registry._workflows.pop("published", None)
        ol.workflow(name="published")(function)

    yield deployed
    registry._workflows.clear()
    registry._workflows.update(known)


async def test_a_run_is_moved_to_the_code_of_the_server(serve: Serve, deploy: Callable[[Any], None]) -> None:
    async def old(text: str) -> str:
        await served.double(2)
        await ol.approve("Publish?")
        return text

    async def new(text: str) -> str:
        await served.double(2)
        await served.double(3)
        await ol.approve("Publish?")
        return text + "!"

    deploy(old)
    async with serve() as server:
        run = await server.start("published", text="news")
        await server.until(run, "waiting")
        agrees = (await server("GET", f"/runs/{run}/replay", role="viewer")).json()
        assert (agrees["agrees"], agrees["divergence"], agrees["left"]) == (True, None, 0)
        assert (await server("POST", f"/runs/{run}/migrate", role="viewer")).status_code == 403
        deploy(new)
        replay = (await server("GET", f"/runs/{run}/replay")).json()
        assert (replay["agrees"], "Publish?" in replay["divergence"] or "approve" in replay["divergence"]) == (
            False,
            True,
        )
        moved = await server("POST", f"/runs/{run}/migrate", json={"reason": "a second look"})
        assert (moved.status_code, moved.json()["branch"]) == (200, 1), moved.text
        assert moved.json()["replay"] == replay
        view = await server.until(run, "waiting")
        assert view["branch"] == 1
        await server("POST", f"/runs/{run}/approve")
        assert (await server.until(run, "completed"))["result"] == "news!"
        over = await server("POST", f"/runs/{run}/migrate")
        assert (over.status_code, "nothing to migrate" in over.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("body", "verb"),
    [
        (r.CancelBody, ol.Engine.cancel),
        (r.RetryBody, ol.Engine.retry),
        (r.JumpBody, ol.Engine.jump),
        (r.RewindBody, ol.Engine.rewind),
        (r.ActivateBody, ol.Engine.activate),
        (r.ForkBody, ol.Engine.fork),
        (r.MigrateBody, ol.Engine.migrate),
        (r.PlanBody, planned),
    ],
)
def test_the_fields_of_a_body_are_arguments_of_its_verb_with_the_same_defaults(body: type, verb: Any) -> None:
    arguments = inspect.signature(verb).parameters
    for field in fields(body):
        default = arguments[field.name].default
        is_same = (
            field.required if default is inspect.Parameter.empty else field.default in (default, default or "", UNSET)
        )
        assert is_same, field.name
