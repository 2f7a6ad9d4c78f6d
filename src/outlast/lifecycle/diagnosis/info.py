"""Findings that need no repair (B1, B2, D1, F2), held runs, and live workers that have stopped."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.history import events as e
from outlast.lifecycle.actions import has_diverged, inside
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding
from outlast.lifecycle.status import RunStatus

LONG_US = 24 * 3600 * 1_000_000
"""Microseconds after which an open question counts as old."""

LATE_US = 60 * 1_000_000
"""Microseconds after the expiry of its claims at which a live worker counts as stopped."""


def stopped(evidence: Evidence) -> Iterator[Finding]:
    """The worker is alive, so no other worker takes the run over, but it does not advance its runs."""
    holder = evidence.holder
    if holder is None or not holder.is_live or evidence.now - holder.expires < LATE_US:
        return
    late = (evidence.now - holder.expires) // 1_000_000
    yield Finding(
        code="G1",
        standing="reported",
        sentence=f"worker {holder.worker} is alive, but its claims expired {late} s ago and it has not renewed them",
        cause="the process was stopped (SIGSTOP, a debugger, a paused container), or the clock was changed",
        actions=(
            "continue the process (SIGCONT), or end it (SIGKILL): the next worker then takes the run over at once",
            "the process holds the lock file of the worker, in the folder .workers beside the database",
        ),
    )


def held(evidence: Evidence) -> Iterator[Finding]:
    """A run that waits for a decision."""
    outline, run = evidence.state.outline, evidence.run
    if not outline.held:
        return
    place = next((each.seq for each in reversed(evidence.log) if isinstance(each.event, e.RunFailed)), 0)
    actions: tuple[str, ...]
    ends = f"outlast cancel {run} ends the run"
    if has_diverged(evidence.state):
        actions = (
            f"outlast versions diff {run} shows what changed in the code",
            f"to continue unchanged, restore the old code, then outlast resume {run}",
            f"outlast migrate {run} continues with the current code from where the two differ, on a new branch",
            ends,
        )
        cause = "the code of the workflow was changed after the run had started"
    elif node := inside(evidence.state):
        actions = (
            f"if {node} took effect: outlast jump {run} --to {node} --edit output=VALUE continues with that result",
            f"if {node} did not take effect: outlast retry {run} {node} repeats it",
            ends,
        )
        cause = f"only a person can find out whether {node} took effect"
    else:
        actions, cause = (f"outlast resume {run} continues the run", ends), ""
    yield Finding(
        code="E3" if has_diverged(evidence.state) else "C1",
        standing="reported",
        sentence=f"the run is held until a person decides: {outline.reason or 'no reason was given'}",
        events=(place,),
        cause=cause,
        actions=actions,
    )


def waiting(evidence: Evidence) -> Iterator[Finding]:
    for wait in evidence.state.waits.values():
        asked = evidence.state.interactions.get(wait.id) if wait.kind == "interaction" else None
        if asked is not None and evidence.state.status is RunStatus.WAITING:
            since = next((each.time for each in evidence.log if each.seq == asked.seq), evidence.now)
            yield Finding(
                code="B2" if evidence.now - since > LONG_US else "B1",
                sentence=f"the run waits for an answer to {wait.text or wait.id!r}, however long that takes",
                events=(asked.seq,),
                actions=(f"outlast answer {evidence.run} VALUE --interaction {wait.id}",),
            )


def unused_branches(evidence: Evidence) -> Iterator[Finding]:
    if evidence.unused:
        yield Finding(
            code="D1",
            sentence=f"the run has {evidence.unused} older branch{'es' if evidence.unused > 1 else ''} that it left",
            actions=(f"outlast branches {evidence.run}",),
        )


def unwatched(evidence: Evidence) -> Iterator[Finding]:
    if evidence.is_held and evidence.watchers == 0 and evidence.state.status is RunStatus.RUNNING:
        yield Finding(code="F2", sentence="a worker advances the run, and no client watches it; a run needs no watcher")
