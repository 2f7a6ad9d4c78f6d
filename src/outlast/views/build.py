"""Views made from what the engine returns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from outlast.history.events import NULL, AnyEvent, Event, Failure
from outlast.history.record import Entry
from outlast.lifecycle.state import Child, NodeState, NodeStatus, Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import Holding, Line
from outlast.views import types as t
from outlast.views.times import iso

if TYPE_CHECKING:
    from outlast.client.evidence import Diagnosis
    from outlast.client.reader import WorkerRuns
    from outlast.client.versions import Version
    from outlast.ledger.verification import Verification
    from outlast.lifecycle.branching import BranchSummary
    from outlast.lifecycle.comparison import Comparison
    from outlast.lifecycle.diagnosis import Finding
    from outlast.maintenance.backup import Copied
    from outlast.maintenance.info import Info
    from outlast.maintenance.transfer import Moved
    from outlast.services.sweeper import Report
    from outlast.views.run_view import Tally, Work

_LARGE = re.compile(rb'\{"\$":"int","v":"(-?0x[0-9a-f]{1,3000})"\}')
TIMES = frozenset({"due", "retry_at"})
"""Fields of events that are times."""


def plain_numbers(raw: Raw) -> Raw:
    """A value's JSON with integers of more than 64 bits as digits; they are stored as hexadecimal text."""
    data = bytes(raw)
    return Raw(_LARGE.sub(lambda found: b"%d" % int(found[1], 16), data)) if b'{"$":"int"' in data else raw


# --- runs


def run_view(summary: RunSummary, *, scratch: bytes = b"", holding: Holding | None = None) -> t.RunView:
    return t.RunView(**_run_fields(summary, progress_of(scratch), holding))


def _run_fields(summary: RunSummary, progress: tuple[t.ProgressView, ...], holding: Holding | None) -> dict[str, Any]:
    is_at_work = summary.status in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    return {
        **{name: getattr(summary, name) for name in _SAME},
        "parent": summary.parent or None,
        "created": iso(summary.created),
        "updated": iso(summary.updated),
        "waits": tuple(wait_view(wait) for wait in summary.waits),
        "progress": progress if is_at_work else (),
        "holder": holder_view(holding) if is_at_work and holding is not None else None,
    }


_SAME = (
    *("run", "workflow", "status", "kind", "title", "tags", "version", "branch", "at", "done_nodes", "reason"),
    *("recoverable", "held", "waiting"),
)


def progress_of(scratch: bytes) -> tuple[t.ProgressView, ...]:
    """The progress in a run's scratch. It is not durable: scratch that cannot be decoded is ignored."""
    try:
        found = msgspec.json.decode(scratch, type=list[_Progress]) if scratch else []
    except msgspec.DecodeError:
        return ()
    return tuple(t.ProgressView(node=each.node, done=each.done, total=each.total, text=each.text) for each in found)


class _Progress(msgspec.Struct):
    node: str
    done: float = 0.0
    total: float | None = None
    text: str = ""


def holder_view(holding: Holding) -> t.HolderView:
    return t.HolderView(
        worker=holding.worker,
        live=holding.is_live,
        last_seen=iso(holding.seen or None),
        expires=iso(holding.expires or None),
    )


def wait_view(wait: Wait) -> t.WaitView:
    return t.WaitView(**_wait_fields(wait))


def _wait_fields(wait: Wait) -> dict[str, Any]:
    times = {"since": iso(wait.since or None), "due": iso(wait.due)}
    return {"kind": wait.kind, "id": wait.id, "node": wait.node, "text": wait.text, **times}


