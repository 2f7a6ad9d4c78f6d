"""`outlast explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.console import show_lines, write_json
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import BranchArgument, Form, FormOption, branch_named
from outlast.cli.outcome import where_of
from outlast.settings import Settings
from outlast.views.explanation import lines


@command
async def explain(
    settings: Settings,
    run: BranchArgument,
    full: Annotated[bool, typer.Option("--full", "-f", help="Show an entry for every event.")] = False,
    output: FormOption = Form.TEXT,
) -> int:
    """Explain a run: its timeline, its state, its problems and the useful commands.

    The left column is the time since the run was created. A long timeline joins
    similar events into one entry.

    \b
    outlast explain 01a1e436-2c39
    outlast explain 01a1e436-2c39@1 --full
    outlast explain 01a1e436-2c39 -o json | jq -r '.timeline.entries[].text'
    """
    async with opened(settings, readonly=True) as engine:
        name, branch = await branch_named(engine, run)
        explanation = await engine.explain(name, branch=branch, full=full)
    if output is Form.JSON:
        write_json(explanation, pretty=True)
    else:
        show_lines(lines(explanation, where_of(settings)))
    return SOUND
