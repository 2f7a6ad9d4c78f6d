"""What an event is about, so that it can be matched with one of another run, and what of it is chance."""

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
"""The fields that say what an event is about. A node completes once on a lineage, whichever attempt it is."""

UNREMARKABLE: tuple[type[e.Event], ...] = (e.NewsHeard, e.NodesRetired, e.Recalled)
"""Bookkeeping: when an owner came to hear of something, what it no longer keeps in mind, where a fork has things from."""

VOLATILE = frozenset(
    {
        *("ms", "epoch", "worker", "previous", "retry_at", "due", "upto", "receipt", "request"),
        *("adopted", "evidence", "parent_first", "previous_first", "previous_branch", "new_branch", "forked_at"),
        *(
            "root",
            "parent",
            "parent_node",
            "as_child",
            "forked_from",
            "child",
            "detached",
            "cancelled",
            "successor",
            "signal",
            "cursor",
            "more",
            "interaction",
        ),
    }
)
"""Fields that are chance, or numbers and names of this one run."""
INPUT_HASHES = frozenset({"hash"})
"""Fields that repeat others: they count only where nothing else shows the difference."""


def is_unremarkable(event: e.AnyEvent) -> bool:
    """Whether it says nothing about what happened. A run that is only claimed again was not interrupted."""
    return isinstance(event, UNREMARKABLE) or (isinstance(event, e.RunTakenOver) and event.cause == "claimed")
