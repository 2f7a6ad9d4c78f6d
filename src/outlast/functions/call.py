"""Calls: the objects that workflow code awaits, or waits for in a plain workflow.

Making a call starts nothing. The call has its name from then on, and starts when it is awaited, gathered, raced or made a
task. A call is a coroutine, so that `asyncio.create_task`, `TaskGroup`, `gather` and `wait_for` accept it.
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
    """An object that workflow code made and has to await. Until it starts, `Code.made` lists it. Using it in place of its
    result raises `Unawaited`."""

    __slots__ = ()
    scope: Scope
    where: Where | None

    def describe(self) -> str:
        """The name of the call, for a message."""
        raise NotImplementedError

    def name_and_place(self) -> str:
        """The name of the call and its place in the user's code, for a message."""
        return f"the call of {self.describe()} ({shown(self.where)})"

    def close(self) -> None:
        """Discard the call on purpose."""
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
) in _USES.items():  # set at run time, so that type checkers report the use as an error
    for _name in _names.split():
        setattr(CallBase, f"__{_name}__", _refusal(_use))
CallBase.__hash__ = object.__hash__  # type: ignore[method-assign]


class WorkflowCall(CallBase, Coroutine[Any, Any, R], Generic[R]):
    """The common part of calls."""

    __slots__ = ("_hash_value", "_steps", "scope")
    _hash_value: int
    _steps: Generator[Any, Any, R] | None

    def ensure_started(self) -> asyncio.Future[R]:
        """Start the call if it has not started. Returns the future of its outcome."""
        raise NotImplementedError

    def wait(self) -> R:
        """In a workflow that is a plain function: wait for the outcome and return it."""
        return wait_in_thread(self)

    def __hash__(self) -> int:
        """A number that is the same in a replay. It is taken at first use, because few calls are ever hashed."""
        if not self._hash_value:
            self._hash_value = self.scope.code.next_hash()
        return self._hash_value

    # --- the coroutine protocol

    def send(self, value: Any, /) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        if self._steps is None:
            self.close()  # a task that is cancelled before it starts requests nothing
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
    """One durable operation that workflow code requests: a node, a child run, a timer or a question."""

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
        """Its id in the log."""
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
    """Several calls as one: a gather, a race or `first`."""

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
        if is_new:  # a call that has started continues: others may wait for it
            self._coroutine.close()
            for each in self._calls:
                if isinstance(each, CallBase):
                    each.close()


def ensure_started(awaitables: Iterable[Any]) -> list[asyncio.Future[Any]]:
    """Start all of them, in order. A helper's coroutine becomes a task with its own scope."""
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
            kind = type(each).__qualname__
            raise NotDurable(
                f"{shown(user_place())}: {kind} cannot be awaited here: pass calls of nodes, or coroutines"
            )
    return futures
