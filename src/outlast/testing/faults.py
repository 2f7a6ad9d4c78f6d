"""A store that fails on command.

`faulty(store, Fault("die_after", 7))` gives a store whose seventh call does what it should and then takes the process down.
The narrow seam makes crash testing a loop: for every call and every way to fail, run, die, start again, compare.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NoReturn, TypeAlias, cast

from msgspec import Struct

from outlast.errors import OutcomeUnknown, StoreError
from outlast.store import Store

Way: TypeAlias = Literal["die_before", "die_after", "lose_answer", "refuse", "twice", "late", "slow"]

WAYS: tuple[Way, ...] = ("die_before", "die_after", "lose_answer", "refuse", "twice", "late", "slow")
"""Die before the call has an effect; die after it; have the effect and lose the answer; fail without effect; have it twice;
have it only after the process has died and another has taken over; have it after the death but before that."""

_PASSED_ON = frozenset({"subscribe", "blobs", "skew", "path"})
# Lines are no facts and are written by the clock: to count them would make "the seventh call" another one each time.
_UNCOUNTED = frozenset({"keep", "lines"})


class Died(Exception):
    """The process that made the call is dead: nothing it does reaches the store any more."""


class Fault(Struct, frozen=True):
    """What happens, and at which call (the first is 1)."""

    way: Way
    call: int


class Faults:
    """Counts the calls to a store and makes one of them fail."""

    def __init__(self, store: Store, fault: Fault | None = None) -> None:
        self._store = store
        self._fault = fault
        self._held_back: list[Callable[[], Awaitable[Any]]] = []
        self.before: Callable[[int], Awaitable[object]] | None = None
        """Awaited before each call, with its number: what somebody else does to the store at that moment."""
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

    async def deliver_held_back(self, when: Literal["late", "slow"]) -> list[Any]:
        """Let the calls of a dead process arrive now, if this is their moment; returns the answers nobody waits for."""
        if self._fault is None or self._fault.way != when:
            return []
        calls, self._held_back = self._held_back, []
        answers: list[Any] = []
        for act in calls:
            try:
                answers.append(await act())
            except StoreError as error:
                answers.append(error)
        return answers


class _Faulty:
    """Stands in for a store: every asynchronous method is a counted call."""

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
    """A store that fails as told, and the counter that tells how far it got. Set `skew` to offset its clock."""
    faults = Faults(store, fault)
    return cast("Store", _Faulty(store, faults)), faults


def hide_locks(store: Store) -> None:
    """As on a file system without locks: from now on only the expiry says whether the workers of this store are alive."""
    inner: Any = bare(store)
    for worker in list(getattr(inner, "_locks", ())):
        inner._unlock(worker)
    inner._acquire_lock = lambda _: None


def bare(store: Store) -> Store:
    """The store that a faulty one stands in for; itself, if it is none."""
    inner: Store = getattr(store, "_inner", store)
    return inner
