"""The actions that are allowed on a run, the useful ones first; repairs; the command that answers a question."""

from __future__ import annotations

import shlex
from contextlib import suppress
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.client import branch_plans
from outlast.errors import Conflict, Damaged, NotAllowed, NotFound, OutlastError
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId
from outlast.lifecycle import resume_plan
from outlast.lifecycle.actions import VERBS, allowed, refusal
from outlast.lifecycle.diagnosis import Finding, Rewrite, Settle
from outlast.lifecycle.explanation import Action, useful_actions
from outlast.lifecycle.state import State, Wait
from outlast.views.build import planned_views
from outlast.views.types import ActionView, PlanView, RepairView

if TYPE_CHECKING:
    from outlast.client import Engine

PLANNED = ("resume", "retry", "pause", "cancel", "jump", "rewind", "activate")
_OBEYED = {
    "pause": "the worker of the run pauses it when its nodes have completed or reached a checkpoint",
    "cancel": "a worker ends the run after the clean-up of its code",
}
_ARGUMENTS = {"answer": " VALUE", "jump": " --to EVENT|NODE|QUESTION", "rewind": " 1", "activate": " BRANCH"}


async def actions_of(
    engine: Engine, run: RunId, state: State, where: str = "", *, repairs: bool = False
) -> list[ActionView]:
    """The actions that are allowed on a run now, the useful ones first. `where` names the store in their commands. Only with
    `repairs` is the run examined for repairs."""
    found: list[ActionView] = []
    with suppress(OutlastError):  # `show` reports a damaged log when it reads it
        holding, revival = await engine.diagnostics.holder(run), None
        if state.outline.recoverable and not state.outline.held:
            log = [entry async for entry in engine.events(run)]
            revival = resume_plan.after_failure(log, state.outline.failed_node)
        is_advanced = holding is not None and holding.is_live
        useful = useful_actions(run, state, revival, is_advanced=is_advanced)
        found += [await _useful(engine, run, each, where) for each in useful if each.verb in VERBS]
        if repairs and (remedies := (await engine.diagnose(run, blobs=False)).remedies):
            plan = await planned_repair(engine, run, remedies[0])
            known = {"code": plan.code, "appends": plan.appends, "effects": plan.effects}
            found.append(_action("repair", f"outlast doctor {run} --fix{where}", plan.reason, **known))
    others = [verb for verb in allowed(state) if all(verb != each.action for each in found)]
    found += [_action(verb, f"outlast {verb} {run}{_ARGUMENTS.get(verb, '')}{where}") for verb in others]
    refused = refusal(state, "delete")
    if refused is not None and refusal(state, "delete", force=True) is None:
        why = refused.reason.partition(":")[0]
        found.append(_action("delete", f"outlast delete {run} --force{where}", effects=(f"the run {why}",)))
    return found


def _action(verb: str, command: str, why: str = "", **known: Any) -> ActionView:
    empty = {"code": None, "to": None, "appends": None, "effects": ()}
    return ActionView(action=verb, useful=bool(why), command=command, why=why, **(empty | known))


async def _useful(engine: Engine, run: RunId, action: Action, where: str) -> ActionView:
    """A useful action with the events that it would append; none if it needs a value, or is refused for a reason that is not
    in the state of the run."""
    known: dict[str, Any] = {}
    if action.verb == "jump":
        known["to"] = action.arguments[1]
    if action.verb in PLANNED and "VALUE" not in action.command:
        with suppress(OutlastError):
            plan = await planned(engine, run, action.verb, to=known.get("to", ""))
            known |= {"appends": plan.would_append, "effects": plan.effects}
    return _action(action.verb, action.command + where, action.effect, **known)


