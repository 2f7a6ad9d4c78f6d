"""The small cached record of a run, and when it must be written again.

A summary is a function of the state (L4): `at` is the version of the log it was made from. It is written with the append
that changes a searchable field (status, waits, reason, tags …) and not with every node, so an `at` behind the log is normal.
Its content must equal the fold at `at` (V10).
"""

from __future__ import annotations

from itertools import islice

from msgspec import Struct

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.state import Outline, State, Table, Wait
from outlast.lifecycle.status import RunStatus

MAX_WAITS = 8
"""A summary lists at most this many waits; `waiting` counts all."""

MAX_TEXT_LENGTH = 200
"""Characters of a wait's text in a summary; the wait itself has the whole text."""


class RunSummary(Struct, frozen=True, omit_defaults=True):
    """The fields that lists and filters use without reading the log."""

    run: RunId
    at: int
    status: RunStatus
    workflow: str
    branch: int = 0
    version: str = ""
    kind: str = "function"
    created: int = 0
    updated: int = 0
    parent: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    exclusive: str = ""
    reason: str = ""
    copied_to: str = ""
    recoverable: bool = False
    held: bool = False
    done_nodes: int = 0
    waiting: int = 0
    waits: tuple[Wait, ...] = ()
    awaits_start: bool = False
    queue: str = ""
    priority: int = 0
    fairness_key: str = ""
    attributes: dict[str, e.AttributeValue] = {}


def summarise(run: RunId, state: State) -> RunSummary:
    """The summary of a state, or of the view of a draft."""
    outline, waiting = state.outline, state.count("waits")
    return RunSummary(
        run,
        outline.seq,
        state.status,
        outline.workflow,
        outline.branch,
        outline.version,
        outline.kind,
        outline.created,
        outline.time,
        outline.parent,
        outline.title,
        outline.tags,
        outline.exclusive,
        outline.reason,
        outline.copied_to,
        outline.recoverable,
        outline.held,
        outline.done_nodes,
        waiting,
        _shown(state.waits) if waiting else (),
        outline.awaits_start,
        outline.queue,
        outline.priority,
        outline.fairness_key,
        outline.attributes,
    )


def state_shown(summary: RunSummary) -> State:
    """The state of a run as far as its summary shows it: enough for the rules of `actions`."""
    state = State()
    outline, status = state.outline, summary.status
    outline.base = RunStatus.RUNNING if status is RunStatus.WAITING else status
    outline.open_nodes = int(status is RunStatus.RUNNING)
    outline.branch, outline.done_nodes = summary.branch, summary.done_nodes
    outline.recoverable, outline.held, outline.copied_to = summary.recoverable, summary.held, summary.copied_to
    if status is RunStatus.COMPENSATING:
        outline.cleanup = e.CleanupStarted(due=0)
    for wait in summary.waits:
        state.waits[wait.name] = wait
    return state


INVISIBLE_EVENTS = frozenset({e.NodeScheduled, e.NodeStarted, e.NodeCheckpointed, e.NodeCompleted, e.GuestEventsRead})
"""Events that change no searchable field, unless the run changes from waiting to running or back."""


def is_changed(draft: Draft, kinds: frozenset[type[e.Event]]) -> bool:
    """Whether events of these kinds, which are folded into the draft, change the summary or the stored waits."""
    old, new = draft.state.outline, draft.view.outline
    if e.AttributesSet in kinds:
        return True
    if (not old.open_nodes) is not (not new.open_nodes) and draft.view.count("waits"):
        return True
    if kinds <= INVISIBLE_EVENTS:
        return draft.has_new_ends()  # a retried node has a timer
    return old.base is not new.base or draft.has_new_ends() or _searched(old) != _searched(new)


def _searched(outline: Outline) -> tuple[object, ...]:
    """The searchable fields besides the base status."""
    placed = outline.branch, outline.version, outline.awaits_start
    return *placed, outline.held, outline.recoverable, outline.reason, outline.copied_to


def _shown(waits: Table[Wait]) -> tuple[Wait, ...]:
    """The first few waits in the order they began, without details."""
    return tuple(
        Wait(wait.kind, wait.id, wait.node, wait.due, shortened(wait.text), wait.hash, since=wait.since)
        for wait in islice(waits.values(), MAX_WAITS)
    )


def shortened(text: str, length: int = MAX_TEXT_LENGTH) -> str:
    """The text, cut to `length` characters with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
