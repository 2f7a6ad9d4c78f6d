"""What events of the run as a whole, and of its branches, add to the story."""

from __future__ import annotations

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.narrative import phrases as say
from outlast.lifecycle.narrative.beats import CHAPTER, Said
from outlast.lifecycle.narrative.story import Tone
from outlast.lifecycle.narrative.teller import Left, Teller, tells

CODES = {
    "A1": "it was said to wait for an answer, and asked nothing",
    "A2": "it was said to run, and a question was open",
    "A3": "all its steps were complete, and its end was not recorded",
    "A3r": "it was said to be complete, and its end was not recorded",
    "A4": "a node had failed, and nothing was scheduled after it",
    "C1": "a node had been started and not completed, and its worker was gone",
    "C2": "a step had been started and not completed, and its worker was gone",
    "C3": "a node was complete, and what follows it was not scheduled",
    "D2": "a jump was asked for whose branch is not the current one",
    "E1": "no version was recorded",
    "E2": "its version is not known here",
    "E3": "its definition had changed",
    "G1": "it was said to run, and nobody held its claim",
    "G2": "its summary was behind its log",
    "G3": "its log was damaged",
    "G4": "a stored value was missing",
    "G5": "its log had lost its end",
}
"""The states that recovery knows, in words."""


def somebody(by: str, otherwise: str = "somebody") -> str:
    return say.cropped(by, 60) if by else otherwise


@tells(e.RunCreated)
def _created(teller: Teller, event: e.RunCreated, entry: Entry) -> None:
    params = say.value(event.params)
    how = f" with {params}" if params and params not in ("{}", "[]") else ""
    words = f"{somebody(event.by)} started it{how}" if event.by else f"It was started{how}"
    if event.parent:
        words = f"It was started by {say.cropped(event.parent, 60)}, its parent,{how}".rstrip(",")
    elif event.forked_from:
        words = f"It was forked from event {event.forked_at} of {say.cropped(event.forked_from, 60)}{how}"
    elif event.kind in ("trigger", "schedule"):
        words = f"It was started as a {event.kind}{how}"
    teller.say(words, entry, Tone.RUN, "created", wall=CHAPTER)


@tells(e.RunStarted)
def _started(teller: Teller, event: e.RunStarted, entry: Entry) -> None:
    if event.resumed:
        teller.counts["resumed"] += 1
        words = f"{somebody(event.by, 'Somebody')} had it go on"
        teller.turn(words, entry, Tone.RECOVERY, "resumed", many="{n} times somebody had it go on")
    elif teller.before is not None and entry.time - teller.before.time >= say.SECOND:
        waited = say.duration(entry.time - teller.before.time)
        teller.say(f"A worker took it up; it had waited {waited} for one", entry, Tone.RUN, "started")
    else:
        teller.mention("Its code was set going", entry, "started")


@tells(e.RunTakenOver)
def _taken_over(teller: Teller, event: e.RunTakenOver, entry: Entry) -> None:
    if event.cause == "claimed":
        teller.mention(f"Worker {say.cropped(event.worker, 40)} took it up (epoch {event.epoch})", entry, "claimed")
        return
    teller.counts["crashes"] += 1
    gone = "Its worker died" if event.cause == "dead" else "Its worker went silent"
    worker = f" ({say.cropped(event.worker, 40)}, epoch {event.epoch})" if teller.full and event.worker else ""
    many = "{n} times its worker was lost and another one took it over"
    teller.turn(f"{gone}, and another one took it over{worker}", entry, Tone.RECOVERY, "crash", many=many)


@tells(e.PauseRequested)
def _pause_requested(teller: Teller, event: e.PauseRequested, entry: Entry) -> None:
    beat = Said(
        topic=("pause",),
        family=("pause",),
        tone=Tone.PEOPLE,
        words=f"{somebody(event.by, 'Somebody')} asked for a pause",
    )
    beat.why, beat.many = say.cropped(event.reason), "{n} times a pause was asked for"
    teller.tell(beat, entry)


@tells(e.RunPaused)
def _paused(teller: Teller, event: e.RunPaused, entry: Entry) -> None:
    asked = teller.going_on(("pause",), Said)
    if asked is not None:
        asked.words = asked.words.replace("asked for a pause", "had it paused")
        asked.why = asked.why or say.cropped(event.reason)
        teller.turned(asked, entry)
        return
    by = event.by
    words = f"{say.cropped(by, 60)} had it paused" if by else "It was paused"
    teller.turn(words, entry, Tone.PEOPLE, "pause", many="{n} times it was paused", why=event.reason)


@tells(e.CancelRequested)
def _cancel_requested(teller: Teller, event: e.CancelRequested, entry: Entry) -> None:
    words = f"{somebody(event.by, 'Somebody')} asked for its end"
    teller.say(words, entry, Tone.PEOPLE, "cancel", why=event.reason, many="{n} times its end was asked for")


@tells(e.RequestRefused)
def _request_refused(teller: Teller, event: e.RequestRefused, entry: Entry) -> None:
    words = f"The request at event {event.request} was refused"
    teller.say(words, entry, Tone.PEOPLE, "refused", why=event.reason, many="{n} requests were refused")


@tells(e.RunCompleted)
def _completed(teller: Teller, event: e.RunCompleted, entry: Entry) -> None:
    output = say.value(event.output)
    words = f"The run completed{f': {output}' if output else ''}"
    teller.turn(words, entry, Tone.END, "end", many="{n} times it ended", wall=CHAPTER)


