"""Views: the results of the engine as JSON and as text, and the result types of the engine's methods.

Each view is a typed, frozen record. The command line prints its JSON with `-o json`. `json_schema` returns its JSON Schema,
which is published. `str(view)` is its text form.
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
    from outlast.lifecycle.explanation import Explanation as Explanation
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
    name: f"outlast.{module}"
    for module, names in {
        "client.evidence": ("Diagnosis",),
        "client.reader": ("WorkerRuns",),
        "client.versions": ("Version",),
        "functions.dry_replay": ("DryRun",),
        "history.record": ("Entry",),
        "ledger.verification": ("Verification",),
        "lifecycle.branching": ("BranchSummary",),
        "lifecycle.comparison": ("Comparison",),
        "lifecycle.diagnosis": ("Finding",),
        "lifecycle.explanation": ("Explanation",),
        "lifecycle.invariants": ("Violation",),
        "lifecycle.state": ("Wait",),
        "lifecycle.summary": ("RunSummary",),
        "services.sweeper": ("Report",),
        "store": ("Line", "Listed", "Page"),
        "views.schema": ("SCHEMA_VERSION", "VIEWS", "json_schema"),
    }.items()
    for name in names
}
"""The module of each name. It is imported at the first use of the name. Names that end with `View` are in `types`."""


def __getattr__(name: str) -> Any:
    module = "outlast.views.types" if name.endswith("View") else _MODULES.get(name)
    if module is None or (name.endswith("View") and not hasattr(import_module(module), name)):
        raise AttributeError(f"module 'outlast.views' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    from outlast.views import types

    return sorted([*_MODULES, *(name for name in vars(types) if name.endswith("View"))])
