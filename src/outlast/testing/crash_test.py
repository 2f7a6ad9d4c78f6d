"""The user's own crash test: does my workflow end the same wherever its process dies?

`survives_crashes(workflow, …)` runs it once undisturbed, and then again for every call that run made to its store: the
process dies there, before the call has its effect or after it, and another goes on. The first difference is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import InvalidInput
from outlast.functions.decorators import Workflow
from outlast.history.record import Entry, entries
from outlast.lifecycle.timeline import text_of
from outlast.stores.memory import Memory
from outlast.testing import other_process_replay
from outlast.testing.answering import Answers, BadAnswer
from outlast.testing.crashes import FOREVER, RUN, CrashLoop, Story, crash_loop
from outlast.testing.doors import MemoryDoor
from outlast.testing.faults import Fault, Way
from outlast.testing.world import Difference, OtherResult

T = TypeVar("T")

POINTS = 500
"""Crash points that are tried if nobody says how many."""
DEATHS: tuple[Way, ...] = ("die_before", "die_after")
SHOWN = 40
"""Events of a history that are shown: the last ones."""

ADVICE = {
    "no longer does what its log holds": (
        "Workflow code has to ask for the same things each time it is gone through. What is random, has a date or comes "
        "from outside belongs in a node; for some of it there are ol.now(), ol.random() and ol.uuid()."
    ),
    "ended otherwise": (
        "If a node is to bring something else each time (a date, a random id), say what has to be the same: "
        "same=lambda result: …. If it depends on what was there before, put that back: before_each=…."
    ),
    "interaction": 'Give an answer by its prompt or id: answers={"Go on?": True}.',
}


class DidNotSurvive(AssertionError):
    """A crash makes a difference; the message tells where, which, and the history that led to it."""


class Survival(Struct, frozen=True):
    """A workflow ended the same wherever its process died: at `points` crash points, of the `possible` ones that `calls`
    store calls have. `result` is what it returned, or None if it failed each time. `is_replayed` says whether another
    Python replayed its log, with other hashes."""

    points: int
    possible: int
    calls: int
    result: Any = None
    is_replayed: bool = False

    def __str__(self) -> str:
        tried = f"{self.points}" if self.points == self.possible else f"{self.points} of {self.possible}"
        return f"{tried} crash points survived, at {self.calls} store calls"


def survives_crashes(
    workflow: Workflow[..., Any],
    /,
    *args: Any,
    answers: Answers | None = None,
    points: int | None = None,
    seed: int = 0,
    before_each: Callable[[], object] | None = None,
    same: Callable[[Any], Any] | None = None,
    in_another_python: bool = True,
    **kwargs: Any,
) -> Survival:
    """Kill a run of the workflow with these parameters at every call to its store, and demand that it makes no difference:
    the same result or error, no completed node executed again, every log sound. `DidNotSurvive` tells the first one.

    `answers` are given to its questions, by prompt or id, or by a function of the `Question`. Sleeps take no time. Nodes
    really run, many times: `before_each` is called before every round, to put back what they change outside. `same` says
    what of the result has to be the same. `points` caps how many crash points are tried, of all kinds, chosen by `seed`.
    The log is also replayed `in_another_python`, with other hashes, if the workflow can be imported there. A parameter of
    the workflow that has one of these names is given by position."""
    if not isinstance(workflow, Workflow):
        raise InvalidInput(f"{workflow!r} is not a workflow: decorate the function with @workflow")
    if points is not None and points < 1:
        raise InvalidInput(f"points={points}: at least one crash point has to be tried")
    try:
        workflow._arguments.pack(args, kwargs)
    except TypeError as error:
        raise InvalidInput(f"workflow {workflow.name} cannot be started so: {error}") from error
    story = Story(
        workflow,
        args,
        kwargs,
        answers=answers or {},
        is_loose=True,
        is_resumed=True,
        same=same,
        before_each=before_each,
    )
    return apart(lambda: _survived(story, points or POINTS, seed, in_another_python))


def apart(work: Callable[[], T]) -> T:
    """Do this in a thread of its own if a loop runs in this one: two loops cannot."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    done: list[T] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            done.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=do, name="outlast-test")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return done[0]


