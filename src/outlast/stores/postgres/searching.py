"""The statements of a search.

A list without rare conditions is read from an index in its order; with statuses, one index scan for each and a merge. Other
lists are tried twice: first among the first runs in their order, which suffices if many runs match, then by the index of a
rare condition (the beginning of an id, a tag, an attribute), and sorted. A text is looked for in a narrow table of all
texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from outlast.lifecycle.status import RunStatus
from outlast.store import AttributeFilter, RunFilter
from outlast.stores.postgres.attribute_keys import attribute_key, name_key
from outlast.stores.postgres.rows import escape
from outlast.stores.shared import attribute_cursor, bounded, comparable, cursor, is_descending

WALKED = 2000
"""The runs that the first attempt looks at."""
FEW, MANY = 1000, 10_000
"""Runs of some statuses in a list by an attribute: up to `FEW` are sorted, up to `MANY` are remembered during a walk through
the attribute, and of more the first ones are tried."""
_LAST = "\U0010ffff" * 4
"""Sorts after the rest of every id."""

_SHOWN = "c.run, c.created, c.status, c.workflow, c.body, (select s.body from {s}.scratch s where s.run = c.id)"


class _Terms:
    """Conditions of a statement, and the values of its parameters."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._terms: list[str] = []

    def add(self, sql: str, *arguments: Any) -> None:
        self._terms.append(sql.format(*map(self.value, arguments), s="{s}"))

    def value(self, value: Any) -> str:
        """Add a value. Return the name of its parameter."""
        self.values.append(value)
        return f"${len(self.values)}"

    def clear(self) -> None:
        """Drop the conditions, but not the values."""
        self._terms.clear()

    def where(self, *others: str) -> str:
        terms = [*self._terms, *others]
        return f"where {' and '.join(terms)}" if terms else ""


def first_found(query: RunFilter) -> tuple[str, list[Any]]:
    """Return the statement that looks at the first runs in the order of the list only. With a value of an attribute, these
    are the newest runs that have it."""
    terms = _Terms()
    source, columns, way = "{s}.catalogue c", ("c.created", "c.run"), "desc"
    same = [condition for condition in query.attributes if condition.operator == "="]
    others = query.attributes
    if query.order:
        source, columns = "{s}.attribute o", ("o.key", "o.id")
        way = _add_order(terms, query)
    elif same:
        source, columns = "{s}.attribute o", ("o.created", "o.id")
        terms.add("o.key = {0}", attribute_key(same[0].name, *comparable(same[0].value)))
        others = tuple(condition for condition in query.attributes if condition is not same[0])
        _add_place(terms, query, *columns)
    else:
        _add_place(terms, query, *columns)
    order = ", ".join(f"{column} {way}" for column in columns)
    walked = f"(select * from {source} {terms.where()} order by {order} limit {max(WALKED, 2 * query.limit)})"
    run = "c.id"
    if source == "{s}.catalogue c":
        walked = f"{walked} c"
    else:
        run = "o.run"  # so that the other tables are looked at before the catalogue
        walked = f"{walked} o cross join lateral (select * from {{s}}.catalogue c where c.id = o.run offset 0) c"
    terms.clear()
    if query.order:
        _add_place(terms, query, "c.created", "c.run")
    _add_common(terms, query)
    _add_rare(terms, query, others, run, is_driven=False)
    limit = terms.value(bounded(query.limit) + 1)
    return f"select {_SHOWN} from {walked} {terms.where()} order by {order} limit {limit}", terms.values


