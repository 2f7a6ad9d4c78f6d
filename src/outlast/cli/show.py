"""`outlast show`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.console import show_view, write_bytes
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.options import Output, OutputOption, RunArgument
from outlast.cli.outcome import where_of
from outlast.compose import open_desk
from outlast.lifecycle.summary import summarise
from outlast.settings import Settings
from outlast.views.actions import actions_of
from outlast.views.build import detail_view, run_view
from outlast.views.files import files_of
from outlast.views.run_view import tally_of


@command
async def show(
    settings: Settings,
    run: RunArgument,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all nodes, whole values and tracebacks.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> int:
    """Show a run: its status, nodes, waits, files, error and useful actions.

    With -o ids the whole run id.

    \b
    outlast show 01a1e436-2c39
    outlast show 01a1e436-2c39 --verbose
    outlast show 01a1e436-2c39 -o json | jq '.nodes[] | select(.status == "failed")'
    """
    async with open_desk(settings, readonly=True) as engine:
        found = await engine.find(run)
        if output is Output.IDS:
            write_bytes(f"{found}\n".encode())
            return SOUND
        tally = await tally_of(engine, found)
        summary = summarise(found, tally.state)
        scratch = await engine.diagnostics.scratch(found, summary.created)
        view = detail_view(
            run_view(summary, scratch=scratch, holding=await engine.diagnostics.holder(found)),
            tally,
            files=await files_of(engine, found),
            actions=await actions_of(engine, found, tally.state, where_of(settings)),
        )
        now = await engine.diagnostics.now()
    show_view(view, output, now=now, verbose=verbose)
    return SOUND
