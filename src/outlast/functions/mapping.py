"""`map`: one function over many items, with bounded concurrency.

Items are read when a slot is free. Results are returned in the order of the items and then forgotten: a map over a million
items needs memory only for those in flight. In the log, the nodes of finished items are retired.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from types import FrameType
from typing import Any, Generic, Literal, TypeVar, overload

from outlast.errors import InvalidInput
from outlast.functions.call import CallBase, WorkflowCall
from outlast.functions.commands import NodeCommand, Note
from outlast.functions.decorators import Node
from outlast.functions.scope import Scope, current, require_scope
from outlast.functions.threaded import wait_in_thread
from outlast.history import events as e
from outlast.values.source_location import shown, user_place

A = TypeVar("A")
R = TypeVar("R")

AHEAD = 4
"""Results that may wait for a slower one before them, in multiples of `concurrency`."""
RETIRED_AT_ONCE = 200
"""How many nodes one event retires."""


class Mapped(CallBase, Generic[R]):
    """The results of a map. Iterate over them with `async for`, or await them all as a list. In a plain workflow, use
    `for` and `.wait()`."""

    def __init__(
        self,
        scope: Scope,
        fn: Callable[[Any], Any],
        items: Iterable[Any],
        concurrency: int,
        return_exceptions: bool,
        caller: FrameType,
    ) -> None:
        self.scope = scope
        self.where = caller.f_code, caller.f_lasti
        self._fn = fn
        self._items = enumerate(items)
        self._concurrency = concurrency
        self._return_exceptions = return_exceptions
        self._name = scope.unique_name(_name_of(fn))
        self._window: deque[tuple[asyncio.Future[Any], list[NodeCommand]]] = deque()
        self._running = 0
        self._is_read = False
        self._wake: asyncio.Future[None] | None = None
        self._retiring: list[str] = []
        scope.code.made[id(self)] = self

    def describe(self) -> str:
        return f"map of {self._name}"

    def __aiter__(self) -> Mapped[R]:
        self.scope.code.made.pop(id(self), None)
        return self

    async def __anext__(self) -> R:
        try:
            future, made = await self._first_done()
            result: R = _error_of(future) if self._return_exceptions and _has_failed(future) else future.result()
        except BaseException:
            self._give_up()
            raise
        self._retire(made)
        return result

    def __await__(self) -> Generator[Any, Any, list[R]]:
        return self.__aiter__()._all().__await__()

    def wait(self) -> list[R]:
        """In a workflow that is a plain function: all results."""
        return wait_in_thread(self.__aiter__()._all())

    def __iter__(self) -> Iterator[R]:
        try:
            while True:
                yield wait_in_thread(_next(self.__aiter__()))
        except _NoMore:
            return

    async def _all(self) -> list[R]:
        return [result async for result in self]

    async def _first_done(self) -> tuple[asyncio.Future[Any], list[NodeCommand]]:
        while True:
            self._fill()
            if not self._window:
                raise StopAsyncIteration
            if self._window[0][0].done():
                return self._window.popleft()
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def _give_up(self) -> None:
        self._is_read = True
        while self._window:
            self._window.popleft()[0].cancel()

    def _fill(self) -> None:
        while not self._is_read and self._running < self._concurrency and len(self._window) < self._concurrency * AHEAD:
            found = next(self._items, None)
            if found is None:
                self._is_read = True
                return
            self._begin(*found)

    def _begin(self, index: int, item: Any) -> None:
        name = f"{self._name}/{index}"
        if isinstance(self._fn, Node):
            made = [self._fn._command_named(name, self.scope.step, (item,), {})]
            future: asyncio.Future[Any] = self.scope.code.issue(made[0])
        else:
            made = []
            token = current.set(self.scope.for_item(name, made))
            try:
                future = _begun(self._fn(item))
            finally:
                current.reset(token)
        self._running += 1
        self._window.append((future, made))
        future.add_done_callback(self._ended)

    def _ended(self, _future: asyncio.Future[Any]) -> None:
        self._running -= 1
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _retire(self, made: list[NodeCommand]) -> None:
        """Retire the nodes of a finished item, many in one event. A node that still runs stays in the state of the run; a
        node that was called and never awaited is not in it."""
        open_now = self.scope.code.open
        self._retiring += [command.name for command in made if command.is_scheduled and command.key not in open_now]
        if len(self._retiring) >= RETIRED_AT_ONCE:
            names, self._retiring = tuple(self._retiring), []
            self.scope.code.note(Note(f"retired:{names[0]}", e.NodesRetired(nodes=names)))


@overload
def map(
    fn: Node[[A], R], items: Iterable[A], *, concurrency: int = ..., return_exceptions: Literal[False] = ...
) -> Mapped[R]: ...
@overload
def map(
    fn: Node[[A], R], items: Iterable[A], *, concurrency: int = ..., return_exceptions: bool
) -> Mapped[R | BaseException]: ...
@overload
def map(
    fn: Callable[[A], Coroutine[Any, Any, R]],
    items: Iterable[A],
    *,
    concurrency: int = ...,
    return_exceptions: Literal[False] = ...,
) -> Mapped[R]: ...
@overload
def map(
    fn: Callable[[A], Coroutine[Any, Any, R]], items: Iterable[A], *, concurrency: int = ..., return_exceptions: bool
) -> Mapped[R | BaseException]: ...
def map(fn: Any, items: Iterable[Any], *, concurrency: int = 20, return_exceptions: bool = False) -> Mapped[Any]:
    """Call a node, or an async function that calls nodes, for each item, at most `concurrency` at a time. The first
    failure is raised and cancels the rest, unless `return_exceptions` puts failures among the results."""
    scope = require_scope("map()")
    if concurrency < 1:
        raise InvalidInput(f"{shown(user_place())}: concurrency must be at least 1, not {concurrency}")
    if not callable(fn):
        raise InvalidInput(f"{shown(user_place())}: map() takes a node or an async function, not {type(fn).__name__}")
    if isinstance(fn, Node) and fn._id is not None:
        raise InvalidInput(
            f"{shown(user_place())}: id={fn._id!r} names one call, but a map makes one call per item. "
            "Map an async function that calls the node with an id for each item."
        )
    return Mapped(scope, fn, items, concurrency, return_exceptions, sys._getframe(1))


def _begun(given: Any) -> asyncio.Future[Any]:
    if isinstance(given, WorkflowCall):
        return given.ensure_started()
    if not asyncio.iscoroutine(given):
        raise InvalidInput(
            f"{shown(user_place())}: map() takes a node or an async function, and this function returned no coroutine: "
            "define it with `async def`"
        )
    loop: Any = asyncio.get_running_loop()
    future: asyncio.Task[Any] = loop.task(given, None)
    current.get().task = future  # in the scope of the item
    return future


def _name_of(fn: Any) -> str:
    name = fn.name if isinstance(fn, Node) else getattr(fn, "__name__", "map")
    return name if name.isidentifier() else "map"


def _has_failed(future: asyncio.Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _error_of(future: asyncio.Future[Any]) -> Any:
    return asyncio.CancelledError() if future.cancelled() else future.exception()


class _NoMore(Exception):
    """The end of the results, for an await through which StopAsyncIteration cannot pass."""


async def _next(results: Mapped[R]) -> R:
    try:
        return await anext(results)
    except StopAsyncIteration:
        raise _NoMore from None
