"""The deterministic loop a workflow function runs on.

Workflow code is deterministic because it cannot be otherwise: its tasks live on this loop, which knows no sockets, no
threads and no clock of its own. What it waits for are durable things; a driver resolves them in the order of the log, live
and in replay, and lets the code run until it is quiet before it resolves the next. Ready callbacks run first in, first out.

`asyncio.gather`, `TaskGroup`, `wait`, `timeout` and `sleep` work here, because the time they ask for is asked of the driver,
who makes it a durable timer, and because what they put into sets has its place there (`wait_places`). Everything else
of an event
loop is refused with "do this in a node".
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
"""Tasks of a run that may be over and still be known to its loop; and turns in which its last word has to be said."""
_QUIET_AFTER = 1_000_000
"""Turns without a durable wait after which workflow code counts as running in circles."""


class Ready(Struct, eq=False):
    """A callback in the queue; the part of `asyncio.Handle` that asyncio itself uses."""

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
    """What the loop asks of the driver."""

    def now(self) -> float:
        """Seconds; the time of what was delivered last."""
        ...

    def set_alarm(self, alarm: Alarm) -> None:
        """Make the alarm a durable timer; ring it by `WorkflowLoop.ring`."""
        ...


class WorkflowLoop(asyncio.AbstractEventLoop):
    """An event loop that turns only when it is told to."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self._ready: deque[Ready] = deque()
        self._outer: Any = ...
        self._hooks: Any = ()
        """The loop around this one, and what it does about async generators."""
        self.next_hash = count(1).__next__
        """The place of what is made next."""
        self._tasks: list[StableTask] = []
        """Those that are under way or that nobody awaits, and some that are over."""
        self._enough = FEW

    def run_until_blocked(self) -> None:
        """Run what is ready, and what that makes ready, until everything waits."""
        ready = self._ready
        if not ready:
            return
        if self._outer is ...:  # it turns within one other loop all its life, and to ask for that takes a while
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
        """An async generator that was left half-way ends on this loop, and not on the one around it, in the name of the code
        that left it. One that the collector of garbage found at another time has no name to ask for anything."""
        context = copy_context() if _get_loop() is self else Context()
        # without a scope and a place of its own: others must not be called otherwise if the collector finds it here or there
        self.call_soon(partial(asyncio.Task, generator.aclose(), loop=self), context=context)

    def end(self) -> None:
        """Turn for the last time. What still waits is cancelled, and closed if it does not heed that: the collector of
        garbage would end it amid the code of another run, in whose name its `finally` would ask for something."""
        for ending in (asyncio.Task.cancel, _close):
            self._drain_ready()
            for task in list(self._tasks):
                if not task.done():
                    ending(task)
        self._drain_ready()
        self._ready.clear()
        self._tasks.clear()
        del self._clock

    def _drain_ready(self) -> None:
        """Run what is ready, whatever it raises: it may do anything in its `finally`, and nobody listens."""
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
        """The tasks that nobody awaits, cancels or is called back by."""
        return [task for task in self._tasks if not task.is_used]

    def has_tasks(self) -> bool:
        """Whether a task is under way."""
        return any(not task.done() for task in self._tasks)

    def cancel_tasks(self) -> bool:
        """Cancel the tasks that are under way, in the order in which they were made; whether there were any."""
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        return bool(tasks)

    def ring(self, alarm: Alarm) -> None:
        """The time of an alarm has come."""
        alarm.cancel_timer = None
        if not alarm.is_cancelled:
            self._ready.append(alarm)

    # --- what asyncio asks of a loop

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Ready:  # type: ignore[override]
        ready = Ready(callback, args, copy_context() if context is None else context)
        self._ready.append(ready)
        return ready

    def call_soon_threadsafe(self, *_: object, **__: object) -> None:  # type: ignore[override]
        """A thread calls nothing: what it found out would not be known in a replay. Code that waits for it waits in vain,
        which is reported with its line."""
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
        """A task with a scope of its own, so that what it calls is named apart from what others call."""
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
        """A task in this context as it is, which its maker looks after."""
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
        """None: tasks are made by `create_task`."""

    def get_exception_handler(self) -> None:
        """None: nothing but `call_exception_handler` is called."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors nobody awaited: code that moved on without them made no mistake."""


def _user_call() -> tuple[Where | None, str]:
    """What the user's code calls and where. A task that a library made does what is called where it was made."""
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
            f"{at}a workflow cannot use {what}: it would not happen again in the same way after a crash. Do this in a node."
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
