"""The explanation of a run: its status and cause, its waits, its timeline, and the actions that make sense now.

This module reads no store and no clock: `client/reports.py` gathers the log, the holder of the claim and the findings.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec
from msgspec import Struct

from outlast.history import events as e
from outlast.history.ids import RunId, question_of
from outlast.lifecycle.actions import allowed, has_diverged, inside
from outlast.lifecycle.branch_plan import START
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.diagnosis.evidence import Finding, Holder, QueueState, Standing
from outlast.lifecycle.resume_plan import Revival
from outlast.lifecycle.state import NodeStatus, State, Wait, WaitKind
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.timeline import MAX_ENTRIES, Timeline, TimelineBuilder
from outlast.lifecycle.timeline import phrases as say

MAX_WAITS = 8
"""Waits that are listed in sentences and actions."""
MAX_TEXT = 100_000
"""Questions and reasons that a user decides about are shown up to this length."""

_COUNTS = {
    "NodeCompleted": ("node completed", "nodes completed"),
    "NodeCompleted.adopted": ("result reused", "results reused"),
    "NodeFailed": ("node failed", "nodes failed"),
    "NodeFailed.retried": ("attempt retried", "attempts retried"),
    "RunTakenOver.dead": ("worker lost", "workers lost"),
    "RunTakenOver.expired": ("claim expired", "claims expired"),
    "NodeScheduled.crash": ("interrupted node repeated", "interrupted nodes repeated"),
    "RunRecovered": ("recovery", "recoveries"),
    "InteractionAnswered": ("answer", "answers"),
    "ChildStarted": ("child run", "child runs"),
    "BranchOpened": ("new branch", "new branches"),
    "RunStarted.resumed": ("resume", "resumes"),
}
_REQUESTS = {e.PauseRequested: "pause", e.CancelRequested: "cancel", e.JumpRequested: "jump back"}


class OpenWait(Struct, frozen=True, kw_only=True):
    """A wait of the run."""

    kind: WaitKind
    id: str
    text: str
    node: str = ""
    since: datetime | None = None
    due: datetime | None = None


class ClaimHolder(Struct, frozen=True):
    """The worker that holds the claim of the run, and when its lease expires."""

    worker: str
    is_live: bool
    expires: datetime | None


class Problem(Struct, frozen=True):
    """A finding of `outlast doctor`: the events that prove it, its likely cause, and safe actions."""

    code: str
    standing: Standing
    sentence: str
    cause: str = ""
    events: tuple[int, ...] = ()
    actions: tuple[str, ...] = ()


class Action(Struct, frozen=True):
    """A verb that is allowed and useful now, the run and arguments it takes, and its effect."""

    verb: str
    run: str
    arguments: tuple[str, ...]
    effect: str
    command: str


class Explanation(Struct, frozen=True, kw_only=True):
    """The history of a run, its state, and the useful actions. `state` has one sentence per line."""

    run: RunId
    workflow: str
    title: str
    branch: int
    is_current: bool
    status: RunStatus
    held: bool
    created: datetime | None
    headline: str
    cause: str
    state: tuple[str, ...]
    waits: tuple[OpenWait, ...]
    holder: ClaimHolder | None
    timeline: Timeline
    findings: tuple[Problem, ...]
    actions: tuple[Action, ...]


def explain(
    run: RunId,
    log: TimelineBuilder,
    now: int,
    *,
    newest: int | None = None,
    full: bool = False,
    limit: int = MAX_ENTRIES,
    revival: Revival | None = None,
    holder: Holder | None = None,
    queue: QueueState | None = None,
    findings: Sequence[Finding] = (),
) -> Explanation:
    """Explain a run at the time `now`. `newest` is its current branch, `revival` the plan of a resume, `queue` the queue in
    which it waits for a worker."""
    state, outline = log.state, log.state.outline
    newest = outline.branch if newest is None else newest
    is_advanced = holder is not None and holder.is_live
    is_current = outline.branch == newest
    return Explanation(
        run=run,
        workflow=outline.workflow,
        title=outline.title,
        branch=outline.branch,
        is_current=is_current,
        status=state.status,
        held=outline.held,
        created=say.moment(outline.created),
        headline=_headline(run, log, now, is_current),
        cause=_cause(state),
        state=tuple(_state(log, now, holder, queue) if is_current else _left(state, newest)),
        waits=tuple(_wait(wait, log) for wait in state.waits.values()),
        holder=ClaimHolder(holder.worker, holder.is_live, say.moment(holder.expires)) if holder else None,
        timeline=log.timeline(full=full, limit=limit),
        findings=tuple(
            Problem(each.code, each.standing, each.sentence, each.cause, each.events, each.actions)
            for each in findings
            if each.standing != "consistent"
            and not outline.held  # of a held run, the state sentences name the decision
        ),
        actions=tuple(
            [*useful_actions(run, state, revival, is_advanced=is_advanced), *_to_look(run, state)]
            if is_current
            else _from_old_branch(run, outline.branch)
        ),
    )


def _headline(run: RunId, log: TimelineBuilder, now: int, is_current: bool) -> str:
    state, outline = log.state, log.state.outline
    title = f" (“{say.cropped(outline.title)}”)" if outline.title else ""
    status = "held" if outline.held else str(state.status)
    if not is_current:
        status = f"{status} on branch {outline.branch}"
    elif state.status in TERMINAL:
        status += f" after {say.duration(outline.time - outline.created)}"
    else:
        status += f", created {say.duration(now - outline.created)} ago"
    counts = [say.counted(log.counts[key], *nouns) for key, nouns in _COUNTS.items() if log.counts[key]]
    if not log.counts["NodeCompleted"]:
        counts.insert(0, "no node completed")
    return f"Run {run} of workflow {say.cropped(outline.workflow)}{title} {status}: {', '.join(counts)}."


def _cause(state: State) -> str:
    outline = state.outline
    if outline.error is None:
        return say.cropped(outline.reason, MAX_TEXT)
    frame = say.user_frame(outline.error)
    return say.cropped(say.failure(outline.error), MAX_TEXT) + (f" ({frame})" if frame else "")


def _wait(wait: Wait, log: TimelineBuilder) -> OpenWait:
    since = log.since.get(wait.name)
    return OpenWait(
        kind=wait.kind,
        id=wait.id,
        text=wait.text,
        node=wait.node,
        since=say.moment(since) if since is not None else None,
        due=say.moment(wait.due) if wait.due is not None else None,
    )


# --- the state in sentences


def _left(state: State, newest: int) -> list[str]:
    return [f"Branch {state.outline.branch} is not the current one: the run continued on branch {newest}."]


def _state(log: TimelineBuilder, now: int, holder: Holder | None, queue: QueueState | None) -> Iterator[str]:
    state, outline = log.state, log.state.outline
    yield f"{_status(state)}."
    yield from _holder(state, now, holder)
    if queue is not None:
        yield _queue(queue)
    yield from _nodes(state)
    for wait in islice(state.waits.values(), MAX_WAITS):
        since = log.since.get(wait.name)
        for_ = f", for {say.duration(now - since)}" if since is not None and now > since else ""
        yield f"Waits for {say.wait_text(wait, now, MAX_TEXT)}{for_}."
    if len(state.waits) > MAX_WAITS:
        yield f"Waits for {len(state.waits) - MAX_WAITS:,} more."
    request = next_request(state)
    if request is not None:
        yield f"A request to {_REQUESTS[type(request)]} is open."
    if outline.successor:
        yield f"Continued as run {say.cropped(outline.successor)}."


def _status(state: State) -> str:
    outline, cause = state.outline, _cause(state)
    because = f": {cause}" if cause else ""
    if outline.held:
        return f"Held: a person must decide{because}"
    match state.status:
        case RunStatus.CREATED if outline.awaits_start:
            return "Created: the run begins when a person starts it"
        case RunStatus.CREATED:
            return "Created: no worker has started the run"
        case RunStatus.COMPENSATING:
            return "Compensating" + (": the run was cancelled and its code cleans up" if outline.cleanup else "")
        case RunStatus.FAILED if outline.recoverable:
            return f"Failed{because}. It can be resumed after the cause is removed"
        case RunStatus.FAILED:
            return f"Failed for good{because}. It cannot be resumed"
        case RunStatus.PAUSED | RunStatus.CANCELLED:
            return f"{state.status.capitalize()}{because}"
        case _:
            return state.status.capitalize()


def _holder(state: State, now: int, holder: Holder | None) -> Iterator[str]:
    if holder is not None and holder.is_live:
        yield f"Worker {holder.worker} holds the run."
    elif holder is not None and not state.is_closed:
        yield f"Worker {holder.worker} is gone; its claim expired {say.duration(now - holder.expires)} ago."


def _queue(queue: QueueState) -> str:
    if not queue.is_served:
        return f"Waits in queue {queue.name}: no live worker serves it."
    if not queue.holders:
        return f"Waits in queue {queue.name}."
    return f"Waits in queue {queue.name}. Its slots are held by: {say.listed(list(queue.holders))}."


def _nodes(state: State) -> Iterator[str]:
    if state.is_closed:
        return
    started = [name for name, node in state.nodes.items() if node.status is NodeStatus.STARTED]
    if node := inside(state):
        started.remove(node)
        yield f"No result of {say.name(node)} was recorded: only a person can find out whether it was done."
    if started and (state.status is RunStatus.RUNNING or state.outline.is_cleaning):
        yield f"Running: {say.listed(started)}."
    elif started:
        yield f"Interrupted; the next worker executes again: {say.listed(started)}."


# --- actions


_COMMANDS = {"diff": ("versions", "diff")}


def _action(verb: str, run: str, effect: str, *arguments: str) -> Action:
    return Action(verb, run, arguments, effect, shlex.join(("outlast", *_COMMANDS.get(verb, (verb,)), run, *arguments)))


def _from_old_branch(run: str, branch: int) -> Iterator[Action]:
    yield _action("explain", run, "explains the current branch")
    yield _action("compare", f"{run}@{branch}", "compares this branch with the current one", run)


def useful_actions(run: str, state: State, revival: Revival | None, *, is_advanced: bool) -> Iterator[Action]:
    """The verbs that make sense now. `revival` is the plan of a resume, `is_advanced` whether a live worker has the run."""
    outline, can = state.outline, allowed(state)
    goes_on = is_advanced and state.status in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    if "answer" in can:
        yield from _answers(run, [wait for wait in state.waits.values() if wait.kind == "interaction"])
    again = f"repeats {say.name(outline.failed_node)} and continues" if outline.failed_node else "continues the run"
    if outline.held:
        yield from _to_decide(run, state, again)
        yield _action("cancel", run, "ends the run")
    elif state.status is RunStatus.FAILED and outline.recoverable and revival is not None and revival.since:
        effect = f"continues from before the part that {say.listed(revival.since)} undid"
        yield _action("jump", run, effect, "--to", revival.undone or START)
    elif "start" in can:
        yield _action("start", run, "begins the run")
    elif "resume" in can and not goes_on:
        effects = {RunStatus.FAILED: f"{again}, after the cause is removed", RunStatus.PAUSED: again}
        yield _action("resume", run, effects.get(state.status, "takes the run over: no live worker holds it"))
    elif state.status is RunStatus.FAILED and (place := _decided_at(state)):
        yield _action("jump", run, f"goes back to before {say.name(place)}, on a new branch", "--to", place)


def _answers(run: str, questions: list[Wait]) -> Iterator[Action]:
    for wait in questions[:MAX_WAITS]:
        value, other = ("--yes", " (or --no)") if _is_boolean(wait) else ("VALUE", "")
        which = ("--interaction", wait.id) if len(questions) > 1 else ()
        yield _action("answer", run, f"answers “{say.cropped(wait.text) or say.name(wait.id)}”{other}", value, *which)


def _to_decide(run: str, state: State, again: str) -> Iterator[Action]:
    if has_diverged(state):
        yield _action(
            "diff", run, "shows what changed in the code; with the old code restored, resume continues the run"
        )
        yield _action("migrate", run, "continues with the current code on a new branch")
        return
    if node := inside(state):
        yield _action("jump", run, f"continues as if {node} had returned VALUE", "--to", node, "--edit", "output=VALUE")
    yield _action("resume", run, again)


def _decided_at(state: State) -> str:
    """The node that a run failed in, or the question that was answered last."""
    answered = [(each.seq, name) for name, each in state.interactions.items() if each.answer is not None]
    return state.outline.failed_node or question_of(max(answered, default=(0, ""))[1])


def _is_boolean(wait: Wait) -> bool:
    try:
        schema = msgspec.json.decode(wait.detail)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(schema, dict) and schema.get("type") == "boolean"


def _to_look(run: str, state: State) -> Iterator[Action]:
    outline = state.outline
    if outline.successor:
        yield _action("explain", outline.successor, "explains the run that continues this one")
    for wait in islice((each for each in state.waits.values() if each.kind == "child"), 1):
        yield _action("explain", wait.id, "explains the child run")
    if outline.error is not None and outline.error.trace:
        yield _action("show", run, "shows the traceback", "--verbose")
    if outline.error is not None and outline.failed_node:
        yield _action("logs", run, "shows what the node logged", outline.failed_node)
    if outline.error is None and state.status not in TERMINAL:
        yield _action("events", run, "follows new events", "--follow")
    if outline.branch:
        yield _action("compare", run, "compares this branch with the one before")
    if state.status is RunStatus.COMPLETED:
        yield _action("show", run, "shows the nodes and the whole result")
