"""The catalog of a SQLite store: summaries, tags, attributes and scratch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import apsw
import msgspec

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Derived, Listed, Page, RunFilter, search_text, unreadable
from outlast.stores.shared import (
    catalogue_faults,
    check_limit,
    encode_summary,
    page_of,
    read_wait,
    summary_of,
)
from outlast.stores.sqlite.rows import Rows, head_of, legible
from outlast.stores.sqlite.searching import attribute_row, found_rows
from outlast.stores.sqlite.wakeups import OPEN_WAIT, wait_row

_COLUMNS = ("id", "run", "at", "status", "workflow", "parent", "queue", "held", "created", "text", "body")
_PUT = f"""
insert into catalogue ({", ".join(_COLUMNS)}) values ({", ".join("?" * len(_COLUMNS))})
on conflict (id) do update set at = excluded.at, status = excluded.status, queue = excluded.queue, held = excluded.held,
    text = excluded.text, body = excluded.body"""
_PUT_AGAIN = "update catalogue set at = ?, status = ?, queue = ?, held = ?, body = ? where id = ?"
"""For a row whose text stays the same, as nearly all do."""
_TEXT_CHANGED = "insert or ignore into text_changed (id) values (?)"
_CORRECT = "update catalogue set workflow = ?, parent = ?, created = ? where id = ?"
PLACE = attrgetter("workflow", "queue", "priority", "fairness_key", "created")
"""The fields of a summary that decide when a run is claimed. They never change."""
_SET_PLACE = """
update head set workflow = ?, queue = ?, priority = ?, fairness_key = ?, created = ? where id = ?"""
_UNTAG = "delete from tag where run = ?"
_TAG = "insert into tag (tag, run) values (?, ?)"
_ATTRIBUTES = "select name, kind, value from attribute where id = ?"
_REMOVE_ATTRIBUTES = "delete from attribute where id = ?"
_SET_ATTRIBUTE = "insert into attribute (name, kind, value, run, id) values (?, ?, ?, ?, ?)"
_TIMERS = "wait indexed by wait_timer where wait.run = head.id and wait.kind = 'timer' and wait.due is not null"
_TIMER = f"""
iif((select status from catalogue where catalogue.id = head.id) in ('running', 'waiting', 'compensating'),
    (select min(wait.due) from {_TIMERS}), null)"""
SET_TIMER = f"""
update head set timer = {_TIMER}, due = 0
where id = ? and (timer is not null or (select 1 from {_TIMERS} limit 1) is not null)"""
"""Set the time at which a run is due, after its status or its timers changed."""
_STORED = f"""
select id, workflow != '', timer is not null or (select 1 from {_TIMERS} limit 1) is not null,
    (select 1 from tag where tag.run = head.id limit 1) is not null
        or (select 1 from attribute where attribute.id = head.id limit 1) is not null,
    (select cast(text as blob) from catalogue where catalogue.id = head.id)
