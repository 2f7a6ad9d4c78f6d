"""The types of the events in a log, for code that reads logs: `isinstance(entry.event, outlast.events.NodeCompleted)`."""

from outlast.history.events import EVENT_TYPES
from outlast.history.events import AnyEvent as AnyEvent
from outlast.history.events import AttributesSet as AttributesSet
from outlast.history.events import BranchOpened as BranchOpened
from outlast.history.events import CancelRequested as CancelRequested
from outlast.history.events import ChildEnded as ChildEnded
from outlast.history.events import ChildStarted as ChildStarted
from outlast.history.events import CleanupStarted as CleanupStarted
from outlast.history.events import CompensationFailed as CompensationFailed
from outlast.history.events import CompensationStarted as CompensationStarted
from outlast.history.events import DecisionRecorded as DecisionRecorded
from outlast.history.events import Event as Event
from outlast.history.events import Failure as Failure
from outlast.history.events import GraphExtended as GraphExtended
from outlast.history.events import GuestEventsRead as GuestEventsRead
from outlast.history.events import InteractionAnswered as InteractionAnswered
from outlast.history.events import InteractionRequested as InteractionRequested
from outlast.history.events import InteractionWithdrawn as InteractionWithdrawn
from outlast.history.events import JumpRequested as JumpRequested
from outlast.history.events import Moment as Moment
from outlast.history.events import NodeCheckpointed as NodeCheckpointed
from outlast.history.events import NodeCompensated as NodeCompensated
from outlast.history.events import NodeCompleted as NodeCompleted
from outlast.history.events import NodeFailed as NodeFailed
from outlast.history.events import NodeScheduled as NodeScheduled
from outlast.history.events import NodeSkipped as NodeSkipped
from outlast.history.events import NodesRetired as NodesRetired
from outlast.history.events import NodeStarted as NodeStarted
from outlast.history.events import OutboxEnqueued as OutboxEnqueued
from outlast.history.events import OutboxSent as OutboxSent
from outlast.history.events import PauseRequested as PauseRequested
from outlast.history.events import Recalled as Recalled
from outlast.history.events import RequestRefused as RequestRefused
from outlast.history.events import RunCancelled as RunCancelled
from outlast.history.events import RunCompleted as RunCompleted
from outlast.history.events import RunContinued as RunContinued
from outlast.history.events import RunCreated as RunCreated
from outlast.history.events import RunFailed as RunFailed
from outlast.history.events import RunPaused as RunPaused
from outlast.history.events import RunRecovered as RunRecovered
from outlast.history.events import RunStarted as RunStarted
from outlast.history.events import RunTakenOver as RunTakenOver
from outlast.history.events import SignalAwaited as SignalAwaited
from outlast.history.events import SignalConsumed as SignalConsumed
from outlast.history.events import SignalReceived as SignalReceived
from outlast.history.events import StepCompleted as StepCompleted
from outlast.history.events import StepStarted as StepStarted
from outlast.history.events import TimerCancelled as TimerCancelled
from outlast.history.events import TimerFired as TimerFired
from outlast.history.events import TimerSet as TimerSet
from outlast.history.events import TriggerCursorAdvanced as TriggerCursorAdvanced
from outlast.history.events import TriggerInputReceived as TriggerInputReceived
from outlast.history.events import TriggerRegistered as TriggerRegistered
from outlast.history.events import VersionChanged as VersionChanged

__all__ = sorted([*EVENT_TYPES, "AnyEvent", "Event", "Failure", "Moment"])
