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
            return _delivery(code, question, lambda: code.resolve(question, answer))
        case e.ChildEnded():
            child = code.open.get(f"child:{event.child}")
            if not isinstance(child, ChildCommand):
                return None
            if child.is_cancel_requested:
                return _delivery(code, child, lambda: code.resolve_cancelled(child))
            if event.status != "completed":
                failure = event.error or e.Failure(RunCancelled.code, f"child run {event.child} was cancelled")
                return _delivery(code, child, lambda: code.resolve_failure(child, failure))
            value = child.workflow._arguments.returns.decode(await fetched(event.output, blobs))
            return _delivery(code, child, lambda: code.resolve(child, value))
        case e.TimerFired():
            timer = code.open.get(f"timer:{event.timer}")
            return (
                _delivery(code, timer, lambda: _resolve_timer(code, timer)) if isinstance(timer, TimerCommand) else None
            )
        case _:
            return None


def _delivery(code: Code, command: Command, resolve: Delivery) -> Delivery:
    def deliver() -> None:
        if code.open.pop(command.key, None) is not None:
            resolve()

    return deliver


def _resolve_timer(code: Code, timer: TimerCommand) -> None:
    if timer.handle is not None:
        timer.handle.cancel()
    code.resolve_timer(timer)
