"""The order in which the runs of a SQLite store are claimed.

Runs that may be claimed are in an index by workflow, queue, priority, fairness key and age; so are those of each worker. A
claim reads the first run of each group of equals, however many runs there are in it, and the time when a run of its
workflow and of its key was last claimed. Who was served longest ago comes first; who was never served waits since its oldest
run was created, so that new names do not delay the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import apsw
import msgspec
from msgspec import Struct

from outlast.history.ids import RunId
from outlast.store import Names, SlotsOf
from outlast.stores.sqlite.rows import legible
from outlast.stores.sqlite.slots import has_place

FORGOTTEN_AFTER = 3_600_000_000
"""Microseconds after which it is forgotten when a key was served."""
MARKED_TOGETHER = 1000
"""Due runs that are marked in one transaction."""

_READY = "{0}.worker = '' and {0}.closed = 0 and ({0}.ready = 1 or {0}.due = 1)"
_GROUPS = """
with recursive pair (id) as (
    select {first}
    union all
    select coalesce({next_queue}, {next_workflow}) from pair join head h on h.id = pair.id
), grouped (id) as (
    select h.id from pair join head h on h.id = pair.id
    where (:workflows is null or h.workflow in (select value from json_each(:workflows)))
        and (:queues is null or h.queue in (select value from json_each(:queues)))
        and (h.workflow != '' or (:workflows is null and :queues is null))
    union all
    select coalesce({next_key}, {next_priority}) from grouped join head h on h.id = grouped.id
)
select {shown} from grouped join head h on h.id = grouped.id
left join workflow_turn on workflow_turn.workflow = h.workflow
left join key_turn on key_turn.workflow = h.workflow and key_turn.fairness_key = h.fairness_key"""
_SHOWN = """
h.id, cast(h.workflow as blob), cast(h.queue as blob), h.priority, cast(h.fairness_key as blob), h.created,
cast(h.worker as blob), ifnull(workflow_turn.served, 0), ifnull(key_turn.served, 0)"""
_NEXT = """
select id, created from head
where id = (select coalesce({next_of_same_age}, {next_younger}) from head h where h.id = :id)"""
_EQUALS = ("workflow", "queue", "priority", "fairness_key", "created")
_HOLDERS = """
with recursive held (worker) as (
    select min(worker) from head indexed by head_held where worker != ''
    union all
    select (select min(head.worker) from head indexed by head_held where head.worker != '' and head.worker > held.worker)
    from held where held.worker is not null
)
select cast(held.worker as blob), cast(coalesce(worker.expires, 0) as integer)
from held left join worker on worker.id = held.worker where held.worker is not null"""
_SLOT_OWNERS = f"""
select {_SHOWN} from slot join head h on h.id = slot.id
left join workflow_turn on workflow_turn.workflow = h.workflow
left join key_turn on key_turn.workflow = h.workflow and key_turn.fairness_key = h.fairness_key
where slot.name = ? and h.queue = ? and (h.worker != '' or ({_READY.format("h")}))"""
_TIMES = "worker = '' and due = 0 and timer is not null and timer <= ?"
_ARE_DUE = f"select exists (select 1 from head indexed by head_timer where {_TIMES})"
_MARK_DUE = f"""
update head set due = 1 where id in (
    select id from head indexed by head_timer where {_TIMES} order by timer limit {MARKED_TOGETHER})"""
_SERVE_WORKFLOW = "insert or replace into workflow_turn (workflow, served) values (?, ?)"
_SERVE_KEY = "insert or replace into key_turn (workflow, fairness_key, served) values (?, ?, ?)"
_FORGET = "delete from key_turn where served < ?"


def _queries(index: str, condition: str) -> tuple[str, str]:
    """Return the query of the first run of each group of equals, and that of the next run of a group."""

    def first(more: str = "") -> str:
        order = ", ".join(f"n.{name}" for name in (*_EQUALS, "id"))
        return f"(select n.id from head n indexed by {index} where {condition} {more} order by {order} limit 1)"

    def after(*names: str) -> str:
        """The first run that equals `h` in all these columns but the last one, where it is greater. A comparison of several
        columns at once would read all runs that are equal."""
        *same, last = names
        return first(" ".join([*(f"and n.{name} = h.{name}" for name in same), f"and n.{last} > h.{last}"]))

    groups = _GROUPS.format(
        shown=_SHOWN,
        first=first(),
        next_queue=after(*_EQUALS[:2]),
        next_workflow=after(*_EQUALS[:1]),
        next_key=after(*_EQUALS[:4]),
        next_priority=after(*_EQUALS[:3]),
    )
    return groups, _NEXT.format(next_of_same_age=after(*_EQUALS, "id"), next_younger=after(*_EQUALS))


_READY_GROUPS, _READY_NEXT = _queries("head_ready", _READY.format("n"))
_HELD_GROUPS, _HELD_NEXT = _queries("head_held", "n.worker != '' and n.worker = :holder")

Level: TypeAlias = tuple[bool, int]
"""False for runs of dead workers; the priority, negative. The smallest comes first."""


class Wanted(NamedTuple):
    """The arguments of a claim."""

    workflows: Names
    queues: Names
    slots: SlotsOf


class Candidate(Struct, frozen=True):
    """The first run of a group. `holder` is the dead worker that holds it. The run may be alone: without a group."""

    id: int
    workflow: str
    queue: str
    priority: int
    key: str
    created: int
    holder: str = ""
    is_alone: bool = False


def holders(db: apsw.Connection) -> list[tuple[str, int]]:
    """Return the workers that hold runs, and the end of their leases."""
    rows: list[Any] = db.execute(_HOLDERS).fetchall()
    return [(legible(worker), expires) for worker, expires in rows]


def are_due(db: apsw.Connection, now: int) -> bool:
    """Return whether a timer is due of a run that is not marked yet."""
    return bool(db.execute(_ARE_DUE, (now,)).get)


def mark_due(db: apsw.Connection, now: int) -> bool:
    """Mark the runs whose timers are due, so that they are in the same index as ready runs. Return whether some remain."""
    db.execute(_MARK_DUE, (now,))
    return db.changes() == MARKED_TOGETHER


def are_claimable(db: apsw.Connection, dead: Collection[str], wanted: Wanted) -> bool:
    """Return whether a claim would get a run. Without slots, that is known from the first group."""
    for rows in _groups(db, dead, wanted):
        for row in rows:
            if legible(row[2]) not in wanted.slots:
                return True
    turns = Turns(db, dead, wanted)
    while (found := turns.next()) is not None:
        if turns.has_slots(found):
            return True
    return False


def _groups(db: apsw.Connection, dead: Collection[str], wanted: Wanted) -> Iterator[Iterable[Any]]:
    names = {"workflows": _json(wanted.workflows), "queues": _json(wanted.queues)}
    for holder in dead:
        yield db.execute(_HELD_GROUPS, {**names, "holder": holder})
    yield db.execute(_READY_GROUPS, names)


class Turns:
    """The runs that a claim may get, in their order."""

    def __init__(self, db: apsw.Connection, dead: Collection[str], wanted: Wanted) -> None:
        self._db = db
        self._dead = dead
        self._wanted = wanted
        self._levels: dict[Level, dict[str, list[tuple[int, int, int, Candidate]]]] = {}
        self._workflows: dict[str, int] = {}
        self._keys: dict[tuple[str, str], int] = {}
        self._served: dict[tuple[str, str], int] = {}
        self._oldest: dict[tuple[Level, str], int] = {}
        self._full: set[str] = set()
        self._number = count()
        for rows in _groups(db, dead, wanted):
            for row in rows:
                self._load(*row)

    def next(self) -> Candidate | None:
        """Return the next run, and drop it."""
        while self._levels:
            level = min(self._levels)
            workflows = self._levels[level]
            workflow = min(workflows, key=lambda name: self._rank(level, name))
            queue = workflows[workflow]
            rank, _, _, found = heapq.heappop(queue)
            current = self._key_rank(found)
            if current > rank:  # a run of the same key, of another group, was served
                heapq.heappush(queue, (current, found.created, next(self._number), found))
                continue
            self._follow(found)
            if not queue:
                del workflows[workflow]
            if not workflows:
                del self._levels[level]
            if found.is_alone or found.queue not in self._full:
                return found
        return None

    def has_slots(self, found: Candidate) -> bool:
        """Return whether the run can take the slots of its queue. If not, of this queue only the runs remain that hold one
        of these slots already."""
        slots = self._wanted.slots.get(found.queue, ())
        if not slots:
            return True
        run = RunId(self._db.execute("select run from head where id = ?", (found.id,)).get)
        if has_place(self._db, run, slots):
            return True
        if found.queue not in self._full:
            self._full.add(found.queue)
            for name in {slot.name for slot in slots}:
                rows: list[Any] = self._db.execute(_SLOT_OWNERS, (name, found.queue)).fetchall()
                for row in rows:
                    self._load(*row, is_alone=True, but=found.id)
        return False

    def served(self, found: Candidate, now: int) -> None:
        """Note that the run was claimed: others are next."""
        at = max(now, self._workflows[found.workflow] + 1, self._keys[found.workflow, found.key] + 1)
        self._workflows[found.workflow] = self._keys[found.workflow, found.key] = at
        self._served[found.workflow, found.key] = at

    def save(self) -> None:
        """Store who was served, in the caller's transaction."""
        if not self._served:
            return
        db, newest = self._db, max(self._served.values())
        db.executemany(_SERVE_KEY, [(workflow, key, at) for (workflow, key), at in self._served.items()])
        names = dict.fromkeys(workflow for workflow, _ in self._served)
        db.executemany(_SERVE_WORKFLOW, [(name, self._workflows[name]) for name in names])
        db.execute(_FORGET, (newest - FORGOTTEN_AFTER,))

    def _load(
        self,
        id: int,
        workflow: Any,
        queue: Any,
        priority: Any,
        key: Any,
        created: Any,
        holder: Any,
        workflow_served: int,
        key_served: int,
        *,
        is_alone: bool = False,
        but: int = 0,
    ) -> None:
        """Add a run, unless another worker holds it or it is of another workflow."""
        workflow, key, holder = legible(workflow), legible(key), legible(holder)
        wanted = self._wanted.workflows
        if id == but or (holder and holder not in self._dead) or (wanted is not None and workflow not in wanted):
            return
        priority, created = (number if isinstance(number, int) else 0 for number in (priority, created))
        self._workflows.setdefault(workflow, workflow_served)
        self._keys.setdefault((workflow, key), key_served)
        self._add(Candidate(id, workflow, legible(queue), priority, key, created, holder, is_alone))

    def _add(self, found: Candidate) -> None:
        level = not found.holder, -found.priority
        oldest = self._oldest.get((level, found.workflow), found.created)
        self._oldest[level, found.workflow] = min(oldest, found.created)
        queue = self._levels.setdefault(level, {}).setdefault(found.workflow, [])
        heapq.heappush(queue, (self._key_rank(found), found.created, next(self._number), found))

    def _follow(self, found: Candidate) -> None:
        """Add the next run of the group."""
        if found.is_alone or found.queue in self._full:
            return
        sql = _HELD_NEXT if found.holder else _READY_NEXT
        row = self._db.execute(sql, {"id": found.id, "holder": found.holder}).fetchone()
        if row is not None:
            id, created = row
            self._add(msgspec.structs.replace(found, id=id, created=created))

    def _rank(self, level: Level, workflow: str) -> tuple[int, int]:
        oldest = self._oldest[level, workflow]
        return max(self._workflows[workflow], oldest), oldest

    def _key_rank(self, found: Candidate) -> int:
        return max(self._keys[found.workflow, found.key], found.created)


def _json(names: Names) -> str | None:
    return None if names is None else msgspec.json.encode(list(names)).decode()
