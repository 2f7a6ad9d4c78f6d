"""The views: the JSON form of runs and stores. Within a schema version fields are added, never renamed or removed.

Times are ISO 8601 in UTC with microseconds. Values of users are plain JSON, with integers of any size.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from outlast.lifecycle.status import RunStatus

Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Value: TypeAlias = Annotated[Raw, Meta(description="A value of a user, as JSON.")]
NodeStatus: TypeAlias = Literal[
    "scheduled", "running", "completed", "failed", "skipped", "retrying", "compensating", "compensated"
]


class View(Struct, frozen=True, kw_only=True):
    """The base of all views. `str(view)` is its text form, which notebooks show."""

    def __str__(self) -> str:
        from outlast.views.text import text_of

        return text_of(self)

    def _repr_markdown_(self) -> str:
        return f"```text\n{self}\n```"


# --- runs


class WaitView(View, frozen=True, kw_only=True):
    """An open wait of a run. `since` is the time it was opened; `due` is the time it ends by itself."""

    kind: Literal["interaction", "signal", "timer", "child", "outbox", "trigger"]
    id: str
    node: str
    since: Time | None
    due: Time | None
    text: str


class QuestionView(WaitView, frozen=True, kw_only=True):
    """A question of a run. `schema` is the JSON Schema of an answer, null if any value is accepted."""

    schema: Value


class ProgressView(View, frozen=True, kw_only=True):
    """The progress that a node last reported. It is not durable."""

    node: str
    done: float
    total: float | None
    text: str


class HolderView(View, frozen=True, kw_only=True):
    """The worker that holds a run. `last_seen` is the time it last renewed its lease."""

    worker: str
    live: bool
    last_seen: Time | None
    expires: Time | None


class AttributeTimeView(View, frozen=True, kw_only=True):
    """A search attribute that is a time."""

    time: Time | None


Attribute: TypeAlias = bool | int | float | str | AttributeTimeView
"""The value of a search attribute."""


class RunView(View, frozen=True, kw_only=True):
    """A run in a list. `at` is the event this was computed from; `waiting` counts all waits, and `waits` has the first
    ones.

    `progress` and `holder` are filled for runs that are at work. A run with `awaits_start` begins when a user starts it."""

    run: str
    workflow: str
    status: RunStatus
    kind: str
    title: str
    tags: tuple[str, ...]
    attributes: dict[str, Attribute]
    queue: str
    priority: int
    fairness_key: str
    parent: str | None
    version: str
    created: Time | None
    updated: Time | None
    branch: int
    at: int
    done_nodes: int
    reason: str
    recoverable: bool
    held: bool
    awaits_start: bool
    waiting: int
    waits: tuple[WaitView, ...]
    progress: tuple[ProgressView, ...]
    holder: HolderView | None


class RunListView(View, frozen=True, kw_only=True):
    """Runs, newest first. `next` continues the list and is null at its end."""

    runs: tuple[RunView, ...]
    next: str | None


class ErrorView(View, frozen=True, kw_only=True):
    """An error that is recorded in a log. `node` is the node that failed, if one did."""

    kind: str
    message: str
    category: str
    node: str | None
    trace: str


class NodeView(View, frozen=True, kw_only=True):
    """A node of a run. `ms` is the duration of its last attempt. `replaced` holds the inputs that a person gave instead of
    those that the code passes; null if there are none."""

    node: str
    step: str | None
    status: NodeStatus
    attempt: int
    crashes: int
    began: Time | None
    ms: float
    inputs: Value
    replaced: Value
    output: Value
    error: ErrorView | None
    retry_at: Time | None
    checkpoint: Value


class StepView(View, frozen=True, kw_only=True):
    """A step of a run: a named group of nodes."""

    step: str
    completed: bool


class ChildView(View, frozen=True, kw_only=True):
    """A run that this run started. `status` is null until it ends. The run does not wait for a detached child."""

    run: str
    workflow: str | None
    node: str | None
    status: Literal["completed", "failed", "cancelled"] | None
    detached: bool
    error: ErrorView | None


class FileView(View, frozen=True, kw_only=True):
    """A file that a node wrote. A file that is not complete was interrupted."""

    path: str
    node: str
    complete: bool


class PlannedEventView(View, frozen=True, kw_only=True):
    """An event that a command would append. `text` is the event as a sentence; it may be empty."""

    type: str
    text: str
    fields: dict[str, Any]


class RepairView(View, frozen=True, kw_only=True):
    """A repair, or in a dry run the plan of a repair. `needed` is false if there was nothing to repair.

    A repair appends events, opens `new_branch`, or has other `effects`, such as records beside the log that are written
    again. `error` says why the repair failed."""

    code: str | None
    needed: bool
    done: bool
    appends: tuple[PlannedEventView, ...]
    effects: tuple[str, ...]
    new_branch: int | None
    reason: str
    error: str | None


class ActionView(View, frozen=True, kw_only=True):
    """An action that is allowed on a run now. `useful` marks the actions to take in this state; `command` is the shell
    command, `why` its effect. Of a useful action, `appends` are the events that it would append and `effects` what it would
    do besides; of a repair, `code` is the finding. Null if that depends on a value that is not known yet."""

    action: str
    useful: bool
    command: str
    why: str
    code: str | None
    to: str | None
    appends: tuple[PlannedEventView, ...] | None
    effects: tuple[str, ...]


class RunDetailView(RunView, frozen=True, kw_only=True):
    """One run with its nodes, children, files, questions and actions. `known_by` are the live workers that claim runs of
    its workflow."""

    known_by: tuple[str, ...]
    entry: str
    root: str
    key: str | None
    params: Value
    result: Value
    error: ErrorView | None
    successor: str | None
    nodes: tuple[NodeView, ...]
    retired_nodes: int
    steps: tuple[StepView, ...]
    children: tuple[ChildView, ...]
    files: tuple[FileView, ...]
    questions: tuple[QuestionView, ...]
    actions: tuple[ActionView, ...]


class RunResultView(View, frozen=True, kw_only=True):
    """The end of a run that a command waited for, or its pause. `files` are the files of a paused run."""

    run: str
    status: RunStatus
    result: Value
    error: ErrorView | None
    held: bool
    reason: str
    files: tuple[FileView, ...]


class RunStatusView(View, frozen=True, kw_only=True):
    """A run after a request. `resumed` is set by commands that continue a run: whether they changed anything."""

    run: str
    status: RunStatus
    resumed: bool | UnsetType = UNSET


class AnswerView(View, frozen=True, kw_only=True):
    """An answer that was accepted."""

    run: str
    interaction: str
    answer: Value


# --- events


class EventView(PlannedEventView, frozen=True, kw_only=True):
    """An event of a log. `branch` is the branch it was appended to; `fields` are its own."""

    seq: int
    branch: int
    time: Time | None


class PlanView(View, frozen=True, kw_only=True):
    """The events that a command would append to a run, and its `effects` besides."""

    run: str
    would_append: tuple[PlannedEventView, ...]
    effects: tuple[str, ...]


class BranchView(View, frozen=True, kw_only=True):
    """A branch. `first` to `last` are its own events; it left `parent` after event `cutoff`."""

    branch: int
    current: bool
    parent: int | None
    cutoff: int
    cause: str | None
    by: str | None
    reason: str | None
    opened: Time | None
    last_event: Time | None
    first: int
    last: int
    events: int
    nodes: int
    status: RunStatus
    held: bool


class BranchTreeView(View, frozen=True, kw_only=True):
    """The branches of a run in the order they opened."""

    run: str
    branches: tuple[BranchView, ...]


class LogLineView(View, frozen=True, kw_only=True):
    """A line that an attempt logged. `number` counts the lines of the run, `place` those of the attempt."""

    run: str
    node: str
    attempt: int
    time: Time | None
    level: str
    logger: str
    text: str
    number: int
    place: int


class ChangeView(View, frozen=True, kw_only=True):
    """A difference inside an event. A side without a value at this path is absent."""

    path: str
    old: Value | UnsetType = UNSET
    new: Value | UnsetType = UNSET


class ComparedEventView(View, frozen=True, kw_only=True):
    """An event on the left, on the right, or on both sides."""

    verdict: Literal["same", "differs", "left", "right"]
    left: EventView | None
    right: EventView | None
    changes: tuple[ChangeView, ...]


class ComparedSideView(View, frozen=True, kw_only=True):
    """One side of a comparison."""

    run: str
    branch: int
    events: int
    ending: str | None


class ComparisonView(View, frozen=True, kw_only=True):
    """Two lineages side by side. Both branches share the events up to `shared`, which are not listed."""

    same: bool
    left: ComparedSideView
    right: ComparedSideView
    shared: int
    counts: dict[Literal["same", "differs", "left", "right"], int]
    moved: int
    rows: tuple[ComparedEventView, ...]


# --- repair and proof


class ViolationView(View, frozen=True, kw_only=True):
    """An invariant that a log breaks."""

    invariant: str
    seq: int
    message: str


class VerificationView(View, frozen=True, kw_only=True):
    """The verification of one log."""

    run: str
    sound: bool
    events: int
    appends: int
    branches: int
    status: RunStatus | None
    digest: str
    violations: tuple[ViolationView, ...]


class VerificationListView(View, frozen=True, kw_only=True):
    """The verification of several logs."""

    runs: tuple[VerificationView, ...]
    checked: int
    unsound: int


class FindingView(View, frozen=True, kw_only=True):
    """A finding of the doctor. `events` prove it; `actions` are safe to take."""

    code: str
    standing: Literal["consistent", "repairable", "reported"]
    sentence: str
    events: tuple[int, ...]
    cause: str
    actions: tuple[str, ...]


class ExaminationView(View, frozen=True, kw_only=True):
    """The findings and repairs of one run. `after` are the findings that remain after repairs, null without repairs."""

    run: str
    status: str
    sound: bool
    held: str | None
    findings: tuple[FindingView, ...]
    repairs: tuple[RepairView, ...]
    after: tuple[FindingView, ...] | None


class DoctorView(View, frozen=True, kw_only=True):
    """All runs that the doctor examined: `seen` in total, `ill` with findings that need action."""

    runs: tuple[ExaminationView, ...]
    seen: int
    ill: int


# --- workers, code and stores


class VersionView(View, frozen=True, kw_only=True):
    """A version of a workflow. `current` if the code that can be imported here has this version."""

    version: str
    workflow: str
    runs: int
    first: Time | None
    last: Time | None
    stored: bool
    current: bool


class VersionListView(View, frozen=True, kw_only=True):
    """The versions of a workflow, the one used last first."""

    workflow: str
    versions: tuple[VersionView, ...]


class WorkerView(View, frozen=True, kw_only=True):
    """A worker of a store. It claims runs of `workflows` and of `queues` (null: of any), and holds `runs`. `skew_ms` is
    how far its clock is ahead of the store's."""

    worker: str
    live: bool
    last_seen: Time | None
    expires: Time | None
    workflows: tuple[str, ...]
    queues: tuple[str, ...] | None
    host: str
    pid: int
    started: Time | None
    skew_ms: int
    runs: tuple[str, ...]


