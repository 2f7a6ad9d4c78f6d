"""Builds views from the results of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from outlast.history.events import NULL, AnyEvent, AttributeValue, Event, Failure, Moment
from outlast.history.record import Entry
from outlast.lifecycle.state import Child, NodeState, NodeStatus, Wait
from outlast.lifecycle.summary import RunSummary
from outlast.lifecycle.timeline import text_of
from outlast.lifecycle.timeline.phrases import plain_numbers
from outlast.store import Holding, Line, Tombstone
from outlast.views import types as t
from outlast.views.run_view import NO_WORK, Tally, Work
from outlast.views.texts import AT_WORK
from outlast.views.times import iso

if TYPE_CHECKING:
    from outlast.client.bulk import Progress as BulkProgress
    from outlast.client.deletion import Pruned
    from outlast.client.evidence import Diagnosis
    from outlast.client.reader import WorkerRuns
    from outlast.client.versions import Version
    from outlast.ledger.verification import Verification
    from outlast.lifecycle.branching import BranchSummary
    from outlast.lifecycle.comparison import Comparison
    from outlast.lifecycle.diagnosis import Finding
    from outlast.lifecycle.difference import Change
    from outlast.maintenance.backup import Copied
    from outlast.maintenance.info import Info
    from outlast.maintenance.transfer import Moved
    from outlast.services.sweeper import Report

S = TypeVar("S", bound=Struct)
TIMES = frozenset({"due", "retry_at", "seen"})
"""Fields of events that are times."""


def same_fields(kind: type[S], source: object, **others: Any) -> S:
    """A struct whose fields are attributes of `source`, except the `others`; fields that `source` lacks keep their
    defaults."""
    names = [name for name in kind.__struct_fields__ if name not in others and hasattr(source, name)]
    return kind(**{name: getattr(source, name) for name in names}, **others)


# --- runs


def run_view(summary: RunSummary, *, scratch: bytes = b"", holding: Holding | None = None) -> t.RunView:
    is_at_work = summary.status in AT_WORK
    return same_fields(
        *(t.RunView, summary),
        parent=summary.parent or None,
        attributes=attributes_view(summary.attributes),
        created=iso(summary.created),
        updated=iso(summary.updated),
        waits=tuple(map(wait_view, summary.waits)),
        progress=progress_of(scratch) if is_at_work else (),
        holder=holder_view(holding) if is_at_work and holding is not None else None,
    )


def progress_of(scratch: bytes) -> tuple[t.ProgressView, ...]:
    """The progress in the scratch of a run. It is not durable: scratch that cannot be decoded is ignored."""
    try:
        found = msgspec.json.decode(scratch, type=list[_Progress]) if scratch else []
    except msgspec.DecodeError:
        return ()
    return tuple(same_fields(t.ProgressView, each) for each in found)


class _Progress(Struct):
    node: str
    done: float = 0.0
    total: float | None = None
    text: str = ""


def holder_view(holding: Holding) -> t.HolderView:
    times = {"last_seen": iso(holding.seen or None), "expires": iso(holding.expires or None)}
    return t.HolderView(worker=holding.worker, live=holding.is_live, **times)


def wait_view(wait: Wait) -> t.WaitView:
    return same_fields(t.WaitView, wait, since=iso(wait.since or None), due=iso(wait.due))


def question_view(wait: Wait) -> t.QuestionView:
    return same_fields(t.QuestionView, wait_view(wait), schema=wait.detail)


def detail_view(
    run: t.RunView,
    tally: Tally,
    *,
    files: Sequence[t.FileView] = (),
    actions: Sequence[t.ActionView] = (),
    known_by: Sequence[str] = (),
) -> t.RunDetailView:
    """All that is known about a run. `run` is its view in a list."""
    outline, created, state = tally.state.outline, tally.created, tally.state
    return same_fields(
        *(t.RunDetailView, run),
        progress=tuple(each for each in run.progress if each.node in tally.running),
        known_by=tuple(known_by),
        entry=created.entry if created else "",
        root=created.root if created else "",
        key=(created.key if created else "") or None,
        params=plain_numbers(created.params) if created else NULL,
        result=plain_numbers(outline.output),
        error=error_view(outline.error, outline.failed_node),
        successor=outline.successor or None,
        nodes=node_views(tally),
        retired_nodes=tally.retired,
        steps=tuple(t.StepView(step=name, completed=done) for name, done in state.steps.items()),
        children=tuple(child_view(name, child, tally.workflows) for name, child in state.children.items()),
        files=tuple(files),
        questions=tuple(map(question_view, tally.questions)),
        actions=tuple(actions),
    )


def node_views(tally: Tally) -> tuple[t.NodeView, ...]:
    return tuple(node_view(name, node, tally.work.get(name, NO_WORK)) for name, node in tally.state.nodes.items())


def node_view(name: str, node: NodeState, work: Work) -> t.NodeView:
    status: Any = "running" if node.status is NodeStatus.STARTED else node.status.name.lower()
    return same_fields(
        *(t.NodeView, node),
        node=name,
        step=work.step or None,
        status=status,
        began=iso(work.began or None),
        ms=work.ms,
        inputs=plain_numbers(work.inputs),
        replaced=NULL if node.given is None else plain_numbers(node.given.inputs),
        output=plain_numbers(node.output),
        error=error_view(node.error),
        retry_at=iso(work.retry_at),
        checkpoint=NULL if node.checkpoint is None else plain_numbers(node.checkpoint),
    )


def child_view(name: str, child: Child, workflows: dict[str, str]) -> t.ChildView:
    return same_fields(
        *(t.ChildView, child),
        run=name,
        workflow=workflows.get(name) or None,
        node=child.node or None,
        status=child.status or None,
        error=error_view(child.error),
    )


def error_view(error: Failure | None, node: str = "") -> t.ErrorView | None:
    return same_fields(t.ErrorView, error, node=node or None) if error is not None else None


def result_view(tally: Tally, result: Raw, files: Sequence[t.FileView] = ()) -> t.RunResultView:
    """The end of a run that a command waited for."""
    outline = tally.state.outline
    error = error_view(outline.error, outline.failed_node)
    return same_fields(
        *(t.RunResultView, outline),
        run=tally.run,
        status=tally.state.status,
        result=result,
        error=error,
        files=tuple(files),
    )


# --- events


def event_view(entry: Entry) -> t.EventView:
    """The fields of the event are kept apart: some events have a `branch` that is not the one they were appended to."""
    planned = planned_view(entry.event, entry.time)
    return same_fields(t.EventView, planned, seq=entry.seq, branch=entry.branch, time=iso(entry.time))


def planned_view(event: AnyEvent, now: int) -> t.PlannedEventView:
    return t.PlannedEventView(type=type(event).__name__, text=text_of(event, now), fields=fields_of(event))


def planned_views(events: Iterable[AnyEvent], now: int) -> tuple[t.PlannedEventView, ...]:
    return tuple(planned_view(event, now) for event in events)


def fields_of(event: Event) -> dict[str, Any]:
    """Every field, with defaults and with fields of newer versions; values of users as plain JSON."""
    known = {name: _field(name, value) for name, value in msgspec.structs.asdict(event).items() if name != "more"}
    return {**(event.more or {}), **known}


def _field(name: str, value: Any) -> Any:
    if name in TIMES:
        return iso(value or None)
    if isinstance(value, Raw):
        return plain_numbers(value)
    return attributes_view(value) if name == "attributes" else value


def attributes_view(attributes: Mapping[str, AttributeValue | None]) -> dict[str, t.Attribute | None]:
    return {
        name: t.AttributeTimeView(time=iso(value.time)) if isinstance(value, Moment) else value
        for name, value in attributes.items()
    }


def branch_view(branch: BranchSummary) -> t.BranchView:
    return same_fields(
        *(t.BranchView, branch),
        current=branch.is_current,
        cause=branch.cause or None,
        by=branch.by or None,
        reason=branch.reason or None,
        opened=iso(branch.opened),
        last_event=iso(branch.ended),
        held=branch.is_held,
    )


def line_view(line: Line) -> t.LogLineView:
    return same_fields(t.LogLineView, line, time=iso(line.time))


def comparison_view(comparison: Comparison) -> t.ComparisonView:
    left, right = (
        same_fields(t.ComparedSideView, side, ending=side.ending or None)
        for side in (comparison.left, comparison.right)
    )
    rows = tuple(
        t.ComparedEventView(
            verdict=row.verdict,
            left=event_view(row.left) if row.left else None,
            right=event_view(row.right) if row.right else None,
            changes=tuple(map(_change_view, row.changes)),
        )
        for row in comparison.rows
    )
    return same_fields(t.ComparisonView, comparison, same=comparison.is_same, left=left, right=right, rows=rows)


def _change_view(change: Change) -> t.ChangeView:
    old, new = (UNSET if value is None else value for value in (change.old, change.new))
    return t.ChangeView(path=change.path, old=old, new=new)


# --- repair and proof


def verification_view(verification: Verification) -> t.VerificationView:
    violations = tuple(same_fields(t.ViolationView, found) for found in verification.violations)
    return same_fields(t.VerificationView, verification, sound=verification.is_sound, violations=violations)


def finding_view(finding: Finding) -> t.FindingView:
    return same_fields(t.FindingView, finding)


def examination_view(
    before: Diagnosis, repairs: Sequence[t.RepairView] = (), after: Diagnosis | None = None
) -> t.ExaminationView:
    """The findings about a run, the repairs, and the findings that remain."""
    now = after or before
    return same_fields(
        *(t.ExaminationView, before),
        sound=now.is_sound,
        held=now.held or None,
        findings=tuple(map(finding_view, before.findings)),
        repairs=tuple(repairs),
        after=tuple(map(finding_view, after.findings)) if after else None,
    )


# --- workers, code and stores


def version_view(version: Version) -> t.VersionView:
    times = {"first": iso(version.first), "last": iso(version.last)}
    return same_fields(t.VersionView, version, **times, stored=version.is_stored, current=version.is_today)


def worker_view(worker: WorkerRuns) -> t.WorkerView:
    info = worker.info
    return same_fields(
        *(t.WorkerView, info),
        worker=worker.worker,
        live=worker.is_live,
        last_seen=iso(worker.seen or None),
        expires=iso(worker.expires or None),
        started=iso(info.started or None),
        skew_ms=round(info.skew / 1000),
        runs=tuple(worker.runs),
    )


def sweep_view(report: Report, *, dry_run: bool) -> t.SweepReportView:
    runs = tuple(same_fields(t.SweptRunView, each) for each in report.runs)
    return same_fields(t.SweepReportView, report, reasons=dict(report.reasons), runs=runs, dry_run=dry_run)


def store_view(info: Info) -> t.StoreView:
    live = sum(worker.is_live for worker in info.workers)
    workers = t.WorkerCountView(live=live, gone=len(info.workers) - live)
    return same_fields(t.StoreView, info, path=str(info.path), blobs=_blobs(info), workers=workers)


def backup_view(copied: Copied) -> t.BackupView:
    return same_fields(t.BackupView, copied, path=str(copied.path), blobs=_blobs(copied))


def _blobs(held: Info | Copied) -> t.BlobsView:
    return t.BlobsView(path=str(held.blobs), count=held.blob_count, bytes=held.blob_bytes)


def copied_view(moved: Moved) -> t.CopiedRunView:
    return same_fields(t.CopiedRunView, moved, outcome=moved.how, why=moved.why or None)


# --- deletion


def tombstone_view(tombstone: Tombstone) -> t.TombstoneView:
    return same_fields(t.TombstoneView, tombstone, created=iso(tombstone.created), deleted=iso(tombstone.deleted))


def pruned_view(found: Pruned, *, bulk: str | None = None, more: bool = False) -> t.PrunedView:
    times = {"first": iso(found.first or None), "last": iso(found.last or None)}
    return same_fields(t.PrunedView, found, refused=dict(found.refused), bulk=bulk, more=more, **times)


# --- bulk actions


def bulk_view(
    found: BulkProgress, *, result: str | None = None, first: int = 0, limit: int = 100
) -> tuple[t.BulkView, int | None]:
    """A bulk action with a page of its outcomes in the order of its runs, and where the next page begins."""
    known = {(each.run, each.interaction): each for each in found.outcomes}
    outcomes: list[t.BulkOutcomeView] = []
    next = None
    for place in range(first, len(found.targets)):
        target = found.targets[place]
        outcome = known.get((target.run, target.interaction))
        if result is not None and (outcome is None or outcome.result != result):
            continue
        if len(outcomes) == limit:
            next = place
            break
        reached = {"result": None, "reason": ""} if outcome is None else {}
        outcomes.append(same_fields(t.BulkOutcomeView, outcome or target, **reached))
    view = same_fields(
        *(t.BulkView, found.order),
        run=found.run,
        status=found.status,
        created=str(iso(found.created)),
        updated=str(iso(found.updated)),
        confirmed=len(found.targets),
        done=found.count("done"),
        skipped=found.count("skipped"),
        failed=found.count("failed"),
        outcomes=tuple(outcomes),
        next=None,
    )
    return view, next
