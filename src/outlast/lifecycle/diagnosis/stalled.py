"""What was asked or left behind and is nobody's work now (A3, A4, C1, C2, C3, D2, F1, G1)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from outlast.errors import WORKER_RESTARTED
from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan, plan_of_request, unmet_request_plan
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, HandOver, Open, Remedy, Say, and_more
from outlast.lifecycle.diagnosis.summary_checks import branched
from outlast.lifecycle.requests import newest
from outlast.lifecycle.state import OPEN, NodeStatus
from outlast.lifecycle.status import RunStatus

LATE_US = 60 * 1_000_000
"""Microseconds after which a run that is ready and that nobody claims counts as one that no live worker can start."""


def unmet_jump(evidence: Evidence) -> Iterator[Finding]:
    request = decide.next_request(evidence.state)
    asked = newest(evidence.state.outline.requests, e.JumpRequested)
    if asked is None or not isinstance(request, e.JumpRequested) or evidence.is_held:
        return  # nobody asked, it is being done, or the run is to end instead
    place = asked.seq
    yield Finding(
        code="D2",
        standing="repairable",
        sentence=f"someone asked to go back to event {request.target} as branch {request.branch}, and the run is still on "
        f"branch {evidence.state.outline.branch}",
        events=(place,),
        cause="whoever owned the run died before opening the branch",
        actions=(
            "outlast doctor --fix opens the branch that was asked for; one that cannot be opened is answered by a branch "
            f"from event {place - 1}, and the person may jump again",
        ),
        remedy=Open(_met(evidence, plan_of_request(request, place))),
    )


def _met(evidence: Evidence, plan: BranchPlan) -> BranchPlan:
    if not 0 <= plan.cutoff < plan.request:
        return unmet_request_plan(
            evidence.state, f"event {plan.cutoff} was not in the log when somebody asked to go back to it"
        )
    return structs.replace(plan, code="D2", evidence=(plan.request,))


def failed_without_consequence(evidence: Evidence) -> Iterator[Finding]:
    """A4: a node's failure is the last word, and nothing follows from it."""
    state, last = evidence.state, _last_word(evidence)
    event = last.event if last is not None else None
    if not _is_idle(evidence) or not isinstance(event, e.NodeFailed) or last is None or event.retry_at is not None:
        return
    if evidence.is_ready and evidence.holder is None and state.outline.kind == "function":
        return  # it was given back, and the next worker's replay decides
    node = state.nodes.get(event.node)
    if node is None or node.status is not NodeStatus.FAILED or event.error.category == "cancelled":
        return
    is_curable = event.error.category in ("transient", "timeout", "crash")
    has_more = node.retries + 1 < evidence.attempts.get(event.node.rpartition("/")[2].partition("#")[0], 1)
    remedy: Remedy
    if is_curable and has_more:
        remedy = Say((e.NodeScheduled(node=event.node, attempt=node.attempt + 1, cause="reset"),))
        action = "outlast doctor --fix gives it the next attempt"
    elif state.outline.kind == "function":  # its code may expect the failure: replay decides
        remedy = HandOver()
        action = "outlast doctor --fix leaves it to the next worker: what the code makes of the failure, it makes now"
    else:
        is_recoverable = decide.RECOVERABLE[event.error.category]
        ending = e.RunFailed(error=event.error, node=event.node, recoverable=is_recoverable)
        remedy = Say(tuple(decide.end(state, ending)))
        how, then = (
            (", recoverably", "correct the cause and retry it") if is_recoverable else ("", "go back, if at all")
        )
        action = f"outlast doctor --fix lets the run fail{how}: then {then}"
    yield Finding(
        code="A4",
        standing="repairable",
        sentence=f"node {event.node} failed ({event.error.kind}: {event.error.message}) and nothing was decided about it",
        events=(last.seq,),
        cause="whoever owned the run died between the failure and what follows from it",
        actions=(action,),
        remedy=remedy,
    )


def _last_word(evidence: Evidence) -> Entry | None:
    """The last event, besides those of owners who came and went without a word."""
    return next((entry for entry in reversed(evidence.log) if not isinstance(entry.event, e.RunTakenOver)), None)


def _is_idle(evidence: Evidence) -> bool:
    """Whether the run goes on, nothing of it is open, and nobody advances it."""
    state = evidence.state
    is_going = state.outline.base in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    return is_going and not state.outline.open_nodes and not len(state.waits) and not evidence.is_held


