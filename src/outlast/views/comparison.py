"""The text form of a comparison: two lineages side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from outlast.history.record import Entry
from outlast.lifecycle.comparison import Comparison, Row, Side, Verdict
from outlast.lifecycle.difference import Change
from outlast.lifecycle.timeline import text_of
from outlast.lifecycle.timeline.phrases import counted, cropped, plain

__all__ = ["Change", "Comparison", "Line", "Row", "Side", "Verdict", "lines", "summary"]

MAX_CHANGES = 6
"""Differences of one event that are shown, unless all are asked for."""
NUMBER = 6
"""Columns of the number of an event."""
MARKS: dict[Verdict, str] = {"same": "=", "differs": "≠", "left": "<", "right": ">"}


class Line(NamedTuple):
    """One line. A row has an event in `left`, in `right` or in both; other lines have `left` alone."""

    left: str
    right: str = ""
    verdict: Verdict = "same"
    is_row: bool = False


def lines(told: Comparison, *, everything: bool = False) -> Iterator[Line]:
    """Both sides, the rows with their differences, and the summary."""
    for name, side in (("left ", told.left), ("right", told.right)):
        ending = f", {side.ending}" if side.ending else ""
        yield Line(f"{name}  {plain(side.run)}@{side.branch}  {counted(side.events, 'event')}{ending}")
    yield Line("")
    if told.shared:
        yield Line(f"=  {_events('shared before the branches part', told.shared)}")
    for is_same, rows in groupby(told.rows, lambda row: row.verdict == "same" and not everything):
        if is_same:
            yield Line(f"=  {_events('the same', len(list(rows)))}")
            continue
        for row in rows:
            yield Line(_cell(row.left), _cell(row.right), row.verdict, is_row=True)
            yield from _changes(row, everything)
    yield Line("")
    yield Line(summary(told))


def summary(told: Comparison) -> str:
    same = told.counts["same"] + told.shared
    order = f", {told.moved:,} of them in another order" if told.moved else ""
    if told.is_same:
        return f"Both are the same: {counted(same, 'event')}{order}."
    verbs: tuple[tuple[Verdict, str], ...] = (("differs", "different"), ("left", "only left"), ("right", "only right"))
    parts = [f"{told.counts[verdict]:,} {verb}" for verdict, verb in verbs if told.counts[verdict]]
    return f"{', '.join(parts)}; {counted(same, 'event')} the same{order}."


def _events(what: str, number: int) -> str:
    return f"{counted(number, 'event')} {'is' if number == 1 else 'are'} {what}"


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return ""
    return f"{entry.seq:>{NUMBER - 1}}  {type(entry.event).__name__} {text_of(entry.event, entry.time)}".rstrip()


def _changes(row: Row, everything: bool) -> Iterator[Line]:
    """`output.words: 206 → 207`."""
    shown = row.changes if everything else row.changes[:MAX_CHANGES]
    for change in shown:
        old, new = (
            "(nothing)" if raw is None else cropped(bytes(raw).decode(errors="replace"), 100_000 if everything else 60)
            for raw in (change.old, change.new)
        )
        yield Line(f"{' ' * (4 + NUMBER)}{plain(change.path)}: {old} → {new}")
    hidden = len(row.changes) - len(shown) + sum(change.more for change in row.changes)
    if hidden > 0:
        yield Line(f"{' ' * (4 + NUMBER)}… {counted(hidden, 'difference')} more")
