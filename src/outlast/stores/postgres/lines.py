"""The lines of a PostgreSQL store. The server numbers them with a counter per run, which it locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outlast.history.ids import RunId
from outlast.store import LINES_PER_ATTEMPT, Line
from outlast.stores.postgres.batches import transposed
from outlast.stores.postgres.rows import Rows, escape, unescape
from outlast.stores.shared import bounded, check_limit

_KEEP = "select {s}.keep($1, $2, $3, $4, $5, $6, $7, $8)"
_LINES = """
select node, attempt, time, level, logger, text, number, place from {{s}}.line
where run = (select id from {{s}}.head where run = $1) and number > $2 {} order by number limit $3"""


class LineRows(Rows):
    """Implements the lines."""

    async def keep(self, lines: Sequence[Line]) -> None:
        self._db.require_writable()
        if not lines:
            return
        rows = [
            (
                escape(each.run),
                escape(each.node),
                each.attempt,
                each.time,
                *map(escape, (each.level, each.logger, each.text)),
            )
            for each in lines
        ]
        await self._db.write(_KEEP, *transposed(rows, 7), LINES_PER_ATTEMPT)

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        check_limit(limit)
        terms, values = "", list[Any]()
        if node:
            values.append(escape(node))
            terms = f"and md5(node) = md5(${len(values) + 3})"
        if attempt is not None:
            values.append(bounded(attempt))
            terms += f" and attempt = ${len(values) + 3}"
        rows = await self._db.read(_LINES.format(terms), escape(run), bounded(after), bounded(limit), *values)
        return [
            Line(run, unescape(node), attempt, time, unescape(level), unescape(logger), unescape(text), number, place)
            for node, attempt, time, level, logger, text, number, place in rows
        ]