def left_behind(evidence: Evidence) -> Iterator[Finding]:
    """C1, C2, C3, A3 and G1: a run that goes on in its log and that nobody advances."""
    state = evidence.state
    if state.status is RunStatus.WAITING:
        yield from _overdue(evidence)
    if state.status not in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING) or evidence.is_held:
        return
    if evidence.is_ready and evidence.holder is None:
        is_late = evidence.now - state.outline.time > LATE_US
        yield Finding(
            code="G1",
            standing="reported" if is_late else "consistent",
            cause="no worker that is alive can start it: none is running, or none has its workflow" if is_late else "",
            sentence="nobody advances the run; it is ready, and the next worker that knows its workflow takes it",
            actions=(f"outlast resume {evidence.run} goes on here and now; so does any engine that is open",),
        )
        return
    code, sentence, events = _what_is_left(evidence)
    if code == "A3" and state.outline.kind == "graph":  # for functions, replay decides
        cause = "its process ended between the last node and the end of the run"
        yield branched(evidence, code, sentence, cause)
        return
    gone = f"worker {evidence.holder.worker} is gone" if evidence.holder is not None else "no worker has claimed it"
    yield Finding(
        code=code,
        standing="repairable",
        sentence=f"{sentence}; {gone}",
        events=events,
        cause="its process ended without a word: a crash, a kill, a power cut",
        actions=_actions(evidence),
        remedy=HandOver(),
    )
    if evidence.watchers:
        yield Finding(
            code="F1",
            standing="reported",
            sentence=f"{evidence.watchers} watch this run, and nobody advances it: they are told that it is stalled",
            actions=(f"outlast resume {evidence.run}",),
        )


def _overdue(evidence: Evidence) -> Iterator[Finding]:
    """A run that waits has received something, or the time of one of its timers has come, and no worker claims it."""
    timers = [wait for wait in evidence.state.waits.values() if wait.kind == "timer" and wait.due is not None]
    late = [wait.id for wait in timers if evidence.now - (wait.due or 0) > LATE_US]
    is_late = evidence.is_ready and evidence.now - evidence.state.outline.time > LATE_US
    if evidence.holder is not None or not (late or is_late):
        return
    what = f"the time of {late[0]}{and_more(len(late) - 1)} has come" if late else "it has received something"
    yield Finding(
        code="G1",
        standing="reported",
        sentence=f"the run waits, {what}, and nobody advances it",
        events=(evidence.log[-1].seq,),
        cause="no worker that is alive can start it: none is running, or none has its workflow",
        actions=(f"start a worker that has workflow {evidence.state.outline.workflow} (outlast worker --app …)",),
    )


def _actions(evidence: Evidence) -> tuple[str, ...]:
    """What may be done about a run whose worker is gone. Whoever takes it over may have to leave it to a person."""
    run = evidence.run
    held = decide.held_by_interruption(evidence.state)
    if held is None:
        return (
            f"outlast resume {run} goes on here and now",
            "outlast doctor --fix takes it over and leaves it to the next worker",
        )
    if held.error.kind == WORKER_RESTARTED:
        return (
            f"outlast resume {run} goes on here and now",
            'outlast doctor --fix takes it over and holds it for a person: its workflow has on_restart="hold"',
        )
    return (
        f"outlast resume {run} takes it over and holds it for a person, and so does outlast doctor --fix: "
        f"{held.error.message}",
        f"once it is held and somebody has seen how far the node came: outlast resume {run} does it again, "
        f"outlast cancel {run} ends the run",
    )


def _what_is_left(evidence: Evidence) -> tuple[str, str, tuple[int, ...]]:
    state = evidence.state
    started = [(name, node) for name, node in state.nodes.items() if node.status is NodeStatus.STARTED]
    if started:
        names = ", ".join(name for name, _ in started[:3]) + and_more(len(started) - 3)
        which = f"node {names} was" if len(started) == 1 else f"nodes {names} were"
        return "C1", f"{which} started and not completed", tuple(node.seq for _, node in started[:20])
    waiting = [node.seq for _, node in state.nodes.items() if node.status in OPEN]
    if waiting:
        return "C1", "a node was scheduled and not started", tuple(waiting[:20])
    last = evidence.log[-1].seq
    if state.status is RunStatus.CREATED:
        return "G1", "the run has not begun, and it is not marked as ready", (last,)
    steps = dict(state.steps.items())
    if steps and all(steps.values()):
        return "A3", "all steps are complete and the run has not ended", (last,)
    if steps:
        name = next(name for name, is_done in steps.items() if not is_done)
        place = next((each.seq for each in evidence.log if _begins(each, name)), last)
        return "C2", f"step {name} was started and not completed", (place,)
    if state.outline.done_nodes:
        return "C3", "what was asked for is done, and nothing follows from it yet", (last,)
    return "G1", "the run is running", (last,)


def _begins(entry: Entry, step: str) -> bool:
    return isinstance(entry.event, e.StepStarted) and entry.event.step == step
