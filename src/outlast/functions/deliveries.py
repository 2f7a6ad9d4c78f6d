"""Decode events that guests append into deliveries to workflow code: answers, ends of children, timers that others fired."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from outlast.errors import RunCancelled
from outlast.functions.code import Code
from outlast.functions.commands import ChildCommand, Command, QuestionCommand, TimerCommand
from outlast.history import events as e
from outlast.history.ids import question_of
from outlast.store import Blobs
from outlast.values.codec import fetched

Delivery: TypeAlias = Callable[[], None]


async def decode_delivery(code: Code, event: e.AnyEvent, blobs: Blobs) -> Delivery | None:
    """A function that delivers the event to the code, in one step without a pause. None if the code does not wait for it."""
    match event:
        case e.InteractionAnswered():
            question = code.open.get(f"interaction:{question_of(event.interaction)}")
            if not isinstance(question, QuestionCommand) or question.interaction != event.interaction:
                return None
            answer = question.codec.decode(await fetched(event.answer, blobs))
            return lambda: _resolve(code, question, answer)
        case e.ChildEnded():
            child = code.open.get(f"child:{event.child}")
            if not isinstance(child, ChildCommand):
                return None
            if child.is_cancel_requested:
                return lambda: _resolve_cancelled(code, child)
            if event.status != "completed":
                failure = event.error or e.Failure(RunCancelled.code, f"child run {event.child} was cancelled")
                return lambda: _resolve_failure(code, child, failure)
            value = child.workflow._arguments.returns.decode(await fetched(event.output, blobs))
            return lambda: _resolve(code, child, value)
        case e.TimerFired():
            timer = code.open.get(f"timer:{event.timer}")
            return (lambda: _resolve_timer(code, timer)) if isinstance(timer, TimerCommand) else None
        case _:
            return None


def _resolve(code: Code, command: Command, value: object) -> None:
    if code.open.pop(command.key, None) is not None:
        code.resolve(command, value)


def _resolve_failure(code: Code, command: Command, failure: e.Failure) -> None:
    if code.open.pop(command.key, None) is not None:
        code.resolve_failure(command, failure)


def _resolve_cancelled(code: Code, child: ChildCommand) -> None:
    if code.open.pop(child.key, None) is not None:
        code.resolve_cancelled(child)


def _resolve_timer(code: Code, timer: TimerCommand) -> None:
    if code.open.pop(timer.key, None) is not None:
        if timer.handle is not None:
            timer.handle.cancel()
        code.resolve_timer(timer)
