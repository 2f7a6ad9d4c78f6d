"""`outlast branches`."""

from __future__ import annotations

from outlast.cli.console import WIDE, show_view, width
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import Output, OutputOption, RunArgument
from outlast.settings import Settings
from outlast.views.build import branch_view
from outlast.views.types import BranchTreeView


@command
async def branches(settings: Settings, run: RunArgument, output: OutputOption = Output.TEXT) -> int:
    """Show the branches of a run as a tree.

    `jump`, `rewind`, `retry` and `activate` open a branch. Events of other
    branches stay readable. A star marks the current branch. With -o ids each
    line is RUN@BRANCH.

    \b
    outlast branches 01a1e436-2c39
    outlast explain 01a1e436-2c39@0
    """
    async with opened(settings, readonly=True) as engine:
        found = await engine.find(run)
        view = BranchTreeView(run=found, branches=tuple(map(branch_view, await engine.branches(found))))
    show_view(view, output, ids=[f"{found}@{each.branch}" for each in view.branches], full=width() >= WIDE)
    return SOUND