# --- the rounds --------------------------------------------------------------------------------------------------------


def _survived(story: Story, most: int, seed: int, in_another_python: bool) -> Survival:
    name, door = story.workflow.name, MemoryDoor(Path())
    with _aside(), contextlib.ExitStack() as stack:
        try:
            loop = stack.enter_context(crash_loop(story, door, claim=FOREVER))
            undisturbed, variation = door.memory, loop.variation()
        except (Difference, BadAnswer) as difference:
            begun = f"{name} does not come to its end, even without a crash."
            raise DidNotSurvive(_report([begun], difference, door.memory)) from None
        survival, other = _struck(loop, door, most, seed)
        if variation is not None:
            begun = f"{name} ends otherwise each time, even without a crash."
            raise DidNotSurvive(_report([begun], variation, undisturbed))
        if other:
            raise DidNotSurvive(other)
        if in_another_python:
            return replace(survival, is_replayed=_replayed_elsewhere(story, undisturbed))
        return survival


def _struck(loop: CrashLoop, door: MemoryDoor, most: int, seed: int) -> tuple[Survival, str]:
    """Try the crash points. The second is what is said of the first other result, if that is all that was found: what
    comes of code that is not deterministic tells less than where it diverges."""
    calls, other = loop.whole.calls, ""
    every = [Fault(way, call) for call in range(1, len(calls) + 1) for way in DEATHS]
    chosen = every if len(every) <= most else sorted(random.Random(seed).sample(every, most), key=every.index)
    for number, fault in enumerate(chosen, 1):
        try:
            loop.strike(fault)
        except (Difference, BadAnswer) as difference:
            tried = f"{number} of {len(every)} crash points were tried."
            parts = [f"{loop.story.workflow.name} does not survive a crash.", _where(fault, calls)]
            said = _report(parts, difference, door.memory, tried)
            if not isinstance(difference, OtherResult):
                raise DidNotSurvive(said) from None
            other = other or said
    output = loop.output
    result = None if output is None else loop.story.workflow._arguments.returns.decode(output)
    return Survival(len(chosen), len(every), len(calls), result), other


def _where(fault: Fault, calls: list[str]) -> str:
    when = "before it had its effect" if fault.way == "die_before" else "after it had its effect"
    return f"the process died at store call {fault.call} of {len(calls)}, {calls[fault.call - 1]!r}, {when}"


def _replayed_elsewhere(story: Story, undisturbed: Memory) -> bool:
    """Another Python has other hashes: what depends on the order of a set shows there."""
    said = other_process_replay.replayed(story.workflow, undisturbed)
    if said:
        raise DidNotSurvive(
            f"{story.workflow.name} does not survive a crash.\n\n"
            f"another Python, with other hashes, replays the log of the undisturbed run otherwise:\n{said}\n\n"
            "Is something in the order of a set? Sort it before nodes are called with it."
        )
    return said is not None


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """What the rounds print and log is heard by nobody, and the randomness of the test is its own."""
    state, disabled = random.getstate(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
        random.setstate(state)


# --- the report --------------------------------------------------------------------------------------------------------


def _report(parts: list[str], difference: Difference | BadAnswer, memory: Memory, tried: str = "") -> str:
    what, run = str(difference), difference.run if isinstance(difference, Difference) else RUN
    history = [entry for record in memory.logs.get(run, []) for entry in entries(record)]
    parts = [*parts, what]
    if history:
        parts.append("\n".join([f"history of run {run}:", *_lines(history)]))
    advice = [text for sign, text in ADVICE.items() if sign in what]
    return "\n\n".join([*parts, *filter(None, ["\n".join(filter(None, [tried, *advice[:1]]))])])


def _lines(history: list[Entry]) -> list[str]:
    shown = history[-SHOWN:]
    names = max(len(type(entry.event).__name__) for entry in shown)
    lines = [f"  … {len(history) - len(shown)} events before"] if len(history) > len(shown) else []
    for entry in shown:
        kind, text = type(entry.event).__name__, text_of(entry.event, entry.time)
        lines.append(f"{entry.seq:>5}  {kind:<{names}}  {text[:160]}".rstrip())
    return lines
