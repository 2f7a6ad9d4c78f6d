"""What events of people, time and the outside add to the story."""

from __future__ import annotations

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import NO_WALL, PAUSE, Affair, Key, Mark
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.teller import Teller, tells


def _begin(
    teller: Teller,
    entry: Entry,
    topic: Key,
    opened: str,
    *,
    family: Key,
    tone: Tone,
    plural: str,
    verbs: dict[Mark, str],
    wall: int = NO_WALL,
    about: str = "",
    after: str = " after ",
) -> Affair:
    """Something that others, or time, will settle."""
    affair = Affair(
        topic=topic,
        family=family,
        tone=tone,
        wall=wall,
        noun=topic[0],
        plural=plural,
        opened=opened,
        since=entry.time,
        verbs=verbs,
        after=after,
    )
    teller.prompts["/".join(topic)] = (about, entry.time)
    return teller.tell(affair, entry)


def _about(teller: Teller, kind: str, name: str) -> str:
    return teller.prompts.get(f"{kind}/{name}", ("", 0))[0] or say.cropped(name, 60)


# --- people


@tells(e.InteractionRequested)
def _asked(teller: Teller, event: e.InteractionRequested, entry: Entry) -> None:
    prompt = say.quoted(event.prompt or event.interaction)
    due = "" if event.due is None else f", to be answered within {say.duration(event.due - entry.time)}"
    _begin(
        teller,
        entry,
        ("question", event.interaction),
        f"It asked {prompt}{due}",
        family=("question",),
        tone=Tone.PEOPLE,
        plural="questions were asked",
        verbs={"open": "open", "settled": "answered", "dropped": "withdrawn"},
        wall=PAUSE,
        about=prompt,
    )


@tells(e.InteractionAnswered)
def _answered(teller: Teller, event: e.InteractionAnswered, entry: Entry) -> None:
    teller.counts["answered"] += 1
    prompt = _about(teller, "question", event.interaction)
    who, answer = say.cropped(event.by, 60) if event.by else "somebody", say.value(event.answer) or "null"
    words = f"It asked {prompt}, and {who} answered {answer}"
    alone = f"{who if event.by else 'Somebody'} answered {prompt} with {answer}"
    teller.settle(("question", event.interaction), entry, "settled", words, alone, by=event.by)


@tells(e.InteractionWithdrawn)
def _withdrawn(teller: Teller, event: e.InteractionWithdrawn, entry: Entry) -> None:
    prompt = _about(teller, "question", event.interaction)
    why = f", because {say.cropped(event.reason)}" if event.reason else ""
    words, alone = f"It asked {prompt}, and withdrew the question", f"The question {prompt} was withdrawn"
    teller.settle(("question", event.interaction), entry, "dropped", words, alone, rest=why)


@tells(e.SignalAwaited)
def _signal_awaited(teller: Teller, event: e.SignalAwaited, entry: Entry) -> None:
    name = say.cropped(event.name, 60)
    _begin(
        teller,
        entry,
        ("signal", event.wait),
        f"It began to wait for the signal {name}",
        family=("signal", event.name),
        tone=Tone.PEOPLE,
        plural=f"signals {name} were waited for",
        verbs={"open": "still awaited", "settled": "came"},
        wall=PAUSE,
        about=name,
    )


@tells(e.SignalReceived)
def _signal_received(teller: Teller, event: e.SignalReceived, entry: Entry) -> None:
    by, data = f" from {say.cropped(event.by, 60)}" if event.by else "", say.value(event.data)
    words = f"The signal {say.cropped(event.name, 60)} came{by}{f': {data}' if data else ''}"
    teller.prompts[f"came/{event.signal}"] = (words, entry.time)
    teller.say(words, entry, Tone.PEOPLE, "came", event.name, many="{n} such signals came")


@tells(e.SignalConsumed)
def _signal_consumed(teller: Teller, event: e.SignalConsumed, entry: Entry) -> None:
    name = _about(teller, "signal", event.wait)
    affair = teller.going_on(("signal", event.wait), Affair)
    if affair is not None:
        affair.settle(entry, "settled", f"It waited for the signal {name} and got it")
    else:
        teller.mention(f"The signal {name} was used", entry, "used")


# --- time


@tells(e.TimerSet)
def _timer_set(teller: Teller, event: e.TimerSet, entry: Entry) -> None:
    if event.timer.startswith("retry:"):
        teller.mention(f"The next attempt is due in {say.duration(event.due - entry.time)}", entry, "retry")
        return
    name, length = say.cropped(event.timer, 60), say.duration(event.due - entry.time)
    _begin(
        teller,
        entry,
        ("timer", event.timer),
        f"It began to wait {length} ({name})",
        family=("timer", say.base(event.timer)),
        tone=Tone.TIME,
        plural=f"waits ({say.label(say.base(event.timer))})",
        verbs={"open": "not over", "settled": "over", "dropped": "given up"},
        wall=PAUSE,
        about=name,
    )


