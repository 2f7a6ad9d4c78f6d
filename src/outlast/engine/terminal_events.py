"""Decides the terminal event of a run from the state of its code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import structs

from outlast.engine.completion import successor_of
from outlast.errors import NotDurable, NotStorable, Unawaited
from outlast.functions.call import CallBase
from outlast.functions.code import Code, Continue, reason_of
from outlast.history import events as e
from outlast.ledger.reading import Ended
from outlast.lifecycle import decide
from outlast.lifecycle.state import State
from outlast.store import Blobs
from outlast.values.codec import stored
from outlast.values.failures import run_failure_of

log = logging.getLogger("outlast.engine")

Ending: TypeAlias = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued | e.RunPaused
"""The last event that a driver appends: the run ended, or is paused."""


SHOWN = 10
"""How many calls a message names."""


async def terminal_event(code: Code, blobs: Blobs, ms: float) -> Ended:
    """The terminal event for code that is done, `ms` after its run was created."""
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
        message = f"the workflow returned {value.name_and_place()} and did not await it"
        return _failed(code, Unawaited(f"{message}: write `return await`, or in a plain function `.wait()`"))
    try:
        output = code.workflow._arguments.returns.encode(value, "result")
    except NotStorable as error:
        return _failed(code, error)
    return e.RunCompleted(output=await stored(output, blobs), ms=ms)


def has_cleanup(code: Code) -> bool:
    """Whether cancelled code has issued a command or has not ended."""
    return bool(code.new_commands) or not code.is_done()


def cancelled(code: Code, state: State, pending: Iterable[e.AnyEvent] = ()) -> e.RunCancelled:
    """The terminal event for cancelled code that is done. A return value or continuation is dropped; an error that the
    code raised instead of the cancellation is recorded."""
    has_started = state.outline.cleanup is not None or any(isinstance(event, e.CleanupStarted) for event in pending)
    error = code.fatal_error or (None if code.main is None or code.main.cancelled() else code.main.exception())
    if error is not None and not isinstance(error, Continue | asyncio.CancelledError):
        return decide.cancelled(state, "failed", run_failure_of(error))
    return decide.cancelled(state, "completed" if has_started else "none")


def checked_for_unawaited(ending: Ended, code: Code, action: str) -> Ended:
    """The same ending, or a failure that names the calls which the code left without awaiting. They are only logged if
    `action` is "warn" or the run continues as a successor. Code that failed is not checked."""
    has_failed = isinstance(ending, e.RunFailed) or (isinstance(ending, e.RunCancelled) and ending.error is not None)
    calls = [] if has_failed else code.unawaited()
    if not calls:
        return ending
    named = ", ".join(calls[:SHOWN]) + (f" and {len(calls) - SHOWN} more" if len(calls) > SHOWN else "")
    if action == "warn" or isinstance(ending, e.RunContinued):
        text = "run %s of workflow %s ended with calls that it never awaited and that were not executed: %s"
        log.warning(text, code.run, code.workflow.name, named)
        return ending
    error = Unawaited(f"the workflow ended with calls that it never awaited: {named}. Await each of them.")
    if isinstance(ending, e.RunCancelled):
        return structs.replace(ending, cleanup="failed", error=run_failure_of(error))
    return _failed(code, error)


def needs_completion(ending: Ending, events: list[e.AnyEvent], state: State, created: e.RunCreated) -> bool:
    """Whether the end of a run, appended with `events`, takes effect on other runs before the run is released."""
    if isinstance(ending, e.RunPaused) or (isinstance(ending, e.RunFailed) and ending.held):
        return False  # a held run has not ended
    has_children = state.count("children") > 0 or e.ChildStarted in map(type, events)
    return has_children or bool(created.parent) or isinstance(ending, e.RunContinued)


def _failed(code: Code, error: BaseException) -> e.RunFailed:
    error = reason_of(error)
    failure = run_failure_of(error)
    recoverable = decide.RECOVERABLE[failure.category]
    return e.RunFailed(error=failure, node=code.node_of_error(error), recoverable=recoverable)