class WorkerListView(View, frozen=True, kw_only=True):
    """The workers of a store, live ones first."""

    workers: tuple[WorkerView, ...]


class SweptRunView(View, frozen=True, kw_only=True):
    """A run that a sweep found neither healthy nor waiting. `outcome` is the action taken, or planned in a dry run."""

    run: str
    reason: str
    detail: str
    is_recovered: bool
    key: str
    outcome: Literal["", "handed over", "held", "finished"]


class SweepReportView(View, frozen=True, kw_only=True):
    """The result of a sweep. The counts add up to `scanned`."""

    scanned: int
    healthy: int
    waiting: int
    recovered: int
    stalled: int
    reasons: dict[str, int]
    runs: tuple[SweptRunView, ...]
    dry_run: bool


class WorkerCountView(View, frozen=True, kw_only=True):
    """The numbers of workers of a store. `outlast workers` lists them."""

    live: int
    gone: int


class BlobsView(View, frozen=True, kw_only=True):
    """The blobs of a store."""

    path: str
    count: int
    bytes: int


class StoreView(View, frozen=True, kw_only=True):
    """A store. `runs` counts runs by status, `deleted` those that were deleted; `library` is the version of the driver of
    this `kind` of store."""

    kind: str
    path: str
    bytes: int
    wal_bytes: int
    schema: int
    library: str
    runs: dict[str, int]
    deleted: int
    blobs: BlobsView
    workers: WorkerCountView


