"""Lists of runs in SQLite: which index a list is read from, and the index of the texts.

A list has an order, by creation or by an attribute. If a condition other than that of the index leaves few runs, those are
read and sorted. Else the runs are read in their order until the page is full, which is soon if many runs match.

Appends do not write the index of the texts, which costs as much as the rest of a small append. The checkpointer adds rows to
it, many at a time; the few that it does not have yet are compared one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from outlast.history.events import AttributeValue
from outlast.lifecycle.status import RunStatus
from outlast.store import AttributeFilter, RunFilter
from outlast.stores.shared import attribute_cursor, bounded, comparable, cursor, is_descending

FEW = 3000
"""Runs that are read and sorted rather than searched for in their order."""
TRIGRAMS = 20
"""The most trigrams of a text that are looked up; the text itself is compared too."""
INDEXED_TOGETHER = 200
"""Texts that are indexed in one transaction. Fewer new ones wait."""
_LARGEST_TEXT = chr(0x10FFFF)
_LARGEST_NUMBER = (1 << 63) - 1

_SHOWN = """
cast(c.run as blob), iif(typeof(c.created) = 'integer', c.created, 0), cast(c.status as blob), cast(c.workflow as blob),
cast(c.body as blob), cast(scratch.body as blob)"""
_PAGE = f"select {_SHOWN} from ({{}}) found join catalogue c using (id) left join scratch on scratch.run = c.id"
_COUNT = "select count(*) from ({} limit ?)"
_BY_PREFIX = "select id from head where run >= ? and run < ?"
_BY_STATUS = "select id from catalogue where status = ?"
_BY_TEXT = f"""
select id from (select rowid as id from run_text where run_text match ? limit {FEW + 1})
union select id from text_changed
union select id from (
    select id from catalogue where id > (select ifnull(max(id), 0) from run_text_docsize) limit {FEW + 1})"""
"""The runs whose trigrams match, and those that are not indexed yet."""
_BY_TRIGRAM = "select rowid from run_text where run_text match ?"
_HAS_ATTRIBUTE = "exists (select 1 from attribute where id = c.id and name = ? and kind = ? and value {} ?)"
_LAST_INDEXED = "select ifnull(max(id), 0) from run_text_docsize"
_WAITING = f"""
select (select ifnull(max(id), 0) from catalogue) - ({_LAST_INDEXED}) >= {INDEXED_TOGETHER}
    or (select count(*) from (select 1 from text_changed limit {INDEXED_TOGETHER})) = {INDEXED_TOGETHER}"""
_CHANGED = f"select id from text_changed order by id limit {INDEXED_TOGETHER}"
_INDEX_CHANGED = "insert into run_text (rowid, text) select id, text from catalogue where id = ? and id <= ?"
_INDEX_NEW = f"""
insert into run_text (rowid, text)
select id, text from catalogue where id > ? order by id limit {INDEXED_TOGETHER}"""


class Part(NamedTuple):
    """A condition, or a query of row ids, with its values."""

    sql: str
    values: tuple[Any, ...] = ()


def found_rows(db: apsw.Connection, query: RunFilter) -> list[tuple[Any, ...]]:
    """Return the rows of a page, and one more if there is one."""
    selective = _selective(db, query)
    if query.order:
        part = _by_attribute(query, selective)
    elif selective is not None:
        part = _sorted(query, selective)
    else:
        part = _in_order(query)
    order = "found.place desc, c.run desc" if is_descending(query.order) else "found.place, c.run"
    kind = ("found.kind desc, " if is_descending(query.order) else "found.kind, ") if query.order else ""
    return db.execute(f"{_PAGE.format(part.sql)} order by {kind}{order}", part.values).fetchall()


def attribute_row(name: str, value: AttributeValue) -> tuple[str, int, int | float | str]:
    """Return the columns `name`, `kind` and `value` of an attribute. Integers beyond 64 bits are stored as floats."""
    kind, found = comparable(value)
    return name, kind, _number(found)


def _number(value: float | str) -> float | str:
    return float(value) if isinstance(value, int) and abs(value) > _LARGEST_NUMBER else value


# --- the index of the texts --------------------------------------------------------------------------------------------


def are_texts_new(db: apsw.Connection) -> bool:
    """Return whether many texts are not indexed yet."""
    return bool(db.execute(_WAITING).get)


def index_texts(db: apsw.Connection) -> None:
    """Index some of the texts that are not indexed yet, in the caller's transaction."""
    last = db.execute(_LAST_INDEXED).get
    changed = [(id,) for (id,) in db.execute(_CHANGED).fetchall()]
    db.executemany("delete from run_text where rowid = ?", changed)
    db.executemany(_INDEX_CHANGED, [(id, last) for (id,) in changed])
    db.executemany("delete from text_changed where id = ?", changed)
    db.execute(_INDEX_NEW, (last,))


# --- few runs ----------------------------------------------------------------------------------------------------------


def _selective(db: apsw.Connection, query: RunFilter) -> Part | None:
    """Return the condition that leaves the fewest runs, as a query of their ids, unless all leave many."""
    best, fewest = None, FEW + 1
    if query.prefix and not db.execute(_COUNT.format(_BY_PREFIX), (*_prefix(query), 1)).get:
        return None  # a run whose head is lost can still be found in the catalogue
    for part in _sources(db, query):
        number = db.execute(_COUNT.format(part.sql), (*part.values, fewest)).get
        if number < fewest:
            best, fewest = part, number
    return best