def all_found(query: RunFilter) -> tuple[str, list[Any]]:
    """Return the statement that finds all matching runs."""
    if query.order:
        return _by_attribute(query)
    terms = _Terms()
    _add_place(terms, query, "c.created", "c.run")
    _add_common(terms, query)
    if has_rare(query):
        _add_rare(terms, query, query.attributes, "c.id", is_driven=True)
        limit = terms.value(bounded(query.limit) + 1)
        order = "c.created + 0 desc, c.run desc"  # not the order of an index: a rare condition finds the runs
        return f"select {_SHOWN} from {{s}}.catalogue c {terms.where()} order by {order} limit {limit}", terms.values
    limit = terms.value(bounded(query.limit) + 1)
    statuses: Sequence[str] = ("",)
    if query.statuses or query.workflow:
        statuses = [terms.value(str(status)) for status in dict.fromkeys(query.statuses or RunStatus)]
    branches = [
        f"(select c.* from {{s}}.catalogue c {terms.where(*([f'c.status = {each}'] if each else []))}"
        f" order by c.created desc, c.run desc limit {limit})"
        for each in statuses
    ]
    found = " union all ".join(branches)
    return f"select {_SHOWN} from ({found}) c order by c.created desc, c.run desc limit {limit}", terms.values


def _by_attribute(query: RunFilter) -> tuple[str, list[Any]]:
    """Return the statement of a list in the order of an attribute. If rare conditions find the runs, they are sorted."""
    terms = _Terms()
    way = _add_order(terms, query)
    _add_place(terms, query, "c.created", "c.run")
    _add_common(terms, query)
    _add_rare(terms, query, query.attributes, "c.id", is_driven=True)
    key = "o.key || ''" if is_narrowed(query) else "o.key"
    limit = terms.value(bounded(query.limit) + 1)
    return (
        f"""
    select {_SHOWN} from {{s}}.attribute o join {{s}}.catalogue c on c.id = o.run
    {terms.where()} order by {key} {way}, o.id {way} limit {limit}""",
        terms.values,
    )


def statuses_counted(query: RunFilter) -> tuple[str, list[Any]]:
    """Return the statement that counts the runs of the statuses, up to more than `MANY`."""
    terms = _Terms()
    terms.add("c.status = any({0}::text[])", [str(status) for status in query.statuses])
    return f"select count(*) from (select from {{s}}.catalogue c {terms.where()} limit {MANY + 1}) c", terms.values


def walked_by_status(query: RunFilter) -> tuple[str, list[Any]]:
    """Return the statement of a list in the order of an attribute that walks through the attribute's index and skips the
    runs of other statuses. It reads both from indexes alone."""
    terms = _Terms()
    terms.add("c.status = any({0}::text[])", [str(status) for status in query.statuses])
    wanted = f"select c.run from {{s}}.catalogue c {terms.where()} limit {MANY}"
    terms.clear()
    way = _add_order(terms, query)
    limit = terms.value(bounded(query.limit) + 1)
    walked = terms.where(f"(o.id in ({wanted})) is true")  # a table in memory, not a join
    order = f"order by o.key {way}, o.id {way} limit {limit}"
    return (
        f"""
    select {_SHOWN} from (select o.key, o.id from {{s}}.attribute o {walked} {order}) o
    join {{s}}.head h on h.run = o.id join {{s}}.catalogue c on c.id = h.id order by o.key {way}, o.id {way}""",
        terms.values,
    )


def _add_order(terms: _Terms, query: RunFilter) -> str:
    """Add the condition that a run has the attribute of the order and comes after the cursor. Return the direction."""
    name, way, compare = query.order.removeprefix("-"), "asc", ">"
    if is_descending(query.order):
        way, compare = "desc", "<"
    terms.add("o.key >= {0} and o.key < {1}", name_key(name, 0), name_key(name, 9))
    if query.after:
        kind, value, run = attribute_cursor(query.after)
        terms.add(f"(o.key, o.id) {compare} ({{0}}::text, {{1}}::text)", attribute_key(name, kind, value), escape(run))
    return way


def _add_place(terms: _Terms, query: RunFilter, created: str, run: str) -> None:
    """Add the times of creation, and the cursor of a list in this order."""
    if query.created_from is not None:
        terms.add(created + " >= {0}", bounded(query.created_from))
    if query.created_until is not None:
        terms.add(created + " < {0}", bounded(query.created_until))
    if query.after and not query.order:
        last, last_run = cursor(query.after)
        terms.add(f"({created}, {run}) < ({{0}}::bigint, {{1}}::text)", last, escape(last_run))


