"""Outlast: workflows that cannot be lost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast import events as events
    from outlast.client import BlockingEngine as BlockingEngine
    from outlast.client import BlockingRunHandle as BlockingRunHandle
    from outlast.client import Engine as Engine
    from outlast.client import RunFilter as RunFilter
    from outlast.client import RunHandle as RunHandle
    from outlast.client import RunSummary as RunSummary
    from outlast.client.results import Question as Question
    from outlast.compose import open as open
    from outlast.compose import open_blocking as open_blocking
    from outlast.compose import run as run
    from outlast.definition.retry import Retry as Retry
    from outlast.errors import AlreadyAnswered as AlreadyAnswered
    from outlast.errors import AlreadyExists as AlreadyExists
    from outlast.errors import Damaged as Damaged
    from outlast.errors import InvalidInput as InvalidInput
    from outlast.errors import NodeFailure as NodeFailure
    from outlast.errors import NotAllowed as NotAllowed
    from outlast.errors import NotAsked as NotAsked
    from outlast.errors import NotDurable as NotDurable
    from outlast.errors import NotFound as NotFound
    from outlast.errors import NotImportable as NotImportable
    from outlast.errors import NotStorable as NotStorable
    from outlast.errors import OutlastError as OutlastError
    from outlast.errors import Rejected as Rejected
    from outlast.errors import RunCancelled as RunCancelled
    from outlast.errors import RunDeleted as RunDeleted
    from outlast.errors import RunDiverged as RunDiverged
    from outlast.errors import RunGone as RunGone
    from outlast.errors import RunHeld as RunHeld
    from outlast.errors import ServerError as ServerError
    from outlast.errors import StillRunning as StillRunning
    from outlast.errors import StoreError as StoreError
    from outlast.errors import Unawaited as Unawaited
    from outlast.execution.node_context import Context as Context
    from outlast.execution.node_context import checkpoint as checkpoint
    from outlast.execution.node_context import context as context
    from outlast.execution.node_context import feedback as feedback
    from outlast.execution.node_context import idempotency_key as idempotency_key
    from outlast.execution.node_context import is_stopping as is_stopping
    from outlast.execution.node_context import last_checkpoint as last_checkpoint
    from outlast.execution.node_context import progress as progress
    from outlast.execution.output_path import output_path as output_path
    from outlast.functions.call import Call as Call
    from outlast.functions.decorators import Node as Node
    from outlast.functions.decorators import Workflow as Workflow
    from outlast.functions.decorators import node as node
    from outlast.functions.decorators import workflow as workflow
    from outlast.functions.mapping import map as map
    from outlast.functions.verbs import RaceResult as RaceResult
    from outlast.functions.verbs import approve as approve
    from outlast.functions.verbs import ask as ask
    from outlast.functions.verbs import continue_as_new as continue_as_new
    from outlast.functions.verbs import first as first
    from outlast.functions.verbs import gather as gather
    from outlast.functions.verbs import now as now
    from outlast.functions.verbs import race as race
    from outlast.functions.verbs import random as random
    from outlast.functions.verbs import set_attributes as set_attributes
    from outlast.functions.verbs import sleep as sleep
    from outlast.functions.verbs import step as step
    from outlast.functions.verbs import uuid as uuid
    from outlast.http import asgi as asgi
    from outlast.lifecycle.status import RunStatus as RunStatus
    from outlast.remote import connect as connect
    from outlast.values.secrets import Secret as Secret
    from outlast.values.secrets import register_secret_source as register_secret_source

__version__ = "0.1.0"

_MODULES = {
    name: module
    for module, names in {
        "outlast.client": "BlockingEngine BlockingRunHandle Engine RunFilter RunHandle RunSummary",
        "outlast.client.results": "Question",
        "outlast.compose": "open open_blocking run",
        "outlast.definition.retry": "Retry",
        "outlast.errors": (
            "AlreadyAnswered AlreadyExists Damaged InvalidInput NodeFailure NotAllowed NotAsked NotDurable NotFound "
            "NotImportable NotStorable OutlastError Rejected RunCancelled RunDeleted RunDiverged RunGone RunHeld "
            "ServerError StillRunning StoreError Unawaited"
        ),
        "outlast.execution.node_context": (
            "Context checkpoint context feedback idempotency_key is_stopping last_checkpoint progress"
        ),
        "outlast.execution.output_path": "output_path",
        "outlast.functions.call": "Call",
        "outlast.functions.decorators": "Node Workflow node workflow",
        "outlast.functions.mapping": "map",
        "outlast.functions.verbs": (
            "RaceResult approve ask continue_as_new first gather now race random set_attributes sleep step uuid"
        ),
        "outlast.http": "asgi",
        "outlast.lifecycle.status": "RunStatus",
        "outlast.remote": "connect",
        "outlast.values.secrets": "Secret register_secret_source",
    }.items()
    for name in names.split()
}
"""The module of each public name, which is imported when the name is first used."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "events":
        return import_module("outlast.events")
    if name not in _MODULES:
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "events"])
