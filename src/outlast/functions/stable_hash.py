"""Stable hashes: tasks and futures of workflow code come out of sets in the same order in every process.

asyncio keeps tasks and futures in sets (`TaskGroup`, `wait`, `as_completed`), and user code does too. The order of a set
depends on the hashes of its members. The default hash of an object is its address, which differs from process to process;
the loop numbers its objects instead, which is the same in a replay.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextvars import Context
from types import CellType, FrameType
from typing import TYPE_CHECKING, Any

from outlast.errors import NotDurable
from outlast.values.source_location import Where, shown, user_place

_OF_ASYNCIO = vars(asyncio.tasks)
if TYPE_CHECKING:
    _Future = asyncio.Future[Any]
else:
    _Future = object


class StableHash:
    """The maker of the object sets `hash_value`."""

    __slots__ = ()
    hash_value: int

    def __hash__(self) -> int:
        # asyncio registers a task of any loop while it is being made; the numbers of several loops would collide there
        return getattr(self, "hash_value", 0) or object.__hash__(self)


class StableFuture(StableHash, asyncio.Future[Any]):
    """A future of workflow code."""

    __slots__ = ("hash_value",)


class Watched(_Future):
    """Records whether any code uses the future. `is_kept`: code awaits it, cancels it, reads its outcome or adds a
    callback. `joins` are the futures of the `asyncio.gather` and `shield` that contain it: they use it if they are used."""

    __slots__ = ()
    is_kept: bool
    joins: tuple[CellType, ...]

    @property
    def is_used(self) -> bool:
        return self.is_kept or any(getattr(join.cell_contents, "is_used", True) for join in self.joins)

    def __await__(self) -> Generator[Any, None, Any]:
        self.is_kept = True
        return super().__await__()

    __iter__ = __await__

    def add_done_callback(self, fn: Any, /, *, context: Context | None = None) -> None:
        self._use(fn)
        super().add_done_callback(fn, context=context)

    def _use(self, callback: Any) -> None:
        name = _name_in_asyncio(callback)
        if name not in _JOINING:
            self.is_kept = self.is_kept or name != "_outer_done_callback"  # of `shield`, on its own future
            return
        join = callback.__closure__[callback.__code__.co_freevars.index("outer")]
        self.joins += (join,)
        if name == "_done_callback":  # gather makes its future after this
            self.get_loop().call_soon(_watch, join)

    def result(self) -> Any:
        self._look(sys._getframe(1))
        return super().result()

    def exception(self) -> BaseException | None:
        self._look(sys._getframe(1))
        return super().exception()

    def _look(self, frame: FrameType) -> None:
        if frame.f_globals is not _OF_ASYNCIO or frame.f_code.co_name not in _JOINING:
            self.is_kept = True
        elif not self.joins:  # a gather of what is done adds no callback
            join = CellType(frame.f_locals["outer"])
            _watch(join)
            self.joins = (join,)

    def cancel(self, msg: Any | None = None) -> bool:
        self.is_kept = True
        return super().cancel(msg)


_JOINING = ("_done_callback", "_inner_done_callback")
"""The callbacks of `asyncio.gather` and `asyncio.shield`."""


def _name_in_asyncio(callback: Any) -> str:
    """The name of a callback of asyncio.tasks; empty for others."""
    return callback.__name__ if getattr(callback, "__globals__", None) is _OF_ASYNCIO else ""


class WatchedFuture(Watched, StableFuture):
    """A future that the loop created, such as that of `asyncio.shield`."""

    __slots__ = ("is_kept", "joins")


class WatchedGather(Watched, asyncio.tasks._GatheringFuture):  # type: ignore[name-defined,misc]
    """The future of an `asyncio.gather`."""


def _watch(join: CellType) -> None:
    """Watch the future of a gather, which asyncio has made. Code that awaits it already has a callback."""
    outer: Any = join.cell_contents
    if type(outer) is asyncio.tasks._GatheringFuture:  # type: ignore[attr-defined]
        outer.__class__, outer.is_kept, outer.joins = WatchedGather, False, ()
        for callback, _ in outer._callbacks or ():
            outer._use(callback)


class StableTask(StableHash, Watched, asyncio.Task[Any]):
    """A task of workflow code. `made` is the line of the user's code that created it, `using` the function that was
    called there."""

    __slots__ = ("hash_value", "is_kept", "joins", "made", "using")
    made: Where | None
    using: str


def refuse_unplaced(coroutine: Any) -> None:
    """Refuse a coroutine that `asyncio.as_completed` makes a task of: it was in a set without a stable hash, so the order
    of the tasks would be random."""
    hashed_by: Any = type(coroutine).__hash__
    if hashed_by is not object.__hash__:
        return  # a call, which has a stable hash
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals is _OF_ASYNCIO:
        if frame.f_code.co_qualname.startswith(("as_completed", "_AsCompletedIterator")):
            raise NotDurable(
                f"{shown(user_place())}: a workflow cannot use asyncio.as_completed with coroutines: they would start in "
                "another order after a crash. Pass calls of nodes, or tasks from asyncio.create_task."
            )
        frame = frame.f_back