def _sources(db: apsw.Connection, query: RunFilter) -> list[Part]:
    found = [Part("select run as id from tag where tag = ?", (tag,)) for tag in query.tags]
    if query.prefix:
        found.append(Part(_BY_PREFIX, _prefix(query)))
    for each in query.attributes:
        sql = f"select id from attribute where name = ? and kind = ? and value {each.operator} ?"
        found.append(Part(sql, attribute_row(each.name, each.value)))
    text = query.text.casefold()
    if len(text) >= 3 and "\0" not in text:
        found.append(Part(_BY_TEXT, (_match(db, text),)))
    if query.order and query.statuses:
        sql = " union all ".join([_BY_STATUS] * len(query.statuses))
        found.append(Part(sql, query.statuses))
    if query.order and query.parent:
        found.append(Part("select id from catalogue where parent = ? and parent != ''", (query.parent,)))
    return found


def _prefix(query: RunFilter) -> tuple[str, str]:
    return query.prefix, query.prefix + _LARGEST_TEXT


def _match(db: apsw.Connection, text: str) -> str:
    """Return the condition on the trigrams of a text: the rarest of them, or all if each is in many texts."""
    trigrams = dict.fromkeys(text[at : at + 3] for at in range(min(len(text) - 2, TRIGRAMS)))
    quoted = ['"' + trigram.replace('"', '""') + '"' for trigram in trigrams]
    numbers = {trigram: db.execute(_COUNT.format(_BY_TRIGRAM), (trigram, FEW + 1)).get for trigram in quoted}
    rare = sorted((trigram for trigram in quoted if numbers[trigram] <= FEW), key=numbers.__getitem__)
    return " AND ".join(rare[:3] or quoted)


def _sorted(query: RunFilter, source: Part) -> Part:
    where = _conditions(query)
    sql = f"""
    select c.id, c.created as place from ({source.sql}) source cross join catalogue c on c.id = source.id
    {where.sql} order by c.created desc, c.run desc limit ?"""
    return Part(sql, (*source.values, *where.values, bounded(query.limit) + 1))


# --- many runs, in their order -----------------------------------------------------------------------------------------


def _in_order(query: RunFilter) -> Part:
    """Read the index of the condition that leaves the fewest runs, from the newest on."""
    where, limit = _conditions(query), bounded(query.limit) + 1
    parts: list[Part] = []
    for index, first in _indexes(query):
        sql = f"""
        select * from (select c.id, c.created as place, c.run from catalogue c indexed by {index}
        {where.sql or "where 1"} {first.sql} order by c.created desc, c.run desc limit ?)"""
        parts.append(Part(sql, (*where.values, *first.values, limit)))
    if len(parts) == 1:
        return parts[0]
    sql = " union all ".join(part.sql for part in parts)
    values = [value for part in parts for value in part.values]
    return Part(f"select * from ({sql}) order by place desc, run desc limit ?", (*values, limit))


def _indexes(query: RunFilter) -> list[tuple[str, Part]]:
    """Return the index to read, with the condition that it needs; several, if a list merges the runs of each status."""
    if query.parent:
        return [("catalogue_parent", Part("and c.parent != ''"))]
    if query.held:
        return [("catalogue_held", Part("and c.held = 1"))]
    if query.workflow:
        statuses: Sequence[str] = query.statuses or tuple(RunStatus)
        return [("catalogue_workflow", Part("and c.status = ?", (status,))) for status in dict.fromkeys(statuses)]
    if query.queue:
        return [("catalogue_queue", Part("and c.queue != ''"))]
    if query.statuses:
        statuses = tuple(dict.fromkeys(query.statuses))
        return [("catalogue_status", Part("and c.status = ?", (status,))) for status in statuses]
    return [("catalogue_created", Part(""))]


def _by_attribute(query: RunFilter, source: Part | None) -> Part:
    where, name = _conditions(query), query.order.removeprefix("-")
    down = " desc" if is_descending(query.order) else ""
    after = Part("")
    if query.after:
        kind, value, run = attribute_cursor(query.after)
        after = Part(f"and (a.kind, a.value, a.run) {'<' if down else '>'} (?, ?, ?)", (kind, _number(value), run))
    if source is None:
        tables, values = "attribute a cross join catalogue c on c.id = a.id", ()
    else:
        tables = f"({source.sql}) source cross join catalogue c on c.id = source.id join attribute a on a.id = c.id"
        values = source.values
    sql = f"""
    select c.id, a.kind as kind, a.value as place from {tables} {where.sql or "where 1"} and a.name = ? {after.sql}
    order by a.kind{down}, a.value{down}, a.run{down} limit ?"""
    return Part(sql, (*values, *where.values, name, *after.values, bounded(query.limit) + 1))


# --- conditions --------------------------------------------------------------------------------------------------------


def _conditions(query: RunFilter) -> Part:
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
        term("c.parent = ?", query.parent)
    if query.roots:
        term("c.parent = ''")
    if query.queue:
        term("c.queue = ?", query.queue)
    if query.held is not None:
        term("c.held = ?", query.held)
    for tag in query.tags:
        term("exists (select 1 from tag where tag.tag = ? and tag.run = c.id)", tag)
    for each in query.attributes:
        term(_attribute_condition(each), *attribute_row(each.name, each.value))
    if query.prefix:
        term("substr(c.run, 1, length(?)) = ?", query.prefix, query.prefix)
    if query.text:
        term("instr(c.text, ?) > 0", query.text.casefold())
    if query.created_from is not None:
        term("c.created >= ?", bounded(query.created_from))
    if query.created_until is not None:
        term("c.created < ?", bounded(query.created_until))
    if query.after and not query.order:
        term("(c.created, c.run) < (?, ?)", *cursor(query.after))
    return Part(f"where {' and '.join(terms)}" if terms else "", tuple(values))


def _attribute_condition(each: AttributeFilter) -> str:
    return _HAS_ATTRIBUTE.format(each.operator)
