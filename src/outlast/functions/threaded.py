"""Workflows that are plain functions: each has a thread, which runs only while the deterministic loop waits for it.

So only one sequence of code runs at a time, in the same order live and in replay. `.wait()` passes the call to the loop and
blocks the thread; the loop awaits the call like other workflow code, then passes the outcome to the thread and waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from outlast.errors import NotDurable
from outlast.functions.scope import Scope, current, require_scope
from outlast.values.source_location import shown, user_place

R = TypeVar("R")
_END_TIMEOUT_S = 0.1
"""Seconds to wait for a dismissed thread to end. The loop is blocked meanwhile, and the code may catch every exception."""


class Dismissed(BaseException):
    """Raised in the thread of a workflow that this process has stopped driving."""


class ThreadHandoff:
    """Passes control between the loop and the thread."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._turn_of_thread = threading.Semaphore(0)
        self._turn_of_loop = threading.Semaphore(0)
        self._wanted: tuple[Awaitable[Any], Scope] | None = None
        """The call that the thread waits for, and its scope: a helper that starts meanwhile is named as one that started
        there."""
        self._outcome: tuple[Any, BaseException | None] = (None, None)
        self._ended: tuple[Any, BaseException | None] | None = None
        context = copy_context()
        context.run(_handoff.set, self)
        self._thread = threading.Thread(
            target=context.run, args=(self._run, fn, args, kwargs), name="outlast-workflow", daemon=True
        )

    async def run(self) -> Any:
        """On the loop: run the thread from wait to wait until it ends."""
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
                        raise  # the code was dismissed: the call itself did not fail
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
        self._outcome = (None, Dismissed("this process has stopped driving the workflow"))
        self._turn_of_thread.release()
        self._thread.join(_END_TIMEOUT_S)

    # --- in the thread

    def wait(self, wanted: Awaitable[R], scope: Scope) -> R:
        """In the thread: pass the call to the loop, and return its outcome."""
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


_handoff: ContextVar[ThreadHandoff] = ContextVar("outlast_handoff")


def wait_in_thread(call: Awaitable[R]) -> R:
    """The outcome of a call, in a plain workflow."""
    scope = require_scope(".wait()")
    handoff = _handoff.get(None)
    if handoff is None:
        raise NotDurable(
            f"{shown(user_place())}: .wait() is for workflows that are plain functions: in an async workflow, await the call"
        )
    return handoff.wait(call, scope)


def is_threaded() -> bool:
    """Whether the caller runs in the thread of a plain workflow."""
    return _handoff.get(None) is not None
