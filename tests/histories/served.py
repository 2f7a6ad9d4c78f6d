"""Writes the golden logs as the API serves them, with the state of each branch: `python tests/histories/served.py`.

The page folds the same events in TypeScript; its tests compare its states with these. `test_golden` checks that the files in
`served/` are current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from outlast.history import events as e
from outlast.history.lineage import ROOT, Branch, lineage, opened
from outlast.history.record import Entry
from outlast.lifecycle.fold import fold
from outlast.lifecycle.state import TABLES, NodeState, NodeStatus, State
from outlast.views.build import event_view, fields_of

SERVED = Path(__file__).parent / "served"


def served(log: list[Entry]) -> bytes:
    """The events of all branches, without their sentences, and for each branch its lineage and its state."""
    branches: dict[int, Branch] = {0: ROOT}
    ends = {0: 0}
    for entry in log:
        if isinstance(entry.event, e.BranchOpened):
            branches[entry.event.branch] = opened(entry.event, entry.seq)
        ends[entry.branch] = entry.seq
    told = {}
    for branch in branches:
        intervals = lineage(branches, branch, ends[branch])
        seen = [entry for entry in log for first, last in intervals if first <= entry.seq <= last]
        statuses = [str(fold(State(), seen[: place + 1]).status) for place in range(len(seen))]
        told[str(branch)] = {"lineage": intervals, "statuses": statuses, "state": _state(fold(State(), seen))}
    events = [msgspec.structs.replace(event_view(entry), text="") for entry in log]
    data = msgspec.json.encode({"events": events, "branches": told})
    return msgspec.json.format(data, indent=1) + b"\n"


def _state(state: State) -> dict[str, Any]:
    outline = msgspec.structs.asdict(state.outline)
    cleanup, inherited = outline.pop("cleanup"), outline.pop("cancel_inherited")
    return {
        **outline,
        "status": state.status,
        "requests": [{"seq": each.seq, "type": type(each.event).__name__} for each in state.outline.requests],
        "cleanup_due": cleanup.due if cleanup else None,
        "cancel_inherited": inherited is not None,
        **{name: {key: _part(part) for key, part in getattr(state, name).items()} for name in TABLES},
    }


def _part(part: Any) -> Any:
    """A part of the state with all its fields; those that are None because they are not there yet are left out."""
    if isinstance(part, NodeState):
        fields = msgspec.structs.asdict(part)
        status = "running" if part.status is NodeStatus.STARTED else part.status.name.lower()
        fields |= {"status": status, "started": _fields(part.started), "given": _fields(part.given)}
        return _without(fields, "checkpoint")
    if not isinstance(part, Struct):
        return part
    return _without(msgspec.structs.asdict(part), "answer")


def _fields(event: e.Event | None) -> dict[str, Any] | None:
    return None if event is None else fields_of(event)


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Without the field if it is None. A value that is null is not None."""
    return {key: value for key, value in fields.items() if key != name or isinstance(value, Raw)}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from histories.test_golden import NAMES, log_of

    SERVED.mkdir(exist_ok=True)
    for name in NAMES:
        (SERVED / f"{name}.json").write_bytes(served(log_of(name)))
