"""`outlast branches`: the branches of a run as a tree."""

from __future__ import annotations

import typer

from outlast.cli.console import WIDE, show_lines, width, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Output, OutputOption, RunArgument, StoreOption, settings_of
from outlast.compose import open_desk
from outlast.settings import Settings
from outlast.views.build import branch_view
from outlast.views.text import lines_of
from outlast.views.types import BranchTreeView


def branches(
    ctx: typer.Context, run: RunArgument, store: StoreOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the branches of a run as a tree.

    Going back opens a branch; what was done before stays readable on the branch it was done on.
    The current branch has a star. With -o ids each branch is one line, RUN@BRANCH.

    \b
    outlast branches 01a1e436-2c39
    outlast explain 01a1e436-2c39@0
    """
    carry_out(lambda: _branches(settings_of(ctx, store), run, output))


async def _branches(settings: Settings, name: str, output: Output) -> int:
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        view = BranchTreeView(run=run, branches=tuple(map(branch_view, await desk.branches(run))))
    if output is Output.JSON:
        write_json(view, pretty=True)
    elif output is Output.IDS:
        write_bytes("".join(f"{run}@{each.branch}\n" for each in view.branches).encode())
    else:
        show_lines(lines_of(view, 0, full=width() >= WIDE))
    return SOUND
