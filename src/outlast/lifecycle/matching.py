"""The fields that identify an event, to match it with an event of another run, and the fields to ignore."""

from __future__ import annotations

from outlast.history import events as e

ABOUT: dict[type[e.Event], tuple[str, ...]] = {
    e.RunCreated: (),
    e.RunStarted: ("resumed",),
    e.RunPaused: (),
    e.RunTakenOver: (),
    e.PauseRequested: (),
    e.CancelRequested: (),
    e.RequestRefused: ("code",),
    e.RunCompleted: (),
    e.RunFailed: (),
    e.CleanupStarted: ("extended",),
    e.RunCancelled: ("cleanup",),
    e.RunContinued: (),
    e.RunRecovered: ("code",),
    e.VersionChanged: (),
    e.BranchOpened: (),
    e.JumpRequested: (),
    e.StepStarted: ("step",),
    e.StepCompleted: ("step",),
    e.NodeScheduled: ("node", "attempt"),
    e.NodeStarted: ("node", "attempt"),
    e.NodeCheckpointed: ("node", "attempt"),
    e.NodeCompleted: ("node",),
    e.NodeFailed: ("node", "attempt"),
    e.NodesRetired: (),
    e.NodeSkipped: ("node",),
    e.CompensationStarted: ("node", "attempt"),
    e.NodeCompensated: ("node",),
    e.CompensationFailed: ("node", "attempt"),
    e.GraphExtended: (),
    e.InteractionRequested: ("interaction",),
    e.InteractionAnswered: ("interaction",),
    e.InteractionWithdrawn: ("interaction",),
    e.SignalAwaited: ("wait",),
    e.SignalReceived: ("name",),
    e.SignalConsumed: ("wait",),
    e.TimerSet: ("timer",),
    e.TimerFired: ("timer",),
    e.TimerCancelled: ("timer",),
    e.Recalled: (),
    e.NewsHeard: (),
    e.DecisionRecorded: ("key",),
    e.TriggerRegistered: ("trigger",),
    e.TriggerInputReceived: ("trigger", "input"),
    e.TriggerCursorAdvanced: ("trigger",),
    e.OutboxEnqueued: ("message",),
    e.OutboxSent: ("message",),
    e.ChildStarted: ("child",),
    e.ChildEnded: ("child",),
}
"""The fields that identify an event of a type. A node completes once on a lineage, so its attempt does not count."""

UNREMARKABLE: tuple[type[e.Event], ...] = (e.NewsHeard, e.NodesRetired, e.Recalled)
"""Bookkeeping events: news read by an owner, nodes removed from the state, origins of copied events."""

VOLATILE = frozenset(
    {
        *("ms", "epoch", "worker", "previous", "retry_at", "due", "upto", "receipt", "request"),
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