from head where id in (select value from json_each(?))"""
"""Scalar subqueries: joins and `exists` take several times as long."""
_SUMMARY = "select cast(body as blob) from catalogue join head using (id) where head.run = ?"
_AT = "select head.id, coalesce(catalogue.at, 0) from head left join catalogue using (id) where head.run = ?"
_NOTE = "insert or replace into scratch (run, body) select id, ? from head where run = ?"

_INTERRUPTED = "select interrupted != '' from head where id = ?"
_SHOWN = attrgetter(*_COLUMNS[1:-2])
_CHANGING = attrgetter("at", "status", "queue", "held")
_CATALOGUE_ROW = f"select {', '.join(_COLUMNS)} from catalogue where id = ?"
_PLACE_COLUMNS = ("workflow", "queue", "priority", "fairness_key", "created")
_PLACE_ROW = f"select {', '.join(_PLACE_COLUMNS)}, timer, due, {_TIMER} from head where id = ?"
_ID = "select coalesce((select id from head where run = ?), (select id from catalogue where run = ?))"
_WAIT_ROWS = "select run, name, kind, due, body from wait where run = ?"
_SET_CLOSED = "update head set closed = ? where run = ? and version = ? returning id"
_DELETE_SUMMARY = "delete from catalogue where id = ?"
_DELETE_WAITS = "delete from wait where run = ?"


class CatalogRows(Rows):
    """Implements the catalog."""

    async def summary(self, run: RunId) -> RunSummary | None:
        with self._db.reading() as db:
            body = db.execute(_SUMMARY, (run,)).get
        return None if body is None else summary_of(run, body)

    async def derived(self, run: RunId) -> Derived:
        with self._db.reading() as db, db:  # one snapshot for all reads
            return derived_of(db, run)
        raise AssertionError("the context does not swallow errors")

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        def write(db: apsw.Connection) -> bool:
            id = db.execute(_SET_CLOSED, (closed, summary.run, summary.at)).get
            if id is None:
                return False
            db.execute(_DELETE_SUMMARY, (id,))
            put_again(db, {id: summary}, is_suspect=True)
            db.execute(_DELETE_WAITS, (id,))
            db.executemany(OPEN_WAIT, [wait_row(id, wait) for wait in waits])
            db.execute(SET_TIMER, (id,))
            return True

        return await self._db.transact(write)

    async def search(self, query: RunFilter) -> Page:
        check_limit(query.limit)
        rows = await self._db.scan(lambda db: found_rows(db, query))
        shown = (_listed(*row) for row in rows[: query.limit])
        return page_of(shown, is_last=len(rows) <= query.limit, order=query.order)

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            row = db.execute(_AT, (summary.run,)).fetchone()
            if row is None or row[1] != seen or summary.at < seen:
                return False
            put_again(db, {row[0]: summary}, is_suspect=True)
            return True

        return await self._db.transact(write)

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        rows = [(body, run) for run, body in scratch.items()]
        await self._db.transact(lambda db: db.executemany(_NOTE, rows))


def derived_of(db: apsw.Connection, run: RunId) -> Derived:
    """Return the stored records of a run besides its log. The caller holds a read transaction."""
    faults: list[str] = []
    try:
        head = head_of(db, run)
    except Damaged as damage:
        head, faults = None, [str(damage)]
    id = db.execute(_ID, (run, run)).get
    summary = _derived_summary(db, run, id, faults)
    waits: dict[str, Wait] = {}
    for row in _legible_rows(db, _WAIT_ROWS, id, "wait", faults):
        wait = read_wait(row[-1])
        if wait is None or wait_row(id, wait) != row:
            faults.append(f"the row of the wait {row[1]!r} cannot be decoded")
        else:
            waits[wait.name] = wait
    if head is not None and summary is not None:
        faults += _place_faults(db, id, summary)
    return Derived(head, summary, waits, tuple(faults), bool(db.execute(_INTERRUPTED, (id,)).get))


def _derived_summary(db: apsw.Connection, run: RunId, id: int, faults: list[str]) -> RunSummary | None:
    rows = _legible_rows(db, _CATALOGUE_ROW, id, "catalogue", faults)
    if not rows:
        return None
    (row,) = rows
    try:
        summary = summary_of(run, row[-1])
    except Damaged as damage:
        faults.append(str(damage))
        return None
    tags = [legible(tag) for (tag,) in db.execute("select cast(tag as blob) from tag where run = ?", (id,))]
    faults += catalogue_faults(_COLUMNS, row, _row(id, summary), tags, summary.tags)
    attributes = set(_legible_rows(db, _ATTRIBUTES, id, "attribute", faults))
    if attributes != set(_attributes(summary)):
        faults.append(f"the table of attributes has {sorted(map(repr, attributes))}, but its record has other ones")
    return summary


def _place_faults(db: apsw.Connection, id: int, summary: RunSummary) -> Iterator[str]:
    """Yield the differences between the columns of the head by which a run is claimed and its summary and timers."""
    try:
        ((*place, timer, due, first),) = db.execute(_PLACE_ROW, (id,)).fetchall()
    except UnicodeDecodeError:
        yield "the workflow, the queue or the fairness key of the head cannot be decoded"
        return
    for name, found, right in zip(_PLACE_COLUMNS, place, PLACE(summary), strict=True):
        if found != right:
            yield f"the head's column {name} is {found!r}, but the catalogue's record has {right!r}"
    if timer != first or due not in (0, 1):
        yield f"the head's column timer is {timer!r}, but the first timer is due at {first!r}"


def _legible_rows(db: apsw.Connection, sql: str, id: int, table: str, faults: list[str]) -> list[tuple[Any, ...]]:
    try:
        return db.execute(sql, (id,)).fetchall()
    except UnicodeDecodeError:
        faults.append(f"a row of the table {table} cannot be decoded")
        return []


def put_new(db: apsw.Connection, summaries: Sequence[tuple[int, RunSummary]]) -> None:
    """Write the summaries of new runs with their tags and attributes, each with the row id of its run, in the caller's
    transaction."""
    db.executemany(_PUT, [_row(id, summary) for id, summary in summaries])
    for id, summary in summaries:
        if summary.tags or summary.attributes:
            _put_beside(db, id, summary)


def put_again(db: apsw.Connection, summaries: Mapping[int, RunSummary], *, is_suspect: bool = False) -> None:
    """Replace the summaries of runs, by row id. Workflow, parent, creation time and place of a run never change. They are
    indexed, so they are updated only if they are suspect, or missing because the first append had no summary."""
    stored: list[Any] = db.execute(_STORED, (msgspec.json.encode(list(summaries)).decode(),)).fetchall()
    same = {id for id, *_, text in stored if text == search_text(summaries[id]).encode()}
    kept = [(id, each) for id, each in summaries.items() if id in same]
    db.executemany(_PUT_AGAIN, [(*_CHANGING(each), encode_summary(each), id) for id, each in kept])
    if len(same) < len(summaries):
        db.executemany(_TEXT_CHANGED, [(id,) for id, *_ in stored if id not in same])
        db.executemany(_PUT, [_row(id, summary) for id, summary in summaries.items() if id not in same])
    if is_suspect:
        wrong = [(summary.workflow, summary.parent, summary.created, id) for id, summary in summaries.items()]
        db.executemany(_CORRECT, wrong)
    for id, has_place, has_timers, has_more, _ in stored:
        summary = summaries[id]
        if is_suspect or not has_place:
            db.execute(_SET_PLACE, (*PLACE(summary), id))
        if has_timers:
            db.execute(SET_TIMER, (id,))
        if has_more:
            db.execute(_UNTAG, (id,))
        if has_more or summary.tags or summary.attributes:
            _put_beside(db, id, summary)


def _put_beside(db: apsw.Connection, id: int, summary: RunSummary) -> None:
    db.executemany(_TAG, [(tag, id) for tag in dict.fromkeys(summary.tags)])
    rows = _attributes(summary)
    if set(db.execute(_ATTRIBUTES, (id,))) != set(rows):  # most summaries change only the status
        db.execute(_REMOVE_ATTRIBUTES, (id,))
        db.executemany(_SET_ATTRIBUTE, [(*row, summary.run, id) for row in rows])


def _attributes(summary: RunSummary) -> list[tuple[Any, ...]]:
    return [attribute_row(name, value) for name, value in summary.attributes.items()]


def _row(id: int, summary: RunSummary) -> tuple[Any, ...]:
    return id, *_SHOWN(summary), search_text(summary), encode_summary(summary)


def _listed(run: Any, created: Any, status: Any, workflow: Any, body: Any, scratch: Any) -> Listed:
    run, status, workflow = legible(run), legible(status), legible(workflow)
    try:
        return Listed(summary_of(run, body), scratch if isinstance(scratch, bytes) else b"")
    except Damaged:
        return Listed(unreadable(run, created, status, workflow))
