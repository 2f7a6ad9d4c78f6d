"""What events of people and time add to the story."""

from __future__ import annotations

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import PAUSE, Affair
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.teller import Teller, tells


@tells(e.InteractionRequested)
def _asked(teller: Teller, event: e.InteractionRequested, entry: Entry) -> None:
    prompt = say.quoted(event.prompt or event.interaction)
    due = "" if event.due is None else f", to be answered within {say.duration(event.due - entry.time)}"
    teller.begin(
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
    prompt = teller.about("question", event.interaction)
    who, answer = say.cropped(event.by, 60) if event.by else "somebody", say.value(event.answer) or "null"
    words = f"It asked {prompt}, and {who} answered {answer}"
    alone = f"{who if event.by else 'Somebody'} answered {prompt} with {answer}"
    teller.settle(("question", event.interaction), entry, "settled", words, alone, by=event.by)


@tells(e.InteractionWithdrawn)
def _withdrawn(teller: Teller, event: e.InteractionWithdrawn, entry: Entry) -> None:
    prompt = teller.about("question", event.interaction)
    why = f", because {say.cropped(event.reason)}" if event.reason else ""
    words, alone = f"It asked {prompt}, and withdrew the question", f"The question {prompt} was withdrawn"
    teller.settle(("question", event.interaction), entry, "dropped", words, alone, rest=why)


# --- time


@tells(e.TimerSet)
def _timer_set(teller: Teller, event: e.TimerSet, entry: Entry) -> None:
    if event.timer.startswith("retry:"):
        teller.mention(f"The next attempt is due in {say.duration(event.due - entry.time)}", entry, "retry")
        return
    name, length = say.cropped(event.timer, 60), say.duration(event.due - entry.time)
    teller.begin(
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
    name = teller.about("timer", event.timer)
    affair = teller.going_on(("timer", event.timer), Affair)
    if affair is not None:
        affair.after = " "
    teller.settle(("timer", event.timer), entry, "settled", "It waited", "The time had come", rest=f" ({name})")


@tells(e.TimerCancelled)
def _timer_cancelled(teller: Teller, event: e.TimerCancelled, entry: Entry) -> None:
    name, why = teller.about("timer", event.timer), f", because {say.cropped(event.reason)}" if event.reason else ""
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