def detail_view(
    summary: RunSummary,
    tally: Tally,
    *,
    files: Sequence[t.FileView] = (),
    actions: Sequence[t.ActionView] = (),
    scratch: bytes = b"",
    holding: Holding | None = None,
) -> t.RunDetailView:
    """Everything that is known of one run."""
    outline, created, state = tally.state.outline, tally.created, tally.state
    progress = tuple(each for each in progress_of(scratch) if each.node in tally.running)
    return t.RunDetailView(
        **_run_fields(summary, progress, holding),
        entry=created.entry if created else "",
        root=created.root if created else "",
        key=(created.key if created else "") or None,
        params=plain_numbers(created.params) if created else NULL,
        result=plain_numbers(outline.output),
        error=error_view(outline.error, outline.failed_node) if outline.error else None,
        successor=outline.successor or None,
        nodes=tuple(node_view(name, node, tally.work.get(name)) for name, node in state.nodes.items()),
        retired_nodes=tally.retired,
        steps=tuple(t.StepView(step=name, completed=done) for name, done in state.steps.items()),
        children=tuple(child_view(name, child, tally.workflows) for name, child in state.children.items()),
        files=tuple(files),
        questions=tuple(t.QuestionView(**_wait_fields(each), schema=each.detail) for each in tally.questions),
        actions=tuple(actions),
    )


def node_view(name: str, node: NodeState, work: Work | None = None) -> t.NodeView:
    status: Any = "running" if node.status is NodeStatus.STARTED else node.status.name.lower()
    return t.NodeView(
        node=name,
        step=(work.step if work else "") or None,
        status=status,
        attempt=node.attempt,
        crashes=node.crashes,
        began=iso(work.began or None) if work else None,
        ms=work.ms if work else 0.0,
        inputs=plain_numbers(work.inputs) if work else NULL,
        output=plain_numbers(node.output),
        error=error_view(node.error) if node.error else None,
        retry_at=iso(work.retry_at) if work else None,
        checkpoint=NULL if node.checkpoint is None else plain_numbers(node.checkpoint),
    )


def child_view(name: str, child: Child, workflows: dict[str, str]) -> t.ChildView:
    return t.ChildView(
        run=name,
        workflow=workflows.get(name) or None,
        node=child.node or None,
        status=child.status or None,
        detached=child.detached,
        error=error_view(child.error) if child.error else None,
    )


def error_view(error: Failure, node: str = "") -> t.ErrorView:
    return t.ErrorView(
        kind=error.kind, message=error.message, category=error.category, node=node or None, trace=error.trace
    )


def result_view(tally: Tally, result: Raw, files: Sequence[t.FileView] = ()) -> t.RunResultView:
    """How a run ended that a command waited for."""
    outline = tally.state.outline
    return t.RunResultView(
        run=tally.run,
        status=tally.state.status,
        result=result,
        error=error_view(outline.error, outline.failed_node) if outline.error else None,
        held=outline.held,
        reason=outline.reason,
        files=tuple(files),
    )


# --- events


def event_view(entry: Entry) -> t.EventView:
    """Its own fields are kept apart: some events have a `branch` that is not the one they were appended to."""
    return t.EventView(
        seq=entry.seq,
        branch=entry.branch,
        time=iso(entry.time),
        type=type(entry.event).__name__,
        fields=fields_of(entry.event),
    )


def planned_view(event: AnyEvent) -> t.PlannedEventView:
    return t.PlannedEventView(type=type(event).__name__, fields=fields_of(event))


def planned_views(events: Iterable[AnyEvent]) -> tuple[t.PlannedEventView, ...]:
    return tuple(map(planned_view, events))


def fields_of(event: Event) -> dict[str, Any]:
    """Every field, those at their defaults and those of newer versions too; users' values in the JSON they were given in."""
    known = {
        name: iso(value) if name in TIMES else plain_numbers(value) if isinstance(value, Raw) else value
        for name, value in msgspec.structs.asdict(event).items()
        if name != "more"
    }
    return {**(event.more or {}), **known}


def branch_view(branch: BranchSummary) -> t.BranchView:
    return t.BranchView(
        branch=branch.branch,
        current=branch.is_current,
        parent=branch.parent,
        cutoff=branch.cutoff,
        cause=branch.cause or None,
        by=branch.by or None,
        reason=branch.reason or None,
        opened=iso(branch.opened),
        last_event=iso(branch.ended),
        first=branch.first,
        last=branch.last,
        events=branch.events,
        nodes=branch.nodes,
        status=branch.status,
        held=branch.is_held,
    )


def line_view(line: Line) -> t.LogLineView:
    return t.LogLineView(**{**msgspec.structs.asdict(line), "time": iso(line.time)})


