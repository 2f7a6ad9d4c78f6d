"""What is as it should be, and worth saying (B1, B2, D1, F2)."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.lifecycle.diagnosis.evidence import Evidence, Finding
from outlast.lifecycle.status import Status

LONG = 24 * 3600 * 1_000_000
"""Microseconds after which a question counts as one that waits for long."""


def waiting(evidence: Evidence) -> Iterator[Finding]:
    for wait in evidence.state.waits.values():
        asked = evidence.state.interactions.get(wait.id) if wait.kind == "interaction" else None
        if asked is not None and evidence.state.status is Status.WAITING:
            since = next((each.time for each in evidence.log if each.seq == asked.seq), evidence.now)
            yield Finding(
                code="B2" if evidence.now - since > LONG else "B1",
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
    if evidence.is_held and evidence.watchers == 0 and evidence.state.status is Status.RUNNING:
        yield Finding(code="F2", sentence="the run is advanced and nobody watches it, which it does not need")
