"""What workflow code waits for has a place of its own, by which it comes out of a set.

asyncio keeps tasks and futures in sets (`TaskGroup`, `wait`, `as_completed`), and so does the code of users. A set is in the
order of its hashes and of what was done to it. An object's own hash is its address, which differs from process to process;
a place is counted on the loop that the object belongs to, and is the same in a replay.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextvars import Context
from types import FrameType
from typing import Any

from outlast.errors import NotDurable
from outlast.values.source_location import Where

_OF_ASYNCIO = vars(asyncio.tasks)


class Placed:
    """Whoever makes one gives it its place."""

    __slots__ = ()
    place: int

    def __hash__(self) -> int:
        # asyncio lists a task while it is being made, with those of all loops: there, places would be the same many times
        return getattr(self, "place", 0) or object.__hash__(self)


class PlacedFuture(Placed, asyncio.Future[Any]):
    """A future of workflow code."""

    __slots__ = ("place",)


class PlacedTask(Placed, asyncio.Task[Any]):
    """A task of workflow code. `made` is the line of the user's code that created it, `using` what was called there,
    `is_kept` whether anybody awaits it, cancels it or is called back at its end."""

    __slots__ = ("is_kept", "made", "place", "using")
    is_kept: bool
    made: Where | None
    using: str

    def __await__(self) -> Generator[Any, None, Any]:
        self.is_kept = True
        return super().__await__()

    __iter__ = __await__

    def add_done_callback(self, fn: Any, /, *, context: Context | None = None) -> None:
        self.is_kept = True
        super().add_done_callback(fn, context=context)

    def result(self) -> Any:
        self.is_kept = True
        return super().result()

    def exception(self) -> BaseException | None:
        self.is_kept = True
        return super().exception()

    def cancel(self, msg: Any | None = None) -> bool:
        self.is_kept = True
        return super().cancel(msg)


def refuse_unplaced(coroutine: Any) -> None:
    """Refuse what `asyncio.as_completed` makes a task of after it was in a set without a place: in no order of anybody's."""
    hashed_by: Any = type(coroutine).__hash__
    if hashed_by is not object.__hash__:
        return  # a call: its place is its hash
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals is _OF_ASYNCIO:
        if frame.f_code.co_qualname.startswith(("as_completed", "_AsCompletedIterator")):
            raise NotDurable(
                "a workflow cannot use asyncio.as_completed over coroutines: they would not begin in the same order after "
                "a crash. Give it calls of nodes, or tasks: asyncio.create_task makes them."
            )
        frame = frame.f_back
