"""Damage that recovery does not repair: damaged logs, lost tails, missing blobs (G3, G4, G5)."""

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
        cause="the bytes of the store were changed outside of Outlast: a failing disk, a manual edit or a bad copy",
        actions=(
            "restore the store from a backup",
            *((f"{back}  (continues from the last good event; later events stay on their branch)",) if back else ()),
        ),
    )


def lost_tail(evidence: Evidence) -> Iterator[Finding]:
    summary = evidence.summary
    if summary is not None and summary.at > evidence.version and not evidence.damage:
        yield Finding(
            code="G5",
            standing="reported",
            sentence=f"the log ends at event {evidence.version}, but the summary is of event {summary.at}: the run was "
            f"{summary.status}{f' ({summary.reason})' if summary.reason else ''} with {summary.done_nodes} nodes completed",
            events=(evidence.version,),
            cause="the end of the log was lost: an older copy of the file was restored, or a disk did not flush its writes",
            actions=(
                "restore the newest backup",
                "outlast doctor --fix does not repair this: completed work of the lost events would be repeated",
            ),
        )


def missing_blobs(evidence: Evidence) -> Iterator[Finding]:
    if evidence.missing:
        seq, node, why = evidence.missing[0]
        value = f"the output of node {node}" if node else "a value"
        yield Finding(
            code="G4",
            standing="reported",
            sentence=f"{value} at event {seq} is stored in a blob that {why}{and_more(len(evidence.missing) - 1)}",
            events=tuple(seq for seq, _, _ in evidence.missing)[:20],
            cause="the folder of blobs was not copied or restored with the database, or a file in it was changed",
            actions=(
                "restore the blobs beside the store",
                *((f"outlast retry {evidence.run} {node}  (repeats the node, on a new branch)",) if node else ()),
            ),
        )
