"""Which actions are allowed on a run and which of them are useful now, and what repairing it would do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.errors import Conflict, Damaged, NotAllowed, NotFound, OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.actions import Verb, allowed, has_diverged, inside
from outlast.lifecycle.diagnosis import Finding, Rewrite, Settle
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.status import RunStatus
from outlast.views.build import holder_view, planned_views
from outlast.views.texts import cropped
from outlast.views.types import ActionView, HolderView, RepairView

if TYPE_CHECKING:
    from outlast.client import Engine


async def actions_of(engine: Engine, run: RunId, state: State, where: str = "") -> list[ActionView]:
    """The actions that are allowed on a run now, the useful ones first. `where` names the store in their commands."""
    repair, holding = None, await engine.diagnostics.holder(run)
    with suppress(OutlastError):  # a log that is damaged is reported by what reads it
        if remedies := (await engine.diagnose(run, blobs=False)).remedies:
            repair = await planned_repair(engine, run, remedies[0])
    return actions(run, state, where, holder=holder_view(holding) if holding else None, repair=repair)


def actions(
    run: RunId, state: State, where: str = "", *, holder: HolderView | None = None, repair: RepairView | None = None
) -> list[ActionView]:
    """The same, of a state that has been read."""
    found = [
        ActionView(action=verb, useful=bool(why), command=f"outlast {command}{where}", why=why, repair=None)
        for verb in allowed(state)
        for command, why in _commands(verb, run, state, holder)
    ]
    if repair is not None:
        command = f"outlast doctor {run} --fix{where}"
        found.append(ActionView(action="repair", useful=True, command=command, why=repair.reason, repair=repair))
    return sorted(found, key=lambda each: not each.useful)


def _commands(verb: Verb, run: RunId, state: State, holder: HolderView | None) -> Iterator[tuple[str, str]]:
    """How to type an action, and why one would take it in this state; empty if one hardly would."""
    outline, status = state.outline, state.status
    failed, node = outline.failed_node, inside(state)
    match verb:
        case "answer":
            questions = [wait for wait in state.waits.values() if wait.kind == "interaction"]
            for wait in questions:
                command = how_to_answer(run, wait, "", is_only=len(questions) == 1)
                yield command.removeprefix("outlast "), f"answers “{cropped(wait.text or wait.id, 80)}”"
        case "resume":
            yield f"resume {run}", _why_resume(state, holder)
        case "retry":
            yield f"retry {run}", ""
        case "migrate":
            diverged = "continues with today's code from where it differs, as a new branch"
            yield f"migrate {run}", diverged if has_diverged(state) else ""
        case "cancel":
            yield f"cancel {run}", "ends it" if outline.held else ""
        case "jump" if node:
            yield (
                f"jump {run} --to {shlex.quote(node)} --edit output=VALUE",
                f"continues as if {node} had returned VALUE",
            )
        case "jump" if status is RunStatus.FAILED and not outline.recoverable and failed:
            yield f"jump {run} --to {shlex.quote(failed)}", f"goes back to {failed} and executes it again"
        case "jump":
            yield f"jump {run} --to EVENT|NODE|QUESTION", ""
        case "rewind":
            yield f"rewind {run} 1", ""
        case "activate":
            yield f"activate {run} BRANCH", ""
        case "pause":
            yield f"pause {run}", ""


def _why_resume(state: State, holder: HolderView | None) -> str:
    outline = state.outline
    again = f"executes {cropped(outline.failed_node, 60)} again and continues" if outline.failed_node else "continues"
    if has_diverged(state):
        return "continues with code that fits the log, once that is back"
    match state.status:
        case RunStatus.FAILED if not outline.held:
            return f"{again}, once the cause is removed"
        case RunStatus.FAILED | RunStatus.PAUSED:
            return again
        case RunStatus.RUNNING | RunStatus.COMPENSATING:
            return "" if holder is not None and holder.live else "continues here: no live worker holds it"
        case _:
            return ""


# --- repairs


async def planned_repair(engine: Engine, run: RunId, finding: Finding) -> RepairView:
    """What repairing a run would do about a finding."""
    events = await engine.diagnostics.preview_recovery(run, finding)
    opened = next((event.branch for event in events if isinstance(event, e.BranchOpened)), None)
    return _repair(finding, appends=planned_views(events), effects=_effects(finding), new_branch=opened)


async def repair(engine: Engine, run: RunId) -> list[RepairView]:
    """Repair a run; what was done, in order. What stopped the repair is its last entry."""
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
    """What a repair does besides appending to this run."""
    if isinstance(finding.remedy, Rewrite):
        return finding.remedy.changes
    if isinstance(finding.remedy, Settle):
        return (f"deliver what run {finding.remedy.run} owes to its parent, its successor and its children",)
    return ()


# --- answers


def schema_of(question: Wait) -> Any:
    """The JSON Schema of its answers; None if any value is accepted."""
    return msgspec.json.decode(question.detail)


def named(schema: Any) -> dict[str, Any]:
    """A schema with the definition that it refers to in its place."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        known = schema.get("$defs", {})
        found = known.get(str(schema["$ref"]).rpartition("/")[2])
        return {**found, "$defs": known} if isinstance(found, dict) else {}
    return schema


def how_to_answer(run: RunId, question: Wait, where: str, *, is_only: bool = True) -> str:
    """The command that answers it; `where` names the store."""
    value = "--yes|--no" if named(schema_of(question)).get("type") == "boolean" else "VALUE"
    which = "" if is_only else f" --interaction {shlex.quote(question.id)}"
    return f"outlast answer {run} {value}{which}{where}"
