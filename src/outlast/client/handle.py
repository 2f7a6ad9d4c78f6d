"""The handle of one run."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from outlast.definition.durations import Seconds
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.lifecycle.summary import RunSummary
from outlast.values.tracebacks import folded

if TYPE_CHECKING:
    from outlast.client.facade import Engine
    from outlast.client.results import Question
    from outlast.functions.decorators import Node, Workflow
    from outlast.lifecycle.explanation import Explanation

R = TypeVar("R")
T = TypeVar("T")


class RunHandle(Generic[R]):
    """One run. `run` is its id; with the id alone the run can be found again."""

    def __init__(self, engine: Engine, run: RunId, workflow: Workflow[..., Any] | None = None) -> None:
        self.run = run
        self._engine = engine
        self._workflow = workflow
        self._seen: RunSummary | None = None

    async def result(self, *, timeout: Seconds | None = None) -> R:
        """The return value of the workflow; waits until the run has ended. See `Engine.result`."""
        __tracebackhide__ = True
        try:
            return await self._engine.result(self.run, workflow=self._workflow, timeout=timeout)  # type: ignore[no-any-return]
        except Exception as error:
            raise folded(error)  # noqa: B904 - it is the same error

    async def get(self) -> RunSummary:
        """The summary of the run."""
        self._seen = await self._engine.get(self.run)
        return self._seen

    def watch(self, after: int = 0) -> AsyncIterator[Entry]:
        """The events of the run, stored and future ones, until it ends."""
        return self._engine.watch(self.run, after=after)

    async def explain(self, *, full: bool = False) -> Explanation:
        """The history of the run, its state and the useful actions. `full` gives every event an entry."""
        return await self._engine.explain(self.run, full=full)

    async def cancel(self, *, by: str = "", reason: str = "", force: bool = False) -> None:
        """Cancel the run; see `Engine.cancel`."""
        await self._engine.cancel(self.run, by=by, reason=reason, force=force)

    async def pause(self, *, by: str = "", reason: str = "") -> None:
        """Pause the run; see `Engine.pause`."""
        await self._engine.pause(self.run, by=by, reason=reason)

    async def asked(self, question: str | None = None, *, timeout: Seconds | None = None) -> Question:
        """The open question of the run; waits until the run asks it. See `Engine.asked`."""
        return await self._engine.asked(self.run, question, timeout=timeout)

    @overload
    async def output(self, node: Node[..., T]) -> T: ...
    @overload
    async def output(self, node: str) -> Any: ...
    async def output(self, node: Any) -> Any:
        """The output of a completed node; see `Engine.output`."""
        return await self._engine.output(self.run, node)

    async def answer(self, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        """Answer a question of the run; see `Engine.answer`."""
        return await self._engine.answer(self.run, value, interaction=interaction, by=by)

    def __repr__(self) -> str:
        return f"<run {self.run}{f' of {self._workflow.name}' if self._workflow else ''}>"

    def _repr_html_(self) -> str:
        return page_of(self.run, self._workflow.name if self._workflow else "", self._seen)


def page_of(run: RunId, workflow: str, seen: RunSummary | None) -> str:
    """The HTML that a notebook shows for a run: its last summary, or only its name."""
    rows = {"run": run, "workflow": seen.workflow if seen else workflow}
    if seen is not None:
        rows |= {"status": str(seen.status), "nodes done": str(seen.done_nodes)}
        waits = ", ".join(wait.text or wait.id for wait in seen.waits)
        rows |= {name: text for name, text in (("waits for", waits), ("reason", seen.reason)) if text}
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table>{cells}</table>"