def _add_common(terms: _Terms, query: RunFilter) -> None:
    """Add the conditions that an index in the order of the list serves."""
    if query.statuses and (query.order or has_rare(query)):
        terms.add("c.status = any({0}::text[])", [str(status) for status in query.statuses])
    if query.workflow:
        terms.add("{s}.short(c.workflow) = {s}.short({0})", escape(query.workflow))
    if query.parent:
        terms.add("c.parent = {0} and c.parent != ''", escape(query.parent))
    if query.roots:
        terms.add("c.parent = ''")
    if query.queue:
        terms.add("{s}.short(c.queue) = {s}.short({0}) and c.queue != ''", escape(query.queue))
    if query.held is not None:
        terms.add("c.held" if query.held else "not c.held")


def _add_rare(
    terms: _Terms, query: RunFilter, attributes: Sequence[AttributeFilter], run: str, *, is_driven: bool
) -> None:
    """Add the other conditions, so that an index finds the runs (`is_driven`), or checked run by run: a scalar subquery is
    not turned into a join. `run` is the column with the number of the run."""
    for tag in query.tags:
        _add_row(
            terms, f"{{s}}.tag t where t.run = {run} and md5(t.tag) = md5({{0}})", escape(tag), is_driven=is_driven
        )
    if query.text:
        _add_text(terms, escape(query.text.casefold()), run, is_driven=is_driven)
    if query.prefix:
        prefix = escape(query.prefix)
        if is_driven:
            found = "select h.id from {s}.head h where h.run between {0} and {1} and starts_with(h.run, {0})"
            terms.add(f"c.id in ({found})", prefix, prefix + _LAST)
        else:
            terms.add("starts_with(c.run, {0})", prefix)
    for condition in attributes:
        kind, value = comparable(condition.value)
        key, compare = attribute_key(condition.name, kind, value), condition.operator
        first, last = name_key(condition.name, kind), name_key(condition.name, kind + 1)
        match = "a.key = {0}" if compare == "=" else f"a.key {compare} {{0}} and a.key >= {{1}} and a.key < {{2}}"
        rows = f"{{s}}.attribute a where a.run = {run} and {match}"
        _add_row(terms, rows, key, *([] if compare == "=" else [first, last]), is_driven=is_driven)


def _add_row(terms: _Terms, rows: str, *values: Any, is_driven: bool) -> None:
    terms.add(f"exists (select 1 from {rows})" if is_driven else f"(select true from {rows} limit 1)", *values)


def _add_text(terms: _Terms, text: str, run: str, *, is_driven: bool) -> None:
    """Add a condition on the text. `strpos` is faster than `like`, which a trigram index of the server serves if an
    administrator has made one."""
    if is_driven:
        pattern = "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
        found = "select k.run from {s}.search_text k where strpos(k.text, {0}) > 0 and k.text like {1}"
        terms.add(f"c.id = any(array({found}))", text, pattern)
    else:
        terms.add(f"(select strpos(k.text, {{0}}) > 0 from {{s}}.search_text k where k.run = {run})", text)


def has_rare(query: RunFilter) -> bool:
    """Return whether the list has conditions that no index in its order serves."""
    return bool(query.tags or query.text or query.prefix or query.attributes)


def is_narrowed(query: RunFilter) -> bool:
    """Return whether the list has conditions besides those of its order and its times."""
    narrow = query.statuses or query.workflow or query.parent or query.queue or query.held is not None
    return has_rare(query) or bool(narrow)


def is_by_status(query: RunFilter) -> bool:
    """Return whether a list in the order of an attribute has a condition on the status, and no other."""
    has_times = query.created_from is not None or query.created_until is not None
    return bool(query.order and query.statuses) and not has_times and not is_narrowed(replace(query, statuses=()))


def has_two_ways(query: RunFilter) -> bool:
    """Return whether the first runs of the list are tried before all others."""
    return is_narrowed(query) if query.order else has_rare(query)
