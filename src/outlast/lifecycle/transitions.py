"""The transition table: which event may follow in which status.

The refusals of the fold, the diagram in the docs, the exhaustive test and the random histories of the property tests all
derive from this table.
"""

from __future__ import annotations

from enum import IntEnum

from outlast.history import events as e
from outlast.lifecycle.state import Outline
from outlast.lifecycle.status import RunStatus


class Rule(IntEnum):
    """When an event of a type may follow."""

    NEVER = 0
    ALWAYS = 1
    IF_RECOVERABLE = 2
    IF_HELD = 3


Row = dict[type[e.Event], Rule]

RECEIPTS: tuple[type[e.Event], ...] = (e.OutboxSent, e.ChildEnded)
"""May follow even a terminal event: they acknowledge earlier events."""

GUEST_DATA: tuple[type[e.Event], ...] = (
    e.InteractionAnswered,
    e.SignalReceived,
    e.TimerFired,
    e.TriggerInputReceived,
    *RECEIPTS,
)
"""Events that a guest may append; the owner reads them and continues."""

CONTROL: tuple[type[e.Event], ...] = (e.PauseRequested, e.CancelRequested, e.JumpRequested)
"""Requests that a guest may append; the owner decides again."""

_REOPENING = (
    e.RunTakenOver,
    e.BranchOpened,
    e.RunRecovered,
    e.VersionChanged,
    e.JumpRequested,
    e.RequestRefused,
    e.Recalled,
)
_WORK = (
    e.StepStarted,
    e.StepCompleted,
    e.NodeScheduled,
    e.NodeStarted,
    e.NodeCheckpointed,
    e.NodeCompleted,
    e.NodeFailed,
    e.NodesRetired,
    e.NodeSkipped,
    e.GraphExtended,
    e.InteractionRequested,
    e.InteractionWithdrawn,
    e.SignalAwaited,
    e.SignalConsumed,
    e.TimerSet,
    e.TimerCancelled,
    e.GuestEventsRead,
    e.DecisionRecorded,
    e.AttributesSet,
    e.TriggerRegistered,
    e.TriggerCursorAdvanced,
    e.OutboxEnqueued,
    e.ChildStarted,
)
_UNDOING = (e.CompensationStarted, e.NodeCompensated, e.CompensationFailed)
_ENDINGS = (e.RunFailed, e.RunCancelled)
_CLOSING = (e.NodeFailed, e.InteractionWithdrawn, e.TimerCancelled)


def _row(*groups: tuple[type[e.Event], ...], **rules: tuple[type[e.Event], ...]) -> Row:
    row = {kind: Rule.ALWAYS for group in groups for kind in group}
    for name, kinds in rules.items():
        row.update({kind: Rule[name.upper()] for kind in kinds if kind not in row})
    return row


_ACTIVE = _row(
    _WORK,
    _UNDOING,
    GUEST_DATA,
    CONTROL,
    _ENDINGS,
    _REOPENING,
    (e.RunPaused, e.RunCompleted, e.RunContinued, e.CleanupStarted),
)
_ENDED = _row(_REOPENING, RECEIPTS)

TABLE: dict[RunStatus | None, Row] = {
    None: _row((e.RunCreated,)),
    RunStatus.CREATED: _row(GUEST_DATA, CONTROL, _ENDINGS, _REOPENING, (e.RunStarted, e.RunPaused)),
    RunStatus.RUNNING: _ACTIVE,
    RunStatus.WAITING: _ACTIVE,
    RunStatus.PAUSED: _row(GUEST_DATA, CONTROL, _ENDINGS, _REOPENING, _CLOSING, (e.RunStarted, e.CleanupStarted)),
    RunStatus.COMPENSATING: _ACTIVE,
    RunStatus.COMPLETED: _ENDED,
    RunStatus.FAILED: _row(
        _REOPENING,
        RECEIPTS,
        if_recoverable=(e.RunStarted,),
        if_held=(*GUEST_DATA, *CONTROL, *_CLOSING, e.CleanupStarted, e.RunCancelled, e.RunFailed),
    ),
    RunStatus.CANCELLED: _ENDED,
}
"""The events that may follow in each status (None before the first event)."""


def may_follow(outline: Outline, kind: type[e.Event]) -> bool:
    """Whether the table allows an event of this type now."""
    rule = TABLE[outline.base].get(kind, Rule.NEVER)
    if rule is Rule.ALWAYS:
        return True
    if rule is Rule.IF_RECOVERABLE:
        return outline.recoverable
    return rule is Rule.IF_HELD and outline.held
