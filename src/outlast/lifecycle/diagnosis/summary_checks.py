"""The summary against the log: stale (G2), or of the same version and saying something else (A1, A2, A3r)."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.lifecycle.branch_plan import BranchPlan, recovery_cutoff
from outlast.lifecycle.diagnosis.derived_rows import rewrite
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, Open
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary

_KEPT = ("status", "branch", "version", "reason", "recoverable", "held", "waiting")
"""What a summary has to have right."""


def stale(evidence: Evidence) -> Iterator[Finding]:
    stored, true = evidence.summary, evidence.true
    if stored is None and not evidence.faults:
        yield Finding(
            code="G2",
            standing="repairable",
            sentence="the run has no summary, so lists do not show it",
            events=(evidence.version,),
            cause="the catalogue lost a row",
            actions=("outlast doctor --fix writes it from the log",),
            remedy=rewrite(evidence),
        )
    elif stored is not None and stored.at < true.at and _differs(stored, true) and not evidence.is_held:
        like = _resembles(stored, true)
        is_next = evidence.is_ready and evidence.holder is None
        yield Finding(
            code="G2",
            standing="consistent" if is_next else "repairable",
            sentence=f"the summary is of event {stored.at}, the log ends at {evidence.version}: {_differing(stored, true)}"
            f"{f' (it resembles {like}, and is merely stale)' if like else ''}",
            events=(stored.at, evidence.version),
            cause="something was delivered to the run and no worker has taken it up yet, or one died in between",
            actions=(f"{'the next worker' if is_next else 'outlast doctor --fix'} writes it from the log",),
            remedy=None if is_next else rewrite(evidence),
        )


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
    """A summary of the log's own version that says something else (A1, A2, A3r)."""
    stored, true = evidence.summary, evidence.true
    if stored is None or stored.at != true.at or not _differs(stored, true):
        return
    cause = "the summary was edited or written by something else: the log is what counts"
    is_going = evidence.state.outline.base in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    if stored.status is RunStatus.WAITING and true.status is RunStatus.RUNNING and not _has_questions(evidence):
        yield branched(
            evidence,
            "A1",
            "the summary says that the run waits for a person, the log has no open question",
            cause,
        )
    elif stored.status is RunStatus.RUNNING and true.status is RunStatus.WAITING and _has_questions(evidence):
        yield branched(
            evidence,
            "A2",
            "the summary says that the run is running, the log that it waits for an answer",
            cause,
        )
    elif stored.status is RunStatus.COMPLETED and is_going:
        yield branched(
            evidence,
            "A3r",
            "the summary says that the run is completed, the log has no RunCompleted",
            cause,
        )
    else:  # nothing has to be cut: what has ended or stands still is not set going by a summary
        yield Finding(
            code="G2",
            standing="repairable",
            sentence=_differing(stored, true),
            events=(stored.at,),
            cause=cause,
            actions=("outlast doctor --fix writes it from the log",),
            remedy=rewrite(evidence),
        )


def _has_questions(evidence: Evidence) -> bool:
    return any(wait.kind == "interaction" for wait in evidence.state.waits.values())


def _differing(stored: RunSummary, true: RunSummary) -> str:
    if stored.status is not true.status:
        return f"the summary says that the run is {stored.status}, the log that it is {true.status}"
    name = next(name for name in _KEPT if getattr(stored, name) != getattr(true, name))
    return f"the summary says {name} {getattr(stored, name)!r}, the log {getattr(true, name)!r}"


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
        actions=(f"outlast doctor --fix goes on from {place} as a new branch; what follows stays readable on its own",),
        remedy=Open(plan),
    )
