"""What a call inside a workflow gives: something to await, or to wait for.

Nothing begins when a call is made: it has its name from then on, and begins when it is awaited, gathered, raced or made a
task. It counts as a coroutine, so that `asyncio.create_task`, `TaskGroup`, `gather` and `wait_for` take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from outlast.errors import NotDurable, Unawaited
from outlast.functions.scope import Scope, here
from outlast.functions.threaded import is_threaded, waited
from outlast.values.source_location import Where, shown, user_place

if TYPE_CHECKING:
    from outlast.functions.commands import Ask

R = TypeVar("R")


class Made:
    """What workflow code made and has to await. Until it begins its `Code` lists it; to use it as if it were its result is
    refused."""

    __slots__ = ()
    scope: Scope
    where: Where | None

    def told(self) -> str:
        """For people, in a message: what was called."""
        raise NotImplementedError

    def name_and_place(self) -> str:
        """For people: what was called, and where."""
        return f"the call of {self.told()} ({shown(self.where)})"

    def close(self) -> None:
        """It is given up on purpose."""
        self.scope.code.made.pop(id(self), None)


def _refusal(use: str) -> Callable[..., NoReturn]:
    def refuse(self: Made, *_: Any) -> NoReturn:
        name = self.told()
        made = shown(self.where)
        used = shown(user_place())
        how = "wait for it first: .wait()" if is_threaded() else "write `await` before the call"
        at = f"; the call is made at {made}" if made != used else ""
        raise Unawaited(f"{used}: the call of {name} is {use}, and it was not awaited: {how}{at}")

    return refuse


_USES = {
    "used as a condition": "bool",
    "compared": "eq ne lt le gt ge",
    "iterated over": "iter reversed",
    "used as a collection": "len contains getitem setitem delitem",
    "formatted as text": "str format bytes",
    "used as a number": "int float complex index neg pos abs invert round trunc floor ceil",
    "used in a calculation": "add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod divmod "
    "rdivmod pow rpow lshift rshift and rand or ror xor rxor",
}
for (
    _use,
    _names,
) in _USES.items():  # type checkers are not to know them: they find the mistake because these are missing
    for _name in _names.split():
        setattr(Made, f"__{_name}__", _refusal(_use))
Made.__hash__ = object.__hash__  # type: ignore[method-assign]


class Awaited(Made, Coroutine[Any, Any, R], Generic[R]):
    """What calls have in common."""

    __slots__ = ("_place", "_steps", "scope")
    _place: int
    _steps: Generator[Any, Any, R] | None

    def begun(self) -> asyncio.Future[R]:
        """Its outcome to come, under way from now on."""
        raise NotImplementedError

    def wait(self) -> R:
        """In a workflow that is a plain function: the outcome, once it is there."""
        return waited(self)

    def __hash__(self) -> int:
        """Its place among what is put into sets; counted when it first is, for hardly any call ever is."""
        if not self._place:
            self._place = self.scope.code.next_place()
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
        Made.close(self)
        if self._steps is not None:
            self._steps.close()


def _nothing() -> Generator[Any, Any, Any]:
    return
    yield


class Call(Awaited[R]):
    """One durable thing that workflow code asks for: a node, a child run, a timer, a question."""

    __slots__ = ("_ask", "_future")

    def __init__(self, scope: Scope, ask: Ask, caller: FrameType) -> None:
        self._place = 0
        self._steps = None
        self.scope = scope
        self._ask = ask
        self._future: asyncio.Future[R] | None = None
        ask.where = caller.f_code, caller.f_lasti
        scope.code.made[id(self)] = self

    @property
    def name(self) -> str:
        """The id it has in the log."""
        return self._ask.name

    @property
    def where(self) -> Where | None:  # type: ignore[override]
        return self._ask.where

    def told(self) -> str:
        return self._ask.name

    def begun(self) -> asyncio.Future[R]:
        future = self._future
        if future is None:
            code = self.scope.code
            code.made.pop(id(self), None)
            self._future = future = code.ask(self._ask)
        return future

    def __await__(self) -> Generator[Any, Any, R]:
        return self.begun().__await__()

    def __repr__(self) -> str:
        return f"<call {self._ask.name}>"


class Joint(Awaited[R]):
    """Several calls as one: what a gather, a race or a map of them comes to."""

    __slots__ = ("_calls", "_coroutine", "_future", "_name", "where")

    def __init__(
        self, scope: Scope, coroutine: Coroutine[Any, Any, R], calls: tuple[Any, ...], name: str, caller: FrameType
    ) -> None:
        self._place = 0
        self._steps = None
        self.scope = scope
        self.where: Where | None = (caller.f_code, caller.f_lasti)
        self._coroutine = coroutine
        self._calls = calls
        self._name = name
        self._future: asyncio.Future[R] | None = None
        scope.code.made[id(self)] = self

    def told(self) -> str:
        return self._name

    def begun(self) -> asyncio.Future[R]:
        if self._future is None:
            self.scope.code.made.pop(id(self), None)
            self._future = asyncio.get_running_loop().create_task(self._coroutine)
        return self._future

    def __await__(self) -> Generator[Any, Any, R]:
        if self._future is not None:
            return self._future.__await__()
        self.scope.code.made.pop(id(self), None)
        return self._coroutine.__await__()

    def close(self) -> None:
        is_new = id(self) in self.scope.code.made
        super().close()
        if is_new:  # else it is under way: what others wait for goes on
            self._coroutine.close()
            for each in self._calls:
                if isinstance(each, Made):
                    each.close()


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
