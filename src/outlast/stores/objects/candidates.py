"""Which runs a claim looks at, and in which order.

The marks of runs that may be claimed are in folders by class: queue and workflow, then priority and fairness key. A claim
lists the folders, and the names only in those that have their turn. Due runs are sorted by time instead, so it reads the
classes of the first ones from their names: among them, those with the greatest priority come first.

The turn passes between workflows, and within a workflow between keys: the one that was served longest ago is next. A new one
comes after those that wait already. Each worker keeps its own turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from outlast.history.ids import RunId
from outlast.store import Slot
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Listed
from outlast.stores.objects.run_index import RunIndex, may_start

PAGE = 500
"""Marks that are read from a folder at once: less than a server returns in one answer."""
REMEMBERED = 20_000
"""Workflows and keys whose turns are remembered."""
T = TypeVar("T")


class Wanted(Struct, frozen=True):
    """The workflows and queues that a claim names; None: all."""

    workflows: frozenset[str] | None
    queues: frozenset[str] | None
    folders: frozenset[str] | None
    """The names of the workflows in folders."""
    queue_folders: frozenset[str] | None

    @classmethod
    def of(cls, workflows: Collection[str] | None, queues: Collection[str] | None) -> Wanted:
        names = [None if some is None else frozenset(some) for some in (workflows, queues)]
        folders = [None if some is None else frozenset(map(keys.plain, some)) for some in names]
        return cls(names[0], names[1], folders[0], folders[1])

    @property
    def is_nothing(self) -> bool:
        return self.workflows == frozenset() or self.queues == frozenset()

    def has(self, queue: str, workflow: str) -> bool:
        """Return whether a class with these names may be claimed."""
        is_queue = self.queue_folders is None or queue in self.queue_folders
        return is_queue and (self.folders is None or workflow in self.folders)

    def admits(self, run_index: RunIndex, now: int) -> bool:
        """Return whether a run may be claimed, if its holder is dead."""
        summary = run_index.summary
        if summary is None:
            is_wanted = self.workflows is None and self.queues is None
        else:
            is_wanted = self.workflows is None or summary.workflow in self.workflows
            is_wanted = is_wanted and (self.queues is None or summary.queue in self.queues)
        return is_wanted and (run_index.held is not None or may_start(run_index, now))


class Places:
    """The slots that the runs of a queue need. `holders` has the runs in each slot, those included that are being claimed:
    queues may share a slot."""

    def __init__(self, slots: Sequence[Slot], holders: dict[str, set[RunId]]) -> None:
        self.slots = slots
        self._holders = holders
        self.is_closed = False
        """Whether another process has taken a slot meanwhile: then only its holders may be claimed."""

    @property
    def are_full(self) -> bool:
        return self.is_closed or any(len(self._holders[slot.name]) >= slot.limit for slot in self.slots)

    def unheld(self, queue: str, unheld: Mapping[RunId, str]) -> set[RunId]:
        """Return the runs of a full queue that kept its slots and that nobody holds. Their marks may be behind many others,
        and until they are taken over, no other run of the queue can be claimed."""
        if not self.are_full:
            return set()
        holders = set[RunId]().union(*(self._holders[slot.name] for slot in self.slots))
        return {run for run in holders if run in unheld and keys.plain(unheld[run]) == queue}

    def take(self, run: RunId) -> bool:
        """Count a run as a holder of the slots. False: one is full."""
        missing = [slot for slot in self.slots if run not in self._holders[slot.name]]
        if (missing and self.is_closed) or any(len(self._holders[slot.name]) >= slot.limit for slot in missing):
            return False
        for slot in missing:
            self._holders[slot.name].add(run)
        return True


class Candidate(Struct, frozen=True):
    """A run that may be claimed, and the mark that shows it."""

    run: RunId
    queue: str
    mark: Listed


class Turns:
    """When workflows and keys were last served."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], int] = {}
        self._count = 0

    def see(self, classes: Iterable[tuple[str, str]]) -> None:
        """Give new workflows and keys their first turn."""
        for workflow, key in sorted(set(classes)):
            for name in _names(workflow, key):
                if name not in self._last:
                    self._count += 1
                    self._last[name] = self._count
        for name in list(islice(self._last, max(len(self._last) - REMEMBERED, 0))):
            del self._last[name]

    def serve(self, workflow: str, key: str) -> None:
        self._count += 1
        for name in _names(workflow, key):
            self._last.pop(name, None)
            self._last[name] = self._count

    def rank(self, workflow: str, key: str) -> tuple[int, int]:
        """Return the sort key of a class: the smallest is next."""
        return self._last.get((workflow,), 0), self._last.get((workflow, key), 0)


