"""Outlast: workflows that cannot be lost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast import events as events
    from outlast.client import BlockingEngine, BlockingRunHandle, Engine, RunFilter, RunHandle, RunSummary
    from outlast.client.results import Question
    from outlast.compose import open, open_blocking, run
    from outlast.definition.retry import Retry
    from outlast.errors import (
        AlreadyAnswered,
        AlreadyExists,
        Damaged,
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
        ServerError,
        StillRunning,
        StoreError,
        Unawaited,
    )
    from outlast.execution.node_context import (
        Context,
        checkpoint,
        context,
        feedback,
        idempotency_key,
        is_stopping,
        last_checkpoint,
        progress,
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
        first,
        gather,
        now,
        race,
        random,
        sleep,
        step,
        uuid,
    )
    from outlast.http import asgi
    from outlast.lifecycle.status import RunStatus
    from outlast.remote import connect
    from outlast.values.secrets import Secret, register_secret_source

__version__ = "0.1.0"

_MODULES = {
    "AlreadyAnswered": "outlast.errors",
    "AlreadyExists": "outlast.errors",
    "BlockingEngine": "outlast.client",
    "BlockingRunHandle": "outlast.client",
    "Call": "outlast.functions.call",
    "Context": "outlast.execution.node_context",
    "Damaged": "outlast.errors",
    "Engine": "outlast.client",
    "InvalidInput": "outlast.errors",
    "Node": "outlast.functions.decorators",
    "NodeFailure": "outlast.errors",
    "NotAllowed": "outlast.errors",
    "NotAsked": "outlast.errors",
    "NotDurable": "outlast.errors",
    "NotFound": "outlast.errors",
    "NotImportable": "outlast.errors",
    "NotStorable": "outlast.errors",
    "OutlastError": "outlast.errors",
    "Question": "outlast.client.results",
    "RaceResult": "outlast.functions.verbs",
    "Rejected": "outlast.errors",
    "Retry": "outlast.definition.retry",
    "RunCancelled": "outlast.errors",
    "RunDiverged": "outlast.errors",
    "RunFilter": "outlast.client",
    "RunGone": "outlast.errors",
    "RunHandle": "outlast.client",
    "RunHeld": "outlast.errors",
    "RunStatus": "outlast.lifecycle.status",
    "RunSummary": "outlast.client",
    "Secret": "outlast.values.secrets",
    "ServerError": "outlast.errors",
    "StillRunning": "outlast.errors",
    "StoreError": "outlast.errors",
    "Unawaited": "outlast.errors",
    "Workflow": "outlast.functions.decorators",
    "approve": "outlast.functions.verbs",
    "asgi": "outlast.http",
    "ask": "outlast.functions.verbs",
    "checkpoint": "outlast.execution.node_context",
    "connect": "outlast.remote",
    "context": "outlast.execution.node_context",
    "continue_as_new": "outlast.functions.verbs",
    "feedback": "outlast.execution.node_context",
    "first": "outlast.functions.verbs",
    "gather": "outlast.functions.verbs",
    "idempotency_key": "outlast.execution.node_context",
    "is_stopping": "outlast.execution.node_context",
    "last_checkpoint": "outlast.execution.node_context",
    "map": "outlast.functions.mapping",
    "node": "outlast.functions.decorators",
    "now": "outlast.functions.verbs",
    "open": "outlast.compose",
    "open_blocking": "outlast.compose",
    "output_path": "outlast.execution.output_path",
    "progress": "outlast.execution.node_context",
    "race": "outlast.functions.verbs",
    "random": "outlast.functions.verbs",
    "register_secret_source": "outlast.values.secrets",
    "run": "outlast.compose",
    "sleep": "outlast.functions.verbs",
    "step": "outlast.functions.verbs",
    "uuid": "outlast.functions.verbs",
    "workflow": "outlast.functions.decorators",
}
"""The module of each public name, which is imported when the name is first used."""

_RENAMED = {
    "BadInput": "InvalidInput",
    "Blocking": "BlockingEngine",
    "BlockingHandle": "BlockingRunHandle",
    "Cancelled": "RunCancelled",
    "Client": "Engine",
    "Diverged": "RunDiverged",
    "Gone": "RunGone",
    "Handle": "RunHandle",
    "Held": "RunHeld",
    "Query": "RunFilter",
    "Refused": "NotAllowed",
    "Status": "RunStatus",
    "Summary": "RunSummary",
    "Won": "RaceResult",
    "attempt": "context().attempt",
    "continue_as": "continue_as_new",
    "register_source": "register_secret_source",
    "token": "idempotency_key",
}
"""Former public names, with their replacements."""

__all__ = [
    "AlreadyAnswered",
    "AlreadyExists",
    "BlockingEngine",
    "BlockingRunHandle",
    "Call",
    "Context",
    "Damaged",
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
    "Question",
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
    "ServerError",
    "StillRunning",
    "StoreError",
    "Unawaited",
    "Workflow",
    "approve",
    "asgi",
    "ask",
    "checkpoint",
    "connect",
    "context",
    "continue_as_new",
    "feedback",
    "first",
    "gather",
    "idempotency_key",
    "is_stopping",
    "last_checkpoint",
    "map",
    "node",
    "now",
    "open",
    "open_blocking",
    "output_path",
    "progress",
    "race",
    "random",
    "register_secret_source",
    "run",
    "sleep",
    "step",
    "uuid",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"outlast.{name} was renamed: use outlast.{_RENAMED[name]}", name=name, obj=None)
    if name == "events":
        return import_module("outlast.events")
    if name not in _MODULES:
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "events"])