def comparison_view(comparison: Comparison) -> t.ComparisonView:
    left, right = (
        t.ComparedSideView(run=side.run, branch=side.branch, events=side.events, ending=side.ending or None)
        for side in (comparison.left, comparison.right)
    )
    return t.ComparisonView(
        same=comparison.is_same,
        left=left,
        right=right,
        shared=comparison.shared,
        counts=comparison.counts,
        moved=comparison.moved,
        rows=tuple(
            t.ComparedEventView(
                verdict=row.verdict,
                left=event_view(row.left) if row.left else None,
                right=event_view(row.right) if row.right else None,
                changes=tuple(
                    t.ChangeView(
                        path=change.path,
                        old=UNSET if change.old is None else change.old,
                        new=UNSET if change.new is None else change.new,
                    )
                    for change in row.changes
                ),
            )
            for row in comparison.rows
        ),
    )


# --- repair and proof


def verification_view(verification: Verification) -> t.VerificationView:
    return t.VerificationView(
        run=verification.run,
        sound=verification.is_sound,
        events=verification.events,
        appends=verification.appends,
        branches=verification.branches,
        status=verification.status,
        digest=verification.digest,
        violations=tuple(
            t.ViolationView(invariant=found.invariant, seq=found.seq, message=found.message)
            for found in verification.violations
        ),
    )


def finding_view(finding: Finding) -> t.FindingView:
    return t.FindingView(**{name: getattr(finding, name) for name in t.FindingView.__struct_fields__})


def examination_view(
    before: Diagnosis, repairs: Sequence[t.RepairView] = (), after: Diagnosis | None = None
) -> t.ExaminationView:
    """What was found about a run, what was repaired, and what remains."""
    now = after or before
    return t.ExaminationView(
        run=before.run,
        status=before.status,
        sound=now.is_sound,
        held=now.held or None,
        findings=tuple(map(finding_view, before.findings)),
        repairs=tuple(repairs),
        after=tuple(map(finding_view, after.findings)) if after else None,
    )


# --- workers, code and stores


def version_view(version: Version) -> t.VersionView:
    return t.VersionView(
        version=version.version,
        workflow=version.workflow,
        runs=version.runs,
        first=iso(version.first),
        last=iso(version.last),
        stored=version.is_stored,
        current=version.is_today,
    )


def worker_view(worker: WorkerRuns) -> t.WorkerView:
    return t.WorkerView(
        worker=worker.worker,
        live=worker.is_live,
        last_seen=iso(worker.seen or None),
        expires=iso(worker.expires or None),
        workflows=tuple(worker.workflows),
        runs=tuple(worker.runs),
    )


def sweep_view(report: Report, *, dry_run: bool) -> t.SweepReportView:
    counts = {name: getattr(report, name) for name in ("scanned", "healthy", "waiting", "recovered", "stalled")}
    runs = tuple(t.SweptRunView(**msgspec.structs.asdict(seen)) for seen in report.runs)
    return t.SweepReportView(**counts, reasons=dict(report.reasons), runs=runs, dry_run=dry_run)


def store_view(info: Info) -> t.StoreView:
    live = sum(worker.is_live for worker in info.workers)
    return t.StoreView(
        kind=info.kind,
        path=str(info.path),
        bytes=info.bytes,
        wal_bytes=info.wal_bytes,
        schema=info.schema,
        library=info.library,
        runs=info.runs,
        blobs=_blobs(info),
        workers=t.WorkerCountView(live=live, gone=len(info.workers) - live),
    )


def backup_view(copied: Copied) -> t.BackupView:
    return t.BackupView(
        path=str(copied.path),
        bytes=copied.bytes,
        runs=copied.runs,
        blobs=_blobs(copied),
        damaged=copied.damaged,
        missing=copied.missing,
    )


def _blobs(held: Info | Copied) -> t.BlobsView:
    return t.BlobsView(path=str(held.blobs), count=held.blob_count, bytes=held.blob_bytes)


def copied_view(moved: Moved) -> t.CopiedRunView:
    return t.CopiedRunView(
        run=moved.run, outcome=moved.how, events=moved.events, blobs=moved.blobs, why=moved.why or None
    )