class BackupView(View, frozen=True, kw_only=True):
    """A backup. `damaged` and `missing` are hashes of blobs that were damaged or missing before the backup."""

    path: str
    bytes: int
    runs: int
    blobs: BlobsView
    damaged: tuple[str, ...]
    missing: tuple[str, ...]


class CopiedRunView(View, frozen=True, kw_only=True):
    """The result of copying one run to another store. `why` is the reason if it was not copied."""

    run: str
    outcome: Literal["over", "going on", "as it was", "there already", "not copied"]
    events: int
    blobs: int
    why: str | None


class CopyView(View, frozen=True, kw_only=True):
    """A copy of runs to another store."""

    runs: tuple[CopiedRunView, ...]
    copied: int
    left: int


class SettingView(View, frozen=True, kw_only=True):
    """A setting and where its value comes from."""

    value: Any
    source: str


class SettingsView(View, frozen=True, kw_only=True):
    """The settings of a project in force."""

    root: str
    settings: dict[str, SettingView]


# --- tokens of a server


class BulkPreviewView(View, frozen=True, kw_only=True):
    """How many runs match, and for each action how many allow it and why the others are skipped."""

    matched: int
    allowed: dict[str, int]
    skipped: dict[str, dict[str, int]]


class BulkOutcomeView(View, frozen=True, kw_only=True):
    """What became of one run of a bulk action. `reason` says why it is not done; `result` is null until it is reached."""

    run: str
    interaction: str
    result: Literal["done", "skipped", "failed"] | None
    reason: str


