"""What events of children add to the story."""

from __future__ import annotations

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import Mark
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.teller import Teller, tells


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
