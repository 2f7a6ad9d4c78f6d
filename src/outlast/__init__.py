"""Outlast: workflows that cannot be lost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.client import Blocking, BlockingHandle, Client, Handle, Query, Summary
    from outlast.compose import connect, open, run
    from outlast.definition.retry import Retry
    from outlast.errors import (
        AlreadyAnswered,
        AlreadyExists,
        BadInput,
        Cancelled,
        Diverged,
        Gone,
        Held,
        NodeFailure,
        NotAsked,
        NotDurable,
        NotFound,
        NotImportable,
        NotStorable,
        OutlastError,
        Refused,
        Rejected,
        StoreError,
        Unawaited,
    )
    from outlast.lifecycle.status import Status
    from outlast.runtime.call import Call
    from outlast.runtime.functions import Node, Workflow, node, workflow
    from outlast.runtime.inside import attempt, checkpoint, feedback, is_stopping, last_checkpoint, progress, token
    from outlast.runtime.mapping import map
    from outlast.runtime.outputs import output_path
    from outlast.runtime.secrets import Secret, register_source
    from outlast.runtime.verbs import Won, approve, ask, continue_as, gather, now, race, random, sleep, step, uuid

__version__ = "0.1.0"

_ROOMS = {
    "AlreadyAnswered": "outlast.errors",
    "AlreadyExists": "outlast.errors",
    "BadInput": "outlast.errors",
    "Blocking": "outlast.client",
    "BlockingHandle": "outlast.client",
    "Call": "outlast.runtime.call",
    "Cancelled": "outlast.errors",
    "Client": "outlast.client",
    "Diverged": "outlast.errors",
    "Gone": "outlast.errors",
    "Handle": "outlast.client",
    "Held": "outlast.errors",
    "Node": "outlast.runtime.functions",
    "NodeFailure": "outlast.errors",
    "NotAsked": "outlast.errors",
    "NotDurable": "outlast.errors",
    "NotFound": "outlast.errors",
    "NotImportable": "outlast.errors",
    "NotStorable": "outlast.errors",
    "OutlastError": "outlast.errors",
    "Query": "outlast.client",
    "Refused": "outlast.errors",
    "Rejected": "outlast.errors",
    "Retry": "outlast.definition.retry",
    "Secret": "outlast.runtime.secrets",
    "Status": "outlast.lifecycle.status",
    "StillRunning": "outlast.errors",
    "StoreError": "outlast.errors",
    "Summary": "outlast.client",
    "Unawaited": "outlast.errors",
    "Won": "outlast.runtime.verbs",
    "Workflow": "outlast.runtime.functions",
    "approve": "outlast.runtime.verbs",
    "ask": "outlast.runtime.verbs",
    "attempt": "outlast.runtime.inside",
    "checkpoint": "outlast.runtime.inside",
    "feedback": "outlast.runtime.inside",
    "connect": "outlast.compose",
    "continue_as": "outlast.runtime.verbs",
    "gather": "outlast.runtime.verbs",
    "is_stopping": "outlast.runtime.inside",
    "last_checkpoint": "outlast.runtime.inside",
    "map": "outlast.runtime.mapping",
    "node": "outlast.runtime.functions",
    "now": "outlast.runtime.verbs",
    "open": "outlast.compose",
    "output_path": "outlast.runtime.outputs",
    "progress": "outlast.runtime.inside",
    "race": "outlast.runtime.verbs",
    "random": "outlast.runtime.verbs",
    "register_source": "outlast.runtime.secrets",
    "run": "outlast.compose",
    "sleep": "outlast.runtime.verbs",
    "step": "outlast.runtime.verbs",
    "token": "outlast.runtime.inside",
    "uuid": "outlast.runtime.verbs",
    "workflow": "outlast.runtime.functions",
}
"""Where each name lives. A room is entered when something of it is first asked for: to import this package costs nothing."""

__all__ = [
    "AlreadyAnswered",
    "AlreadyExists",
    "BadInput",
    "Blocking",
    "BlockingHandle",
    "Call",
    "Cancelled",
    "Client",
    "Diverged",
    "Gone",
    "Handle",
    "Held",
    "Node",
    "NodeFailure",
    "NotAsked",
    "NotDurable",
    "NotFound",
    "NotImportable",
    "NotStorable",
    "OutlastError",
    "Query",
    "Refused",
    "Rejected",
    "Retry",
    "Secret",
    "Status",
    "StillRunning",
    "StoreError",
    "Summary",
    "Unawaited",
    "Won",
    "Workflow",
    "approve",
    "ask",
    "attempt",
    "checkpoint",
    "connect",
    "continue_as",
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
    "register_source",
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