class BulkView(View, frozen=True, kw_only=True):
    """A bulk action, which is carried out by `run`. When that has completed, done + skipped + failed = confirmed. `next` is
    the cursor of the next outcomes, null at the end."""

    run: str
    action: str
    by: str
    reason: str
    status: RunStatus
    created: Time
    updated: Time
    confirmed: int
    done: int
    skipped: int
    failed: int
    outcomes: tuple[BulkOutcomeView, ...]
    next: str | None


class TombstoneView(View, frozen=True, kw_only=True):
    """What remains of a deleted run. Its id and its idempotency key cannot be used again."""

    run: str
    workflow: str
    status: RunStatus
    created: Time
    deleted: Time
    key: str
    by: str
    reason: str


class PrunedView(View, frozen=True, kw_only=True):
    """The runs that were deleted, or would be in a dry run: how many, with how many events, and when the first and the last
    of them ended. `refused` counts the runs that are kept, by the reason.

    A server leaves the deletion to the bulk action `bulk`. With `more`, another request deletes further runs."""

    dry_run: bool
    runs: int
    events: int
    first: Time | None
    last: Time | None
    refused: dict[str, int]
    blobs: int
    bulk: str | None
    more: bool


class AuditEntryView(View, frozen=True, kw_only=True):
    """A request that changed something or was refused: who sent it from where, what it was about, and its result."""

    id: str
    time: Time
    by: str
    role: str
    address: str
    action: str
    subject: str
    note: str
    status: int
    code: str


class AuditListView(View, frozen=True, kw_only=True):
    """Audit entries, the newest first. `next` is the cursor of the next page, null at the end."""

    entries: tuple[AuditEntryView, ...]
    next: str | None


class TokenView(View, frozen=True, kw_only=True):
    """A token, without its secret. `used` is when it was last used, to the minute."""

    id: str
    name: str
    role: Literal["viewer", "operator", "admin"]
    created: Time | None
    expires: Time | None
    used: Time | None
    by: str


class NewTokenView(View, frozen=True, kw_only=True):
    """A new token. `secret` is shown this once."""

    token: TokenView
    secret: str


class TokenListView(View, frozen=True, kw_only=True):
    """Tokens in the order they were created."""

    tokens: tuple[TokenView, ...]
