"""The text form of a comparison: two lineages side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from outlast.history.record import Entry
from outlast.lifecycle.comparison import Comparison, Row, Verdict
from outlast.lifecycle.timeline import text_of
from outlast.lifecycle.timeline.phrases import counted, cropped, plain
from outlast.views.lines import Line, line, padded, width_of

MAX_CHANGES = 6
"""Differences of one event that are shown without `everything`."""
MAX_ROWS = 200
"""Rows that are shown without `everything`."""
MAX_PIPE_COLUMN = 64
"""Columns of the left side if the width of the output is unlimited."""
NUMBER = 6
"""Columns of the number of an event."""
MARKS: dict[Verdict, str] = {"same": "=", "differs": "≠", "left": "<", "right": ">"}
STYLES: dict[Verdict, str] = {"same": "dim", "differs": "yellow", "left": "red", "right": "green"}


def lines(comparison: Comparison, width: int, *, is_pipe: bool = False, everything: bool = False) -> Iterator[Line]:
    """Both sides, the rows in two columns with their differences, and the summary. A pipe has no width: there the left
    column is as wide as its widest cell."""
    for name, side in (("left ", comparison.left), ("right", comparison.right)):
        ending = f", {side.ending}" if side.ending else ""
        yield line(f"{name}  {plain(side.run)}@{side.branch}  {counted(side.events, 'event')}{ending}")
    yield line()
    if comparison.shared:
        yield line(f"=  {_events('shared before the branches part', comparison.shared)}")
    left = max(24, (width - 4) // 2)
    if is_pipe:
        left = min(MAX_PIPE_COLUMN, max((width_of(_cell(row.left)) for row in comparison.rows), default=24))
    shown = 0
    for is_same, rows in groupby(comparison.rows, lambda row: row.verdict == "same" and not everything):
        if is_same:
            yield line(f"=  {_events('the same', len(list(rows)))}")
            continue
        for row in rows:
            if shown == MAX_ROWS and not everything:
                yield line("…  more rows; --all shows all")
            shown += 1
            if shown <= MAX_ROWS or everything:
                text = f"{MARKS[row.verdict]}  {padded(_cell(row.left), left)} {_cell(row.right)}".rstrip()
                yield line((text, STYLES[row.verdict]))
                yield from _changes(row, everything)
    yield line()
    yield line(summary(comparison))


def summary(comparison: Comparison) -> str:
    same = comparison.counts["same"] + comparison.shared
    order = f", {comparison.moved:,} of them in another order" if comparison.moved else ""
    if comparison.is_same:
        return f"Both are the same: {counted(same, 'event')}{order}."
    verbs: tuple[tuple[Verdict, str], ...] = (("differs", "different"), ("left", "only left"), ("right", "only right"))
    parts = [f"{comparison.counts[verdict]:,} {verb}" for verdict, verb in verbs if comparison.counts[verdict]]
    return f"{', '.join(parts)}; {counted(same, 'event')} the same{order}."


def _events(what: str, number: int) -> str:
    return f"{counted(number, 'event')} {'is' if number == 1 else 'are'} {what}"


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return ""
    return f"{entry.seq:>{NUMBER - 1}}  {type(entry.event).__name__} {text_of(entry.event, entry.time)}".rstrip()


def _changes(row: Row, everything: bool) -> Iterator[Line]:
    """`output.words: 206 → 207`."""
    indent, length = " " * (4 + NUMBER), 100_000 if everything else 60
    shown = row.changes if everything else row.changes[:MAX_CHANGES]
    for change in shown:
        old, new = (
            "(nothing)" if raw is None else cropped(bytes(raw).decode(errors="replace"), length)
            for raw in (change.old, change.new)
        )
        yield line(f"{indent}{plain(change.path)}: {old} → {new}")
    hidden = len(row.changes) - len(shown) + sum(change.more for change in row.changes)
    if hidden > 0:
        yield line(f"{indent}… {counted(hidden, 'difference')} more")
