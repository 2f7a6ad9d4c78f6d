"""What nobody repairs by themselves: damaged logs, lost tails, missing blobs (G3, G4, G5)."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, and_more


def damage(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.damage:
        return
    first = min(evidence.damage)
    back = f"outlast jump {evidence.run} --to {evidence.last_good}" if evidence.last_good else ""
    yield Finding(
        code="G3",
        standing="reported",
        sentence=f"the log is damaged: {first}{and_more(len(evidence.damage) - 1)}",
        events=tuple(sorted({each.seq for each in evidence.damage if each.seq}))[:20],
        cause="the store's bytes were changed outside of Outlast: a failing disk, an edit by hand, a bad copy",
        actions=(
            "restore the store from a backup, if there is one",
            *((f"{back}  (goes on from the last good event; what follows stays on its branch)",) if back else ()),
        ),
    )


def lost_tail(evidence: Evidence) -> Iterator[Finding]:
    summary = evidence.summary
    if summary is not None and summary.at > evidence.version and not evidence.damage:
        yield Finding(
            code="G5",
            standing="reported",
            sentence=f"the log ends at event {evidence.version}, the summary knows of event {summary.at}: it says that the "
            f"run is {summary.status}{f' ({summary.reason})' if summary.reason else ''}, {summary.done_nodes} nodes done",
            events=(evidence.version,),
            cause="the end of the log was lost: an older copy of the file was put back, or a disk lied about its flushes",
            actions=(
                "restore the newest backup",
                "nothing is repaired by itself: work that was done may not be in the log and would be done again",
            ),
        )


def missing_blobs(evidence: Evidence) -> Iterator[Finding]:
    if evidence.missing:
        seq, node, why = evidence.missing[0]
        what = f"the output of node {node}" if node else "a value"
        yield Finding(
            code="G4",
            standing="reported",
            sentence=f"{what} at event {seq} lies in a blob that {why}{and_more(len(evidence.missing) - 1)}",
            events=tuple(seq for seq, _, _ in evidence.missing)[:20],
            cause="the folder of blobs was not copied or restored with the database, or a file in it was changed",
            actions=(
                "restore the blobs beside the store",
                *((f"outlast retry {evidence.run} {node}  (does it again, on a new branch)",) if node else ()),
            ),
        )
