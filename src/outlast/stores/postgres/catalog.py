"""The catalog of a PostgreSQL store: summaries, tags and scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.errors import Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Derived, Head, Listed, Page, RunFilter, unreadable
from outlast.stores.postgres.attribute_keys import attribute_keys
from outlast.stores.postgres.batches import summary_row, tag_rows, transposed, wait_row
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.postgres.searching import (
    FEW,
    MANY,
    all_found,
    first_found,
    has_two_ways,
    is_by_status,
    statuses_counted,
    walked_by_status,
)
from outlast.stores.shared import bounded, catalogue_faults, check_limit, page_of, read_wait, summary_of

_SUMMARY = "select body from {s}.catalogue where id = (select id from {s}.head where run = $1)"
_CORRECT = "select {s}.correct($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
_COLUMNS = (
    *("at", "status", "workflow", "parent", "queue", "priority", "fairness_key", "held", "created", "updated", "body"),
    "text",
)
_DERIVED = """
select h.version, h.digest, h.epoch, h.branch, h.branch_first, h.closed, h.ready,
    c.at, c.status, c.workflow, c.parent, c.queue, c.priority, c.fairness_key, c.held, c.created, c.updated, c.body,
    (select k.text from {s}.search_text k where k.run = c.id),
    array(select t.tag from {s}.tag t where t.run = coalesce(h.id, c.id)),
    array(select row(w.name, w.kind, w.due, w.body) from {s}.wait w where w.run = coalesce(h.id, c.id)),
    coalesce(h.interrupted, '') != '',
    array(select a.key from {s}.attribute a where a.run = c.id and a.id = c.run and a.created = c.created),
    not exists (
        select 1 from {s}.claimable_rows(array[h.id]) r where not exists (
            select 1 from {s}.claimable k
            where (k.run, k.workflow, k.fairness_key, k.queue, k.priority, k.created)
                = (r.run, r.workflow, r.fairness_key, r.queue, r.priority, r.created) and k.due in (0, r.due)))
from (select $1::text as run) given left join {s}.head h on h.run = given.run
left join {s}.catalogue c on c.id = coalesce(h.id, (select o.id from {s}.catalogue o where o.run = given.run limit 1))"""
_REWRITE = f"select {{s}}.rewrite({', '.join(f'${number}' for number in range(1, 21))})"
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
        head, columns = rows[0][:7], rows[0][7:19]
        tags, waits, is_interrupted, attributes, is_in_place = rows[0][19:]
        faults: list[str] = []
        summary = self._derived_summary(run, columns, tags, attributes, faults)
        if not is_in_place:
            faults.append("the row by which workers find the run is missing or differs from its other rows")
        found: dict[str, Wait] = {}
        for name, kind, due, body in waits:
            wait = read_wait(body)
            if wait is None or (escape(wait.name), escape(wait.kind), wait.due) != (name, kind, due):
                faults.append(f"the row of the wait {name!r} cannot be decoded")
            else:
                found[wait.name] = wait
        return Derived(None if head[0] is None else Head(run, *head), summary, found, tuple(faults), is_interrupted)

    def _derived_summary(
        self, run: RunId, row: Any, tags: Any, attributes: Any, faults: list[str]
    ) -> RunSummary | None:
        if row[0] is None:
            return None
        try:
            summary = summary_of(run, row[_COLUMNS.index("body")])
        except Damaged as damage:
            faults.append(str(damage))
            return None
        faults += catalogue_faults(_COLUMNS, row, summary_row(summary), tags, tag_rows(summary))
        if sorted(attributes) != sorted(attribute_keys(summary)):
            faults.append("the table of attributes has others than the catalogue's record")
        return summary

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        rows = await self._db.write(
            _REWRITE,
            escape(summary.run),
            closed,
            *_summary_values(summary),
            *transposed([wait_row(wait) for wait in waits], 4),
            is_repeatable=True,
        )
        return bool(rows[0][0])

    async def search(self, query: RunFilter) -> Page:
        check_limit(query.limit)
        rows: list[Any] = []
        count = await self._count(query)
        if has_two_ways(query) and count > MANY:
            sql, values = first_found(query)
            rows = await self._db.read(sql, *values)
        if len(rows) <= query.limit:
            sql, values = walked_by_status(query) if FEW < count <= MANY else all_found(query)
            rows = await self._db.read(sql, *values, is_planned=True)
        shown = (_listed(*row) for row in rows[: query.limit])
        return page_of(shown, is_last=len(rows) <= query.limit, order=query.order)

    async def _count(self, query: RunFilter) -> int:
        """Return how many runs have the statuses of a list in the order of an attribute without other conditions; more
        than `MANY` for any other list."""
        if not is_by_status(query):
            return MANY + 1
        sql, values = statuses_counted(query)
        count: int = (await self._db.read(sql, *values))[0][0]
        return count

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        rows = await self._db.write(
            _CORRECT,
            escape(summary.run),
            bounded(seen),
            *_summary_values(summary),
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


def _summary_values(summary: RunSummary) -> tuple[Any, ...]:
    return *summary_row(summary), tag_rows(summary), attribute_keys(summary)
