"""The deterministic loop that executes a workflow function.

Tasks of workflow code live on this loop, which has no sockets, no threads and no clock of its own, so the code is
deterministic. It waits for durable operations. A driver resolves them in the order of the log, live and in replay, and lets
the code run until it is blocked before it resolves the next one. Ready callbacks run first in, first out.

`asyncio.gather`, `TaskGroup`, `wait`, `timeout` and `sleep` work here: the driver turns their delays into durable timers,
and their sets iterate in a stable order (`stable_hash`). Every other method of an event loop is refused with "do this in a
node".
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events as running
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from typing import Any, NoReturn, Protocol

from msgspec import Struct

from outlast.errors import NotDurable
from outlast.functions.scope import current
from outlast.functions.stable_hash import StableTask, WatchedFuture, refuse_unplaced
from outlast.values.source_location import Where, place_in, shown, user_call

_get_loop, _set_loop = running._get_running_loop, running._set_running_loop
_get_hooks, _set_hooks = sys.get_asyncgen_hooks, sys.set_asyncgen_hooks
FEW = 20
"""How many finished tasks a loop may keep, and how many turns code has to end when its run is dismissed."""
_QUIET_AFTER = 1_000_000
"""Turns without a durable wait after which the code counts as an endless loop."""


class Ready(Struct, eq=False):
    """A callback in the queue; implements the part of `asyncio.Handle` that asyncio uses."""

    callback: Callable[..., object]
    arguments: tuple[Any, ...]
    context: Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class Alarm(Ready, eq=False, kw_only=True):
    """A callback for a time; `cancel_timer` withdraws the durable timer behind it."""

    moment: float
    cancel_timer: Callable[[], None] | None = None

    def when(self) -> float:
        return self.moment

    def cancel(self) -> None:
        super().cancel()
        if self.cancel_timer is not None:
            self.cancel_timer()
            self.cancel_timer = None


class LoopClock(Protocol):
    """What the loop needs from the code of its run."""

    def now(self) -> float:
        """The time of the last delivery, in seconds."""
        ...

    def set_alarm(self, alarm: Alarm) -> None:
        """Make the alarm a durable timer that calls `WorkflowLoop.ring`."""
        ...


class WorkflowLoop(asyncio.AbstractEventLoop):
    """An event loop that advances only in `run_until_blocked`."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self._ready: deque[Ready] = deque()
        self._outer: Any = ...
        self._hooks: Any = ()
        """The loop around this one, and its hooks for async generators."""
        self.next_hash = count(1).__next__
        """The stable hash of the next object that is made."""
        self._tasks: list[StableTask] = []
        """Tasks that are running or that no code awaits, and some that are done."""
        self._enough = FEW

    def run_until_blocked(self) -> None:
        """Run the ready callbacks, and those that they add, until everything waits."""
        ready = self._ready
        if not ready:
            return
        if self._outer is ...:  # the outer loop never changes, and looking it up is slow
            self._outer, self._hooks = _get_loop(), _get_hooks()
        _set_loop(self)
        _set_hooks(None, self._finalize)
        turns = 0
        try:
            while ready:
                each = ready.popleft()
                if not each.is_cancelled:
                    each.context.run(each.callback, *each.arguments)
                if ready and (turns := turns + 1) > _QUIET_AFTER:
                    raise NotDurable(
                        f"the workflow loops{self.wait_places()} without awaiting a node, timer, question or child run"
                    )
        finally:
            _set_hooks(*self._hooks)
            _set_loop(self._outer)

    def _finalize(self, generator: Any) -> None:
        """End an abandoned async generator on this loop, and not on the loop around it, as part of the code that
        abandoned it. A generator that the garbage collector finds at another time may not issue commands."""
        context = copy_context() if _get_loop() is self else Context()
        # Without a scope and a stable hash of its own: when the collector finds it must not change other names.
        self.call_soon(partial(asyncio.Task, generator.aclose(), loop=self), context=context)

    def is_unfinished(self) -> bool:
        """Whether callbacks are ready or tasks are running."""
        return bool(self._ready) or self.has_tasks()

    def end_tasks(self) -> None:
        """Run for the last time. Waiting tasks are cancelled, and closed if they ignore that. Otherwise the garbage
        collector would end them inside the code of another run, and a `finally` block would issue commands in that run."""
        for ending in (asyncio.Task.cancel, _close):
            self._drain_ready()
            for task in list(self._tasks):
                if not task.done():
                    ending(task)
        self._drain_ready()

    def release(self) -> None:
        """Drop everything that refers to the code: the loop does not run again."""
        self._ready.clear()
        self._tasks.clear()
        del self._clock

    def _drain_ready(self) -> None:
        """Run the ready callbacks and ignore their errors: a `finally` block may do anything, and nothing waits for its
        outcome."""
        turns = 0
        while self._ready and (turns := turns + 1) < FEW:
            with suppress(BaseException):
                self.run_until_blocked()

    def wait_places(self) -> str:
        """The lines of the user's code where its tasks wait, for a message."""
        tasks = [task for task in self._tasks if not task.done()]
        found = dict.fromkeys(shown(place) for task in tasks if (place := place_in(task.get_coro())) is not None)
        named = ", ".join(list(found)[:FEW])
        return f" at {named}" if named else ""

    def unawaited(self) -> list[StableTask]:
        """The tasks that no code awaits or cancels, and that have no callbacks."""
        return [task for task in self._tasks if not task.is_used]

    def has_tasks(self) -> bool:
        """Whether a task is running."""
        return any(not task.done() for task in self._tasks)

    def cancel_tasks(self) -> bool:
        """Cancel the running tasks, in the order in which they were made. Returns whether there were any."""
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        return bool(tasks)

    def ring(self, alarm: Alarm) -> None:
        """The time of an alarm has come: make its callback ready."""
        alarm.cancel_timer = None
        if not alarm.is_cancelled:
            self._ready.append(alarm)

    # --- the event loop protocol of asyncio

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Ready:  # type: ignore[override]
        ready = Ready(callback, args, copy_context() if context is None else context)
        self._ready.append(ready)
        return ready

    def call_soon_threadsafe(self, *_: object, **__: object) -> None:  # type: ignore[override]
        """Ignore calls from threads: their results would not be known in a replay. Code that waits for one never
        continues, which is reported with its line."""
        if asyncio._get_running_loop() is self:
            _refusal("call_soon_threadsafe")()

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Ready:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Ready:
        alarm = Alarm(callback, args, copy_context() if context is None else context, moment=when)
        self._clock.set_alarm(alarm)
        return alarm

    def time(self) -> float:
        return self._clock.now()

    def create_future(self) -> asyncio.Future[Any]:
        future = WatchedFuture(loop=self)
        future.hash_value, future.is_kept, future.joins = self.next_hash(), False, ()
        return future

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        """Make a task with its own scope, so that its calls are named apart from other calls."""
        refuse_unplaced(coro)
        scope = current.get(None) if context is None else context.get(current)
        if scope is not None:
            context = copy_context() if context is None else context.copy()
            scope = scope.for_task()
            context.run(current.set, scope)
        task = self.task(coro, context, name)
        task.is_kept = False
        task.made, task.using = _user_call()
        if scope is not None:
            scope.task = task
        return task

    def task(self, coro: Any, context: Context | None, name: str | None = None) -> StableTask:
        """Make a task in this context, without a new scope. The caller keeps it."""
        task = StableTask(coro, loop=self, name=name, context=context)
        task.hash_value = self.next_hash()
        task.is_kept, task.joins, task.made, task.using = True, (), None, ""
        tasks = self._tasks
        tasks.append(task)
        if len(tasks) > self._enough:
            tasks[:] = [each for each in tasks if not (each.is_used and each.done())]
            self._enough = 2 * len(tasks) + FEW
        return task

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        """None: `create_task` makes the tasks."""

    def get_exception_handler(self) -> None:
        """None: only `call_exception_handler` is called."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore errors that no code awaited: continuing without them is no mistake."""


def _user_call() -> tuple[Where | None, str]:
    """What the user's code calls, and where. For a task that a library made: the call at the place where the task was
    made."""
    place, using = user_call()
    task = asyncio.current_task() if place is None else None
    return (task.made, task.using or using) if isinstance(task, StableTask) else (place, using)


def _close(task: asyncio.Task[Any]) -> None:
    coroutine: Any = task.get_coro()
    with suppress(BaseException):
        coroutine.close()


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        place, using = _user_call()
        at = f"{shown(place)}: " if place is not None else ""
        what = f"{using} (loop.{name})" if using else f"loop.{name}"
        raise NotDurable(
            f"{at}a workflow cannot use {what}, because a replay after a crash cannot repeat it. Do this in a node."
        )

    refuse.__name__ = name
    return refuse


_REFUSED = [
    name
    for name, method in vars(asyncio.AbstractEventLoop).items()
    if callable(method) and not name.startswith("__") and name not in vars(WorkflowLoop)
]
for _name in _REFUSED:
    setattr(WorkflowLoop, _name, _refusal(_name))
