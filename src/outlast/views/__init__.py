"""What is promised to programs and people: views of runs, events, repairs, workers and stores, and the result types of the
engine's methods.

Each view is a typed, frozen record. Its JSON is what the command line prints with `-o json`, its JSON Schema is published
(`json_schema`), and `str(view)` is its text form.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.client.evidence import Diagnosis as Diagnosis
    from outlast.client.reader import WorkerRuns as WorkerRuns
    from outlast.client.versions import Version as Version
    from outlast.functions.dry_replay import DryRun as DryRun
    from outlast.history.record import Entry as Entry
    from outlast.ledger.verification import Verification as Verification
    from outlast.lifecycle.branching import BranchSummary as BranchSummary
    from outlast.lifecycle.comparison import Comparison as Comparison
    from outlast.lifecycle.diagnosis import Finding as Finding
    from outlast.lifecycle.invariants import Violation as Violation
    from outlast.lifecycle.state import Wait as Wait
    from outlast.lifecycle.summary import RunSummary as RunSummary
    from outlast.services.sweeper import Report as Report
    from outlast.store import Line as Line
    from outlast.store import Listed as Listed
    from outlast.store import Page as Page
    from outlast.views.schema import SCHEMA_VERSION as SCHEMA_VERSION
    from outlast.views.schema import VIEWS as VIEWS
    from outlast.views.schema import json_schema as json_schema

_MODULES = {
    "BranchSummary": "outlast.lifecycle.branching",
    "Comparison": "outlast.lifecycle.comparison",
    "Diagnosis": "outlast.client.evidence",
    "Entry": "outlast.history.record",
    "Finding": "outlast.lifecycle.diagnosis",
    "Line": "outlast.store",
    "Listed": "outlast.store",
    "Page": "outlast.store",
    "DryRun": "outlast.functions.dry_replay",
    "Report": "outlast.services.sweeper",
    "SCHEMA_VERSION": "outlast.views.schema",
    "RunSummary": "outlast.lifecycle.summary",
    "VIEWS": "outlast.views.schema",
    "Verification": "outlast.ledger.verification",
    "Version": "outlast.client.versions",
    "Violation": "outlast.lifecycle.invariants",
    "Wait": "outlast.lifecycle.state",
    "WorkerRuns": "outlast.client.reader",
    "json_schema": "outlast.views.schema",
}
"""Where each name is defined; modules are imported when a name is first used. Names that end with `View` are in `types`."""


def __getattr__(name: str) -> Any:
    module = "outlast.views.types" if name.endswith("View") else _MODULES.get(name)
    if module is None or (name.endswith("View") and not hasattr(import_module(module), name)):
        raise AttributeError(f"module 'outlast.views' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    from outlast.views import types

    return sorted([*_MODULES, *(name for name in vars(types) if name.endswith("View"))])
