"""The catalog of a SQLite store: summaries, tags and scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import apsw

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Derived, Listed, Page, RunFilter, search_text, unreadable
from outlast.stores.shared import (
    bounded,
    catalogue_faults,
    check_limit,
    cursor,
    encode_summary,
    page_of,
    read_wait,
    summary_of,
)
from outlast.stores.sqlite.rows import Rows, head_of, legible
from outlast.stores.sqlite.wakeups import OPEN_WAIT, wait_row

_PUT = """
insert into catalogue (id, run, at, status, workflow, parent, exclusive, created, text, body)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do update set at = excluded.at, status = excluded.status, text = excluded.text, body = excluded.body"""
_CORRECT = "update catalogue set workflow = ?, parent = ?, exclusive = ?, created = ? where id = ?"
_UNTAG = "delete from tag where run = ?"
_HAS_TAGS = "select exists (select 1 from tag)"
_TAG = "insert into tag (tag, run) values (?, ?)"
_SUMMARY = "select cast(body as blob) from catalogue join head using (id) where head.run = ?"
_AT = "select head.id, coalesce(catalogue.at, 0) from head left join catalogue using (id) where head.run = ?"
_NOTE = "insert or replace into scratch (run, body) select id, ? from head where run = ?"

_COLUMNS = ("id", "run", "at", "status", "workflow", "parent", "exclusive", "created", "text", "body")
_INTERRUPTED = "select interrupted != '' from head where id = ?"
_SHOWN = attrgetter(*_COLUMNS[1:-2])
_CATALOGUE_ROW = f"select {', '.join(_COLUMNS)} from catalogue where id = ?"
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
            put_summaries(db, [(id, summary)])
            db.execute(_DELETE_WAITS, (id,))
            db.executemany(OPEN_WAIT, [wait_row(id, wait) for wait in waits])
            return True

        return await self._db.transact(write)

    async def search(self, query: RunFilter) -> Page:
        sql, values = _search(query)
        rows = await self._db.scan(lambda db: list(db.execute(sql, values)))
        return page_of((_listed(*row) for row in rows[: query.limit]), is_last=len(rows) <= query.limit)

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            row = db.execute(_AT, (summary.run,)).fetchone()
            if row is None or row[1] != seen or summary.at < seen:
                return False
            put_summaries(db, [(row[0], summary)], is_suspect=True)
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
    return summary


def _legible_rows(db: apsw.Connection, sql: str, id: int, table: str, faults: list[str]) -> list[tuple[Any, ...]]:
    try:
        return db.execute(sql, (id,)).fetchall()
    except UnicodeDecodeError:
        faults.append(f"a row of the table {table} cannot be decoded")
        return []


def put_summaries(
    db: apsw.Connection, summaries: Sequence[tuple[int, RunSummary]], *, is_suspect: bool = False
) -> None:
    """Write summaries and their tags, each with the row id of its run, in the caller's transaction. Workflow, parent,
    exclusive key and creation time of a run never change. They are indexed, so existing rows are updated in these columns
    only if they are suspect."""
    db.executemany(_PUT, [_row(id, summary) for id, summary in summaries])
    if is_suspect:
        rows = [(each.workflow, each.parent, each.exclusive, each.created, id) for id, each in summaries]
        db.executemany(_CORRECT, rows)
    if db.execute(_HAS_TAGS).get:  # most stores have no tags
        db.executemany(_UNTAG, [(id,) for id, _ in summaries])
    tags = [(tag, id) for id, summary in summaries for tag in dict.fromkeys(summary.tags)]
    if tags:
        db.executemany(_TAG, tags)


def _row(id: int, summary: RunSummary) -> tuple[Any, ...]:
    return id, *_SHOWN(summary), search_text(summary), encode_summary(summary)


def _listed(run: Any, created: Any, status: Any, workflow: Any, body: Any, scratch: Any) -> Listed:
    run, status, workflow = legible(run), legible(status), legible(workflow)
    try:
        return Listed(summary_of(run, body), scratch if isinstance(scratch, bytes) else b"")
    except Damaged:
        return Listed(unreadable(run, created, status, workflow))


def _search(query: RunFilter) -> tuple[str, list[Any]]:
    check_limit(query.limit)
    terms, values = _terms(query)
    where = f"where {' and '.join(terms)}" if terms else ""
    sql = f"""
    select cast(c.run as blob), iif(typeof(c.created) = 'integer', c.created, 0), cast(c.status as blob),
        cast(c.workflow as blob), cast(c.body as blob), cast(s.body as blob)
    from catalogue c left join scratch s on s.run = c.id
    {where} order by c.created desc, c.run desc limit ?"""
    return sql, [*values, bounded(query.limit) + 1]


def _terms(query: RunFilter) -> tuple[list[str], list[Any]]:
    terms: list[str] = []
    values: list[Any] = []

    def term(sql: str, *arguments: Any) -> None:
        terms.append(sql)
        values.extend(arguments)

    if query.statuses:
        term(f"c.status in ({', '.join('?' * len(query.statuses))})", *query.statuses)
    if query.workflow:
        term("c.workflow = ?", query.workflow)
    if query.parent:
        term("c.parent = ? and c.parent != ''", query.parent)
    if query.roots:
        term("c.parent = ''")
    if query.exclusive:
        term("c.exclusive = ? and c.exclusive != ''", query.exclusive)
    for tag in query.tags:
        term("exists (select 1 from tag where tag.tag = ? and tag.run = c.id)", tag)
    if query.text:
        term("instr(c.text, ?) > 0", query.text.casefold())
    if query.created_from is not None:
        term("c.created >= ?", bounded(query.created_from))
    if query.created_until is not None:
        term("c.created < ?", bounded(query.created_until))
    if query.after:
        term("(c.created, c.run) < (?, ?)", *cursor(query.after))
    return terms, values