@singledispatch
async def planned(
    engine: Engine,
    run: RunId,
    action: str,
    *,
    to: str | int = "",
    inputs: dict[str, Any] | None = None,
    output: Any = msgspec.UNSET,
    node: str = "",
    feedback: Any = None,
    nodes: int = 1,
    branch: int = 0,
    by: str = "",
    reason: str = "",
    children: Children = "cancel",
    force: bool = False,
) -> PlanView:
    """What one of the actions `PLANNED` would do to a run; the same checks refuse it."""
    preview, signed = engine.diagnostics, {"by": by, "reason": reason}
    match action:
        case "jump":
            plan = branch_plans.leaving(branch_plans.to_place(to, inputs=inputs, output=output, **signed), children)
            events = await preview.preview(run, "jump", plan)
        case "rewind":
            events = await preview.preview(
                run, "rewind", branch_plans.leaving(branch_plans.back(nodes, **signed), children)
            )
        case "activate":
            events = await preview.preview_activate(run, branch, children=children, **signed)
        case "pause":
            events = await preview.preview_pause(run, **signed)
        case "cancel":
            events = await preview.preview_cancel(run, force=force, **signed)
        case _:
            events = await preview.preview_retry(
                run, node or None, feedback=feedback, by=by, children=children, force=force
            )
    is_requested = isinstance(events[-1], e.PauseRequested | e.CancelRequested)
    effects = (_OBEYED[action],) if is_requested else ()
    return PlanView(run=run, would_append=planned_views(events, await preview.now()), effects=effects)


# --- repairs


async def planned_repair(engine: Engine, run: RunId, finding: Finding) -> RepairView:
    """The repair of a finding, as a plan."""
    events = await engine.diagnostics.preview_recovery(run, finding)
    opened = next((event.branch for event in events if isinstance(event, e.BranchOpened)), None)
    appends = planned_views(events, await engine.diagnostics.now())
    return _repair(finding, appends=appends, effects=_effects(finding), new_branch=opened)


async def repair(engine: Engine, run: RunId) -> list[RepairView]:
    """Repair a run. Returns the repairs in order; an error that stopped them is the last entry."""
    before, error = await engine.diagnostics.current_branch(run), None
    done: list[Finding] = []
    try:
        done = await engine.recover(run)
    except (NotAllowed, Damaged, Conflict, NotFound) as refusal:
        error = str(refusal)
    newest = await engine.diagnostics.current_branch(run)
    repairs = [_repair(each, done=True, effects=_effects(each)) for each in done]
    if repairs and newest != before:
        repairs[-1] = msgspec.structs.replace(repairs[-1], new_branch=newest)
    if error is not None:
        repairs.append(_repair(None, reason="the run could not be repaired", error=error))
    return repairs


def _repair(finding: Finding | None, **known: Any) -> RepairView:
    empty = {"code": None, "done": False, "appends": (), "effects": (), "new_branch": None, "error": None}
    about = {"code": finding.code, "reason": finding.sentence} if finding is not None else {}
    return RepairView(needed=True, **{**empty, **about, **known})


def _effects(finding: Finding) -> tuple[str, ...]:
    """The effects of a repair besides appending to this run."""
    if isinstance(finding.remedy, Rewrite):
        return (*finding.remedy.changes, "append nothing to the log")
    if isinstance(finding.remedy, Settle):
        return (f"deliver what run {finding.remedy.run} owes to its parent, its successor and its children",)
    return ()


# --- answers


def schema_of(question: Wait) -> Any:
    """The JSON Schema of its answers; None if any value is accepted."""
    return msgspec.json.decode(question.detail)


def resolved(schema: Any) -> dict[str, Any]:
    """A schema whose `$ref` is replaced by the definition it refers to."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        known = schema.get("$defs", {})
        found = known.get(str(schema["$ref"]).rpartition("/")[2])
        return {**found, "$defs": known} if isinstance(found, dict) else {}
    return schema


def how_to_answer(run: RunId, question: Wait, where: str, *, is_only: bool = True) -> str:
    """The command that answers it. `where` names the store."""
    value = "--yes|--no" if resolved(schema_of(question)).get("type") == "boolean" else "VALUE"
    which = "" if is_only else f" --interaction {shlex.quote(question.id)}"
    return f"outlast answer {run} {value}{which}{where}"
