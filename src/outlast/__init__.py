"""Outlast: workflows that cannot be lost."""

from outlast.client import Blocking, BlockingHandle, Client, Handle, Query, Summary
from outlast.compose import open, run
from outlast.definition.retry import Retry
from outlast.errors import (
    AlreadyExists,
    BadInput,
    Cancelled,
    Diverged,
    Gone,
    Held,
    NodeFailure,
    NotDurable,
    NotFound,
    NotImportable,
    NotStorable,
    OutlastError,
    Refused,
    StoreError,
)
from outlast.lifecycle.status import Status
from outlast.runtime.call import Call
from outlast.runtime.functions import Node, Workflow, node, workflow
from outlast.runtime.inside import attempt, checkpoint, is_stopping, last_checkpoint, progress, token
from outlast.runtime.mapping import map
from outlast.runtime.secrets import Secret, register_source
from outlast.runtime.verbs import Won, approve, ask, continue_as, gather, now, race, random, sleep, step, uuid

__version__ = "0.1.0"

__all__ = [
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
    "NotDurable",
    "NotFound",
    "NotImportable",
    "NotStorable",
    "OutlastError",
    "Query",
    "Refused",
    "Retry",
    "Secret",
    "Status",
    "StoreError",
    "Summary",
    "Won",
    "Workflow",
    "approve",
    "ask",
    "attempt",
    "checkpoint",
    "continue_as",
    "gather",
    "is_stopping",
    "last_checkpoint",
    "map",
    "node",
    "now",
    "open",
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
