"""The verbs that change the course of a run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw
from msgspec.structs import asdict, fields

from outlast.client import Engine
from outlast.client.handle import RunHandle
from outlast.functions.dry_replay import DryRun
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.http import requests as r
from outlast.http.api.runs import run_of
from outlast.http.operations import Call, operation
from outlast.http.recovery import one_line
from outlast.http.starting import value_of
from outlast.lifecycle.diagnosis import HandOver
from outlast.lifecycle.status import RunStatus
from outlast.views import build
from outlast.views import server as s
from outlast.views import types as v
from outlast.views.actions import planned, planned_repair, repair

log = logging.getLogger("outlast.http")

_VERB: dict[str, Any] = {"tag": "control", "refuses": (409,)}
_BRANCHING: dict[str, Any] = {"tag": "branches", "refuses": (409,)}


async def control_view(call: Call, run: RunId) -> s.ControlView:
    summary = await call.engine.get(run)
    return s.ControlView(run=run, status=summary.status, branch=summary.branch)


async def _changed(
    call: Call, verb: Callable[..., Awaitable[RunId | RunHandle[Any]]], body: r.Body | None = None
) -> s.ControlView:
    """The run after a verb, whose arguments are in the body."""
    found = await verb(await run_of(call), by=call.by, **arguments_of(body))
    return await control_view(call, found.run if isinstance(found, RunHandle) else found)


def arguments_of(body: r.Body | None) -> dict[str, Any]:
    """The fields of a body as arguments of a verb, with values of users decoded. Defaults are left to the verb."""
    given: dict[str, Any] = {}
    for field in fields(body) if body is not None else ():
        value = getattr(body, field.name)
        if isinstance(value, Raw):
            given[field.name] = value_of(value, field.name)
        elif isinstance(value, dict):
            given[field.name] = {name: value_of(raw, f"{field.name}.{name}") for name, raw in value.items()}
        elif value != field.default:
            given[field.name] = value
    return given


@operation("POST", "/runs/{run}/start", "runs:start", **_VERB)
async def begin_run(call: Call) -> s.ControlView:
    """Begin a run that was created with `start: false`."""
    return await _changed(call, call.engine.begin)


@operation("POST", "/runs/{run}/pause", "runs:pause", example={"reason": "the supplier is closed"}, **_VERB)
async def pause_run(call: Call, body: r.ReasonBody) -> s.ControlView:
    """Pause a run where it can go on later."""
    return await _changed(call, call.engine.pause, body)


@operation("POST", "/runs/{run}/cancel", "runs:cancel", example={"reason": "ordered twice"}, **_VERB)
async def cancel_run(call: Call, body: r.CancelBody) -> s.ControlView:
    """Cancel a run; a worker executes the clean-up of its code."""
    return await _changed(call, call.engine.cancel, body)


@operation("POST", "/runs/{run}/resume", "runs:resume", example={"force": False}, **_VERB)
async def resume_run(call: Call, body: r.ResumeBody) -> s.ResumedView:
    """Resume a run that was interrupted, is paused or held, or failed and is recoverable.

    What is inconsistent is repaired first. A run that waits for a person is answered with its questions.
    """
    run = await call.engine.diagnostics.continued_as(await run_of(call))
    recovered = await _recovered(call, run)
    status = (await call.engine.get(run)).status
    goes_on_already = recovered and status in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPLETED)
    if status is not RunStatus.WAITING and not goes_on_already:
        run = (await call.engine.resume(run, by=call.by, force=body.force)).run
    questions = tuple(map(build.question_view, await call.engine.questions(run)))
    now = await control_view(call, run)
    return s.ResumedView(run=run, status=now.status, branch=now.branch, recovered=recovered, questions=questions)


async def _recovered(call: Call, run: RunId) -> tuple[v.RepairView, ...]:
    """Repair the run; what interrupted it is left to the resume itself."""
    remedies = (await call.engine.diagnose(run, blobs=False)).remedies
    if not remedies or isinstance(remedies[0].remedy, HandOver):
        return ()
    repairs = [each for each in await repair(call.engine, run) if each.done]
    for each in repairs:
        branch = f" Created branch {each.new_branch}." if each.new_branch is not None else ""
        log.info("Applied recovery: %s %s.%s", each.code, one_line(each.reason).rstrip("."), branch)
    return tuple(repairs)


@operation("POST", "/runs/{run}/retry", "runs:retry", example={"node": "draft", "feedback": "but shorter"}, **_VERB)
async def retry_run(call: Call, body: r.RetryBody) -> s.ControlView:
    """Execute a node again and continue from there."""
    return await _changed(call, call.engine.retry, body)


@operation("DELETE", "/runs/{run}", "runs:delete", **_VERB)
async def delete_run(call: Call, query: r.DeleteRun) -> v.TombstoneView:
    """Delete a run that has ended: its log, its lines, and the blobs that no other run names.

    A tombstone keeps its id and its idempotency key from being used again. Cancel an unfinished run first.
    """
    found = await call.engine.delete(await run_of(call), force=query.force, by=call.by, reason=query.reason)
    call.note = f"{found.workflow}, {found.status}"
    return build.tombstone_view(found)


@operation(
    "POST",
    "/runs/{run}/plan",
    "runs:read",
    audited=False,
    example={"action": "jump", "to": "fetch"},
    **_VERB,
)
async def plan_action(call: Call, body: r.PlanBody) -> v.PlanView:
    """Show the events that an action would append to a run.

    Nothing is changed, and what the action would refuse is refused.
    """
    return await planned(call.engine, await run_of(call), by=call.by, **arguments_of(body))


@operation(
    "POST", "/runs/{run}/jump", "runs:jump", example={"to": "fetch", "reason": "the feed has moved"}, **_BRANCHING
)
async def jump_run(call: Call, body: r.JumpBody) -> s.ControlView:
    """Go back to an event, a node or a question, and continue from there as a new branch."""
    return await _changed(call, call.engine.jump, body)


@operation("POST", "/runs/{run}/rewind", "runs:rewind", example={"nodes": 2}, **_BRANCHING)
async def rewind_run(call: Call, body: r.RewindBody) -> s.ControlView:
    """Go back over the last completed nodes and execute them again, as a new branch."""
    return await _changed(call, call.engine.rewind, body)


@operation("POST", "/runs/{run}/activate", "runs:activate", example={"branch": 0}, **_BRANCHING)
async def activate_branch(call: Call, body: r.ActivateBody) -> s.ControlView:
    """Continue from the end of an older branch, as a new one."""
    return await _changed(call, call.engine.activate, body)


@operation("GET", "/runs/{run}/replay", "runs:read", tag="branches", refuses=(409,))
async def replay_run(call: Call) -> s.ReplayView:
    """Compare the log of a run with the current code of this server, without executing a node."""
    return await _replay_view(call, await call.engine.versions.replay(await run_of(call)))


@operation("POST", "/runs/{run}/migrate", "runs:migrate", example={"reason": "the fix of today"}, **_BRANCHING)
async def migrate_run(call: Call, body: r.MigrateBody) -> s.MigratedView:
    """Continue a run with the current code of this server, on a new branch if its log does not agree with the code."""
    run = await run_of(call)
    replay = await call.engine.migrate(run, by=call.by, **arguments_of(body))
    now = await control_view(call, run)
    view = await _replay_view(call, replay)
    return s.MigratedView(run=run, status=now.status, branch=now.branch, replay=view)


async def _replay_view(call: Call, replay: DryRun) -> s.ReplayView:
    left = 0
    if not replay.agrees:
        async for entry in call.engine.events(replay.run, branch=replay.branch, after=replay.upto):
            left += isinstance(entry.event, e.NodeCompleted)
    return s.ReplayView(**asdict(replay), agrees=replay.agrees, left=left)


@operation("POST", "/runs/{run}/fork", "runs:fork", statuses=(201,), example={"at": "fetch"}, **_BRANCHING)
async def fork_run(call: Call, body: r.ForkBody) -> s.ControlView:
    """Create a run that has the history of this one up to a place, and continues by itself."""
    return await _changed(call, call.engine.fork, body)


async def _examined(engine: Engine, run: RunId, *, fix: bool, blobs: bool = True) -> v.ExaminationView:
    """What the doctor finds about a run, and what a repair does, or would do."""
    before = await engine.diagnose(run, blobs=blobs)
    if not fix:
        planned = [await planned_repair(engine, run, finding) for finding in before.remedies]
        return build.examination_view(before, planned)
    repairs: Sequence[v.RepairView] = await repair(engine, run) if before.remedies else ()
    return build.examination_view(before, repairs, await engine.diagnose(run, blobs=blobs))


@operation("GET", "/runs/{run}/doctor", "runs:read", tag="repair")
async def examine_run(call: Call, query: r.Verify) -> v.ExaminationView:
    """Diagnose a run, and show what a repair would do. Nothing is changed."""
    return await _examined(call.engine, await run_of(call), fix=False, blobs=query.blobs)


@operation("POST", "/runs/{run}/doctor", "runs:repair", tag="repair", refuses=(409,), example={"fix": True})
async def repair_run(call: Call, body: r.DoctorBody) -> v.ExaminationView:
    """Diagnose a run and, with `fix`, repair it."""
    call.note = "" if body.fix else "dry run"
    return await _examined(call.engine, await run_of(call), fix=body.fix, blobs=body.blobs)