@tells(e.RunFailed)
def _failed(teller: Teller, event: e.RunFailed, entry: Entry) -> None:
    because = f" because of {say.cropped(event.node, 60)}" if event.node else ""
    is_told = (event.node, say.short(event.error)) in teller.told_failures
    why = "" if is_told else say.failure(event.error)
    if event.held:
        teller.counts["held"] += 1
        words = f"The run was held{because}, for a person to decide"
        teller.turn(words, entry, Tone.TROUBLE, "held", many="{n} times it was held", why=why)
    else:
        words = f"The run failed{because}"
        teller.turn(words, entry, Tone.TROUBLE, "end", many="{n} times it ended", why=why)


@tells(e.CleanupStarted)
def _cleanup_started(teller: Teller, event: e.CleanupStarted, entry: Entry) -> None:
    time = say.duration(event.due - entry.time)
    began = "Its clean-up goes on; it" if event.extended else "Its code was cancelled; its clean-up"
    teller.say(f"{began} has {time}", entry, Tone.END, "cleanup", why=event.reason)


_CLEANED_UP = {
    "none": "",
    "completed": ", after its clean-up",
    "failed": "; its clean-up failed",
    "expired": "; the time of its clean-up expired",
    "stopped": "; its clean-up was stopped",
}


@tells(e.RunCancelled)
def _cancelled(teller: Teller, event: e.RunCancelled, entry: Entry) -> None:
    words = f"{somebody(event.by)} cancelled the run" if event.by else "The run was cancelled"
    words += _CLEANED_UP[event.cleanup]
    if event.error is not None:
        words += f" ({say.failure(event.error)})"
    teller.turn(words, entry, Tone.END, "end", many="{n} times it ended", why=event.reason, wall=CHAPTER)


@tells(e.RunContinued)
def _continued(teller: Teller, event: e.RunContinued, entry: Entry) -> None:
    carried = say.value(event.carried)
    words = f"The run ended and goes on as {say.cropped(event.successor, 60)}{f' with {carried}' if carried else ''}"
    teller.turn(words, entry, Tone.END, "end", many="{n} times it ended", wall=CHAPTER)


@tells(e.RunRecovered)
def _recovered(teller: Teller, event: e.RunRecovered, entry: Entry) -> None:
    teller.counts["recovered"] += 1
    known = CODES.get(event.code, "")
    why = event.reason or known
    if event.reason and known:
        why = f"{known}; {event.reason}"
    seen = f" (seen by {'event' if len(event.evidence) == 1 else 'events'} {say.listed(map(str, event.evidence))})"
    words = f"It was recovered, {event.code}{seen if event.evidence else ''}"
    teller.turn(words, entry, Tone.RECOVERY, "recovered", many="{n} times it was recovered", why=why)


@tells(e.VersionChanged)
def _version_changed(teller: Teller, event: e.VersionChanged, entry: Entry) -> None:
    teller.counts["versions"] += 1
    changed = f"{event.previous[:8] or 'none'} to {event.version[:8] or 'none'}"
    words = f"Its code changed ({changed}), and it goes on with the new version"
    teller.say(words, entry, Tone.RUN, "version", why=event.reason, many="{n} times its code changed")


# --- branches

_OPENED = {
    "jump": "{who} went back{where}",
    "retry": "{who} had work done again, went back{where}",
    "recovery": "Recovery went back{where}",
    "activate": "{who} took up an older branch{where}",
    "migrate": "{who} moved it to another version{where}",
    "replan": "{who} had it planned anew{where}",
}


@tells(e.JumpRequested)
def _jump_requested(teller: Teller, event: e.JumpRequested, entry: Entry) -> None:
    words = f"{somebody(event.by, 'Somebody')} asked to go back to event {event.target}"
    teller.say(words, entry, Tone.PEOPLE, "jump", why=event.reason, many="{n} times somebody asked to go back")


@tells(e.Recalled)
def _recalled(teller: Teller, event: e.Recalled, entry: Entry) -> None:
    teller.mention(
        f"What follows was taken over from event {event.at} of the run it was forked from", entry, "recalled"
    )


@tells(e.BranchOpened)
def _branch_opened(teller: Teller, event: e.BranchOpened, entry: Entry) -> None:
    teller.counts["branches"] += 1
    if event.cutoff and teller.before is not None:
        where = f" to event {event.cutoff}, {_landmark(teller.before.event)},"
    else:
        where = " to the very beginning"
    pattern = _OPENED.get(event.cause, "{who} went back{where}")
    words = pattern.format(who=somebody(event.by, "Somebody"), where=where)
    beat = teller.turn(
        f"{words} and opened branch {event.branch}",
        entry,
        Tone.RECOVERY,
        "branch",
        many="{n} times a branch was opened",
        wall=CHAPTER,
        why=event.reason,
    )
    beat.more = [teller.left.text()]
    if event.withdrawn:
        beat.more.append(f"{say.counted(len(event.withdrawn), 'open question')} withdrawn")
    for verb, children in (("cancelled", event.cancelled), ("detached", event.detached)):
        if children:
            beat.more.append(f"{say.counted(len(children), 'child', 'children')} {verb}: {say.names(children)}")
    beat.again += event.redo
    teller.left = Left()


def _landmark(event: e.AnyEvent) -> str:
    """An event as a place to go back to."""
    name = type(event).__name__
    about = getattr(event, "node", "") or getattr(event, "step", "") or getattr(event, "interaction", "")
    return f"{name}{f' of {say.cropped(about, 60)}' if about else ''}"
