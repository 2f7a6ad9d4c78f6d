"""`outlast compare`: two lineages side by side, event by event."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from outlast.cli.console import UNLIMITED, screen, show_line, write_json
from outlast.cli.entrypoint import DIFFERS, FAILED, SOUND, carry_out
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.cli.run_argument import BranchArgument, found
from outlast.compose import open_desk
from outlast.settings import Settings
from outlast.views.build import comparison_view
from outlast.views.comparison import MARKS, Comparison, Line, Verdict, lines

MAX_ROWS = 200
"""Rows that are shown, unless all are asked for."""
MAX_PIPE_COLUMN = 64
"""Columns of the left side on a pipe."""
STYLES: dict[Verdict, str] = {"same": "dim", "differs": "yellow", "left": "red", "right": "green"}


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
        _show(screen(), comparison, everything)
    return comparison.is_same


def _show(console: Console, told: Comparison, everything: bool) -> None:
    """Rows in two columns. On a pipe the left column is as wide as its cells and the right one is not cut."""
    is_pipe = console.width == UNLIMITED
    shown = list(lines(told, everything=everything))
    if sum(line.is_row for line in shown) > MAX_ROWS and not everything:
        cut = [place for place, line in enumerate(shown) if line.is_row][MAX_ROWS]
        shown = [*shown[:cut], Line("…  more rows; --all shows all"), *shown[-2:]]
    widest = min(MAX_PIPE_COLUMN, max((len(line.left) for line in shown if line.is_row), default=24))
    width = widest if is_pipe else max(24, (console.width - 4) // 2)
    for line in shown:
        if not line.is_row:
            show_line(console, Text(line.left))
            continue
        left = Text(line.left)
        left.truncate(width, overflow="ellipsis", pad=True)
        row = Text.assemble(f"{MARKS[line.verdict]}  ", left, " ", line.right)
        row.stylize(STYLES[line.verdict])
        show_line(console, row)
