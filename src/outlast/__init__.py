"""Outlast: workflows that cannot be lost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.client import BlockingEngine, BlockingRunHandle, Engine, RunFilter, RunHandle, RunSummary
    from outlast.compose import connect, open, run
    from outlast.definition.retry import Retry
    from outlast.errors import (
        AlreadyAnswered,
        AlreadyExists,
        InvalidInput,
        NodeFailure,
        NotAllowed,
        NotAsked,
        NotDurable,
        NotFound,
        NotImportable,
        NotStorable,
        OutlastError,
        Rejected,
        RunCancelled,
        RunDiverged,
        RunGone,
        RunHeld,
        StoreError,
        Unawaited,
    )
    from outlast.execution.node_context import (
        attempt,
        checkpoint,
        feedback,
        is_stopping,
        last_checkpoint,
        progress,
        token,
    )
    from outlast.execution.output_path import output_path
    from outlast.functions.call import Call
    from outlast.functions.decorators import Node, Workflow, node, workflow
    from outlast.functions.mapping import map
    from outlast.functions.verbs import (
        RaceResult,
        approve,
        ask,
        continue_as_new,
        gather,
        now,
        race,
        random,
        sleep,
        step,
        uuid,
    )
    from outlast.lifecycle.status import RunStatus
    from outlast.values.secrets import Secret, register_secret_source

__version__ = "0.1.0"

_ROOMS = {
    "AlreadyAnswered": "outlast.errors",
    "AlreadyExists": "outlast.errors",
    "InvalidInput": "outlast.errors",
    "BlockingEngine": "outlast.client",
    "BlockingRunHandle": "outlast.client",
    "Call": "outlast.functions.call",
    "RunCancelled": "outlast.errors",
    "Engine": "outlast.client",
    "RunDiverged": "outlast.errors",
    "RunGone": "outlast.errors",
    "RunHandle": "outlast.client",
    "RunHeld": "outlast.errors",
    "Node": "outlast.functions.decorators",
    "NodeFailure": "outlast.errors",
    "NotAsked": "outlast.errors",
    "NotDurable": "outlast.errors",
    "NotFound": "outlast.errors",
    "NotImportable": "outlast.errors",
    "NotStorable": "outlast.errors",
    "OutlastError": "outlast.errors",
    "RunFilter": "outlast.client",
    "NotAllowed": "outlast.errors",
    "Rejected": "outlast.errors",
    "Retry": "outlast.definition.retry",
    "Secret": "outlast.values.secrets",
    "RunStatus": "outlast.lifecycle.status",
    "StillRunning": "outlast.errors",
    "StoreError": "outlast.errors",
    "RunSummary": "outlast.client",
    "Unawaited": "outlast.errors",
    "RaceResult": "outlast.functions.verbs",
    "Workflow": "outlast.functions.decorators",
    "approve": "outlast.functions.verbs",
    "ask": "outlast.functions.verbs",
    "attempt": "outlast.execution.node_context",
    "checkpoint": "outlast.execution.node_context",
    "feedback": "outlast.execution.node_context",
    "connect": "outlast.compose",
    "continue_as_new": "outlast.functions.verbs",
    "gather": "outlast.functions.verbs",
    "is_stopping": "outlast.execution.node_context",
    "last_checkpoint": "outlast.execution.node_context",
    "map": "outlast.functions.mapping",
    "node": "outlast.functions.decorators",
    "now": "outlast.functions.verbs",
    "open": "outlast.compose",
    "output_path": "outlast.execution.output_path",
    "progress": "outlast.execution.node_context",
    "race": "outlast.functions.verbs",
    "random": "outlast.functions.verbs",
    "register_secret_source": "outlast.values.secrets",
    "run": "outlast.compose",
    "sleep": "outlast.functions.verbs",
    "step": "outlast.functions.verbs",
    "token": "outlast.execution.node_context",
    "uuid": "outlast.functions.verbs",
    "workflow": "outlast.functions.decorators",
}
"""Where each name lives. A room is entered when something of it is first asked for: to import this package costs nothing."""

__all__ = [
    "AlreadyAnswered",
    "AlreadyExists",
    "BlockingEngine",
    "BlockingRunHandle",
    "Call",
    "Engine",
    "InvalidInput",
    "Node",
    "NodeFailure",
    "NotAllowed",
    "NotAsked",
    "NotDurable",
    "NotFound",
    "NotImportable",
    "NotStorable",
    "OutlastError",
    "RaceResult",
    "Rejected",
    "Retry",
    "RunCancelled",
    "RunDiverged",
    "RunFilter",
    "RunGone",
    "RunHandle",
    "RunHeld",
    "RunStatus",
    "RunSummary",
    "Secret",
    "StillRunning",
    "StoreError",
    "Unawaited",
    "Workflow",
    "approve",
    "ask",
    "attempt",
    "checkpoint",
    "connect",
    "continue_as_new",
    "feedback",
    "gather",
    "is_stopping",
    "last_checkpoint",
    "map",
    "node",
    "now",
    "open",
    "output_path",
    "progress",
    "race",
    "random",
    "register_secret_source",
    "run",
    "sleep",
    "step",
    "token",
    "uuid",
    "workflow",
]


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(room), name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
