"""How a run stands at the end of its story: the headline, what it waits for now, and what one could do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import msgspec

from outlast.history import events as e
from outlast.history.ids import RunId, question_of
from outlast.lifecycle.actions import allowed, has_diverged, inside
from outlast.lifecycle.branch_plan import START
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.story import Suggestion
from outlast.lifecycle.resume_plan import Revival
from outlast.lifecycle.state import NodeStatus, State, Wait
from outlast.lifecycle.status import TERMINAL, RunStatus

SHOWN = 8
"""So many waits are told one by one."""


def headline(run: RunId, state: State, counts: Counter[str], now: int, *, is_current: bool) -> str:
    """The whole story in one or two sentences."""
    outline = state.outline
    name = f"Run {run} of workflow {say.cropped(outline.workflow, 60)}"
    name += f" ({say.quoted(outline.title)})" if outline.title else ""
    took = say.duration(outline.time - outline.created)
    if not is_current:
        standing = f", as branch {outline.branch} had it, was {_standing(state)}"
    elif outline.successor:
        standing = f" goes on as {say.cropped(outline.successor, 60)}, after {took}"
    elif state.status in TERMINAL:
        ended = {RunStatus.COMPLETED: "completed", RunStatus.CANCELLED: "was cancelled"}.get(state.status, "failed")
        standing = f" {'is held' if outline.held else ended} after {took}"
    else:
        standing = f" is {_standing(state)}, {say.duration(now - outline.created)} after its start"
    told = ", ".join(_counted(counts))
    return say.sentence(f"{name}{standing}: {told}")


def _standing(state: State) -> str:
    return "held" if state.outline.held else str(state.status)


def _counted(counts: Counter[str]) -> Iterator[str]:
    yield f"{say.counted(counts['completed'], 'node')} completed" if counts["completed"] else "no node completed"
    if counts["adopted"]:
        yield f"{counts['adopted']:,} taken over from another branch"
    if counts["failed"]:
        yield f"{counts['failed']:,} failed"
    if counts["tried again"]:
        yield f"{say.counted(counts['tried again'], 'failed attempt')} made again"
    if counts["crashes"]:
        cut = f" ({say.counted(counts['interrupted'], 'interrupted node')} done again)" if counts["interrupted"] else ""
        yield f"a worker was lost {say.times(counts['crashes'])}{cut}"
    if counts["recovered"]:
        yield f"recovered {say.times(counts['recovered'])}"
    if counts["answered"]:
        yield f"{say.counted(counts['answered'], 'answer')} given"
    if counts["children"]:
        yield say.counted(counts["children"], "child", "children")
    if counts["branches"]:
        yield f"history turned back {say.times(counts['branches'])}"
    if counts["resumed"]:
        yield f"set going again {say.times(counts['resumed'])}"


# --- now


_ASKED = {e.PauseRequested: "pause", e.CancelRequested: "end", e.JumpRequested: "go back"}


def standing(state: State, now: int, newest: int) -> list[str]:
    """How it stands, sentence by sentence. `newest` is the run's current branch."""
    outline = state.outline
    if outline.branch != newest:
        return [f"This branch was left; the run went on on branch {newest}."]
    told = [said] if (said := _stands(state)) else []
    if state.status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.COMPENSATING, RunStatus.PAUSED) or outline.held:
        told += _at_work(state)
        told += _waits(state, now)
    request = next_request(state)
    if request is not None:
        told.append(f"It was asked to {_ASKED[type(request)]} and has not done so yet.")
    return told


def _stands(state: State) -> str:
    outline = state.outline
    reason = f": {say.cropped(outline.reason, 140)}" if outline.reason else ""
    if outline.held:  # all of it: here somebody decides
        reason = f": {' '.join(outline.reason.split())}" if outline.reason else ""
        return say.sentence(f"It is held, a person has to decide{reason}")
    match state.status:
        case RunStatus.CREATED:
            return "It has not begun: it waits for a worker."
        case RunStatus.RUNNING:
            return "It is running."
        case RunStatus.WAITING:
            return f"It waits for {say.counted(len(state.waits), 'thing')}." if len(state.waits) > 1 else ""
        case RunStatus.PAUSED:
            return say.sentence(f"It is paused{reason}")
        case RunStatus.COMPENSATING if outline.cleanup is not None:
            return "It is compensating: it was cancelled, and its code cleans up."
        case RunStatus.COMPENSATING:
            return "It is compensating."
        case RunStatus.COMPLETED:
            return "It is over."
        case RunStatus.CANCELLED:
            return "It is over: it was cancelled."
        case RunStatus.FAILED if outline.recoverable:
            return "It failed, and can go on once the cause is gone."
        case RunStatus.FAILED:
            return "It failed for good."


def _at_work(state: State) -> Iterator[str]:
    busy = [name for name, node in state.nodes.items() if node.status is NodeStatus.STARTED]
    if node := inside(state):
        busy.remove(node)
        yield f"Of {say.cropped(node, 60)} no result was recorded: only a person can find out whether it was done."
    if busy and (state.status is RunStatus.RUNNING or state.outline.is_cleaning):
        yield f"Begun, and no result recorded yet: {say.names(busy)}."
    elif busy:
        yield f"Interrupted before a result was recorded, and to be done again: {say.names(busy)}."


