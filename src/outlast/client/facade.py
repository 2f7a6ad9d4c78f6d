"""The engine: one class over the collaborators that start, read, control, repair and migrate runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import msgspec

from outlast.client import branch_plans
from outlast.client.branching import Branching
from outlast.client.bulk import Bulk
from outlast.client.control import Control
from outlast.client.deletion import Deletions, Pruned
from outlast.client.diagnostics import Diagnostics
from outlast.client.evidence import Diagnosis
from outlast.client.handle import RunHandle
from outlast.client.questions import questions_of
from outlast.client.reader import Conditions, Statuses, WorkerRuns, checked_filter
from outlast.client.recovery import Recovery
from outlast.client.results import Question, Results
from outlast.client.starts import Starts
from outlast.client.temporary_claim import TemporaryClaims
from outlast.client.versions import Versions
from outlast.definition.durations import Seconds, seconds
from outlast.engine.worker import Worker
from outlast.functions.decorators import Node, Workflow
from outlast.functions.dry_replay import DryRun
from outlast.history.events import Children
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger import Ledger
from outlast.ledger.verification import Verification
from outlast.lifecycle.diagnosis import Finding
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.services.sweeper import STALE_AFTER_S, Report, Sweeper
from outlast.store import Line, Page, RunFilter, Tombstone
from outlast.values.tracebacks import folded

if TYPE_CHECKING:  # a program that only starts runs does not load the reports
    from outlast.lifecycle.branching import BranchSummary
    from outlast.lifecycle.comparison import Comparison
    from outlast.lifecycle.explanation import Explanation

P = ParamSpec("P")
R = TypeVar("R")


class Engine:
    """Starts, watches and controls the runs of a store. `outlast.open` opens one."""

    bulk: Bulk
    """One action on many runs."""
    versions: Versions
    """The versions of workflows."""
    diagnostics: Diagnostics
    """Details of runs, for tools."""

    def __init__(
        self,
        ledger: Ledger,
        worker: Worker | None = None,
        *,
        root: str = "",
        apps: tuple[str, ...] = (),
        hold: bool = False,
    ) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._worker = worker
        self._hold = hold
        self._claims = claims = TemporaryClaims(self, ledger, worker, apps)
        self._reader = claims.reader
        self._starts = Starts(claims, root)
        self._results = Results(claims)
        self._recovery = Recovery(claims)
        self._branching = Branching(claims, self._recovery)
        self._control = Control(claims, self._recovery, self._branching)
        self._deletions = Deletions(claims, self._recovery)
        self.bulk = Bulk(self)
        self.versions = Versions(claims, self._branching, self._control)
        self.diagnostics = Diagnostics(claims, self._recovery, self._branching, self._control)

    async def _leave(self) -> None:
        """Close: end this engine's own claims."""
        await self._claims.retire()

    # --- starting and finding

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """Start a run; it is durable when this returns. `workflow.options(id=…)` or
        `workflow.options(idempotency_key=…)` makes the start idempotent."""
        return await self._starts.start(workflow, *args, **kwargs)

    async def handle(self, run: str) -> RunHandle[Any]:
        """The handle of an existing run, by its id or a prefix of it."""
        return self._claims.handle(await self.find(run), None)

    async def find(self, prefix: str) -> RunId:
        """The id of the one run whose id is `prefix` or begins with it."""
        return await self._reader.find(prefix)

    async def get(self, run: RunId) -> RunSummary:
        """The stored summary of a run. It may lag behind the log: `at` is the version it was made from."""
        return await self._reader.get(run)

    async def list_runs(
        self,
        filter: RunFilter | None = None,
        *,
        workflow: str | None = None,
        status: Statuses | None = None,
        since: datetime | None = None,
        attributes: Conditions | None = None,
        sort: str | None = None,
        limit: int | None = None,
    ) -> Page:
        """One page of the runs that match, newest first: `for run in await engine.list_runs(status="failed")` yields
        their summaries. `since` is the earliest time of creation. `attributes` are values that search attributes
        must have, or conditions such as `["total>=10"]`. `sort` lists by an attribute instead, `"-total"` from the greatest
        down. A `RunFilter` has more conditions, and the place at which the next page begins:
        `RunFilter(after=page.next)`."""
        query = checked_filter(filter, workflow, status, since, attributes, sort, limit)
        return await self._reader.list_runs(query)

    def iter_runs(
        self,
        filter: RunFilter | None = None,
        *,
        workflow: str | None = None,
        status: Statuses | None = None,
        since: datetime | None = None,
        attributes: Conditions | None = None,
        sort: str | None = None,
    ) -> AsyncIterator[RunSummary]:
        """The summaries of all runs that match, as in `list_runs`. `limit` of the filter is the number of runs in one
        read."""
        return self._reader.iter_runs(checked_filter(filter, workflow, status, since, attributes, sort))

    # --- waiting

    async def result(
        self, run: RunId, *, workflow: Workflow[..., Any] | None = None, timeout: Seconds | None = None
    ) -> Any:
        """The return value of the run, once it has ended. If the run failed, its exception is raised; `RunHeld` if a
        person has to decide first. After `timeout` (seconds or `timedelta`) `StillRunning`, a `TimeoutError`, is
        raised, and the run continues."""
        __tracebackhide__ = True
        try:
            return await self._results.result(run, workflow=workflow, timeout=timeout)
        except Exception as error:
            raise folded(error)  # noqa: B904 - it is the same error

    def watch(
        self, run: RunId, *, after: int = 0, stalled: Callable[[bool], None] | None = None
    ) -> AsyncIterator[Entry]:
        """Every event after seq `after`, stored and future ones, once each and in order, until the run ends.
        `stalled` is called with True when the run should advance and no worker advances it, and with False once a
        worker does (F1)."""
        return self._results.watch(run, after=after, stalled=stalled)

    # --- questions

    async def asked(self, run: RunId, question: str | None = None, *, timeout: Seconds | None = None) -> Question:
        """The open question of the run with this id or `key`, or any; waits until the run asks it. If the run fails,
        is held or is cancelled first, that is raised. After `timeout` `StillRunning`, a `TimeoutError`, is raised."""
        return await self._results.asked(run, question, timeout)

    async def answer(self, run: RunId, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        """Answer a question of a run. Returns the run that asked it: if the run itself asks nothing, the answer is
        for the one open question of the run it continued as, or of its children. If several are open, `interaction`
        names one, by its id or its `key`.

        An answer of the wrong type is refused. `NotAsked` means that the question has not been asked yet,
        `AlreadyAnswered` that it has its answer, any other `RunGone` that the run does not wait for an answer any
        more."""
        return await self._results.answer(run, value, interaction=interaction, by=by)

    async def questions(self, run: RunId) -> list[Wait]:
        """The open questions of the run itself."""
        return await questions_of(self._store, await self.get(run))

    # --- control

    async def begin(self, run: RunId, *, by: str = "") -> RunHandle[Any]:
        """Begin a run that was created with `start=False`. Until then no worker and no restart begins it."""
        return await self._control.begin(run, by=by)

    async def cancel(self, run: RunId, *, by: str = "", reason: str = "", force: bool = False) -> RunId:
        """Cancel a run, or the run it continued as. Returns the id of the cancelled run. A worker executes the
        clean-up code. A run that no worker advances and that has no clean-up has ended when this returns.

        A second cancel, or `force`, ends the run at once and skips the rest of its clean-up."""
        return await self._control.cancel(run, by, reason, force)

    async def pause(self, run: RunId, *, by: str = "", reason: str = "") -> RunId:
        """Pause a run, or the run it continued as, and return its id. A run that no worker advances is paused when
        this returns. Otherwise its nodes get the grace time to complete or to reach a checkpoint. `resume` continues
        it. Its children are not paused."""
        return await self._control.pause(run, branch_plans.pause_request(by, reason))

    async def pause_all(self, runs: Iterable[RunId] = (), *, by: str = "", reason: str = "") -> None:
        """Pause every run that this process advances, and those of `runs` that no worker advances; return when all
        are paused. Children are not paused: their nodes get the grace time too, and the worker that resumes the
        parent continues them."""
        return await self._control.pause_all(runs, branch_plans.pause_request(by, reason))

    async def drain(self) -> None:
        """Begin nothing more in this process, and return when no node is running: each gets the grace time to
        complete or to reach a checkpoint. No run is paused: other workers can claim the runs of this process."""
        return await self._control.drain()

    async def resume(self, run: RunId, *, by: str = "", force: bool = False) -> RunHandle[Any]:
        """Resume a run that was interrupted, paused or held, or that failed and is recoverable; of a run that continued as
        new, the latest run. The nodes that were running or that failed last get another attempt. `force` is needed if nodes
        completed after the failure, because their effects stay, and if the run was copied to another store."""
        return await self._control.resume(run, by, force=force)

    async def retry(
        self,
        run: RunId,
        node: str | None = None,
        *,
        feedback: Any = None,
        by: str = "",
        reason: str = "",
        children: Children = "cancel",
        force: bool = False,
    ) -> RunHandle[Any]:
        """Execute a node again and continue from there; by default the node that failed. A failed node gets another attempt
        in place. A completed node is executed again on a new branch. `feedback` is passed to the node. `children`: see
        `jump`. `force`: see `resume`."""
        return await self._control.retry(run, node, feedback, by, reason, children, force=force)

    # --- deleting

    async def delete(self, run: RunId, *, force: bool = False, by: str = "", reason: str = "") -> Tombstone:
        """Delete a run that has ended: its log, its lines, and the blobs that no other run names. A tombstone keeps its id
        and its idempotency key from being used again.

        A run that is held or can be resumed, a child of a run that has not ended, and a run that continued as one that has
        not ended are refused, unless with `force`. A run that has not ended is always refused: cancel it first."""
        return await self._deletions.delete(run, by, reason, force=force)

    async def prune(
        self,
        older: Seconds,
        *,
        workflow: str = "",
        status: Statuses | None = None,
        force: bool = False,
        dry_run: bool = False,
        by: str = "",
        reason: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> Pruned:
        """Delete the runs that ended longer ago than `older` (seconds or `timedelta`), and free their space. What
        `delete` refuses is kept and counted, and so are held runs. `dry_run` changes nothing and only reports. `tell`
        is called with the progress. It may be interrupted at any moment: call it again."""
        return await self._deletions.prune(
            older, workflow, status, force=force, dry_run=dry_run, by=by, reason=reason, tell=tell
        )

    # --- going back

    async def jump(
        self,
        run: RunId,
        to: str | int,
        *,
        inputs: dict[str, Any] | None = None,
        output: Any = msgspec.UNSET,
        by: str = "",
        reason: str = "",
        children: Children = "cancel",
    ) -> RunHandle[Any]:
        """Continue from an earlier point on a new branch: after an event (its number), before the call of a node or a
        question (its name), or from the `start`. `inputs` replaces some arguments of a node, `output` its result: the
        call stays then, and the branch begins before its outcome, so that what ran beside it stays too.
        `children` started after that point are cancelled, or kept: kept children continue, and the run does not wait
        for them."""
        plan = branch_plans.to_place(to, inputs=inputs, output=output, by=by, reason=reason)
        return await self._branching.open_branch(run, "jump", plan, children)

    async def rewind(
        self, run: RunId, nodes: int = 1, *, by: str = "", reason: str = "", children: Children = "cancel"
    ) -> RunHandle[Any]:
        """Execute the last completed nodes again, on a new branch. `children`: see `jump`."""
        return await self._branching.open_branch(
            run, "rewind", branch_plans.back(nodes, by=by, reason=reason), children
        )

    async def activate(
        self, run: RunId, branch: int, *, by: str = "", reason: str = "", children: Children = "cancel"
    ) -> RunHandle[Any]:
        """Continue from the end of an older branch, on a new one. `children`: see `jump`."""
        return await self._branching.activate(run, branch, by, reason, children)

    async def fork(
        self, run: RunId, at: str | int | None = None, *, id: str | None = None, title: str = "", by: str = ""
    ) -> RunHandle[Any]:
        """Create a new, independent run with the history of this one up to an event, a node or a question (default:
        the end of a running run, the last event before the end of a finished one)."""
        return await self._branching.fork(run, at, id, title, by)

    async def migrate(self, run: RunId, *, by: str = "", reason: str = "", children: Children = "cancel") -> DryRun:
        """Move a run to the current code. The part of the log that the code reproduces is kept; the run continues
        after it on a new branch. If the code reproduces the whole log, no branch is needed. `children`: see `jump`."""
        return await self.versions.migrate(run, by=by, reason=reason, children=children)

    # --- what happened

    def events(
        self, run: RunId, *, node: str = "", branch: int | None = None, everything: bool = False, after: int = 0
    ) -> AsyncIterator[Entry]:
        """The events after seq `after` on the current lineage, on that of `branch`, or in the whole log
        (`everything`); with `node`, only those of this call of a node."""
        return self._reader.events(run, node=node, branch=branch, everything=everything, after=after)

    def lines(self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0) -> AsyncIterator[Line]:
        """The log lines of the nodes of a run, after line number `after`; optionally of one node or attempt."""
        return self._reader.lines(run, node=node, attempt=attempt, after=after)

    @overload
    async def output(self, run: RunId, node: Node[..., R]) -> R: ...
    @overload
    async def output(self, run: RunId, node: str) -> Any: ...
    async def output(self, run: RunId, node: Node[..., Any] | str) -> Any:
        """The output of a completed node of a run, by the node or by the name of its call. If the run calls the node
        more than once, give the name of the call, such as `ship[order-7]`."""
        return await self._results.output(run, node)

    async def explain(self, run: RunId, *, branch: int | None = None, full: bool = False) -> Explanation:
        """The history of a run, its state and the useful actions. `full` gives every event an entry."""
        from outlast.client.reports import explanation_of

        return await explanation_of(self._reader, self._store, run, branch, full=full)

    async def branches(self, run: RunId) -> tuple[BranchSummary, ...]:
        """All branches of a run in order: where each opened, why, by whom, and how it ended."""
        from outlast.client.reports import branches_in

        return tuple(await branches_in(self._reader, run))

    async def compare(
        self, run: RunId, other: RunId | None = None, *, branch: int | None = None, other_branch: int | None = None
    ) -> Comparison:
        """Two lineages, event by event: the current branches of two runs, or the branches given. With one run and no
        `other_branch`: its branch and the branch before that."""
        from outlast.client.reports import comparison_of

        return await comparison_of(self._reader, self._store.blobs, (run, branch), (other, other_branch))

    # --- health

    async def verify(self, run: RunId, *, blobs: bool = True) -> Verification:
        """Check V1 to V12 over the whole log, its head and its summary. Damage is reported, not raised. With `blobs`,
        the content of every blob that the log names is compared with its hash (G4)."""
        return await self._reader.verify(run, blobs=blobs)

    async def diagnose(self, run: RunId, *, blobs: bool = True) -> Diagnosis:
        """The problems of a run, if any; changes nothing. Without `blobs`, the content of blobs is not read."""
        return await self._recovery.diagnose(run, blobs=blobs)

    async def recover(self, run: RunId) -> list[Finding]:
        """Repair what can be repaired without loss. Returns the findings that were repaired, in order."""
        return await self._recovery.recover(run)

    async def sweep(self, *, dry_run: bool = False, stale_after: Seconds = STALE_AFTER_S) -> Report:
        """Check every unfinished run once, and release those that no worker advances to the next worker. A run counts
        as stalled when its claim has been expired, or it has had no claim, for `stale_after` (seconds or
        `timedelta`). `dry_run` changes nothing and only reports."""
        sweeper = Sweeper(self._ledger, stale_after=seconds(stale_after, "stale_after"), hold=self._hold)
        return await sweeper.sweep(dry_run=dry_run)

    async def workers(self) -> list[WorkerRuns]:
        """The workers and the runs they hold; live workers first."""
        return await self._reader.workers()
