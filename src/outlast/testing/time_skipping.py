"""Time that passes only when nothing else is to be done: months in no time, and the same order in every run.

On a `LeapingLoop` everything that is ready runs at one moment; when all of it waits, the clock leaps to the next
timer that somebody waits for. The staff and the desk of an engine also look for news every now and then: those timers
are passed over, or a month would be two million looks. While threads or servers are at work, or nodes wait for a
connection, real time passes instead, so that what they bring home is not overtaken by timers.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from types import FrameType
from typing import Any

from outlast.errors import OutlastError
from outlast.store import Store

BEGINNING = 1_900_000_000_000_000
"""Microseconds since 1970 at which every clock begins."""
PATIENCE = 0.02
"""Seconds of real time between two looks at the timers while threads are at work."""
RESOLUTION = 1e-5
"""Seconds within which a timer counts as due: after decades, the clock is no finer."""
NEVER = 1e8
"""Seconds ahead of a timer that nobody waits for: it renews a claim for ever."""
ON_CONNECTIONS = 1.0
"""Seconds of real time without a sign from any connection, after which those that wait for one are thought to sleep."""
_LOOKING = (
    "outlast.engine.claimer",
    "outlast.services.sweeper",
    "outlast.engine.timekeeper",
    "outlast.engine.evictor",
    "outlast.client",
    "outlast.stores",
    "outlast.testing",
)
"""Who sets timers only to look again. Not the renewer: who does not renew is taken for dead."""
_PASSED_OVER = Context()


class LeapingClock:
    """The time of one little world: of its loop, its ledgers and its stores."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._stores: list[Store] = []

    def seconds(self) -> float:
        return self._passed

    def __call__(self) -> int:
        """In microseconds, as a ledger wants it."""
        return BEGINNING + round(self._passed * 1e6)

    def leap(self, seconds: float) -> None:
        self._passed += seconds

    def rule(self, store: Store) -> None:
        """From now on the store's clock is this one."""
        self._stores.append(store)
        self.show()

    def leave(self, store: Store) -> None:
        self._stores = [each for each in self._stores if each is not store]

    def until_due(self) -> float | None:
        """Seconds until something that the stores keep is due; 0 if it is, and somebody has yet to look."""
        dues = [_at_once(store.next_due()) for store in self._stores if _is_at_hand(store)]
        ahead = [max(0, due - self()) for due in dues if due is not None]
        return min(ahead) / 1e6 if ahead else None

    def show(self) -> None:
        """Bring the clocks of the stores, which go on by themselves, back to this one."""
        skew = self() - time.time_ns() // 1000
        for store in self._stores:
            store.skew = skew


def _is_at_hand(store: Store) -> bool:
    """Whether a store answers without waiting. A server has to be asked, and a question that is dropped half-way costs its
    connection."""
    return not hasattr(store, "in_flight") and not hasattr(store, "_bucket")


def _at_once(answer: Coroutine[Any, Any, int | None]) -> int | None:
    """The answer of a store that has it at hand."""
    try:
        answer.send(None)
    except StopIteration as told:
        found: int | None = told.value
        return found
    except OutlastError:
        return None
    answer.close()
    return None


class _LeapingSelector(selectors.DefaultSelector):
    def __init__(self, loop: LeapingLoop) -> None:
        super().__init__()
        self._loop = loop
        self._silent = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self._loop
        loop.on_turn()
        found = super().select(0)
        if not found and (timeout is None or timeout > 0):
            if timeout is None or not loop.may_leap() or self._holds_back():
                began = time.monotonic()
                found = super().select(None if timeout is None else min(timeout, PATIENCE))
                passed = time.monotonic() - began
                self._silent += passed
                loop.clock.leap(passed)
            else:
                loop.clock.leap(loop.until_next(timeout))
        if found:
            self._silent = 0.0
        loop.clock.show()
        return found

    def _holds_back(self) -> bool:
        """Whether something is under way that takes real time."""
        if self._loop.is_working():
            return True
        has_connections = len(self.get_map()) > 1  # one is the loop's own, to be woken by
        return has_connections and self._loop.is_attempting() and self._silent < ON_CONNECTIONS


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop on a `LeapingClock`. `on_turn` is called with every turn of it; `threads` says how many threads that it
    does not know of are at work, each of `servers` how many answers of a server are awaited, `is_attempting` whether nodes
    are at work. Time leaps as long as it `may_leap`."""

    def __init__(self, clock: LeapingClock | None = None) -> None:
        self.clock = clock or LeapingClock()
        self.on_turn: Callable[[], None] = lambda: None
        self.threads: Callable[[], int] = lambda: 0
        self.servers: list[Callable[[], int]] = []
        self.is_attempting: Callable[[], bool] = lambda: False
        self.may_leap: Callable[[], bool] = lambda: True
        self._in_executors = 0
        super().__init__(_LeapingSelector(self))
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        return self.clock.seconds()

    def is_working(self) -> bool:
        return self._in_executors > 0 or self.threads() > 0 or any(awaited() for awaited in self.servers)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None and _is_looking():
            context = _PASSED_OVER
        return super().call_at(when, callback, *args, context=context)

    def until_next(self, timeout: float) -> float:
        """Seconds until a time that somebody waits for, here or in a store; `timeout` if nobody does."""
        return max(timeout, min(self._to_come(), default=0))

    def has_something_to_come(self) -> bool:
        """Whether somebody waits for a time."""
        return bool(self._to_come())

    def _to_come(self) -> list[float]:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        awaited = [each.when() - self.time() for each in timers if not _is_passed_over(each)]
        due = self.clock.until_due()
        return [each for each in (*awaited, *([] if due is None else [due])) if each < NEVER]

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        self._in_executors += 1
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._left_executor)
        return future

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Something that this loop does not know of is under way, as if it were in a thread."""
        self._in_executors += 1
        try:
            yield
        finally:
            self._in_executors -= 1

    def _left_executor(self, _: asyncio.Future[Any]) -> None:
        self._in_executors -= 1


def _is_passed_over(timer: asyncio.TimerHandle) -> bool:
    return timer.cancelled() or timer._context is _PASSED_OVER  # type: ignore[attr-defined]


def _is_looking() -> bool:
    """Whether it is the staff or the desk that sets the timer: the first on the stack that is not asyncio."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        if not module.startswith("asyncio."):
            return module.startswith(_LOOKING)
        frame = frame.f_back
    return False