def _waits(state: State, now: int) -> Iterator[str]:
    for wait in islice(state.waits.values(), SHOWN):
        yield _wait(wait, now)
    if len(state.waits) > SHOWN:
        yield f"It waits for {len(state.waits) - SHOWN:,} things more."


def _wait(wait: Wait, now: int) -> str:
    due = ""
    if wait.due is not None:
        due = f"in {say.duration(wait.due - now)}" if wait.due > now else "any moment now"
    text = say.cropped(wait.text) if wait.text else say.cropped(wait.id, 60)
    match wait.kind:
        case "interaction":
            asked = " ".join((wait.text or wait.id).split())  # all of it: here somebody decides
            return (
                f"It waits for an answer to “{asked}”{f', until {due[3:]} from now' if due.startswith('in') else ''}."
            )
        case "timer" if wait.id == f"retry:{wait.node}":
            return f"It tries {say.cropped(wait.node, 60)} again {due}."
        case "timer":
            return f"It waits for a time: {say.cropped(wait.id, 60)}, {due}."
        case "child":
            return f"It waits for its child {say.cropped(wait.text, 60)} {say.cropped(wait.id, 60)}.".replace("  ", " ")
        case "signal" | "outbox" | "trigger":
            return f"It waits for {wait.kind} {text}."


# --- next


def suggestions(state: State, newest: int, revival: Revival | None = None) -> list[Suggestion]:
    """What one could type next, the likeliest first. `revival` is how a resume would go back."""
    outline = state.outline
    if outline.branch != newest:
        return [
            Suggestion("explain", "tells the story of the branch that counts"),
            Suggestion(
                "compare", "shows what this branch and the current one did differently", (f"@{outline.branch}",)
            ),
        ]
    return [*_to_act(state, revival), *_to_look(state)]


def _to_act(state: State, revival: Revival | None) -> Iterator[Suggestion]:
    outline = state.outline
    questions = [wait for wait in state.waits.values() if wait.kind == "interaction"]
    can = allowed(state)
    if "answer" in can:
        for wait in questions[:SHOWN]:
            value = "--yes|--no" if _wants_yes_or_no(wait) else "VALUE"
            yield Suggestion("answer", f"answers {say.quoted(wait.text or wait.id)}", (wait.id, value))
    again = f"does {say.cropped(outline.failed_node, 60)} again and goes on" if outline.failed_node else "goes on"
    if outline.held:
        yield from _to_decide(state, again)
        yield Suggestion("cancel", "ends it")
    elif state.status is RunStatus.FAILED and outline.recoverable and revival is not None and revival.since:
        since = say.names(revival.since)
        yield Suggestion("jump", f"goes back to before what {since} undid, and on", ("--to", revival.undone or START))
    elif "resume" in can:
        yield Suggestion("resume", _RESUMES.get(state.status, "takes it over, if its worker is gone").format(again))
    elif state.status is RunStatus.FAILED and (place := _decided_at(state)):
        yield Suggestion("jump", "goes back to there, to decide otherwise", ("--to", place))


def _to_decide(state: State, again: str) -> Iterator[Suggestion]:
    """What a person may say of a run that is held."""
    if has_diverged(state):
        yield Suggestion("diff", "shows what changed in its code; with the old code back, resume goes on")
        yield Suggestion("migrate", "goes on with today's code from where it differs, as a new branch")
        return
    if node := inside(state):
        yield Suggestion("jump", f"goes on as if {node} had returned VALUE", ("--to", node, "--edit", "output=VALUE"))
    yield Suggestion("resume", again)


_RESUMES = {RunStatus.PAUSED: "goes on", RunStatus.FAILED: "{}, once the cause is gone"}


def _decided_at(state: State) -> str:
    """What a run that is not recoverable failed of: a node, or the question that was answered last."""
    answered = [(each.seq, name) for name, each in state.interactions.items() if each.answer is not None]
    return state.outline.failed_node or question_of(max(answered, default=(0, ""))[1])


def _wants_yes_or_no(wait: Wait) -> bool:
    try:
        schema = msgspec.json.decode(wait.detail)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(schema, dict) and schema.get("type") == "boolean"


def _to_look(state: State) -> Iterator[Suggestion]:
    outline = state.outline
    if outline.successor:
        yield Suggestion("explain", "tells how it went on", run=outline.successor)
    for wait in islice((each for each in state.waits.values() if each.kind == "child"), 1):
        yield Suggestion("explain", "tells what its child does", run=wait.id)
    if outline.error is not None:
        if outline.error.trace:
            yield Suggestion("show", "shows the traceback", ("--verbose",))
        if outline.failed_node:
            yield Suggestion("logs", "shows what the node logged", (outline.failed_node,))
    elif state.status not in TERMINAL:
        yield Suggestion("events", "shows what happens from now on", ("--follow",))
    if outline.branch:
        yield Suggestion("compare", "shows what this branch and the one before it did differently")
    if state.status is RunStatus.COMPLETED:
        yield Suggestion("show", "shows its nodes and its whole result")