@tells(e.TimerFired)
def _timer_fired(teller: Teller, event: e.TimerFired, entry: Entry) -> None:
    if event.timer.startswith("retry:"):
        teller.mention("The time for the next attempt had come", entry, "retry")
        return
    name = _about(teller, "timer", event.timer)
    affair = teller.going_on(("timer", event.timer), Affair)
    if affair is not None:
        affair.after = " "
    teller.settle(("timer", event.timer), entry, "settled", "It waited", "The time had come", rest=f" ({name})")


@tells(e.TimerCancelled)
def _timer_cancelled(teller: Teller, event: e.TimerCancelled, entry: Entry) -> None:
    name, why = _about(teller, "timer", event.timer), f", because {say.cropped(event.reason)}" if event.reason else ""
    if event.timer.startswith("retry:"):
        teller.mention(f"No further attempt{why}", entry, "retry")
        return
    alone, rest = "It no longer waits for the time", f" ({name}){why}"
    teller.settle(("timer", event.timer), entry, "dropped", "It waited and gave that up", alone, rest=rest)


@tells(e.NewsHeard)
def _heard(teller: Teller, event: e.NewsHeard, entry: Entry) -> None:
    teller.mention(f"It took in what others had written, up to event {event.upto}", entry, "news")


@tells(e.DecisionRecorded)
def _decided(teller: Teller, event: e.DecisionRecorded, entry: Entry) -> None:
    teller.mention(f"It noted {say.cropped(event.key, 60)}: {say.value(event.value) or 'null'}", entry, "decision")


# --- the outside


@tells(e.TriggerRegistered)
def _registered(teller: Teller, event: e.TriggerRegistered, entry: Entry) -> None:
    kind = f" ({say.cropped(event.kind, 40)})" if event.kind else ""
    words = f"It began to listen to {say.cropped(event.trigger, 60)}{kind}"
    teller.say(words, entry, Tone.OUTSIDE, "trigger", many="{n} sources are listened to")


@tells(e.TriggerInputReceived)
def _input(teller: Teller, event: e.TriggerInputReceived, entry: Entry) -> None:
    data, source = say.value(event.data), say.cropped(event.trigger, 60)
    words = f"An input came from {source}{f': {data}' if data else ''}"
    many = f"{{n}} inputs came from {source}"
    teller.say(words, entry, Tone.OUTSIDE, "input", event.trigger, many=many)


@tells(e.TriggerCursorAdvanced)
def _cursor(teller: Teller, event: e.TriggerCursorAdvanced, entry: Entry) -> None:
    teller.mention(f"{say.cropped(event.trigger, 60)} has been read up to {event.cursor}", entry, "cursor")


@tells(e.OutboxEnqueued)
def _enqueued(teller: Teller, event: e.OutboxEnqueued, entry: Entry) -> None:
    target = say.cropped(event.target or event.message, 60)
    _begin(
        teller,
        entry,
        ("message", event.message),
        f"A message to {target} is to go out",
        family=("message", event.target),
        tone=Tone.OUTSIDE,
        plural=f"messages to {target}",
        verbs={"open": "to go out", "settled": "sent"},
        about=target,
    )


@tells(e.OutboxSent)
def _sent(teller: Teller, event: e.OutboxSent, entry: Entry) -> None:
    target = _about(teller, "message", event.message)
    receipt = f", receipt {say.cropped(event.receipt, 40)}" if event.receipt else ""
    before = " before this branch was opened" if event.adopted else ""
    words, alone = f"A message to {target} went out", f"The message to {target} went out"
    teller.settle(("message", event.message), entry, "settled", words, alone, rest=f"{before}{receipt}")


@tells(e.ChildStarted)
def _child_started(teller: Teller, event: e.ChildStarted, entry: Entry) -> None:
    teller.counts["children"] += 1
    name = f"{say.cropped(event.workflow, 60)} ({say.cropped(event.child, 60)})" if event.workflow else event.child
    free = " and does not wait for it" if event.detached else ""
    _begin(
        teller,
        entry,
        ("child", event.child),
        f"It started the child {name}{free}",
        family=("child", event.workflow),
        tone=Tone.OUTSIDE,
        plural=f"children {say.cropped(event.workflow, 60)}",
        verbs={"open": "not over", "settled": "completed", "dropped": "cancelled", "failed": "failed"},
        about=name,
        after=" in ",
    )


@tells(e.ChildEnded)
def _child_ended(teller: Teller, event: e.ChildEnded, entry: Entry) -> None:
    name = _about(teller, "child", event.child)
    mark, verb = _CHILD_ENDS.get(event.status, ("settled", "ended"))
    before = ", before this branch was opened" if event.adopted else ""
    result = say.short(event.error) if event.error else say.value(event.output)
    rest = f"{before}{f': {result}' if result else ''}"
    words = f"The child {name} {verb}"
    teller.settle(("child", event.child), entry, mark, words, words, rest=rest)


_CHILD_ENDS: dict[str, tuple[Mark, str]] = {
    "completed": ("settled", "completed"),
    "failed": ("failed", "failed"),
    "cancelled": ("dropped", "was cancelled"),
}
