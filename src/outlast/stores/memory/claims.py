"""Workers, the runs they hold, and slots, in memory."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from outlast.history.ids import RunId, WorkerId
from outlast.store import NO_INFO, Claim, Enrolled, Holding, Names, Runs, Slot, SlotHolder, SlotsOf, WorkerInfo
from outlast.stores.memory.data import Memory
from outlast.stores.shared import check_limit, check_version, claim_not_current, is_due, may_be_due, slot_cursor

Candidate: TypeAlias = tuple[int, RunId]
"""The creation time and the id of a run that may be claimed."""


class MemoryClaims:
    """Claims and slots. Subclasses have the clock."""

    memory: Memory
    _now: Callable[[], int]

    # --- workers

    async def enrol(self, worker: WorkerId, ttl: float, info: WorkerInfo = NO_INFO) -> None:
        self._check_version()
        self.memory.workers[worker] = self._now() + int(ttl * 1_000_000)
        self.memory.seen[worker] = self._now(), info

    async def workers(self) -> list[Enrolled]:
        now, seen = self._now(), self.memory.seen
        return [Enrolled(each, expires > now, expires, *seen[each]) for each, expires in self.memory.workers.items()]

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        self._check_version()
        if worker not in self.memory.workers:
            return False
        await self.enrol(worker, ttl, self.memory.seen[worker][1])
        return True

    async def retire(self, worker: WorkerId) -> None:
        memory = self.memory
        memory.workers.pop(worker, None)
        for run, (holder, _) in list(memory.claims.items()):
            if holder == worker:
                self._released(run, worker, ready=True)

    def _check_version(self) -> None:
        check_version("the store in memory", self.memory.version)

    # --- claims

    async def claim(
        self,
        worker: WorkerId,
        *,
        runs: Runs = None,
        workflows: Names = None,
        queues: Names = None,
        slots: SlotsOf | None = None,
        limit: int = 1,
    ) -> list[Claim]:
        self._check_version()
        if runs is None:
            return self._claim_any(worker, _Turns(self.memory, self._candidates(workflows, queues)), slots or {}, limit)
        free = (run for run in dict.fromkeys(runs) if self._is_free(run) or self._is_own(run, worker))
        return [self._grant(run, worker) for run in [run for run in free if run in self.memory.heads][: max(limit, 0)]]

    def _claim_any(self, worker: WorkerId, turns: _Turns, slots: SlotsOf, limit: int) -> list[Claim]:
        memory, granted = self.memory, list[Claim]()
        while len(granted) < limit and (run := turns.next_run()) is not None:
            summary = memory.summaries.get(run)
            needed = slots.get(summary.queue if summary is not None else "", ())
            if memory.full_slots(run, needed):
                continue
            claim = self._grant(run, worker)
            memory.take_slots(run, claim.epoch, needed)
            turns.served(run, self._now())
            granted.append(claim)
        return granted

    def _candidates(self, workflows: Names, queues: Names) -> Iterator[RunId]:
        memory = self.memory
        for run, head in memory.heads.items():
            if run in memory.claims:
                is_wanted = self._is_free(run)
            else:
                is_wanted = not head.closed and (head.ready or self._has_due_timer(run))
            summary = memory.summaries.get(run)
            workflow, queue = (summary.workflow, summary.queue) if summary is not None else (None, None)
            if is_wanted and (workflows is None or workflow in workflows) and (queues is None or queue in queues):
                yield run

    def _has_due_timer(self, run: RunId) -> bool:
        summary, now = self.memory.summaries.get(run), self._now()
        waits = self.memory.waits.get(run, {}).values()
        return summary is not None and may_be_due(summary) and any(is_due(wait, now) for wait in waits)

    def _is_free(self, run: RunId) -> bool:
        holder = self.memory.claims.get(run)
        return holder is None or self.memory.workers.get(holder[0], 0) <= self._now()

    def _is_own(self, run: RunId, worker: WorkerId) -> bool:
        return self.memory.claims.get(run, ("", 0))[0] == worker

    def _grant(self, run: RunId, worker: WorkerId) -> Claim:
        """The interrupted worker is stored until a takeover is in the log, because the claimant may be interrupted too. From
        then on the new owner is stored, until it releases the run."""
        memory = self.memory
        holder, _ = memory.claims.get(run, (worker, 0))
        if holder != worker:
            memory.interrupted[run] = holder
        epoch = max(memory.granted.get(run, 0), memory.heads[run].epoch) + 1
        memory.granted[run] = epoch
        memory.claims[run] = (worker, epoch)
        previous = memory.interrupted.get(run, "")
        previous = "" if previous == worker else previous
        seen = memory.seen.get(WorkerId(previous), (0, ()))[0]
        return Claim(run, worker, epoch, previous, "expired" if previous else "claimed", seen)

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        memory = self.memory
        if memory.claims.get(run, ("", 0))[0] != worker:
            return True
        if memory.heads[run].version != version:
            return False
        self._released(run, worker, ready=ready)
        return True

    def _released(self, run: RunId, worker: WorkerId, *, ready: bool) -> None:
        """End the claim of a run and its slots. The slots stay if another worker was interrupted and no takeover is in the
        log: that worker may still append."""
        memory = self.memory
        _, epoch = memory.claims.pop(run)
        memory.heads[run] = replace(memory.heads[run], ready=ready)
        if memory.interrupted.get(run, worker) == worker:
            memory.interrupted.pop(run, None)
            memory.end_slots(run, until="claim", epoch=epoch)

    async def holding(self, run: RunId) -> Holding | None:
        held = self.memory.claims.get(run)
        return None if held is None else self._holding(run, held[0])

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        runs = sorted(run for run, held in self.memory.claims.items() if run > after and worker in (None, held[0]))
        return [self._holding(run, self.memory.claims[run][0]) for run in runs[:limit]]

    def _holding(self, run: RunId, worker: WorkerId) -> Holding:
        expires = self.memory.workers.get(worker, 0)
        return Holding(run, worker, expires, expires > self._now(), self.memory.seen.get(worker, (0, ()))[0])

    # --- slots

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        if run not in self.memory.claims or self.memory.claims[run][1] != epoch:
            raise claim_not_current(run, epoch)
        full = self.memory.full_slots(run, slots)
        if not full:
            self.memory.take_slots(run, epoch, slots)
        return full

    async def give(self, run: RunId, epoch: int, names: Collection[str]) -> None:
        for name in names:
            held = self.memory.slots.get((name, run))
            if held is not None and held.epoch <= epoch:
                del self.memory.slots[name, run]

    async def slot_holders(self, name: str = "", *, after: str = "", limit: int = 1000) -> list[SlotHolder]:
        check_limit(limit)
        since = slot_cursor(after)
        found = sorted(place for place in self.memory.slots if place > since and name in ("", place[0]))
        return [self.memory.slots[place] for place in found[:limit]]


class _Turns:
    """The order in which runs are claimed."""

    def __init__(self, memory: Memory, runs: Iterator[RunId]) -> None:
        self._memory = memory
        self._levels: dict[tuple[bool, int], dict[str, dict[str, deque[Candidate]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(deque))
        )
        for created, run in sorted((self._created(run), run) for run in runs):
            level, workflow, key = self._place(run)
            self._levels[level][workflow][key].append((created, run))

    def next_run(self) -> RunId | None:
        """Return the next run to claim, and drop it."""
        if not self._levels:
            return None
        level = min(self._levels)
        workflows = self._levels[level]
        workflow = min(
            workflows, key=lambda name: self._rank((name,), min(each[0] for each in workflows[name].values()))
        )
        keys = workflows[workflow]
        key = min(keys, key=lambda name: self._rank((workflow, name), keys[name][0]))
        _, run = keys[key].popleft()
        if not keys[key]:
            del keys[key]
        if not keys:
            del workflows[workflow]
        if not workflows:
            del self._levels[level]
        return run

    def served(self, run: RunId, now: int) -> None:
        _, workflow, key = self._place(run)
        turns = self._memory.turns
        turns[workflow,] = turns[workflow, key] = turns[()] = max(now, turns.get((), 0) + 1)

    def _rank(self, name: tuple[str, ...], oldest: Candidate) -> tuple[int, Candidate]:
        """Who was served longest ago comes first; who was never served waits since its oldest run was created, so that new
        names do not delay the others."""
        return max(self._memory.turns.get(name, 0), oldest[0]), oldest

    def _created(self, run: RunId) -> int:
        summary = self._memory.summaries.get(run)
        return summary.created if summary is not None else 0

    def _place(self, run: RunId) -> tuple[tuple[bool, int], str, str]:
        summary, is_ready = self._memory.summaries.get(run), run not in self._memory.claims
        if summary is None:
            return (is_ready, 0), "", ""
        return (is_ready, -summary.priority), summary.workflow, summary.fairness_key
