"""Runs that no worker advances, and requests that no owner obeys (A3, A4, C1, C2, C3, D2, F1, G1)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from outlast.errors import WORKER_RESTARTED
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan, plan_of_request, unmet_request_plan
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, HandOver, Open, QueueState, Remedy, Say, and_more
from outlast.lifecycle.diagnosis.summary_checks import branched
from outlast.lifecycle.requests import newest
from outlast.lifecycle.state import OPEN, NodeStatus
from outlast.lifecycle.status import RunStatus

LATE_US = 60 * 1_000_000
"""Microseconds after which a ready run without a claim counts as one that no live worker can start."""


def unmet_jump(evidence: Evidence) -> Iterator[Finding]:
    request = decide.next_request(evidence.state)
    asked = newest(evidence.state.outline.requests, e.JumpRequested)
    if asked is None or not isinstance(request, e.JumpRequested) or evidence.is_held:
        return  # no request is open, its owner is alive, or a cancellation comes first
    place = asked.seq
    yield Finding(
        code="D2",
        standing="repairable",
        sentence=f"a jump to event {request.target} on branch {request.branch} was requested, but the run is still on "
        f"branch {evidence.state.outline.branch}",
        events=(place,),
        cause="the owner of the run died before it opened the branch",
        actions=(
            "outlast doctor --fix opens the requested branch; if that branch cannot be opened, it opens one from event "
            f"{place - 1}, and you can jump again",
        ),
        remedy=Open(_met(evidence, plan_of_request(request, place))),
    )


def _met(evidence: Evidence, plan: BranchPlan) -> BranchPlan:
    if not 0 <= plan.cutoff < plan.request:
        return unmet_request_plan(evidence.state, f"event {plan.cutoff} was not in the log when the jump was requested")
    return structs.replace(plan, code="D2", evidence=(plan.request,))


def failed_without_consequence(evidence: Evidence) -> Iterator[Finding]:
    """A4: the last event is the failure of a node, and no decision follows it."""
    state = evidence.state
    last = next((entry for entry in reversed(evidence.log) if not isinstance(entry.event, e.RunTakenOver)), None)
    event = last.event if last is not None else None
    if not _is_idle(evidence) or not isinstance(event, e.NodeFailed) or last is None or event.retry_at is not None:
        return
    if evidence.is_ready and evidence.holder is None and state.outline.kind == "function":
        return  # the run was released, and the next worker's replay decides
    node = state.nodes.get(event.node)
    if node is None or node.status is not NodeStatus.FAILED or event.error.category == "cancelled":
        return
    is_curable = event.error.category in ("transient", "timeout", "crash")
    has_more = node.retries + 1 < evidence.attempts.get(event.node.rpartition("/")[2].partition("#")[0], 1)
    remedy: Remedy
    if is_curable and has_more:
        remedy = Say((e.NodeScheduled(node=event.node, attempt=node.attempt + 1, cause="reset"),))
        action = "outlast doctor --fix schedules the next attempt of the node"
    elif state.outline.kind == "function":  # its code may expect the failure: replay decides
        remedy = HandOver()
        action = "outlast doctor --fix leaves the run to the next worker, whose replay passes the failure to the code"
    else:
        is_recoverable = decide.RECOVERABLE[event.error.category]
        ending = e.RunFailed(error=event.error, node=event.node, recoverable=is_recoverable)
        remedy = Say(tuple(decide.end(state, ending)))
        then = "correct the cause and retry the run" if is_recoverable else "jump back to an earlier event, if needed"
        action = f"outlast doctor --fix marks the run as failed; then {then}"
    yield Finding(
        code="A4",
        standing="repairable",
        sentence=f"node {event.node} failed ({event.error.kind}: {event.error.message}) and no decision followed",
        events=(last.seq,),
        cause="the owner of the run died between the failure and the decision",
        actions=(action,),
        remedy=remedy,
    )


def _is_idle(evidence: Evidence) -> bool:
    """Whether the run is running without open nodes or waits, and no live worker holds it."""
    state = evidence.state
    is_going = state.outline.base in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    return is_going and not state.outline.open_nodes and not len(state.waits) and not evidence.is_held


def left_behind(evidence: Evidence) -> Iterator[Finding]:
    """C1, C2, C3, A3 and G1: a run that is not over and that no worker advances."""
    state = evidence.state
    if state.status is RunStatus.WAITING:
        yield from _overdue(evidence)
    if state.status not in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING) or evidence.is_held:
        return
    if state.outline.awaits_start:
        return
    if evidence.is_ready and evidence.holder is None:
        if (queue := _full_queue(evidence)) is not None:
            names = ", ".join(queue.holders[:3]) + and_more(len(queue.holders) - 3)
            yield Finding(
                code="G1",
                sentence=f"the run waits in queue {queue.name}, whose slots are held by {names}; that is normal",
            )
            return
        is_late = evidence.now - state.outline.time > LATE_US
        yield Finding(
            code="G1",
            standing="reported" if is_late else "consistent",
            sentence=f"the run is ready and no worker advances it; {_knowing(evidence)}",
            actions=(*_start_a_worker(evidence), f"outlast resume {evidence.run} continues it in this terminal"),
        )
        return
    code, sentence, events = _what_is_left(evidence)
    if code == "A3" and state.outline.kind == "graph":  # for functions, replay decides
        yield branched(evidence, code, sentence, "the process ended between the last node and the end of the run")
        return
    gone = f"worker {evidence.holder.worker} is gone" if evidence.holder is not None else "no worker has claimed it"
    yield Finding(
        code=code,
        standing="repairable",
        sentence=f"{sentence}; {gone}",
        events=events,
        cause="the process ended without releasing the run: a crash, a kill or a power cut",
        actions=_actions(evidence),
        remedy=HandOver(),
    )
    if evidence.watchers:
        yield Finding(
            code="F1",
            standing="reported",
            sentence=f"watchers of this run: {evidence.watchers}; no worker advances it, and the watchers see it as stalled",
            actions=(f"outlast resume {evidence.run}",),
        )


def _overdue(evidence: Evidence) -> Iterator[Finding]:
    """A waiting run received an event, or one of its timers is due, and no worker claims the run."""
    timers = [wait for wait in evidence.state.waits.values() if wait.kind == "timer" and wait.due is not None]
    late = [wait.id for wait in timers if evidence.now - (wait.due or 0) > LATE_US]
    is_late = evidence.is_ready and evidence.now - evidence.state.outline.time > LATE_US
    if evidence.holder is not None or not (late or is_late) or _full_queue(evidence) is not None:
        return
    due = f"timer {late[0]}{and_more(len(late) - 1)} is due" if late else "it has received an event"
    yield Finding(
        code="G1",
        standing="reported",
        sentence=f"the run waits and {due}, but no worker advances it; {_knowing(evidence)}",
        events=(evidence.log[-1].seq,),
        actions=_start_a_worker(evidence),
    )


def _full_queue(evidence: Evidence) -> QueueState | None:
    """The queue of a run that waits for a slot: workers serve it, and other runs hold slots. Its limit is theirs to know."""
    queue = evidence.queue
    return queue if queue is not None and queue.is_served and queue.holders else None


def _knowing(evidence: Evidence) -> str:
    if evidence.queue is not None and not evidence.queue.is_served:
        return f"no live worker serves queue {evidence.queue.name}"
    workflow, workers = evidence.state.outline.workflow, evidence.knowing
    if not workers:
        return f"no live worker knows workflow {workflow}"
    return f"live workers that know workflow {workflow}: {', '.join(workers[:3])}{and_more(len(workers) - 3)}"


def _start_a_worker(evidence: Evidence) -> tuple[str, ...]:
    if evidence.queue is not None and not evidence.queue.is_served:
        return (f"outlast worker --app MODULE --queue {evidence.queue.name} starts a worker that serves the queue",)
    if evidence.knowing:
        return ()
    return (f"outlast worker --app MODULE starts a worker, if MODULE has workflow {evidence.state.outline.workflow}",)


def _actions(evidence: Evidence) -> tuple[str, ...]:
    """The actions for a run whose worker is gone. A takeover may have to hold the run."""
    run = evidence.run
    held = decide.held_by_interruption(evidence.state)
    if held is None or held.error.kind == WORKER_RESTARTED:
        return (
            f"outlast resume {run} continues it in this terminal",
            "outlast doctor --fix claims the run and releases it to the next worker"
            if held is None
            else 'outlast doctor --fix takes it over and holds it, because its workflow has on_restart="hold"',
        )
    return (
        f"outlast resume {run} and outlast doctor --fix take it over and hold it: {held.error.message}",
        f"when it is held and you have checked whether the node took effect: outlast resume {run} repeats the node, "
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
        return "G1", "the run has not started, and it is not marked as ready", (last,)
    steps = dict(state.steps.items())
    if steps and all(steps.values()):
        return "A3", "all steps are complete and the run has not ended", (last,)
    if steps:
        name = next(name for name, is_done in steps.items() if not is_done)
        starts = (
            each.seq for each in evidence.log if isinstance(each.event, e.StepStarted) and each.event.step == name
        )
        return "C2", f"step {name} was started and not completed", (next(starts, last),)
    if state.outline.done_nodes:
        return "C3", "all called nodes are complete, and the run has not continued", (last,)
    return "G1", "the run is running", (last,)
