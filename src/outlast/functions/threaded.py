"""Workflows that are plain functions: each has a thread, and it runs only while the deterministic loop waits for it.

So there is still one line of code at a time, in the same order live and in replay. `.wait()` hands the turn back together
with what is waited for; the loop awaits it like any other workflow code and hands the turn over again with the outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from outlast.errors import NotDurable
from outlast.functions.scope import Scope, current, require_scope

R = TypeVar("R")
_END_TIMEOUT_S = 0.1
"""Seconds to wait for a thread that is told to end: its code may be catching everything there is, and the loop waits."""


class Dismissed(BaseException):
    """Thrown into the thread of a workflow that this process no longer drives."""


class ThreadHandoff:
    """Whose turn it is, the loop's or the thread's, and what is handed over."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._turn_of_thread = threading.Semaphore(0)
        self._turn_of_loop = threading.Semaphore(0)
        self._wanted: tuple[Awaitable[Any], Scope] | None = None
        """What is waited for, and where in the code: a helper that begins meanwhile is named as one that began there."""
        self._outcome: tuple[Any, BaseException | None] = (None, None)
        self._ended: tuple[Any, BaseException | None] | None = None
        context = copy_context()
        context.run(_handoff.set, self)
        self._thread = threading.Thread(
            target=context.run, args=(self._run, fn, args, kwargs), name="outlast-workflow", daemon=True
        )

    async def run(self) -> Any:
        """On the loop: let the thread run from wait to wait until it is over."""
        self._thread.start()
        self._turn_of_loop.acquire()
        try:
            while self._ended is None:
                assert self._wanted is not None
                wanted, scope = self._wanted
                entered = current.set(scope)
                try:
                    self._outcome = (await wanted, None)
                except BaseException as error:
                    if isinstance(error, GeneratorExit) or scope.code.is_dismissed:
                        raise  # nobody is to go on, rather than that something went wrong
                    self._outcome = (None, error)
                current.reset(entered)
                self._switch_to_thread()
        finally:
            if self._ended is None:
                self._dismiss()
        value, raised = self._ended
        if raised is not None:
            raise raised
        return value

    def _switch_to_thread(self) -> None:
        self._turn_of_thread.release()
        self._turn_of_loop.acquire()

    def _dismiss(self) -> None:
        self._outcome = (None, Dismissed("this process no longer drives the workflow"))
        self._turn_of_thread.release()
        self._thread.join(_END_TIMEOUT_S)

    # --- in the thread

    def wait(self, wanted: Awaitable[R], scope: Scope) -> R:
        """Hand over what is waited for; come back with its outcome."""
        self._wanted = wanted, scope
        self._turn_of_loop.release()
        self._turn_of_thread.acquire()
        value, error = self._outcome
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def _run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self._ended = (fn(*args, **kwargs), None)
        except BaseException as error:
            self._ended = (None, error)
        self._turn_of_loop.release()


_handoff: ContextVar[ThreadHandoff] = ContextVar("outlast_baton")


def wait_in_thread(call: Awaitable[R]) -> R:
    """The outcome of a call, in a plain workflow."""
    scope = require_scope(".wait()")
    baton = _handoff.get(None)
    if baton is None:
        raise NotDurable(".wait() is for workflows that are plain functions; in an async one, await the call")
    return baton.wait(call, scope)


def is_threaded() -> bool:
    """Whether the code that asks runs in the thread of a plain workflow."""
    return _handoff.get(None) is not None
