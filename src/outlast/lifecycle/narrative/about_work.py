"""What events of steps and nodes add to the story."""

from __future__ import annotations

from outlast.errors import RUN_ENDED
from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.teller import Teller, tells


@tells(e.StepStarted)
def _step_started(teller: Teller, event: e.StepStarted, entry: Entry) -> None:
    name = say.cropped(event.step, 60)
    teller.begin(
        entry,
        ("step", event.step),
        f"Step {name} began",
        family=("step", say.base(event.step)),
        tone=Tone.WORK,
        plural=f"steps {say.label(say.base(event.step))}",
        verbs={"open": "begun", "settled": "completed"},
        about=name,
        after=" in ",
    )


@tells(e.StepCompleted)
def _step_completed(teller: Teller, event: e.StepCompleted, entry: Entry) -> None:
    name = say.cropped(event.step, 60)
    told = f"Step {name} was completed"
    teller.settle(("step", event.step), entry, "settled", told, told)


@tells(e.NodeScheduled)
def _scheduled(teller: Teller, event: e.NodeScheduled, entry: Entry) -> None:
    if event.cause in ("crash", "pause", "reset"):
        _again(teller, event, entry)
    if event.cause == "crash":
        teller.counts["interrupted"] += 1
    teller.work(event.node, entry).put(event.node, entry, "scheduled", event.attempt)
    feedback = say.value(event.feedback)
    if feedback:
        words, many = f"{say.cropped(event.node, 60)} was told", "{n} times a node was told something"
        teller.say(words, entry, Tone.PEOPLE, "feedback", why=feedback, many=many)
    inputs = say.value(event.inputs)
    if inputs:
        words, many = f"{say.cropped(event.node, 60)} was given other inputs", "{n} times a node was given other inputs"
        teller.say(words, entry, Tone.PEOPLE, "inputs", why=inputs, many=many)


def _again(teller: Teller, event: e.NodeScheduled, entry: Entry) -> None:
    """What had come to an end, or was cut off, is done again: told with the turn that it follows."""
    turn, before = teller.last_turn, teller.before
    if turn is not None and before is not None and turn.last == before.seq:
        if event.node not in turn.again:
            turn.again.append(event.node)
        turn.touch(entry)
    elif event.cause == "reset":
        words = f"{say.cropped(event.node, 60)} was to be done again"
        teller.turn(words, entry, Tone.RECOVERY, "reset", many="{n} times a node was to be done again")


@tells(e.NodeStarted)
def _started(teller: Teller, event: e.NodeStarted, entry: Entry) -> None:
    teller.work(event.node, entry).put(event.node, entry, "started", event.attempt).began = entry.time


@tells(e.NodeCheckpointed)
def _checkpointed(teller: Teller, event: e.NodeCheckpointed, entry: Entry) -> None:
    teller.work(event.node, entry).effort(event.node, entry).checkpoints += 1


@tells(e.NodeCompleted)
def _completed(teller: Teller, event: e.NodeCompleted, entry: Entry) -> None:
    teller.counts["adopted" if event.adopted else "completed"] += 1
    work = teller.work(event.node, entry)
    effort = work.put(event.node, entry, "adopted" if event.adopted else "completed", event.attempt)
    effort.ms = event.ms or (max(0, entry.time - effort.began) / 1000 if not event.adopted else 0.0)
    work.output = event.output
    effort.note = f"by {say.cropped(event.by, 60)}" if event.by else ""


@tells(e.NodeFailed)
def _failed(teller: Teller, event: e.NodeFailed, entry: Entry) -> None:
    work = teller.work(event.node, entry)
    if event.error.kind == RUN_ENDED:
        work.put(event.node, entry, "ended", event.attempt)
        return
    is_final = event.retry_at is None
    teller.counts["failed" if is_final else "tried again"] += 1
    work.fail(event.node, entry, event, is_final=is_final)
    if is_final:
        effort = work.efforts[event.node]
        effort.ms = event.ms or max(0, entry.time - effort.began) / 1000
        teller.told_failures.add((event.node, say.short(event.error)))


@tells(e.NodesRetired)
def _retired(teller: Teller, event: e.NodesRetired, entry: Entry) -> None:
    teller.mention(f"{say.counted(len(event.nodes), 'node')} retired: {say.names(event.nodes)}", entry, "retired")
