"""A store with a fault at a chosen call.

`faulty(store, Fault("die_after", 7))` returns a store whose seventh call takes effect and then kills the process.
Crash testing is therefore a loop: for every call and every kind of fault, run, die, start again, compare.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeAlias, cast

from msgspec import Struct

from outlast.errors import OutcomeUnknown, OutlastError, StoreError
from outlast.store import Store

Way: TypeAlias = Literal["die_before", "die_after", "lose_answer", "refuse", "twice", "late", "slow"]

WAYS: tuple[Way, ...] = ("die_before", "die_after", "lose_answer", "refuse", "twice", "late", "slow")
"""Die before the call takes effect; die after it; take effect and lose the answer; fail without effect; take effect
twice; take effect only after the process has died and another has taken over; take effect after the death but before
the takeover."""

_PASSED_ON = frozenset({"subscribe", "blobs", "skew", "path"})
# Log lines are written at times of the clock: counting them would change the number of every later call.
_UNCOUNTED = frozenset({"keep", "lines"})


class Died(Exception):
    """The process that made the call is dead: none of its calls reaches the store any more."""


class Fault(Struct, frozen=True):
    """The kind of fault and the number of the call (the first is 1)."""

    way: Way
    call: int


class Faults:
    """Counts the calls to a store and makes one of them fail."""

    def __init__(self, store: Store, fault: Fault | None = None) -> None:
        self._store = store
        self._fault = fault
        self._held_back: list[Callable[[], Awaitable[Any]]] = []
        self.before: Callable[[int], Awaitable[object]] | None = None
        """Awaited before each call, with its number: a concurrent action of another process."""
        self.calls = 0
        self.names: list[str] = []
        self.is_dead = False

    async def call(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        if self.is_dead:
            raise Died(f"{name} after the process died")
        if name in _UNCOUNTED:
            return await act()
        self.calls += 1
        self.names.append(name)
        if self.before is not None:
            await self.before(self.calls)
        if self._fault is None or self.calls != self._fault.call:
            return await act()
        return await self._fail(name, act)

    async def _fail(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        assert self._fault is not None
        match self._fault.way:
            case "die_before":
                return self._die(name)
            case "die_after":
                await act()
                return self._die(name)
            case "lose_answer":
                await act()
                raise OutcomeUnknown(f"the answer to {name} was lost")
            case "refuse":
                raise StoreError(f"{name} failed; nothing was written")
            case "twice":
                await act()
                return await act()
            case "late" | "slow":
                self._held_back.append(act)
                return self._die(name)

    def _die(self, name: str) -> NoReturn:
        self.is_dead = True
        raise Died(f"in {name}, call {self.calls}")

    async def deliver_held_back(self, when: Literal["late", "slow"]) -> None:
        """Deliver the calls of a dead process if this is their time."""
        if self._fault is None or self._fault.way != when:
            return
        calls, self._held_back = self._held_back, []
        for act in calls:
            with suppress(OutlastError):
                await act()


class _Faulty:
    """A proxy of a store: every asynchronous method is a counted call."""

    def __init__(self, store: Store, faults: Faults) -> None:
        object.__setattr__(self, "_inner", store)
        object.__setattr__(self, "_faults", faults)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "reopen":
            return lambda: _Faulty(found(), self._faults)
        if name in _PASSED_ON or name.startswith("_") or not callable(found):
            return found
        faults: Faults = self._faults

        async def counted(*arguments: Any, **named: Any) -> Any:
            return await faults.call(name, lambda: found(*arguments, **named))

        return counted

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)


def faulty(store: Store, fault: Fault | None = None) -> tuple[Store, Faults]:
    """A store with this fault, and the counter of its calls. Set `skew` to offset its clock."""
    faults = Faults(store, fault)
    return cast("Store", _Faulty(store, faults)), faults


def hide_locks(store: Store) -> None:
    """Behave like a file system without locks: only expiry shows whether the workers of this store are alive."""
    locks: Any = getattr(bare(store), "locks", None)
    if locks is not None:
        locks.hide()


def bare(store: Store) -> Store:
    """The store behind a proxy; the store itself if there is no proxy."""
    inner: Store = getattr(store, "_inner", store)
    return inner
