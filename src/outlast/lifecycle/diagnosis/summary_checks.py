"""The summary against the log: stale (G2), or of the same version and saying something else (A1, A2, A3r)."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.lifecycle.branch_plan import Turn, recovery_cutoff
from outlast.lifecycle.diagnosis.derived_rows import rewrite
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, Open
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary

_KEPT = ("status", "branch", "version", "reason", "recoverable", "held", "waiting")
"""What a summary has to have right."""


def stale(evidence: Evidence) -> Iterator[Finding]:
    told, true = evidence.summary, evidence.true
    if told is None and not evidence.faults:
        yield Finding(
            code="G2",
            standing="repairable",
            sentence="the run has no summary, so lists do not show it",
            events=(evidence.version,),
            cause="the catalogue lost a row",
            actions=("outlast doctor --fix writes it from the log",),
            remedy=rewrite(evidence),
        )
    elif told is not None and told.at < true.at and _differs(told, true) and not evidence.is_held:
        like = _resembles(told, true)
        is_next = evidence.is_ready and evidence.holder is None
        yield Finding(
            code="G2",
            standing="consistent" if is_next else "repairable",
            sentence=f"the summary is of event {told.at}, the log ends at {evidence.version}: {_otherwise(told, true)}"
            f"{f' (it resembles {like}, and is merely stale)' if like else ''}",
            events=(told.at, evidence.version),
            cause="something was delivered to the run and no worker has taken it up yet, or one died in between",
            actions=(f"{'the next worker' if is_next else 'outlast doctor --fix'} writes it from the log",),
            remedy=None if is_next else rewrite(evidence),
        )


def _differs(told: RunSummary, true: RunSummary) -> bool:
    return any(getattr(told, name) != getattr(true, name) for name in _KEPT)


def _resembles(told: RunSummary, true: RunSummary) -> str:
    if told.status is RunStatus.WAITING and not _asks(true):
        return "A1"
    if told.status is RunStatus.RUNNING and _asks(true):
        return "A2"
    return "A3r" if told.status is RunStatus.COMPLETED else ""


def _asks(summary: RunSummary) -> bool:
    return summary.status is RunStatus.WAITING and any(wait.kind == "interaction" for wait in summary.waits)


def contradicted(evidence: Evidence) -> Iterator[Finding]:
    """A summary of the log's own version that says something else (A1, A2, A3r)."""
    told, true = evidence.summary, evidence.true
    if told is None or told.at != true.at or not _differs(told, true):
        return
    cause = "the summary was edited or written by something else: the log is what counts"
    is_going = evidence.state.outline.base in (RunStatus.RUNNING, RunStatus.COMPENSATING)
    if told.status is RunStatus.WAITING and true.status is RunStatus.RUNNING and not _has_questions(evidence):
        yield branched(
            evidence,
            "A1",
            "the summary says that the run waits for a person, the log has no open question",
            cause,
        )
    elif told.status is RunStatus.RUNNING and true.status is RunStatus.WAITING and _has_questions(evidence):
        yield branched(
            evidence,
            "A2",
            "the summary says that the run is running, the log that it waits for an answer",
            cause,
        )
    elif told.status is RunStatus.COMPLETED and is_going:
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
            sentence=_otherwise(told, true),
            events=(told.at,),
            cause=cause,
            actions=("outlast doctor --fix writes it from the log",),
            remedy=rewrite(evidence),
        )


def _has_questions(evidence: Evidence) -> bool:
    return any(wait.kind == "interaction" for wait in evidence.state.waits.values())


def _otherwise(told: RunSummary, true: RunSummary) -> str:
    if told.status is not true.status:
        return f"the summary says that the run is {told.status}, the log that it is {true.status}"
    name = next(name for name in _KEPT if getattr(told, name) != getattr(true, name))
    return f"the summary says {name} {getattr(told, name)!r}, the log {getattr(true, name)!r}"


def branched(evidence: Evidence, code: str, sentence: str, cause: str) -> Finding:
    cutoff = recovery_cutoff(evidence.log)
    turn = Turn(cutoff=cutoff, cause="recovery", reason=f"{code}: {sentence}", code=code, evidence=(evidence.version,))
    place = f"event {cutoff}" if cutoff else "the start"
    return Finding(
        code=code,
        standing="repairable",
        sentence=sentence,
        events=tuple(seq for seq in sorted({cutoff, evidence.version}) if seq),
        cause=cause,
        actions=(f"outlast doctor --fix goes on from {place} as a new branch; what follows stays readable on its own",),
        remedy=Open(turn),
    )
