"""Names of calls: the same code uses the same names, live and in replay.

A call gets its name when it is made, counted per base name within a scope. Every task that workflow code starts (a helper in
a gather, a branch of a race) has its own scope, numbered within the scope that started it, and so has every step: calls in
one helper do not change the names in another.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from outlast.errors import NotDurable
from outlast.execution import remote
from outlast.values.checked_text import words
from outlast.values.context import current_attempt_log
from outlast.values.source_location import shown, user_place

if TYPE_CHECKING:
    from outlast.functions.code import Code
    from outlast.functions.commands import NodeCommand


class Scope:
    """One sequence of workflow code. `step` is the step it is in; `made`, if it is given, collects the node calls made in
    this scope and in scopes below it."""

    __slots__ = ("_counts", "_tasks", "code", "made", "path", "step", "task")

    def __init__(
        self,
        code: Code,
        path: str = "",
        step: str = "",
        made: list[NodeCommand] | None = None,
        task: asyncio.Task[Any] | None = None,
    ) -> None:
        self.code = code
        self.path = path
        self.step = step
        self.made = made
        self.task = task
        """The task that executes this code; None for the task of the workflow function."""
        self._counts: dict[str, int] = {}
        self._tasks = 0

    def unique_name(self, base: str) -> str:
        """`fetch`, `fetch#2`, … and `1/fetch` in the first task that this one started."""
        count = self._counts.get(base, 0) + 1
        self._counts[base] = count
        return f"{self.path}{base}" if count == 1 else f"{self.path}{base}#{count}"

    def keyed_name(self, base: str, key: object) -> str:
        """`fetch[key]`: a name that the caller chose. Using it twice in a scope raises `NotDurable`."""
        name = f"{base}[{words('key', key if isinstance(key, str) else str(key))}]"
        if name in self._counts:
            raise NotDurable(
                f"{shown(user_place())}: {self.path}{name} is used twice: ids and keys must be unique within a scope"
            )
        self._counts[name] = 1
        return f"{self.path}{name}"

    def node(self, base: str, key: str | None) -> str:
        """The name of a node call in this scope."""
        if key is not None:
            name = self.keyed_name(base, key)
        else:  # the same as `unique_name`
            self._counts[base] = count = self._counts.get(base, 0) + 1
            name = f"{self.path}{base}" if count == 1 else f"{self.path}{base}#{count}"
        return name

    def count(self) -> int:
        """1, 2, 3 …: for calls without a name."""
        count = self._counts.get("", 0) + 1
        self._counts[""] = count
        return count

    def for_task(self) -> Scope:
        """The scope of a task started here."""
        self._tasks += 1
        return Scope(self.code, f"{self.path}{self._tasks}/", self.step, self.made)

    def for_step(self, step: str) -> Scope:
        """The scope inside a step."""
        return Scope(self.code, f"{step}/", step, self.made, self.task)

    def for_item(self, name: str, made: list[NodeCommand]) -> Scope:
        """The scope of one item of a map. `made` collects its nodes."""
        return Scope(self.code, f"{name}/", self.step, made, self.task)


current: ContextVar[Scope] = ContextVar("outlast_scope")


def current_node() -> str:
    """The name of the node whose code is running; empty elsewhere."""
    if (attempt_log := current_attempt_log()) is not None:
        return attempt_log.node
    return attempt.attempt.node if (attempt := remote.current()) is not None else ""


def require_scope(what: str) -> Scope:
    """The scope of the workflow code that is running. Elsewhere it raises `NotDurable`, which says where `what` belongs."""
    scope = current.get(None)
    if scope is None:
        node = current_node()
        where = f"in node {node}: call it in workflow code" if node else "outside a workflow"
        raise NotDurable(f"{shown(user_place())}: {what} is called {where}")
    return scope
