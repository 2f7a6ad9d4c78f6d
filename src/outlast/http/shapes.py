"""What the API answers with besides the views: records that only the server has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from inspect import Parameter
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.functions.decorators import Workflow
from outlast.history.events import NULL
from outlast.history.ids import RunId
from outlast.http.audit import AuditEntry
from outlast.http.auth import Credential
from outlast.http.permissions import Role
from outlast.lifecycle import status
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.timeline.phrases import plain_numbers
from outlast.store import Due
from outlast.values.arguments import Arguments
from outlast.values.schemas import schema_of
from outlast.views import build
from outlast.views.actions import planned_repair
from outlast.views.actions import repair as repaired
from outlast.views.build import (
    branch_view,
    wait_view,
)
from outlast.views.run_view import NO_WORK, tally_of
from outlast.views.times import iso
from outlast.views.types import (
    AuditEntryView,
    BranchTreeView,
    ErrorView,
    EventView,
    ExaminationView,
    LogLineView,
    NodeView,
    PlannedEventView,
    QuestionView,
    RepairView,
    Time,
    TokenView,
    Value,
    View,
)

UNFINISHED = tuple(sorted(status.UNFINISHED))


class ParameterView(View, frozen=True, kw_only=True):
    """A parameter of a workflow. `schema` is its JSON Schema, null if any value is accepted. `default` is left out if there
    is none, or if it cannot be written as JSON."""

    name: str
    required: bool
    schema: Value
    default: Value | UnsetType = UNSET


class WorkflowView(View, frozen=True, kw_only=True):
    """A workflow that this server can start."""

    workflow: str
    version: str
    entry: str
    doc: str
    parameters: tuple[ParameterView, ...]


class WorkflowListView(View, frozen=True, kw_only=True):
    """The workflows that this server can start, by name."""

    workflows: tuple[WorkflowView, ...]


class Percentiles(View, frozen=True, kw_only=True):
    """Durations in milliseconds, from creation to end, of the runs that completed."""

    p50: float
    p90: float
    p99: float
    longest: float


class StatisticsBucketView(View, frozen=True, kw_only=True):
    """The runs that were created in one interval, from `since` to that of the next."""

    since: Time
    runs: int
    completed: int
    failed: int
    cancelled: int
    duration_ms: Percentiles | None


class StatisticsView(View, frozen=True, kw_only=True):
    """How the runs of a workflow went, by when they were created. If there are more than one request reads, the newest are
    counted: `since` is the oldest of these, and `is_complete` is false."""

    workflow: str
    since: Time
    until: Time
    is_complete: bool
    runs: int
    completed: int
    failed: int
    cancelled: int
    duration_ms: Percentiles | None
    buckets: tuple[StatisticsBucketView, ...]


class VersionDiffView(View, frozen=True, kw_only=True):
    """How the code of two versions differs, as a unified diff; empty if it does not."""

    old: str
    new: str
    diff: str


class StartedView(View, frozen=True, kw_only=True):
    """A run that was started. `created` is false if an earlier request with the same key or id started it. `result` and
    `error` are set if the request waited and the run ended."""

    run: str
    workflow: str
    status: RunStatus
    created: bool
    result: Value
    error: ErrorView | None


class BatchItemView(View, frozen=True, kw_only=True):
    """What became of one start of a batch: the run, or why it was refused."""

    started: StartedView | None
    status: int
    code: str | None
    detail: str | None


class BatchView(View, frozen=True, kw_only=True):
    """The results of a batch, in the order of its items."""

    items: tuple[BatchItemView, ...]


class RunCountView(View, frozen=True, kw_only=True):
    """How many runs match a filter. `more` if there are more than were counted."""

    count: int
    more: bool


class EventListView(View, frozen=True, kw_only=True):
    """Events in order. `next` is the `after` of the next page, null at the end of the log."""

    events: tuple[EventView, ...]
    next: int | None


class RunIdListView(View, frozen=True, kw_only=True):
    """Ids of runs. `next` is the cursor of the next page, null at the end."""

    runs: tuple[str, ...]
    next: str | None


class HeadView(View, frozen=True, kw_only=True):
    """The end of a log: its last event, its branch, and whether the run is over. `latest` is the last run that this one
    continued as, or the run itself."""

    run: str
    version: int
    branch: int
    closed: bool
    latest: str


class EndingView(View, frozen=True, kw_only=True):
    """How a run ended. `ending` is null if it has not; `run` is the last run that it continued as."""

    run: str
    status: RunStatus
    ending: PlannedEventView | None


class ClockView(View, frozen=True, kw_only=True):
    """The time by the clock of the store."""

    now: Time | None


class IntervalView(View, frozen=True, kw_only=True):
    """Consecutive events of a lineage."""

    first: int
    last: int


class LineageView(View, frozen=True, kw_only=True):
    """The events that a branch sees."""

    run: str
    branch: int
    intervals: tuple[IntervalView, ...]


class NodeListView(View, frozen=True, kw_only=True):
    """The nodes of a run. `retired` counts those that are done and no longer listed."""

    run: str
    nodes: tuple[NodeView, ...]
    retired: int


class LogListView(View, frozen=True, kw_only=True):
    """Log lines in order. `next` is the `after` of the next page, null at the end."""

    lines: tuple[LogLineView, ...]
    next: int | None


class ControlView(View, frozen=True, kw_only=True):
    """A run after a request. `run` differs from the one named if that run continued as another one."""

    run: str
    status: RunStatus
    branch: int


class ReplayView(View, frozen=True, kw_only=True):
    """Whether the current code of the server agrees with the log of a run. `upto` is the last event after which a branch
    may begin; `divergence` says what the log holds and what the code requested. `left` counts the completed nodes after
    `upto`."""

    run: str
    workflow: str
    branch: int
    events: int
    upto: int
    agrees: bool
    divergence: str | None
    seq: int | None
    left: int


class MigratedView(ControlView, frozen=True, kw_only=True):
    """A run that was moved to the current code."""

    replay: ReplayView


class ResumedView(ControlView, frozen=True, kw_only=True):
    """A run after `resume`: its state after recovery, what was recovered, and its open questions."""

    recovered: tuple[RepairView, ...]
    questions: tuple[QuestionView, ...]


class InboxItemView(QuestionView, frozen=True, kw_only=True):
    """An open question and the run that asks it."""

    run: str


class InboxView(View, frozen=True, kw_only=True):
    """Open questions of all runs. `next` is the cursor of the next page, null at the end."""

    questions: tuple[InboxItemView, ...]
    next: str | None


class DecisionView(View, frozen=True, kw_only=True):
    """A question that was answered through the server, or many by a bulk action: then `run` is that, and `interaction` is
    empty. `answer` is yes or no for an approval, else empty: the log of the run has it."""

    run: str
    interaction: str
    text: str
    answer: str
    by: str
    time: Time


class DecisionListView(View, frozen=True, kw_only=True):
    """Decisions, the newest first. `next` is the cursor of the next page, null at the end."""

    decisions: tuple[DecisionView, ...]
    next: str | None


class SessionView(View, frozen=True, kw_only=True):
    """Who sends this request."""

    by: str
    role: Role
    kind: str
    permissions: tuple[str, ...]
    expires: Time | None


# --- made from what the engine returns


def moment(time: int) -> str:
    return str(iso(time))


def time_of(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def token_view(found: Credential) -> TokenView:
    return TokenView(
        id=found.id,
        name=found.name,
        role=found.role,
        created=time_of(found.created),
        expires=time_of(found.expires),
        used=time_of(found.used),
        by=found.by,
    )


def audit_view(entry: AuditEntry) -> AuditEntryView:
    known = {name: getattr(entry, name) for name in AuditEntryView.__struct_fields__ if name != "time"}
    return AuditEntryView(time=moment(entry.time), **known)


def decision_view(entry: AuditEntry) -> DecisionView:
    return DecisionView(
        run=entry.subject,
        interaction=entry.interaction,
        text=entry.text,
        answer=entry.answer,
        by=entry.by,
        time=moment(entry.time),
    )


def workflow_view(workflow: Workflow[..., Any]) -> WorkflowView:
    arguments = workflow._arguments
    parameters = tuple(
        ParameterView(
            name=name,
            required=parameter.default is parameter.empty and parameter.kind not in _STARS,
            schema=_schema(arguments, name),
            default=_default(arguments, name, parameter),
        )
        for name, parameter in arguments.signature.parameters.items()
    )
    return WorkflowView(
        workflow=workflow.name,
        version=workflow.version,
        entry=workflow._spec.entry,
        doc=(workflow.fn.__doc__ or "").strip(),
        parameters=parameters,
    )


_STARS = (2, 4)  # inspect.Parameter.VAR_POSITIONAL and VAR_KEYWORD


def _default(arguments: Arguments, name: str, parameter: Parameter) -> Value | UnsetType:
    if parameter.default is parameter.empty:
        return UNSET
    try:
        return plain_numbers(arguments.codec(name).encode(parameter.default, name))
    except OutlastError:
        return UNSET


def _schema(arguments: Arguments, name: str) -> Value:
    try:
        return schema_of(arguments.codec(name).annotation)
    except OutlastError:  # a type that has no JSON Schema
        return NULL


async def node_list(engine: Engine, run: RunId) -> NodeListView:
    tally = await tally_of(engine, run)
    nodes = tuple(
        build.node_view(name, node, tally.work.get(name, NO_WORK)) for name, node in tally.state.nodes.items()
    )
    return NodeListView(run=run, nodes=nodes, retired=tally.retired)


def question_view(wait: Wait) -> QuestionView:
    return QuestionView(**asdict(wait_view(wait)), schema=wait.detail)


def inbox_item(due: Due) -> InboxItemView:
    return asked_item(due.run, due.wait)


def asked_item(run: str, wait: Wait) -> InboxItemView:
    return InboxItemView(run=run, **asdict(wait_view(wait)), schema=wait.detail)


async def examined(engine: Engine, run: RunId, *, fix: bool, blobs: bool = True) -> ExaminationView:
    """What the doctor finds about a run, and what a repair does, or would do."""
    before = await engine.diagnose(run, blobs=blobs)
    if not fix:
        planned = [await planned_repair(engine, run, finding) for finding in before.remedies]
        return build.examination_view(before, planned)
    repairs: Sequence[RepairView] = await repaired(engine, run) if before.remedies else ()
    return build.examination_view(before, repairs, await engine.diagnose(run, blobs=blobs))


def branches_of(run: RunId, found: Iterable[Any]) -> BranchTreeView:
    return BranchTreeView(run=run, branches=tuple(map(branch_view, found)))
