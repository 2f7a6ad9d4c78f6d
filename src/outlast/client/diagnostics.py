"""Details of runs for tools: `engine.diagnostics`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from outlast.client.branch_plans import Plan, leaving
from outlast.client.branching import Branching
from outlast.client.control import Control
from outlast.client.evidence import workers_knowing
from outlast.client.questions import Asked, open_question
from outlast.client.recovery import Recovery
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId
from outlast.history.lineage import Interval
from outlast.ledger.reading import created_of
from outlast.lifecycle.actions import Verb
from outlast.lifecycle.diagnosis import Finding
from outlast.store import Holding


class Diagnostics(Verbs):
    """Details of runs, and previews of verbs."""

    def __init__(self, claims: TemporaryClaims, recovery: Recovery, branching: Branching, control: Control) -> None:
        super().__init__(claims)
        self._recovery = recovery
        self._branching = branching
        self._control = control

    @property
    def worker_id(self) -> str:
        """The worker of this engine; empty if it advances no runs."""
        return self._claims.worker_id

    async def now(self) -> int:
        """The store's clock, in microseconds since 1970."""
        return await self._reader.now()

    async def holder(self, run: RunId) -> Holding | None:
        """The claim on a run; None if no worker holds it."""
        return await self._reader.holder(run)

    async def workers_knowing(self, workflow: str) -> tuple[str, ...]:
        """The live workers that claim runs of a workflow."""
        return await workers_knowing(self._store, workflow)

    async def scratch(self, run: RunId, created: int) -> bytes:
        """The progress that the nodes of a run last reported. It is not durable."""
        return await self._reader.scratch(run, created)

    def run_ids(self, *, unfinished: bool = False) -> AsyncIterator[RunId]:
        """The ids of all runs, or of all unfinished ones, whether or not their summaries are right."""
        return self._reader.run_ids(unfinished=unfinished)

    async def created(self, run: RunId) -> e.RunCreated:
        """The event that created a run."""
        return await created_of(self._store, run)

    async def current_branch(self, run: RunId) -> int:
        """The number of the current branch of a run."""
        return await self._reader.current_branch(run)

    async def lineage(self, run: RunId, branch: int | None = None) -> tuple[Interval, ...]:
        """The intervals of events that a branch (default: the current one) consists of."""
        return await self._reader.lineage(run, branch)

    async def continued_as(self, run: RunId) -> RunId:
        """The last run that a run continued as, or the run itself."""
        return await self._control.continued_as(run)

    async def open_question(self, run: RunId, question: str | None = None) -> Asked:
        """The open question that `answer` would answer, and the run that asks it; the same errors if there is none."""
        return await open_question(self._store, await self._reader.get(run), question)

    async def take_over_later(self, run: RunId) -> str:
        """Advance a run here as soon as no other worker does. Returns the live worker that holds it now, or an empty
        text."""
        return await self._control.take_over_later(run)

    async def preview(self, run: RunId, verb: Verb, plan: Plan) -> list[e.AnyEvent]:
        """The events that the planned branch would append. Nothing is changed."""
        return await self._branching.preview(run, verb, plan)

    async def preview_activate(
        self, run: RunId, branch: int, *, by: str = "", reason: str = "", children: Children = "cancel"
    ) -> list[e.AnyEvent]:
        """The events that `activate` would append. Nothing is changed."""
        plan = await self._branching.activation(run, branch, by, reason)
        return await self._branching.preview(run, "activate", leaving(plan, children))

    async def preview_retry(
        self,
        run: RunId,
        node: str | None = None,
        *,
        feedback: Any = None,
        by: str = "",
        children: Children = "cancel",
        force: bool = False,
    ) -> list[e.AnyEvent]:
        """The events that `retry`, or without a node `resume`, would append. Nothing is changed."""
        return await self._control.preview_retry(run, node, feedback, by, children, force=force)

    async def preview_pause(self, run: RunId, *, by: str = "", reason: str = "") -> list[e.AnyEvent]:
        """The events that `pause` would append. If a live worker holds the run, it appends more when it obeys. Nothing is
        changed."""
        return await self._control.preview_pause(run, by, reason)

    async def preview_cancel(
        self, run: RunId, *, by: str = "", reason: str = "", force: bool = False
    ) -> list[e.AnyEvent]:
        """The events that `cancel` would append. If the code of the run may clean up, its worker appends more. Nothing is
        changed."""
        return await self._control.preview_cancel(run, by, reason, force=force)

    async def preview_recovery(self, run: RunId, finding: Finding) -> list[e.AnyEvent]:
        """The events that `recover` would append for this finding, after the run is taken over. Nothing is changed."""
        return await self._recovery.recovery_plan(run, finding)
