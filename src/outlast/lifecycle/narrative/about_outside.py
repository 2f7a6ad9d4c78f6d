"""What events of triggers, messages and children add to the story."""

from __future__ import annotations

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import Mark
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.teller import Teller, tells


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
    teller.begin(
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
    target = teller.about("message", event.message)
    receipt = f", receipt {say.cropped(event.receipt, 40)}" if event.receipt else ""
    before = " before this branch was opened" if event.adopted else ""
    words, alone = f"A message to {target} went out", f"The message to {target} went out"
    teller.settle(("message", event.message), entry, "settled", words, alone, rest=f"{before}{receipt}")


@tells(e.ChildStarted)
def _child_started(teller: Teller, event: e.ChildStarted, entry: Entry) -> None:
    teller.counts["children"] += 1
    name = f"{say.cropped(event.workflow, 60)} ({say.cropped(event.child, 60)})" if event.workflow else event.child
    free = " and does not wait for it" if event.detached else ""
    teller.begin(
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
    name = teller.about("child", event.child)
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
