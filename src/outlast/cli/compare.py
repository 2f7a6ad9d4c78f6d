"""`outlast compare`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from outlast.cli.console import UNLIMITED, show_lines, width, write_json
from outlast.cli.entrypoint import DIFFERS, FAILED, SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import BranchArgument, Form, FormOption, branch_named
from outlast.settings import Settings
from outlast.views.build import comparison_view
from outlast.views.comparison import lines


@partial(command, damaged=FAILED)
async def compare(
    settings: Settings,
    left: BranchArgument,
    right: Annotated[
        str | None,
        typer.Argument(
            help="Run or branch to compare with (default: the branch before RUN).",
            metavar="OTHER",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show equal events too, and whole values.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if there is a difference.")] = False,
    output: FormOption = Form.TEXT,
) -> int:
    """Compare two runs, or two branches of a run, event by event.

    Lines begin with = for equal events, ≠ for events with differences, and
    < or > for events on the left or right side only. Times, durations, epochs
    and workers are not compared.

    \b
    outlast compare 01a1e436-2c39
    outlast compare 01a1e436-2c39@1 01a1e436-2c39@3
    outlast compare monday tuesday -o json | jq '.rows[] | select(.verdict != "same")'
    """
    async with opened(settings, readonly=True) as engine:
        run, branch = await branch_named(engine, left)
        if right is None:
            comparison = await engine.compare(run, branch=branch)
        else:
            other, other_branch = await branch_named(engine, right)
            comparison = await engine.compare(run, other, branch=branch, other_branch=other_branch)
    if output is Form.JSON:
        write_json(comparison_view(comparison), pretty=True)
    else:
        show_lines(lines(comparison, width(), is_pipe=width() == UNLIMITED, everything=everything))
    return DIFFERS if exit_code and not comparison.is_same else SOUND
