"""`outlast show`."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.console import show_view, write_bytes
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import Output, OutputOption, RunArgument
from outlast.cli.outcome import where_of
from outlast.settings import Settings
from outlast.views.detail import read_detail


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
    async with opened(settings, readonly=True) as engine:
        found = await engine.find(run)
        if output is Output.IDS:
            write_bytes(f"{found}\n".encode())
            return SOUND
        view = await read_detail(engine, found, where_of(settings), repairs=True)
        now = await engine.diagnostics.now()
    show_view(view, output, now=now, verbose=verbose)
    return SOUND
