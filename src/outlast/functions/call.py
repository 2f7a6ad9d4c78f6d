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
from outlast.functions.scope import Scope, require_scope
from outlast.functions.threaded import is_threaded, wait_in_thread
from outlast.values.source_location import Where, shown, user_place

if TYPE_CHECKING:
    from outlast.functions.commands import Command

R = TypeVar("R")


class CallBase:
    """What workflow code made and has to await. Until it begins its `Code` lists it; to use it as if it were its result is
    refused."""

    __slots__ = ()
    scope: Scope
    where: Where | None

    def describe(self) -> str:
        """For people, in a message: what was called."""
        raise NotImplementedError

    def name_and_place(self) -> str:
        """For people: what was called, and where."""
        return f"the call of {self.describe()} ({shown(self.where)})"

    def close(self) -> None:
        """It is given up on purpose."""
        self.scope.code.made.pop(id(self), None)


def _refusal(use: str) -> Callable[..., NoReturn]:
    def refuse(self: CallBase, *_: Any) -> NoReturn:
        name = self.describe()
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
        setattr(CallBase, f"__{_name}__", _refusal(_use))
CallBase.__hash__ = object.__hash__  # type: ignore[method-assign]


class WorkflowCall(CallBase, Coroutine[Any, Any, R], Generic[R]):
    """What calls have in common."""

    __slots__ = ("_hash_value", "_steps", "scope")
    _hash_value: int
    _steps: Generator[Any, Any, R] | None

    def ensure_started(self) -> asyncio.Future[R]:
        """Its outcome to come, under way from now on."""
        raise NotImplementedError

    def wait(self) -> R:
        """In a workflow that is a plain function: the outcome, once it is there."""
        return wait_in_thread(self)

    def __hash__(self) -> int:
        """Its place among what is put into sets; counted when it first is, for hardly any call ever is."""
        if not self._hash_value:
            self._hash_value = self.scope.code.next_hash()
        return self._hash_value

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
        CallBase.close(self)
        if self._steps is not None:
            self._steps.close()


def _nothing() -> Generator[Any, Any, Any]:
    return
    yield


class Call(WorkflowCall[R]):
    """One durable thing that workflow code asks for: a node, a child run, a timer, a question."""

    __slots__ = ("_command", "_future")

    def __init__(self, scope: Scope, command: Command, caller: FrameType) -> None:
        self._hash_value = 0
        self._steps = None
        self.scope = scope
        self._command = command
        self._future: asyncio.Future[R] | None = None
        command.where = caller.f_code, caller.f_lasti
        scope.code.made[id(self)] = self

    @property
    def name(self) -> str:
        """The id it has in the log."""
        return self._command.name

    @property
    def where(self) -> Where | None:  # type: ignore[override]
        return self._command.where

    def describe(self) -> str:
        return self._command.name

    def ensure_started(self) -> asyncio.Future[R]:
        future = self._future
        if future is None:
            code = self.scope.code
            code.made.pop(id(self), None)
            self._future = future = code.issue(self._command)
        return future

    def __await__(self) -> Generator[Any, Any, R]:
        return self.ensure_started().__await__()

    def __repr__(self) -> str:
        return f"<call {self._command.name}>"


class CombinedCall(WorkflowCall[R]):
    """Several calls as one: what a gather, a race or a map of them comes to."""

    __slots__ = ("_calls", "_coroutine", "_future", "_name", "where")

    def __init__(
        self, scope: Scope, coroutine: Coroutine[Any, Any, R], calls: tuple[Any, ...], name: str, caller: FrameType
    ) -> None:
        self._hash_value = 0
        self._steps = None
        self.scope = scope
        self.where: Where | None = (caller.f_code, caller.f_lasti)
        self._coroutine = coroutine
        self._calls = calls
        self._name = name
        self._future: asyncio.Future[R] | None = None
        scope.code.made[id(self)] = self

    def describe(self) -> str:
        return self._name

    def ensure_started(self) -> asyncio.Future[R]:
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
                if isinstance(each, CallBase):
                    each.close()


def ensure_started(awaitables: Iterable[Any]) -> list[asyncio.Future[Any]]:
    """Begin all of them, in order. A helper's coroutine becomes a task with a scope of its own."""
    require_scope("gather, race and map")
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Any]] = []
    for each in awaitables:
        if isinstance(each, WorkflowCall):
            futures.append(each.ensure_started())
        elif isinstance(each, asyncio.Future):
            futures.append(each)
        elif asyncio.iscoroutine(each):
            futures.append(loop.create_task(each))
        else:
            raise NotDurable(f"{type(each).__qualname__} cannot be awaited here: give calls of nodes, or coroutines")
    return futures
