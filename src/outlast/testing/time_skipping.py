"""Time skipping: the clock jumps when an event loop has nothing else to do. Months take no time, in the same order in
every run.

On a `TimeSkippingLoop` everything that is ready runs at one moment; when all tasks wait, the clock jumps to the next
timer. Background services and waiting callers also poll at intervals: those timers are ignored, or a month would be
two million polls. Likewise the time that a driver waits for counts, not its looks at the clock every minute. While
threads or servers are busy, or nodes wait for a connection, real time passes instead, so that timers do not overtake
their results.
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

from outlast.engine.driver import RunDriver
from outlast.errors import OutlastError
from outlast.store import Store

BEGINNING = 1_900_000_000_000_000
"""Start of every clock, in microseconds since 1970."""
PATIENCE = 0.02
"""Seconds of real time between two checks of the timers while threads are busy."""
RESOLUTION = 1e-5
"""Seconds within which a timer counts as due: after decades, the clock has no finer resolution."""
NEVER = 1e8
"""Seconds after which a timer is not waited for: the renewal of a claim without end."""
ON_CONNECTIONS = 1.0
"""Seconds of real time without traffic on any connection after which tasks that wait for one count as sleeping."""
_POLLING = (
    "outlast.engine.claimer",
    "outlast.services",
    "outlast.engine.evictor",
    "outlast.client",
    "outlast.stores",
    "outlast.testing",
)
"""Modules whose timers only poll. The heartbeat is not among them: a claim that is not renewed expires."""
_IGNORED = Context()


class TimeSkippingClock:
    """The simulated time of a loop, its ledgers and its stores."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._stores: list[Store] = []

    def seconds(self) -> float:
        return self._passed

    def __call__(self) -> int:
        """Microseconds since 1970, for a ledger."""
        return BEGINNING + round(self._passed * 1e6)

    def skip(self, seconds: float) -> None:
        self._passed += seconds

    def rule(self, store: Store) -> None:
        """Set the clock of a store from this one."""
        self._stores.append(store)
        self.show()

    def leave(self, store: Store) -> None:
        self._stores = [each for each in self._stores if each is not store]

    def until_due(self) -> float | None:
        """Seconds until the next due time in the stores; 0 if it is past."""
        dues = [_result_now(store.next_due()) for store in self._stores if _answers_at_once(store)]
        ahead = [max(0, due - self()) for due in dues if due is not None]
        return min(ahead) / 1e6 if ahead else None

    def show(self) -> None:
        """Set the clocks of the stores, which run in real time, to this one."""
        skew = self() - time.time_ns() // 1000
        for store in self._stores:
            store.skew = skew


def _answers_at_once(store: Store) -> bool:
    """Whether a store answers without waiting. A cancelled request to a server costs its connection."""
    return not hasattr(store, "in_flight") and not hasattr(store, "_bucket")


def _result_now(answer: Coroutine[Any, Any, int | None]) -> int | None:
    """The answer of a store that does not wait."""
    try:
        answer.send(None)
    except StopIteration as result:
        found: int | None = result.value
        return found
    except OutlastError:
        return None
    answer.close()
    return None


class _TimeSkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: TimeSkippingLoop) -> None:
        super().__init__()
        self._loop = loop
        self._silent = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self._loop
        loop.on_turn()
        found = super().select(0)
        if not found and (timeout is None or timeout > 0):
            if timeout is None or not loop.may_skip() or self._is_busy():
                began = time.monotonic()
                found = super().select(None if timeout is None else min(timeout, PATIENCE))
                passed = time.monotonic() - began
                self._silent += passed
                loop.clock.skip(passed)
            else:
                loop.clock.skip(loop.until_next(timeout))
        if found:
            self._silent = 0.0
        loop.clock.show()
        return found

    def _is_busy(self) -> bool:
        """Whether work that takes real time is in progress."""
        if self._loop.is_working():
            return True
        has_connections = len(self.get_map()) > 1  # one is the loop's own wake-up socket
        return has_connections and self._loop.is_attempting() and self._silent < ON_CONNECTIONS


class TimeSkippingLoop(asyncio.SelectorEventLoop):
    """An event loop on a `TimeSkippingClock`. `on_turn` is called in every iteration; `threads` returns the number of busy
    threads unknown to the loop, each of `servers` the number of requests in flight, `is_attempting` whether nodes are
    running. The clock jumps while `may_skip` returns True."""

    def __init__(self, clock: TimeSkippingClock | None = None) -> None:
        self.clock = clock or TimeSkippingClock()
        self.on_turn: Callable[[], None] = lambda: None
        self.threads: Callable[[], int] = lambda: 0
        self.servers: list[Callable[[], int]] = []
        self.is_attempting: Callable[[], bool] = lambda: False
        self.may_skip: Callable[[], bool] = lambda: True
        self._in_executors = 0
        super().__init__(_TimeSkippingSelector(self))
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        return self.clock.seconds()

    def is_working(self) -> bool:
        return self._in_executors > 0 or self.threads() > 0 or any(awaited() for awaited in self.servers)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None and _is_polling():
            context = _IGNORED
        return super().call_at(when, callback, *args, context=context)

    def until_next(self, timeout: float) -> float:
        """Seconds until the next timer, here or in a store; `timeout` if there is none."""
        return max(timeout, min(self._to_come(), default=0))

    def has_something_to_come(self) -> bool:
        """Whether a timer is pending."""
        return bool(self._to_come())

    def _to_come(self) -> list[float]:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        awaited = [self._seconds_until(each) for each in timers if not _is_ignored(each)]
        due = self.clock.until_due()
        return [each for each in (*awaited, *([] if due is None else [due])) if each < NEVER]

    def _seconds_until(self, timer: asyncio.TimerHandle) -> float:
        callback: Any = timer._callback  # type: ignore[attr-defined]
        if getattr(callback, "__func__", None) is RunDriver._when_due:
            due: int = timer._args[0]
            return (due - self.clock()) / 1e6
        return timer.when() - self.time()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        self._in_executors += 1
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._left_executor)
        return future

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Work that the loop does not know of is in progress, as if in a thread."""
        self._in_executors += 1
        try:
            yield
        finally:
            self._in_executors -= 1

    def _left_executor(self, _: asyncio.Future[Any]) -> None:
        self._in_executors -= 1


def _is_ignored(timer: asyncio.TimerHandle) -> bool:
    return timer.cancelled() or timer._context is _IGNORED  # type: ignore[attr-defined]


def _is_polling() -> bool:
    """Whether a polling module sets the timer: the first caller on the stack outside asyncio."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module: str = frame.f_globals.get("__name__", "")
        if not module.startswith("asyncio."):
            return module.startswith(_POLLING)
        frame = frame.f_back
    return False
