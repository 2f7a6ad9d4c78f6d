"""`outlast compare`: two lineages side by side, event by event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.console import screen, show_line, write_json
from outlast.cli.entrypoint import DIFFERS, FAILED, SOUND, carry_out
from outlast.cli.event_format import details, place
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.cli.run_argument import BranchArgument, found
from outlast.client import Entry
from outlast.compose import open_desk
from outlast.lifecycle.comparison import Comparison, Row, Side, Verdict
from outlast.lifecycle.difference import Change
from outlast.settings import Settings
from outlast.views.build import comparison_view
from outlast.views.texts import counted, cropped, plain

SHOWN = 200
"""Rows that are shown, unless all are asked for."""
SHOWN_CHANGES = 6
"""Differences of one event that are shown, unless all are asked for."""
WIDEST = 64
"""Columns of one side on a pipe, which has no width of its own."""
WIDE = 1000
"""A screen wider than that is a pipe."""
NUMBER = 6
"""Columns of the number of an event."""

MARKS: dict[Verdict, tuple[str, str]] = {
    "same": ("=", "dim"),
    "differs": ("≠", "yellow"),
    "left": ("<", "red"),
    "right": (">", "green"),
}


def compare(
    ctx: typer.Context,
    left: BranchArgument,
    right: Annotated[
        str | None,
        typer.Argument(
            help="What to compare it with, also as OTHER@2; without it, RUN with the branch before.",
            metavar="OTHER",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Every event and whole values, also where both are the same.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if the two differ, as diff does, and with 0 if not.")
    ] = False,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Compare two runs, or two branches of a run, event by event.

    Events are matched by what they are about. A line begins with = if both sides have the same,
    with ≠ if both have it and it differs, with < or > if only the left or the right has it.
    Times, durations, epochs and workers are no difference.

    \b
    outlast compare 01a1e436-2c39
    outlast compare 01a1e436-2c39@1 01a1e436-2c39@3
    outlast compare monday tuesday -o json | jq '.rows[] | select(.verdict != "same")'
    """

    async def compared() -> int:
        is_same = await _compare(settings_of(ctx, store), left, right, everything, output)
        return DIFFERS if exit_code and not is_same else SOUND

    carry_out(compared, damaged=FAILED)


async def _compare(settings: Settings, left: str, right: str | None, everything: bool, form: Form) -> bool:
    async with open_desk(settings, readonly=True) as desk:
        run, branch = await found(desk, left)
        if right is None:
            comparison = await desk.compare(run, branch=branch)
        else:
            other, other_branch = await found(desk, right)
            comparison = await desk.compare(run, other, branch=branch, other_branch=other_branch)
    if form is Form.JSON:
        write_json(comparison_view(comparison), pretty=True)
    else:
        Page(screen(), comparison, everything=everything).show()
    return comparison.is_same


# --- for people


class Page:
    """A comparison on the screen: the two sides, the rows in two columns, the sum."""

    def __init__(self, console: Console, comparison: Comparison, *, everything: bool) -> None:
        self._console, self._told, self._everything = console, comparison, everything
        room = (console.width - 4) // 2
        self._width = max(24, room) if console.width < WIDE else self._widest()

    def show(self) -> None:
        self._sides()
        for shown, row in enumerate(self._rows()):
            if shown == SHOWN and not self._everything:
                self._line(Text("…  more follows; all of it with --all", style="dim"))
                break
            self._line(row)
        self._line(Text())
        self._line(Text(in_words(self._told), style="bold"))

    def _sides(self) -> None:
        told = self._told
        for name, side in (("left ", told.left), ("right", told.right)):
            self._line(Text.assemble((f"{name}  ", "bold cyan"), side_in_words(side)))
        self._line(Text())
        if told.shared:
            many = "event 1 is shared" if told.shared == 1 else f"the first {counted(told.shared, 'event')} are shared"
            parting = ": the branches part after that" if told.rows else ""
            self._line(Text(f"=  {many}{parting}", style="dim"))

    def _rows(self) -> Iterator[Text]:
        alike: list[Row] = []
        for row in self._told.rows:
            if row.verdict == "same" and not self._everything:
                alike.append(row)
                continue
            yield from self._alike(alike)
            alike = []
            yield self._row(row)
            yield from self._changes(row)
        yield from self._alike(alike)

    def _alike(self, rows: list[Row]) -> Iterator[Text]:
        if rows:
            many = "event is the same" if len(rows) == 1 else "events are the same"
            yield Text(f"=  {len(rows):,} {many}", style="dim")

    def _row(self, row: Row) -> Text:
        mark, style = MARKS[row.verdict]
        left = self._cell(row.left, self._width)
        right = self._cell(row.right, self._width if self._console.width < WIDE else WIDE)
        left.pad_right(max(0, self._width - left.cell_len))
        line = Text.assemble((f"{mark}  ", f"bold {style}"), left, " ", right)
        line.stylize(style)
        return line

    def _cell(self, entry: Entry | None, width: int) -> Text:
        if entry is None:
            return Text()
        cell = Text(cell_of(entry))
        cell.truncate(width, overflow="ellipsis")
        return cell

    def _changes(self, row: Row) -> Iterator[Text]:
        most = len(row.changes) if self._everything else SHOWN_CHANGES
        for change in row.changes[:most]:
            yield Text(" " * (4 + NUMBER) + change_in_words(change, 100_000 if self._everything else 60))
        hidden = len(row.changes) - most + sum(change.more for change in row.changes)
        if hidden > 0:
            yield Text(f"{' ' * (4 + NUMBER)}… {counted(hidden, 'difference')} more", style="dim")

    def _widest(self) -> int:
        """As wide as the left cells that are shown take, within reason."""
        cells = (len(cell_of(row.left)) for row in self._told.rows if row.left is not None and row.verdict != "same")
        return min(WIDEST, max(cells, default=24))

    def _line(self, line: Text) -> None:
        show_line(self._console, line)


def cell_of(entry: Entry) -> str:
    """One event on one side."""
    told = " ".join(filter(None, (type(entry.event).__name__, place(entry.event), details(entry))))
    return f"{entry.seq:>{NUMBER - 1}}  {told}"


def change_in_words(change: Change, length: int) -> str:
    """`output.words: 206 → 207`."""
    old = cropped(bytes(change.old).decode(errors="replace"), length) if change.old is not None else "(nothing)"
    new = cropped(bytes(change.new).decode(errors="replace"), length) if change.new is not None else "(nothing)"
    return f"{plain(change.path)}: {old} → {new}"


def side_in_words(side: Side) -> str:
    ending = f", {side.ending}" if side.ending else ""
    return f"{plain(side.run)}@{side.branch}  {counted(side.events, 'event')}{ending}"


def in_words(told: Comparison) -> str:
    """The sum of it."""
    same = told.counts["same"] + told.shared
    order = f", {told.moved:,} of them in another order" if told.moved else ""
    if told.is_same:
        return f"Both are the same: {counted(same, 'event')}{order}."
    parts = [
        f"{told.counts['differs']:,} differ{'s' * (told.counts['differs'] == 1)}" if told.counts["differs"] else "",
        f"{told.counts['left']:,} only on the left" if told.counts["left"] else "",
        f"{told.counts['right']:,} only on the right" if told.counts["right"] else "",
    ]
    return f"{', '.join(filter(None, parts))}; {counted(same, 'event')} the same{order}."
