"""The types of the engine, made from the views of the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from outlast.client.bulk import Order, Outcome, Progress, Target
from outlast.client.deletion import Pruned
from outlast.client.evidence import Diagnosis
from outlast.client.reader import WorkerRuns
from outlast.client.versions import Version
from outlast.history import codec
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Entry
from outlast.ledger.verification import Verification
from outlast.lifecycle.branching import BranchSummary
from outlast.lifecycle.comparison import Comparison, Row, Side, Verdict
from outlast.lifecycle.diagnosis import Finding
from outlast.lifecycle.difference import Change
from outlast.lifecycle.invariants import Violation
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.services.sweeper import Report, RunCheck
from outlast.store import Holding, Line, Listed, Tombstone, WorkerInfo
from outlast.views import types as t
from outlast.views.build import TIMES, same_fields
from outlast.views.times import micros

# --- events


class WireEvent(Struct, frozen=True):
    """An event as the API has it, with its fields in their exact bytes."""

    type: str
    fields: dict[str, Raw]
    seq: int = 0
    branch: int = 0
    time: str | None = None


def events_of(found: Sequence[WireEvent], run: str = "") -> list[e.AnyEvent]:
    body = msgspec.json.encode([_parts(each) for each in found])
    return codec.decode(body, run=run, first=found[0].seq if found else 1)


def entries_of(found: Sequence[WireEvent], run: str) -> list[Entry]:
    return [
        Entry(each.seq, each.branch, micros(each.time) or 0, event)
        for each, event in zip(found, events_of(found, run), strict=True)
    ]


def _parts(event: WireEvent) -> dict[str, object]:
    """The stored form: times are microseconds, and an unknown time is left out."""
    stored: dict[str, object] = {"type": event.type, **event.fields}
    if "attributes" in stored:
        given = msgspec.json.decode(event.fields["attributes"], type=dict[str, t.Attribute | None])
        stored["attributes"] = {name: attribute_of(value) for name, value in given.items()}
    for name in TIMES & event.fields.keys():
        time = micros(msgspec.json.decode(event.fields[name], type=str | None))
        if time is None:
            del stored[name]
        else:
            stored[name] = time
    return stored


# --- runs


def attribute_of(value: t.Attribute | None) -> Any:
    """An attribute as events have it."""
    return e.Moment(micros(value.time) or 0) if isinstance(value, t.AttributeTimeView) else value


def summary_of(view: t.RunView) -> RunSummary:
    """What a list says of a run. `exclusive` and `copied_to` are not sent."""
    return same_fields(
        RunSummary,
        view,
        created=micros(view.created) or 0,
        updated=micros(view.updated) or 0,
        parent=view.parent or "",
        attributes={name: attribute_of(value) for name, value in view.attributes.items()},
        waits=tuple(map(wait_of, view.waits)),
    )


def listed_of(view: t.RunView) -> Listed:
    return Listed(summary_of(view), msgspec.json.encode(view.progress) if view.progress else b"")


def holding_of(view: t.RunView) -> Holding | None:
    holder = view.holder
    if holder is None:
        return None
    seen, expires = micros(holder.last_seen) or 0, micros(holder.expires) or 0
    return Holding(RunId(view.run), WorkerId(holder.worker), expires, holder.live, seen)


def wait_of(view: t.WaitView) -> Wait:
    detail = view.schema if isinstance(view, t.QuestionView) else e.NULL
    return same_fields(Wait, view, due=micros(view.due), since=micros(view.since) or 0, detail=detail)


def branch_of(view: t.BranchView) -> BranchSummary:
    return same_fields(
        BranchSummary,
        view,
        cause=view.cause or "",
        by=view.by or "",
        reason=view.reason or "",
        opened=micros(view.opened) or 0,
        ended=micros(view.last_event) or 0,
        is_held=view.held,
        is_current=view.current,
    )


def line_of(view: t.LogLineView) -> Line:
    return same_fields(Line, view, time=micros(view.time) or 0)


# --- comparison


class _Changed(Struct, frozen=True):
    path: str
    old: Raw = Raw(b"")
    new: Raw = Raw(b"")


class _Compared(Struct, frozen=True):
    verdict: Verdict
    left: WireEvent | None
    right: WireEvent | None
    changes: tuple[_Changed, ...]


class WireComparison(Struct, frozen=True):
    left: t.ComparedSideView
    right: t.ComparedSideView
    shared: int
    rows: tuple[_Compared, ...]
    counts: dict[Verdict, int]
    moved: int


def comparison_of(found: WireComparison) -> Comparison:
    left, right = (same_fields(Side, side, ending=side.ending or "") for side in (found.left, found.right))
    ours = iter(entries_of([row.left for row in found.rows if row.left], left.run))
    theirs = iter(entries_of([row.right for row in found.rows if row.right], right.run))
    rows = [
        Row(
            row.verdict,
            next(ours) if row.left else None,
            next(theirs) if row.right else None,
            tuple(Change(each.path, _given(each.old), _given(each.new)) for each in row.changes),
        )
        for row in found.rows
    ]
    return Comparison(left, right, found.shared, rows, found.counts, found.moved)


def _given(raw: Raw) -> Raw | None:
    return raw if bytes(raw) else None


# --- health


def verification_of(view: t.VerificationView) -> Verification:
    return same_fields(Verification, view, violations=tuple(same_fields(Violation, each) for each in view.violations))


def diagnosis_of(view: t.ExaminationView) -> Diagnosis:
    """The findings before a repair. What a repair would do is not sent; `standing` says whether there is one."""
    return Diagnosis(RunId(view.run), view.status, tuple(map(finding_of, view.findings)), view.held or "")


def finding_of(view: t.FindingView) -> Finding:
    return same_fields(Finding, view)


def repaired_of(view: t.ExaminationView) -> list[Finding]:
    """The findings that were repaired, in order."""
    known = {(each.code, each.sentence): finding_of(each) for each in view.findings}
    done = [(each.code or "", each.reason) for each in view.repairs if each.done]
    return [known.get(each) or Finding(code=each[0], sentence=each[1], standing="repairable") for each in done]


def progress_of(view: t.BulkView, outcomes: Iterable[t.BulkOutcomeView]) -> Progress:
    """A bulk action; the value of its answers is not sent."""
    order = msgspec.convert({"action": view.action, "by": view.by, "reason": view.reason}, Order)
    known = list(outcomes)
    return Progress(
        run=RunId(view.run),
        order=order,
        status=view.status,
        created=micros(view.created) or 0,
        updated=micros(view.updated) or 0,
        targets=[same_fields(Target, each) for each in known],
        outcomes=[same_fields(Outcome, each) for each in known if each.result is not None],
    )


# --- workers and versions


def report_of(view: t.SweepReportView) -> Report:
    found = Report(**{name: getattr(view, name) for name in ("scanned", "healthy", "waiting", "recovered", "stalled")})
    found.reasons.update(view.reasons)
    found.runs.extend(msgspec.convert(view.runs, list[RunCheck], from_attributes=True))
    return found


def tombstone_of(view: t.TombstoneView) -> Tombstone:
    return same_fields(Tombstone, view, created=micros(view.created) or 0, deleted=micros(view.deleted) or 0)


def pruned_of(view: t.PrunedView) -> Pruned:
    times = {"first": micros(view.first) or 0, "last": micros(view.last) or 0}
    return same_fields(Pruned, view, refused=Counter(view.refused), **times)


def workers_of(views: Iterable[t.WorkerView]) -> list[WorkerRuns]:
    return [
        WorkerRuns(
            each.worker,
            each.live,
            micros(each.expires) or 0,
            micros(each.last_seen) or 0,
            same_fields(WorkerInfo, each, started=micros(each.started) or 0, skew=each.skew_ms * 1000),
            list(each.runs),
        )
        for each in views
    ]


def version_of(view: t.VersionView) -> Version:
    first, last = micros(view.first) or 0, micros(view.last) or 0
    return same_fields(Version, view, first=first, last=last, is_stored=view.stored, is_today=view.current)
