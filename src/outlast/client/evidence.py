"""Collects the evidence about a run for the diagnosis. Nothing here changes anything."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import Struct

from outlast.engine.completion import has_cancel_request, open_children
from outlast.errors import Damaged, Illegal, NotFound
from outlast.functions.decorators import Node, Workflow
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.lineage import Interval, lineage
from outlast.history.record import Entry
from outlast.ledger.reading import branches_of, latest_run_of, missing, records
from outlast.ledger.slots import queue_slot
from outlast.ledger.verification import STRANGE, verify
from outlast.lifecycle.diagnosis import Evidence, Finding, Holder, QueueState, RelatedRun
from outlast.lifecycle.fold import apply
from outlast.lifecycle.invariants import Violation
from outlast.lifecycle.state import State
from outlast.lifecycle.summary import summarise
from outlast.store import Head, Store
from outlast.values.codec import damaged_blobs


class Diagnosis(Struct, frozen=True):
    """The findings about one run. `held` is the reason why it waits for a person to decide, empty if it does not."""

    run: RunId
    status: str
    findings: tuple[Finding, ...]
    held: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether nothing needs repair."""
        return all(finding.standing == "consistent" for finding in self.findings)

    @property
    def remedies(self) -> tuple[Finding, ...]:
        """The findings that can be repaired without a person's decision, in order."""
        return tuple(finding for finding in self.findings if finding.standing == "repairable")


async def evidence_of(
    store: Store,
    run: RunId,
    key: bytes,
    *,
    workflow: Workflow[..., Any] | None = None,
    watchers: int | None = None,
    claimed_by_us: bool = False,
    blobs: bool = False,
) -> Evidence:
    """The input of a diagnosis. `claimed_by_us`: the caller has just claimed the run, so no other worker holds it.
    With `blobs`, the content of blobs is checked too, not only their presence."""
    # Concurrent writes of a live worker must not look like a fault. Therefore the summary is read before the log, which can
    # then only be ahead of it, and a claim seen before or after that counts.
    held_before = None if claimed_by_us else await store.holding(run)
    stored = await store.derived(run)
    if stored.head is None and stored.summary is None and not stored.faults:
        raise await missing(store, run)
    head = stored.head or Head(run, 0, b"")
    seen = _ReadLineage()
    await seen.look(store, head)
    holding = held_before
    if not claimed_by_us and (held_before is None or not held_before.is_live):
        holding = await store.holding(run)
    damage = await _damage(store, run, key, seen)
    outline = seen.state.outline
    return Evidence(
        run=run,
        now=await store.now(),
        log=seen.log,
        state=seen.state,
        version=head.version,
        summary=stored.summary,
        true=summarise(run, seen.state),
        is_closed=head.closed,
        waits=stored.waits,
        faults=stored.faults,
        related_runs=[] if damage else await _related_runs(store, head, seen),
        holder=Holder(holding.worker, holding.is_live, holding.expires) if holding is not None else None,
        is_ready=head.ready,
        queue=await _queue_state(store, outline.queue) if holding is None and outline.is_live else None,
        knowing=await workers_knowing(store, outline.workflow),
        today=workflow.version if workflow is not None else "",
        initial=_initial(seen.log),
        known_versions=await _known(store, (outline.version, _initial(seen.log)), workflow),
        attempts=_attempts(workflow),
        damage=damage,
        last_good=_last_good(damage, head, seen.intervals),
        missing=[
            (entry.seq, entry.event.node if isinstance(entry.event, e.NodeCompleted) else "", why)
            async for entry, _, why in damaged_blobs(store.blobs, seen.log, content=blobs)
        ],
        watchers=watchers,
        unused=head.branch + 1 - len(seen.intervals),
    )


async def _queue_state(store: Store, name: str) -> QueueState | None:
    """The state of a queue; None without a name."""
    if not name:
        return None
    holders = await store.slot_holders(queue_slot(name).name)
    queues = [worker.info.queues for worker in await store.workers() if worker.is_live]
    is_served = any(served is None or name in served for served in queues)
    return QueueState(name, tuple(each.run for each in holders), is_served)


async def workers_knowing(store: Store, workflow: str) -> tuple[str, ...]:
    """The live workers that claim runs of a workflow."""
    return tuple(each.worker for each in await store.workers() if each.is_live and workflow in each.info.workflows)


