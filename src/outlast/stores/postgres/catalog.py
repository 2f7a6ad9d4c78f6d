"""The catalog of a PostgreSQL store: summaries, tags and scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Derived, Head, Listed, Page, RunFilter, unreadable
from outlast.stores.postgres.batches import summary_row, transposed, wait_row
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.shared import (
    bounded,
    catalogue_faults,
    check_limit,
    cursor,
    page_of,
    read_wait,
    summary_of,
)

_SUMMARY = "select body from {s}.catalogue where id = (select id from {s}.head where run = $1)"
_CORRECT = "select {s}.correct($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
_COLUMNS = ("at", "status", "workflow", "parent", "exclusive", "created", "updated", "text", "body")
_DERIVED = """
select h.version, h.digest, h.epoch, h.branch, h.branch_first, h.closed, h.ready,
    c.at, c.status, c.workflow, c.parent, c.exclusive, c.created, c.updated, c.text, c.body,
    array(select t.tag from {s}.tag t where t.run = coalesce(h.id, c.id)),
    array(select row(w.name, w.kind, w.due, w.body) from {s}.wait w where w.run = coalesce(h.id, c.id)),
    coalesce(h.interrupted, '') != ''
from (select $1::text as run) given left join {s}.head h on h.run = given.run
left join {s}.catalogue c on c.id = coalesce(h.id, (select o.id from {s}.catalogue o where o.run = given.run limit 1))"""
_REWRITE = "select {s}.rewrite($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
_NOTE = """
insert into {s}.scratch (run, body)
select head.id, given.body from unnest($1::text[], $2::bytea[]) as given (run, body)
join {s}.head on head.run = given.run order by head.id
on conflict (run) do update set body = excluded.body"""


class CatalogRows(Rows):
    """Implements the catalog."""

    async def summary(self, run: RunId) -> RunSummary | None:
        rows = await self._db.read(_SUMMARY, escape(run))
        return summary_of(run, rows[0][0]) if rows else None

    async def derived(self, run: RunId) -> Derived:
        rows = await self._db.read(_DERIVED, escape(run))
        if not rows:
            return Derived(None)
        head, columns, tags, waits = rows[0][:7], rows[0][7:16], rows[0][16], rows[0][17]
        faults: list[str] = []
        summary = self._derived_summary(run, columns, tags, faults)
        found: dict[str, Wait] = {}
        for name, kind, due, body in waits:
            wait = read_wait(body)
            if wait is None or (escape(wait.name), escape(wait.kind), wait.due) != (name, kind, due):
                faults.append(f"the row of the wait {name!r} cannot be decoded")
            else:
                found[wait.name] = wait
        return Derived(None if head[0] is None else Head(run, *head), summary, found, tuple(faults), rows[0][18])

    def _derived_summary(self, run: RunId, row: Any, tags: Any, faults: list[str]) -> RunSummary | None:
        if row[0] is None:
            return None
        try:
            summary = summary_of(run, row[-1])
        except Damaged as damage:
            faults.append(str(damage))
            return None
        faults += catalogue_faults(_COLUMNS, row, summary_row(summary), tags, [escape(tag) for tag in summary.tags])
        return summary

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        rows = await self._db.write(
            _REWRITE,
            escape(summary.run),
            closed,
            *summary_row(summary),
            [escape(tag) for tag in dict.fromkeys(summary.tags)],
            *transposed([wait_row(wait) for wait in waits], 4),
            is_repeatable=True,
        )
        return bool(rows[0][0])

    async def search(self, query: RunFilter) -> Page:
        sql, values = _search(query)
        rows = await self._db.read(sql, *values)
        return page_of((_listed(*row) for row in rows[: query.limit]), is_last=len(rows) <= query.limit)

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        rows = await self._db.write(
            _CORRECT,
            escape(summary.run),
            bounded(seen),
            *summary_row(summary),
            [escape(tag) for tag in dict.fromkeys(summary.tags)],
        )
        return bool(rows[0][0])

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        if scratch:
            await self._db.write(_NOTE, [escape(run) for run in scratch], list(scratch.values()), is_repeatable=True)


def _listed(run: str, created: int, status: str, workflow: str, body: bytes, scratch: bytes | None) -> Listed:
    try:
        return Listed(summary_of(run, body), scratch or b"")
    except Damaged:
        return Listed(unreadable(unescape(run), created, status, unescape(workflow)))


def _search(query: RunFilter) -> tuple[str, list[Any]]:
    check_limit(query.limit)
    terms, values = _terms(query)
    where = f"where {' and '.join(terms)}" if terms else ""
    sql = f"""
    select c.run, c.created, c.status, c.workflow, c.body, s.body
    from {{s}}.catalogue c left join {{s}}.scratch s on s.run = c.id
    {where} order by c.created desc, c.run desc limit ${len(values) + 1}"""
    return sql, [*values, bounded(query.limit) + 1]


def _terms(query: RunFilter) -> tuple[list[str], list[Any]]:
    terms: list[str] = []
    values: list[Any] = []

    def term(sql: str, *arguments: Any) -> None:
        names = [f"${len(values) + number}" for number in range(1, len(arguments) + 1)]
        terms.append(sql.format(*names, s="{s}"))
        values.extend(arguments)

    if query.statuses:
        term("c.status = any({0}::text[])", [str(status) for status in query.statuses])
    if query.workflow:
        term("c.workflow = {0} and left(c.workflow, 200) = left({0}, 200)", escape(query.workflow))
    if query.parent:
        term("c.parent = {0} and c.parent != ''", escape(query.parent))
    if query.roots:
        term("c.parent = ''")
    if query.exclusive:
        term("md5(c.exclusive) = md5({0}) and c.exclusive = {0} and c.exclusive != ''", escape(query.exclusive))
    for tag in query.tags:
        term("exists (select 1 from {s}.tag t where md5(t.tag) = md5({0}) and t.run = c.id)", escape(tag))
    if query.text:
        term("strpos(c.text, {0}) > 0", escape(query.text.casefold()))
    if query.created_from is not None:
        term("c.created >= {0}", bounded(query.created_from))
    if query.created_until is not None:
        term("c.created < {0}", bounded(query.created_until))
    if query.after:
        created, run = cursor(query.after)
        term("(c.created, c.run) < ({0}::bigint, {1}::text)", created, escape(run))
    return terms, values