class _Class:
    """The runs of a class that may be claimed: marks that were read, and folders with more."""

    def __init__(self, queue: str, workflow: str, key: str) -> None:
        self.queue = queue
        self.workflow = workflow
        self.key = key
        self.marks: list[Listed] = []
        self.folders: dict[str, str] = {}
        """The name after which to read on, by folder."""

    async def read(self, bucket: Bucket) -> None:
        """Read some marks if there are none."""
        if self.marks and not any(after == "" for after in self.folders.values()):
            return
        for folder, after in list(self.folders.items()):
            count = 0
            async for listed in bucket.listing(folder, after):
                self.marks.append(listed)
                self.folders[folder] = listed.name
                count += 1
                if count == PAGE:
                    break
            if count < PAGE:
                del self.folders[folder]
        self.marks.sort(key=lambda listed: keys.age_of(listed.name), reverse=True)


Level = tuple[bool, str]
"""Whether a worker was not interrupted, and the rank of the priority: the smallest comes first."""


class Candidates:
    """The runs that one claim may return."""

    def __init__(self, bucket: Bucket, turns: Turns, wanted: Wanted, stale: dict[str, float]) -> None:
        self._bucket = bucket
        self._turns = turns
        self._wanted = wanted
        self._stale = stale
        self._levels: dict[Level, dict[tuple[str, str, str], _Class]] = {}
        self._chosen: set[RunId] = set()

    def queues(self) -> set[str]:
        return {queue for level in self._levels.values() for queue, _, _ in level}

    async def add_folder(self, folder: str, *, is_interrupted: bool) -> None:
        """Add the runs whose marks are in this folder."""
        for pair, classes in await self._by_pair(folder, lambda path: self._bucket.folders(path)):
            for each in classes:
                rank, _, key = each.partition(",")
                self._class(not is_interrupted, pair, rank, key).folders[f"{folder}/{pair}/{each}"] = ""

    async def add_due(self, now: int) -> None:
        """Add the runs that are due, the first ones of each queue and workflow."""
        for pair, marks in await self._by_pair(keys.DUE, lambda path: self._due(path, now)):
            for listed in marks:
                _, rank, key = keys.due_class_of(keys.mark(listed.name))
                self._class(True, pair, rank, key).marks.append(listed)
        for level in self._levels.values():
            for each in level.values():
                each.marks.sort(key=lambda listed: keys.age_of(listed.name), reverse=True)

    async def _by_pair(
        self, folder: str, read: Callable[[str], Awaitable[Sequence[T]]]
    ) -> list[tuple[str, Sequence[T]]]:
        """Read the folders of the queues and workflows that are wanted."""
        pairs = [pair for pair in await self._bucket.folders(folder) if self._wanted.has(*_split(pair))]
        return list(zip(pairs, await asyncio.gather(*(read(f"{folder}/{pair}") for pair in pairs)), strict=True))

    async def _due(self, folder: str, now: int) -> list[Listed]:
        found: list[Listed] = []
        async for listed in self._bucket.listing(folder):
            if keys.due_class_of(keys.mark(listed.name))[0] > now or len(found) == PAGE:
                break
            found.append(listed)
        return found

    def _class(self, is_ready: bool, pair: str, rank: str, key: str) -> _Class:
        queue, workflow = _split(pair)
        level = self._levels.setdefault((is_ready, rank), {})
        return level.setdefault((queue, workflow, key), _Class(queue, workflow, key))

    async def next(self, count: int, places: Mapping[str, Places]) -> list[Candidate]:
        """Return up to `count` runs that have their turn, each once."""
        chosen: list[Candidate] = []
        while len(chosen) < count and self._levels:
            first = min(self._levels)
            level = self._levels[first]
            self._turns.see((each.workflow, each.key) for each in level.values())
            in_turn = sorted(level.values(), key=self._rank)[: count - len(chosen)]
            await asyncio.gather(*(each.read(self._bucket) for each in in_turn))
            while level and len(chosen) < count:
                each = min(level.values(), key=self._rank)
                if not each.marks and each.folders:
                    break  # read it
                place = places.get(each.queue)
                candidate = self._next_of(each, place)
                if candidate is None and each.folders and not (place is not None and place.are_full):
                    break
                if candidate is None:
                    del level[each.queue, each.workflow, each.key]
                    continue
                self._turns.serve(each.workflow, each.key)
                chosen.append(candidate)
            if not level:
                del self._levels[first]
        return chosen

    def _next_of(self, each: _Class, places: Places | None) -> Candidate | None:
        """Return the oldest run of a class that may be claimed; None if none is left, or its queue is full."""
        now = asyncio.get_running_loop().time()
        while each.marks:
            listed = each.marks.pop()
            run = RunId(keys.mark(listed.name).run)
            if run in self._chosen or self._stale.get(listed.name, 0.0) > now:
                continue
            if places is not None and not places.take(run):
                continue
            self._chosen.add(run)
            return Candidate(run, each.queue, listed)
        return None

    def _rank(self, each: _Class) -> tuple[int, int]:
        return self._turns.rank(each.workflow, each.key)


def _split(pair: str) -> tuple[str, str]:
    queue, _, workflow = pair.partition(",")
    return queue, workflow


def _names(workflow: str, key: str) -> tuple[tuple[str, ...], ...]:
    return (workflow,), (workflow, key)