class _ReadLineage:
    """The readable part of the current lineage."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.state = State()
        self.intervals: list[Interval] = []
        self.broken: Violation | None = None

    async def look(self, store: Store, head: Head) -> None:
        seq = 1
        try:
            branches = await branches_of(store, head, ancestors_only=True)
            self.intervals = lineage(branches, head.branch, head.version)
            for first, last in self.intervals:
                async for record in records(store, head.run, first, last):
                    seq = max(first, record.first)
                    for place, event in enumerate(record.events(), record.first):
                        if first <= place <= last:
                            seq = place
                            apply(self.state, event, place, record.time)
                            self.log.append(Entry(place, record.branch, record.time, event))
        except Damaged as damage:
            self.broken = Violation(damage.seq or seq, "V1", str(damage))
        except (Illegal, NotFound, *STRANGE) as error:
            self.broken = Violation(seq, "V1", f"is unreadable: {error}")


async def _damage(store: Store, run: RunId, key: bytes, seen: _ReadLineage) -> list[Violation]:
    """The violations that affect the current lineage; `verify` reports the others, which affect no execution."""
    found = [each for each in (await verify(store, run, key)).violations if each.invariant != "V10"]
    matters = [each for each in found if _matters(each, seen.intervals)]
    if len(matters) < len(found):  # a damaged epoch on an older branch makes all later ones look too small
        matters = [each for each in matters if each.invariant != "V11"]
    return [*matters, *([seen.broken] if seen.broken else [])]


def _matters(violation: Violation, intervals: list[Interval]) -> bool:
    if not violation.seq or not intervals or violation.seq > intervals[-1][1]:  # the head, or events after it
        return True
    return any(first <= violation.seq <= last for first, last in intervals)


def _last_good(damage: list[Violation], head: Head, intervals: list[Interval]) -> int:
    """The last event of the lineage before the damage. 0 if there is none, if the branches are unreadable, or if the
    log has events after its head: then nothing can be appended."""
    seq = min((each.seq for each in damage), default=1)
    return 0 if seq > head.version else max((min(last, seq - 1) for first, last in intervals if first < seq), default=0)


async def _related_runs(store: Store, head: Head, seen: _ReadLineage) -> list[RelatedRun]:
    """The runs that this one depends on and whose state differs from what its log expects."""
    found: list[RelatedRun] = []
    for child in open_children(seen.state):
        newest = await latest_run_of(store, child)
        at = await store.head(newest)
        holding = await store.holding(newest)
        if at is None:
            found.append(RelatedRun(child, "child"))
        elif at.closed and (holding is None or not holding.is_live):  # else its worker is about to deliver the end
            found.append(RelatedRun(newest, "child", has_ended=True))
    for child in map(RunId, seen.state.to_cancel()):
        newest = await latest_run_of(store, child)
        at, holding = await store.head(newest), await store.holding(newest)
        is_open = at is not None and not at.closed
        if is_open and await has_cancel_request(store, newest):
            continue
        if is_open or holding is None or not holding.is_live:  # else its worker is about to deliver the end
            found.append(RelatedRun(child, "left"))
    successor = RunId(seen.state.outline.successor)
    is_missing = successor and seen.state.is_closed and await store.head(successor) is None
    if is_missing and await store.tombstone(successor) is None:
        found.append(RelatedRun(successor, "successor"))
    again = await store.head(head.run) if found else None
    return found if again is not None and again.version == head.version else []


def _initial(log: list[Entry]) -> str:
    first = log[0].event if log else None
    return first.version if isinstance(first, e.RunCreated) else ""


async def _known(store: Store, versions: tuple[str, ...], workflow: Workflow[..., Any] | None) -> frozenset[str]:
    """Those of these versions whose code is available: stored, or imported here."""
    known = {workflow.version} if workflow is not None else set()
    for version in set(versions):
        if version and await store.blobs.has(version):
            known.add(version)
    return frozenset(known)


def _attempts(workflow: Workflow[..., Any] | None) -> dict[str, int]:
    """The maximum number of attempts of each node in the workflow's module."""
    around = getattr(workflow.fn, "__globals__", {}) if workflow is not None else {}
    return {
        each.name: each._spec.retry.max_attempts or sys.maxsize for each in around.values() if isinstance(each, Node)
    }
