"""The last word of a run, from what its code came to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import structs

from outlast.engine.completion import Ended, successor_of
from outlast.errors import NotDurable, NotStorable, Unawaited
from outlast.functions.call import CallBase
from outlast.functions.code import Code, Continue
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.state import State
from outlast.store import Blobs
from outlast.values.codec import stored
from outlast.values.failures import run_failure_of

log = logging.getLogger("outlast.engine")

Ending: TypeAlias = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued | e.RunPaused
"""The last word of a driver, for good or for now."""


SHOWN = 10
"""How many calls a message names."""


async def terminal_event(code: Code, blobs: Blobs, ms: float) -> Ended:
    """What to say of code that is done, `ms` after its run was created."""
    if code.continued is not None:
        carried = await stored(code.continued.inputs, blobs)
        return e.RunContinued(successor=successor_of(code.run, code.generation), carried=carried)
    if code.fatal_error is not None or code.main is None:
        return _failed(code, code.fatal_error or NotDurable("the workflow never began"))
    try:
        value = code.main.result()
    except BaseException as error:
        return _failed(code, error)
    if isinstance(value, CallBase):
        told = f"the workflow returned {value.name_and_place()} and did not await it"
        return _failed(code, Unawaited(f"{told}: write `return await`, or in a plain function `.wait()`"))
    try:
        output = code.workflow._arguments.returns.encode(value, "result")
    except NotStorable as error:
        return _failed(code, error)
    return e.RunCompleted(output=await stored(output, blobs), ms=ms)


def has_cleanup(code: Code) -> bool:
    """Whether code that was cancelled asks for something, or has not ended."""
    return bool(code.new_commands) or not code.is_done()


def cancelled(code: Code, state: State, pending: Iterable[e.AnyEvent] = ()) -> e.RunCancelled:
    """What to say of code that was cancelled and is done. What it returned or continued with is dropped; an error that it
    raised instead of the cancellation is kept."""
    has_started = state.outline.cleanup is not None or any(isinstance(event, e.CleanupStarted) for event in pending)
    error = code.fatal_error or (None if code.main is None or code.main.cancelled() else code.main.exception())
    if error is not None and not isinstance(error, Continue | asyncio.CancelledError):
        return decide.cancelled(state, "failed", run_failure_of(error))
    return decide.cancelled(state, "completed" if has_started else "none")


def checked_for_unawaited(ending: Ended, code: Code, action: str) -> Ended:
    """The same ending, or if code that raised no error left calls without awaiting them, a failure that names them. With
    the `action` "warn", or if a successor goes on, they are only logged."""
    has_failed = isinstance(ending, e.RunFailed) or (isinstance(ending, e.RunCancelled) and ending.error is not None)
    left = [] if has_failed else code.unawaited()
    if not left:
        return ending
    named = ", ".join(left[:SHOWN]) + (f" and {len(left) - SHOWN} more" if len(left) > SHOWN else "")
    if action == "warn" or isinstance(ending, e.RunContinued):
        text = "run %s of workflow %s ended with calls that it never awaited, so that they were not executed: %s"
        log.warning(text, code.run, code.workflow.name, named)
        return ending
    error = Unawaited(f"the workflow ended with calls that it never awaited: {named}. Await each of them.")
    if isinstance(ending, e.RunCancelled):
        return structs.replace(ending, cleanup="failed", error=run_failure_of(error))
    return _failed(code, error)


def needs_completion(ending: Ending, events: list[e.AnyEvent], state: State, created: e.RunCreated) -> bool:
    """Whether others have to be told of the end of a run, said with `events`, before it is given back."""
    if isinstance(ending, e.RunPaused) or (isinstance(ending, e.RunFailed) and ending.held):
        return False  # held is not over
    has_children = state.count("children") > 0 or e.ChildStarted in map(type, events)
    return has_children or bool(created.parent) or isinstance(ending, e.RunContinued)


def reason_of(error: BaseException) -> BaseException:
    """The error that a run fails of when its code raised this one. What was refused to workflow code is named instead of
    the groups that libraries put it into."""
    if isinstance(error, RuntimeError) and "attached to a different loop" in str(error):
        return NotDurable(f"the workflow awaits something that is not durable ({error}). Do this in a node.")
    return _refusal_in(error) or error


def _refusal_in(error: BaseException) -> NotDurable | None:
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_refusal_in, error.exceptions)), None)
    return error if isinstance(error, NotDurable) else None


def _failed(code: Code, error: BaseException) -> e.RunFailed:
    error = reason_of(error)
    failure = run_failure_of(error)
    recoverable = decide.RECOVERABLE[failure.category]
    return e.RunFailed(error=failure, node=code.node_of_error(error), recoverable=recoverable)
