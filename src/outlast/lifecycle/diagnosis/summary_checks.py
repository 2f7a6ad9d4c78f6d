"""The summary compared with the log: stale (G2), or different at the same version (A1, A2, A3r)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from outlast.lifecycle.branch_plan import BranchPlan, recovery_cutoff
from outlast.lifecycle.diagnosis.derived_rows import to_rewrite
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, Open
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary

_KEPT = ("status", "branch", "version", "reason", "recoverable", "held", "waiting")
"""The summary fields that must be right."""


def stale(evidence: Evidence) -> Iterator[Finding]:
    stored, true = evidence.summary, evidence.true
    if stored is None and not evidence.faults:
        yield to_rewrite(
            evidence, "the run has no summary, so lists do not show it", (evidence.version,), "the summary row was lost"
        )
    elif stored is not None and stored.at < true.at and _differs(stored, true) and not evidence.is_held:
        like = _resembles(stored, true)
        finding = to_rewrite(
            evidence,
            f"the summary is of event {stored.at}, the log ends at event {evidence.version}: {_differing(stored, true)}"
            f"{f' (similar to {like}, but the summary is only stale)' if like else ''}",
            (stored.at, evidence.version),
            "an event was delivered to the run and no worker has read it yet, or a worker died before it did",
        )
        if evidence.is_ready and evidence.holder is None:
            by_worker = ("the next worker writes it from the log",)
            finding = structs.replace(finding, standing="consistent", actions=by_worker, remedy=None)
        yield finding


def _differs(stored: RunSummary, true: RunSummary) -> bool:
    return any(getattr(stored, name) != getattr(true, name) for name in _KEPT)


def _resembles(stored: RunSummary, true: RunSummary) -> str:
    if stored.status is RunStatus.WAITING and not _asks(true):
        return "A1"
    if stored.status is RunStatus.RUNNING and _asks(true):
        return "A2"
    return "A3r" if stored.status is RunStatus.COMPLETED else ""


def _asks(summary: RunSummary) -> bool:
    return summary.status is RunStatus.WAITING and any(wait.kind == "interaction" for wait in summary.waits)


def contradicted(evidence: Evidence) -> Iterator[Finding]:
    """A summary of the log's version that differs from the log (A1, A2, A3r)."""
    stored, true = evidence.summary, evidence.true
    if stored is None or stored.at != true.at or not _differs(stored, true):
        return
    cause = "the summary was edited or written by another program; the log is authoritative"
    is_going = evidence.state.outline.base in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    if stored.status is RunStatus.WAITING and true.status is RunStatus.RUNNING and not _has_questions(evidence):
        yield branched(
            evidence, "A1", "the summary shows the run as waiting for a person, but the log has no open question", cause
        )
    elif stored.status is RunStatus.RUNNING and true.status is RunStatus.WAITING and _has_questions(evidence):
        yield branched(evidence, "A2", "the summary shows the run as running, but the log has an open question", cause)
    elif stored.status is RunStatus.COMPLETED and is_going:
        yield branched(
            evidence, "A3r", "the summary shows the run as completed, but the log has no RunCompleted", cause
        )
    else:  # no branch is needed: a summary alone does not restart a run that has ended or stopped
        yield to_rewrite(evidence, _differing(stored, true), (stored.at,), cause)


def _has_questions(evidence: Evidence) -> bool:
    return any(wait.kind == "interaction" for wait in evidence.state.waits.values())


def _differing(stored: RunSummary, true: RunSummary) -> str:
    if stored.status is not true.status:
        return f"the run is {stored.status} in the summary and {true.status} in the log"
    name = next(name for name in _KEPT if getattr(stored, name) != getattr(true, name))
    return f"the summary has {name} {getattr(stored, name)!r}, the log {getattr(true, name)!r}"


def branched(evidence: Evidence, code: str, sentence: str, cause: str) -> Finding:
    cutoff = recovery_cutoff(evidence.log)
    plan = BranchPlan(
        cutoff=cutoff, cause="recovery", reason=f"{code}: {sentence}", code=code, evidence=(evidence.version,)
    )
    place = f"event {cutoff}" if cutoff else "the start"
    return Finding(
        code=code,
        standing="repairable",
        sentence=sentence,
        events=tuple(seq for seq in sorted({cutoff, evidence.version}) if seq),
        cause=cause,
        actions=(f"outlast doctor --fix continues from {place} on a new branch; later events stay on their branch",),
        remedy=Open(plan),
    )
