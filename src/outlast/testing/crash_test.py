"""The crash test for users: does a workflow end the same wherever its process dies?

`survives_crashes(workflow, …)` runs it once undisturbed, then once for every store call of that run: the process dies
there, before or after the call takes effect, and another process continues. The first difference is reported.
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
from outlast.testing.faults import Fault, Way
from outlast.testing.store_factory import MemoryStoreFactory
from outlast.testing.world import Difference, OtherResult

T = TypeVar("T")

POINTS = 500
"""Default limit of crash points."""
DEATHS: tuple[Way, ...] = ("die_before", "die_after")
SHOWN = 40
"""How many of the last events of a history a report shows."""

ADVICE = {
    "no longer does what its log holds": (
        "Workflow code must make the same calls in every replay. Put random values, dates and outside input into a node, "
        "or use ol.now(), ol.random() and ol.uuid()."
    ),
    "ended differently": (
        "If a node returns another value each time (a date, a random id), select the part that must be equal: "
        "same=lambda result: …. If the result depends on earlier effects, undo them: before_each=…."
    ),
    "interaction": 'Give an answer by its prompt or id: answers={"Go on?": True}.',
}


class DidNotSurvive(AssertionError):
    """A crash makes a difference; the message has the crash point, the difference, and the history that led to it."""


class Survival(Struct, frozen=True):
    """A workflow ended the same wherever its process died: at `points` crash points, of the `possible` ones at
    `calls` store calls. `result` is its return value, or None if it failed each time. `is_replayed`: another Python,
    with other hashes, replayed its log."""

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
    """Kill a run of the workflow with these parameters at every store call, and require that this makes no
    difference: the same result or error, no completed node executed again, every log sound. `DidNotSurvive` reports
    the first difference.

    `answers` answer its questions, by prompt or id, or by a function of the `Question`. Sleeps take no time. Nodes
    really run, many times: `before_each` is called before every round, to undo their effects. `same` selects the part
    of the result that must be equal. `points` limits the number of crash points, chosen by `seed`. The log is also
    replayed `in_another_python`, with other hashes, if the workflow can be imported there. A parameter of the
    workflow with one of these names is passed by position."""
    if not isinstance(workflow, Workflow):
        raise InvalidInput(f"{workflow!r} is not a workflow: decorate the function with @workflow")
    if points is not None and points < 1:
        raise InvalidInput(f"points must be at least 1, not {points}")
    try:
        workflow._arguments.pack(args, kwargs)
    except TypeError as error:
        raise InvalidInput(f"wrong arguments for workflow {workflow.name}: {error}") from error
    story = Story(
        workflow,
        args,
        kwargs,
        answers=answers or {},
        first_run_only=True,
        resumes_held=True,
        same=same,
        before_each=before_each,
    )
    return apart(lambda: _run_crash_test(story, points or POINTS, seed, in_another_python))


def apart(work: Callable[[], T]) -> T:
    """Run this in its own thread if an event loop runs in this one."""
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


def _run_crash_test(story: Story, most: int, seed: int, in_another_python: bool) -> Survival:
    name, factory = story.workflow.name, MemoryStoreFactory(Path())
    with _silenced(), contextlib.ExitStack() as stack:
        try:
            loop = stack.enter_context(crash_loop(story, factory, claim=FOREVER))
            undisturbed, variation = factory.memory, loop.variation()
        except (Difference, BadAnswer) as difference:
            begun = f"{name} does not end, even without a crash."
            raise DidNotSurvive(_report([begun], difference, factory.memory)) from None
        survival, other = _try_crash_points(loop, factory, most, seed)
        if variation is not None:
            begun = f"{name} ends differently each time, even without a crash."
            raise DidNotSurvive(_report([begun], variation, undisturbed))
        if other:
            raise DidNotSurvive(other)
        if in_another_python:
            return replace(survival, is_replayed=_replayed_elsewhere(story, undisturbed))
        return survival


def _try_crash_points(loop: CrashLoop, factory: MemoryStoreFactory, most: int, seed: int) -> tuple[Survival, str]:
    """Try the crash points. The second value reports the first different result, if there was no other difference:
    where nondeterministic code diverges explains more than its result."""
    calls, other = loop.whole.calls, ""
    every = [Fault(way, call) for call in range(1, len(calls) + 1) for way in DEATHS]
    chosen = every if len(every) <= most else sorted(random.Random(seed).sample(every, most), key=every.index)
    for number, fault in enumerate(chosen, 1):
        try:
            loop.strike(fault)
        except (Difference, BadAnswer) as difference:
            tried = f"{number} of {len(every)} crash points were tried."
            parts = [f"{loop.story.workflow.name} does not survive a crash.", _where(fault, calls)]
            report = _report(parts, difference, factory.memory, tried)
            if not isinstance(difference, OtherResult):
                raise DidNotSurvive(report) from None
            other = other or report
    output = loop.output
    result = None if output is None else loop.story.workflow._arguments.returns.decode(output)
    return Survival(len(chosen), len(every), len(calls), result), other


def _where(fault: Fault, calls: list[str]) -> str:
    when = "before it took effect" if fault.way == "die_before" else "after it took effect"
    return f"the process died at store call {fault.call} of {len(calls)}, {calls[fault.call - 1]!r}, {when}"


def _replayed_elsewhere(story: Story, undisturbed: Memory) -> bool:
    """Replay in another Python with other hashes, which shows code that depends on the order of a set."""
    divergence = other_process_replay.replayed(story.workflow, undisturbed)
    if divergence:
        raise DidNotSurvive(
            f"{story.workflow.name} does not survive a crash.\n\n"
            f"another Python, with other hashes, does not replay the log of the undisturbed run:\n{divergence}\n\n"
            "Does the order of calls depend on a set? Sort it before calling nodes with its items."
        )
    return divergence is not None


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Suppress what the rounds print and log, and restore the state of `random`."""
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
    lines = [f"  … {len(history) - len(shown)} earlier events"] if len(history) > len(shown) else []
    for entry in shown:
        kind, text = type(entry.event).__name__, text_of(entry.event, entry.time)
        lines.append(f"{entry.seq:>5}  {kind:<{names}}  {text[:160]}".rstrip())
    return lines
