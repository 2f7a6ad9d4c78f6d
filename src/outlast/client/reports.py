"""Reports on runs from their logs: the explanation, the branches, and the comparison of two runs (D1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.client.evidence import evidence_of
from outlast.errors import Damaged, Illegal, InvalidInput, NotFound
from outlast.history.events import Value
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger.blob_names import is_elsewhere
from outlast.lifecycle import resume_plan
from outlast.lifecycle.branching import BranchSummaries, BranchSummary
from outlast.lifecycle.comparison import Comparison, Row, Side, compare, counted, ending_of, length_of, shared_upto
from outlast.lifecycle.diagnosis import diagnose
from outlast.lifecycle.difference import Change, changes_between
from outlast.lifecycle.explanation import Explanation, explain
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.timeline import TimelineBuilder
from outlast.store import Blobs, Store
from outlast.values.codec import fetched

if TYPE_CHECKING:
    from outlast.client.reader import Reader

MAX_BLOB_SIZE = 4_000_000
"""Blobs of more bytes are compared only by their hash."""


async def explanation_of(reader: Reader, store: Store, run: RunId, branch: int | None, *, full: bool) -> Explanation:
    """The explanation of a branch of a run. The events of older branches are read too: they show what the branch
    abandoned."""
    newest = await reader.current_branch(run)
    intervals = await reader.lineage(run, branch)
    log = TimelineBuilder(intervals)
    async for entry in reader.events(run, everything=True):
        if entry.seq > intervals[-1][1]:
            break
        try:
            log.add(entry)
        except Illegal as objection:
            raise Damaged(objection.reason, run=run, seq=entry.seq) from objection
    outline, revival, holder, queue, findings = log.state.outline, None, None, None, []
    if outline.recoverable and not outline.held and outline.branch == newest:
        revival = resume_plan.after_failure([entry async for entry in reader.events(run)], outline.failed_node)
    if outline.branch == newest and not log.state.is_closed:
        evidence = await evidence_of(store, run, reader.key)
        holder, findings = evidence.holder, diagnose(evidence)
        if evidence.is_ready or log.state.status is not RunStatus.WAITING:
            queue = evidence.queue
    now = await reader.now()
    return explain(
        run, log, now, newest=newest, full=full, revival=revival, holder=holder, queue=queue, findings=findings
    )


async def branches_in(reader: Reader, run: RunId) -> list[BranchSummary]:
    """All branches of a run, from one pass over its log."""
    summaries_by_branch = BranchSummaries()
    async for entry in reader.events(run, everything=True):
        summaries_by_branch.add(entry)
    return summaries_by_branch.summaries()


async def comparison_of(
    reader: Reader, blobs: Blobs, left: tuple[RunId, int | None], right: tuple[RunId | None, int | None]
) -> Comparison:
    """Two lineages side by side; with only one given, the branch before it is on the left. The events that branches of one
    run share are counted, not read."""
    run, branch = left[0], await _branch(reader, *left)
    other, other_branch = right[0] or run, right[1]
    if right == (None, None):
        other_branch, branch = branch, _before(run, branch)
    other_branch = await _branch(reader, other, other_branch)
    ours, theirs = await reader.lineage(run, branch), await reader.lineage(other, other_branch)
    upto = shared_upto(ours, theirs) if run == other else 0
    told = await _after(reader, run, branch, upto)
    told_there = await _after(reader, other, other_branch, upto)
    rows, moved, unremarkable = compare(told, told_there)
    rows = [await _with_blob_changes(row, blobs) for row in rows]
    shared = length_of(ours, upto)
    events = shared + sum(row.left is not None for row in rows), shared + sum(row.right is not None for row in rows)
    return Comparison(
        Side(run, branch, events[0], ending_of(told)),
        Side(other, other_branch, events[1], ending_of(told_there)),
        shared,
        rows,
        counted(rows),
        moved,
        unremarkable,
    )


async def _branch(reader: Reader, run: RunId, branch: int | None) -> int:
    return await reader.current_branch(run) if branch is None else branch


def _before(run: RunId, branch: int) -> int:
    if branch < 1:
        raise InvalidInput(
            f"run {run} has no branch before branch {branch}: name another run or branch to compare with"
        )
    return branch - 1


async def _after(reader: Reader, run: RunId, branch: int, upto: int) -> list[Entry]:
    return [entry async for entry in reader.events(run, branch=branch, after=upto)]


async def _with_blob_changes(row: Row, blobs: Blobs) -> Row:
    """The row, with the differences inside blobs listed by path."""
    if not any(_is_small_blob(change.old) or _is_small_blob(change.new) for change in row.changes):
        return row
    found: list[Change] = []
    for change in row.changes:
        if change.old is None or change.new is None:
            found.append(change)
            continue
        old, new = await _fetched(change.old, blobs), await _fetched(change.new, blobs)
        found += changes_between(old, new, change.path)
    return msgspec.structs.replace(row, verdict="differs" if found else "same", changes=tuple(found))


async def _fetched(raw: Value, blobs: Blobs) -> Value:
    """The content of a small blob, if it is available; otherwise the reference."""
    try:
        return await fetched(raw, blobs) if _is_small_blob(raw) else raw
    except NotFound:
        return raw


def _is_small_blob(raw: Value | None) -> bool:
    if raw is None or not is_elsewhere(raw):
        return False
    size = msgspec.json.decode(raw).get("size")
    return isinstance(size, int) and size <= MAX_BLOB_SIZE
