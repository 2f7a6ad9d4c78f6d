"""What guests write, as the code of a run hears it: answers, the ends of children, timers that others fired."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from outlast.errors import RunCancelled
from outlast.functions.code import Code
from outlast.functions.commands import Ask, ChildAsk, QuestionAsk, TimerAsk
from outlast.history import events as e
from outlast.history.ids import question_of
from outlast.store import Blobs
from outlast.values.codec import fetched

Telling: TypeAlias = Callable[[], None]


async def understood(code: Code, event: e.AnyEvent, blobs: Blobs) -> Telling | None:
    """What is to be done to tell the code; None if it does not wait for this. To tell is one step, without a pause."""
    match event:
        case e.InteractionAnswered():
            question = code.open.get(f"interaction:{question_of(event.interaction)}")
            if not isinstance(question, QuestionAsk) or question.interaction != event.interaction:
                return None
            answer = question.codec.decode(await fetched(event.answer, blobs))
            return lambda: _tell(code, question, answer)
        case e.ChildEnded():
            child = code.open.get(f"child:{event.child}")
            if not isinstance(child, ChildAsk):
                return None
            if child.is_unwanted:
                return lambda: _tell_cancelled(code, child)
            if event.status != "completed":
                failure = event.error or e.Failure(RunCancelled.code, f"child run {event.child} was cancelled")
                return lambda: _tell_failure(code, child, failure)
            value = child.workflow._arguments.returns.decode(await fetched(event.output, blobs))
            return lambda: _tell(code, child, value)
        case e.TimerFired():
            timer = code.open.get(f"timer:{event.timer}")
            return (lambda: _tell_fired(code, timer)) if isinstance(timer, TimerAsk) else None
        case _:
            return None


def _tell(code: Code, ask: Ask, value: object) -> None:
    if code.open.pop(ask.key, None) is not None:
        code.tell(ask, value)


def _tell_failure(code: Code, ask: Ask, failure: e.Failure) -> None:
    if code.open.pop(ask.key, None) is not None:
        code.tell_failure(ask, failure)


def _tell_cancelled(code: Code, child: ChildAsk) -> None:
    if code.open.pop(child.key, None) is not None:
        code.tell_cancelled(child)


def _tell_fired(code: Code, timer: TimerAsk) -> None:
    if code.open.pop(timer.key, None) is not None:
        if timer.handle is not None:
            timer.handle.cancel()
        code.tell_fired(timer)
