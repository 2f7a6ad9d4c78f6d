"""What the API answers with besides the views: records that only the server has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.views.build import same_fields, wait_view
from outlast.views.times import iso
from outlast.views.types import (
    AuditEntryView,
    ErrorView,
    EventView,
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

    runs: tuple[RunId, ...]
    next: str | None


class HeadView(View, frozen=True, kw_only=True):
    """The end of a log: its last event, its branch, and whether the run is over. `latest` is the last run that this one
    continued as, or the run itself."""

    run: str
    version: int
    branch: int
    closed: bool
    latest: RunId


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

    run: RunId


class InboxView(View, frozen=True, kw_only=True):
    """Open questions of all runs. `next` is the cursor of the next page, null at the end."""

    questions: tuple[InboxItemView, ...]
    next: str | None


class DecisionView(View, frozen=True, kw_only=True):
    """A question that was answered through the server, or many by a bulk action: then `run` is that, and `interaction` is
    empty. `answer` is yes or no for an approval, else empty: the log of the run has it. `comment` is the text that was
    given with it."""

    run: str
    interaction: str
    text: str
    answer: str
    comment: str
    by: str
    time: Time


class DecisionListView(View, frozen=True, kw_only=True):
    """Decisions, the newest first. `next` is the cursor of the next page, null at the end."""

    decisions: tuple[DecisionView, ...]
    next: str | None


class SessionView(View, frozen=True, kw_only=True):
    """Who sends this request."""

    by: str
    role: Literal["viewer", "operator", "admin"]
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


def token_view(found: Any) -> TokenView:
    times = {name: time_of(getattr(found, name)) for name in ("created", "expires", "used")}
    return same_fields(TokenView, found, **times)


def audit_view(entry: Any) -> AuditEntryView:
    return same_fields(AuditEntryView, entry, time=moment(entry.time))


def decision_view(entry: Any) -> DecisionView:
    comment = entry.note if entry.interaction else ""
    return same_fields(DecisionView, entry, run=entry.subject, comment=comment, time=moment(entry.time))


def asked_view(run: RunId, wait: Wait) -> InboxItemView:
    return same_fields(InboxItemView, wait_view(wait), run=run, schema=wait.detail)
