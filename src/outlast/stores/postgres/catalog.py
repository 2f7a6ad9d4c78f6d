"""Summaries in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from outlast.errors import BadInput, Damaged
from outlast.history.ids import RunId
from outlast.lifecycle.summary import Summary
from outlast.store import Listed, Page, Query, search_text
from outlast.stores.postgres.rows import Rows, bounded, kept

_SUMMARY = "select body from {s}.catalogue where id = (select id from {s}.head where run = $1)"
_CORRECT = "select {s}.correct($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
_NOTE = """
insert into {s}.scratch (run, body)
select head.id, given.body from unnest($1::text[], $2::bytea[]) as given (run, body)
join {s}.head on head.run = given.run order by head.id
on conflict (run) do update set body = excluded.body"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Summary).decode


class CatalogRows(Rows):
    """The catalog's part of the store."""

    async def summary(self, run: RunId) -> Summary | None:
        rows = await self._db.read(_SUMMARY, kept(run))
        return _summary(run, rows[0][0]) if rows else None

    async def search(self, query: Query) -> Page:
        sql, values = _search(query)
        rows = await self._db.read(sql, *values)
        shown = [Listed(_summary(run, body), scratch or b"") for run, body, scratch in rows[: query.limit]]
        last = shown[-1].summary if len(rows) > query.limit else None
        return Page(tuple(shown), f"{last.created}:{last.run}" if last else "")

    async def correct(self, summary: Summary, seen: int) -> bool:
        rows = await self._db.write(
            _CORRECT,
            kept(summary.run),
            bounded(seen),
            summary.at,
            str(summary.status),
            kept(summary.workflow),
            kept(summary.parent),
            summary.created,
            summary.updated,
            kept(search_text(summary)),
            _encode(summary),
            [kept(tag) for tag in dict.fromkeys(summary.tags)],
        )
        return bool(rows[0][0])

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        if scratch:
            await self._db.write(_NOTE, [kept(run) for run in scratch], list(scratch.values()), is_repeatable=True)


def _summary(run: str, body: Any) -> Summary:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise Damaged(f"the summary does not read: {error}", run=run) from error


def _search(query: Query) -> tuple[str, list[Any]]:
    if query.limit < 1:
        raise BadInput(f"a page holds at least one run, not {query.limit}")
    terms, values = _terms(query)
    where = f"where {' and '.join(terms)}" if terms else ""
    sql = f"""
    select c.run, c.body, s.body from {{s}}.catalogue c left join {{s}}.scratch s on s.run = c.id
    {where} order by c.created desc, c.run desc limit ${len(values) + 1}"""
    return sql, [*values, bounded(query.limit) + 1]


def _terms(query: Query) -> tuple[list[str], list[Any]]:
    terms: list[str] = []
    values: list[Any] = []

    def term(sql: str, *arguments: Any) -> None:
        names = [f"${len(values) + number}" for number in range(1, len(arguments) + 1)]
        terms.append(sql.format(*names, s="{s}"))
        values.extend(arguments)

    if query.statuses:
        term("c.status = any({0}::text[])", [str(status) for status in query.statuses])
    if query.workflow:
        term("c.workflow = {0} and left(c.workflow, 200) = left({0}, 200)", kept(query.workflow))
    if query.parent:
        term("c.parent = {0} and c.parent != ''", kept(query.parent))
    for tag in query.tags:
        term("exists (select 1 from {s}.tag t where md5(t.tag) = md5({0}) and t.run = c.id)", kept(tag))
    if query.text:
        term("strpos(c.text, {0}) > 0", kept(query.text.casefold()))
    if query.created_from is not None:
        term("c.created >= {0}", bounded(query.created_from))
    if query.created_until is not None:
        term("c.created < {0}", bounded(query.created_until))
    if query.after:
        created, run = _cursor(query.after)
        term("(c.created, c.run) < ({0}::bigint, {1}::text)", created, kept(run))
    return terms, values


def _cursor(after: str) -> tuple[int, str]:
    created, separator, run = after.partition(":")
    if not separator or not re.fullmatch(r"-?[0-9]{1,18}", created):
        raise BadInput(f"{after!r} is not a cursor of a list; use the one a page came with")
    return int(created), run
