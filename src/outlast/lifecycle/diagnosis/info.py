"""What is as it should be, and worth saying (B1, B2, D1, F2), and a worker that is there and does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.history import events as e
from outlast.lifecycle.actions import has_diverged, inside
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding
from outlast.lifecycle.status import RunStatus

LONG_US = 24 * 3600 * 1_000_000
"""Microseconds after which a question counts as one that waits for long."""

LATE_US = 60 * 1_000_000
"""Microseconds after its time has run out, after which a worker that is alive counts as stopped."""


def stopped(evidence: Evidence) -> Iterator[Finding]:
    """The worker is alive, so nobody takes the run from it, and it goes on with nothing."""
    holder = evidence.holder
    if holder is None or not holder.is_live or evidence.now - holder.expires < LATE_US:
        return
    late = (evidence.now - holder.expires) // 1_000_000
    yield Finding(
        code="G1",
        standing="reported",
        sentence=f"worker {holder.worker} is alive, but its claims expired {late} s ago and it has not renewed them",
        cause="its process was stopped (SIGSTOP, a debugger, a paused container), or the clock was set",
        actions=(
            "let the process go on (SIGCONT), or end it (SIGKILL): then the next worker takes the run at once",
            "the process holds the worker's lock file, in the folder named .workers beside the database",
        ),
    )


def held(evidence: Evidence) -> Iterator[Finding]:
    """A run that waits for the decision of a person is never well."""
    outline, run = evidence.state.outline, evidence.run
    if not outline.held:
        return
    place = next((each.seq for each in reversed(evidence.log) if isinstance(each.event, e.RunFailed)), 0)
    actions: tuple[str, ...]
    ends = f"outlast cancel {run} ends it"
    if has_diverged(evidence.state):
        actions = (
            f"outlast versions diff {run} shows what changed in the code",
            f"to be safe, put the old code back, then outlast resume {run} goes on as if nothing had changed",
            f"outlast migrate {run} goes on with today's code from where the two differ, as a new branch",
            ends,
        )
        cause = "the code of the workflow was changed while the run was under way"
    elif node := inside(evidence.state):
        actions = (
            f"if it was done: outlast jump {run} --to {node} --edit output=VALUE goes on with that result",
            f"if it was not done: outlast retry {run} {node} does it again",
            ends,
        )
        cause = f"only a person can find out whether {node} was done"
    else:
        actions, cause = (f"outlast resume {run} goes on with it", ends), ""
    yield Finding(
        code="E3" if has_diverged(evidence.state) else "C1",
        standing="reported",
        sentence=f"the run is held, a person has to decide: {outline.reason or 'no reason was given'}",
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
                sentence=f"the run waits for an answer to {wait.text or wait.id!r}, for as long as that takes",
                events=(asked.seq,),
                actions=(f"outlast answer {evidence.run} VALUE --interaction {wait.id}",),
            )


def unused_branches(evidence: Evidence) -> Iterator[Finding]:
    if evidence.unused:
        yield Finding(
            code="D1",
            sentence=f"{evidence.unused} older branch{'es' if evidence.unused > 1 else ''} that the run no longer follows",
            actions=(f"outlast branches {evidence.run}",),
        )


def unwatched(evidence: Evidence) -> Iterator[Finding]:
    if evidence.is_held and evidence.watchers == 0 and evidence.state.status is RunStatus.RUNNING:
        yield Finding(code="F2", sentence="the run is advanced and nobody watches it, which it does not need")
