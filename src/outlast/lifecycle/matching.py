"""The fields that identify an event, to match it with an event of another run, and the fields to ignore."""

from __future__ import annotations

from outlast.history import events as e

_COMPENSATIONS = (e.CompensationStarted, e.CompensationFailed)
_RUN_EVENTS = (e.RunCreated, e.RunPaused, e.RunTakenOver, e.RunCompleted, e.RunFailed, e.RunContinued, e.VersionChanged)
_REQUESTS = (e.PauseRequested, e.CancelRequested, e.JumpRequested)
_IDENTIFIED_BY: dict[tuple[str, ...], tuple[type[e.Event], ...]] = {
    (): (*_RUN_EVENTS, *_REQUESTS, e.BranchOpened, e.NodesRetired, e.GraphExtended, e.Recalled, e.NewsHeard),
    ("resumed",): (e.RunStarted,),
    ("extended",): (e.CleanupStarted,),
    ("cleanup",): (e.RunCancelled,),
    ("code",): (e.RequestRefused, e.RunRecovered),
    ("step",): (e.StepStarted, e.StepCompleted),
    ("node", "attempt"): (e.NodeScheduled, e.NodeStarted, e.NodeCheckpointed, e.NodeFailed, *_COMPENSATIONS),
    ("node",): (e.NodeCompleted, e.NodeSkipped, e.NodeCompensated),
    ("interaction",): (e.InteractionRequested, e.InteractionAnswered, e.InteractionWithdrawn),
    ("wait",): (e.SignalAwaited, e.SignalConsumed),
    ("name",): (e.SignalReceived,),
    ("timer",): (e.TimerSet, e.TimerFired, e.TimerCancelled),
    ("key",): (e.DecisionRecorded,),
    ("trigger",): (e.TriggerRegistered, e.TriggerCursorAdvanced),
    ("trigger", "input"): (e.TriggerInputReceived,),
    ("message",): (e.OutboxEnqueued, e.OutboxSent),
    ("child",): (e.ChildStarted, e.ChildEnded),
}
ABOUT = {kind: fields for fields, kinds in _IDENTIFIED_BY.items() for kind in kinds}
"""The fields that identify an event of a type. A node completes once on a lineage, so its attempt does not count."""

UNREMARKABLE: tuple[type[e.Event], ...] = (e.NewsHeard, e.NodesRetired, e.Recalled)
"""Bookkeeping events: news read by an owner, nodes removed from the state, origins of copied events."""

VOLATILE = frozenset(
    {
        *("ms", "epoch", "worker", "previous", "seen", "retry_at", "due", "upto", "receipt", "request"),
        *("adopted", "evidence", "parent_first", "previous_first", "previous_branch", "new_branch", "forked_at"),
        *("root", "parent", "parent_node", "as_child", "forked_from", "child", "detached", "cancelled", "successor"),
        *("signal", "cursor", "more", "interaction"),
    }
)
"""Fields that differ by chance, or that hold ids of one run."""
INPUT_HASHES = frozenset({"hash"})
"""Fields that repeat others: they count only where no other field shows the difference."""


def is_unremarkable(event: e.AnyEvent) -> bool:
    """Whether an event is only bookkeeping. A run that was released and claimed again was not interrupted."""
    return isinstance(event, UNREMARKABLE) or (isinstance(event, e.RunTakenOver) and event.cause == "claimed")
