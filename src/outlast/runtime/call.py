"""What a call inside a workflow gives: something to await, or to wait for.

Nothing begins when a call is made: it has its name from then on, and begins when it is awaited, gathered, raced or made a
task. It counts as a coroutine, so that `asyncio.create_task`, `TaskGroup`, `gather` and `wait_for` take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from outlast.errors import NotDurable
from outlast.runtime.scope import here
from outlast.runtime.threaded import waited

if TYPE_CHECKING:
    from outlast.runtime.asks import Ask
    from outlast.runtime.code import Code

R = TypeVar("R")


class Awaited(Coroutine[Any, Any, R], Generic[R]):
    """What calls have in common."""

    __slots__ = ("_place", "_steps")

    def __init__(self) -> None:
        self._place = 0
        self._steps: Generator[Any, Any, R] | None = None

    def begun(self) -> asyncio.Future[R]:
        """Its outcome to come, under way from now on."""
        raise NotImplementedError

    def wait(self) -> R:
        """In a workflow that is a plain function: the outcome, once it is there."""
        return waited(self)

    def __hash__(self) -> int:
        """Its place among what is put into sets; counted when it first is, for hardly any call ever is."""
        if not self._place:
            self._place = here("a call").code.next_place()
        return self._place

    # --- what makes it a coroutine to asyncio

    def send(self, value: Any, /) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        if self._steps is None:
            self.close()  # as a task that is cancelled before it began: nothing is asked for
            return _nothing().throw(*error)
        return self._steps.throw(*error)

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()


def _nothing() -> Generator[Any, Any, Any]:
    return
    yield


class Call(Awaited[R]):
    """One durable thing that workflow code asks for: a node, a child run, a timer, a question."""

    __slots__ = ("_ask", "_code", "_future")

    def __init__(self, code: Code, ask: Ask) -> None:
        self._place = 0
        self._steps = None
        self._code = code
        self._ask = ask
        self._future: asyncio.Future[R] | None = None

    @property
    def name(self) -> str:
        """The id it has in the log."""
        return self._ask.name

    def begun(self) -> asyncio.Future[R]:
        if self._future is None:
            self._future = self._code.ask(self._ask)
        return self._future

    def __await__(self) -> Generator[Any, Any, R]:
        if self._future is None:
            self._future = self._code.ask(self._ask)
        return self._future.__await__()

    def close(self) -> None:
        if self._steps is None:
            self._steps = _nothing()  # it was given up on purpose
        super().close()

    def __del__(self) -> None:
        if self._future is None and self._steps is None:
            self._code.forgotten.append(self._ask.name)

    def __repr__(self) -> str:
        return f"<call {self._ask.name}>"


class Joint(Awaited[R]):
    """Several calls as one: what a gather, a race or a map of them comes to."""

    __slots__ = ("_coroutine", "_future", "_is_awaited")

    def __init__(self, coroutine: Coroutine[Any, Any, R]) -> None:
        self._place = 0
        self._steps = None
        self._coroutine = coroutine
        self._future: asyncio.Future[R] | None = None
        self._is_awaited = False

    def begun(self) -> asyncio.Future[R]:
        if self._future is None:
            self._is_awaited = True
            self._future = asyncio.get_running_loop().create_task(self._coroutine)
        return self._future

    def __await__(self) -> Generator[Any, Any, R]:
        if self._future is not None:
            return self._future.__await__()
        self._is_awaited = True
        return self._coroutine.__await__()

    def close(self) -> None:
        super().close()
        if not self._is_awaited:  # else it is under way, and what others wait for goes on
            self._coroutine.close()

    def __del__(self) -> None:
        if not self._is_awaited:
            self._coroutine.close()  # code that moved on without it made no mistake


def begun(awaitables: Iterable[Any]) -> list[asyncio.Future[Any]]:
    """Begin all of them, in order. A helper's coroutine becomes a task with a scope of its own."""
    here("gather, race and map")
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Any]] = []
    for each in awaitables:
        if isinstance(each, Awaited):
            futures.append(each.begun())
        elif isinstance(each, asyncio.Future):
            futures.append(each)
        elif asyncio.iscoroutine(each):
            futures.append(loop.create_task(each))
        else:
            raise NotDurable(f"{type(each).__qualname__} cannot be awaited here: give calls of nodes, or coroutines")
    return futures
