"""The actions that are allowed on a run, the useful ones first; repairs; the command that answers a question."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.errors import Conflict, Damaged, NotAllowed, NotFound, OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.actions import VERBS, allowed
from outlast.lifecycle.diagnosis import Finding, Rewrite, Settle
from outlast.lifecycle.state import State, Wait
from outlast.views.build import planned_views
from outlast.views.types import ActionView, RepairView

if TYPE_CHECKING:
    from outlast.client import Engine

_ARGUMENTS = {"answer": " VALUE", "jump": " --to EVENT|NODE|QUESTION", "rewind": " 1", "activate": " BRANCH"}


async def actions_of(engine: Engine, run: RunId, state: State, where: str = "") -> list[ActionView]:
    """The actions that are allowed on a run now, the useful ones first. `where` names the store in their commands."""
    found: list[ActionView] = []
    with suppress(OutlastError):  # `show` reports a damaged log when it reads it
        useful = (each for each in (await engine.explain(run)).actions if each.verb in VERBS)
        found += [_action(each.verb, each.command + where, each.effect) for each in useful]
        if remedies := (await engine.diagnose(run, blobs=False)).remedies:
            plan = await planned_repair(engine, run, remedies[0])
            found.append(_action("repair", f"outlast doctor {run} --fix{where}", plan.reason, plan))
    others = [verb for verb in allowed(state) if all(verb != each.action for each in found)]
    return found + [_action(verb, f"outlast {verb} {run}{_ARGUMENTS.get(verb, '')}{where}") for verb in others]


def _action(verb: str, command: str, why: str = "", repair: RepairView | None = None) -> ActionView:
    return ActionView(action=verb, useful=bool(why), command=command, why=why, repair=repair)


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
        return finding.remedy.changes
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
