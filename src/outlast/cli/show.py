"""`outlast show`: one run as a whole."""

from __future__ import annotations

from typing import Annotated

import typer

from outlast.cli.console import show_lines, write_bytes, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Reply, ReplyOption, RunArgument, StoreOption, settings_of
from outlast.cli.outcome import where_of
from outlast.compose import open_desk
from outlast.lifecycle.summary import summarise
from outlast.settings import Settings
from outlast.views.actions import actions_of
from outlast.views.build import detail_view
from outlast.views.files import files_of
from outlast.views.run_view import tally_of
from outlast.views.text import lines_of


def show(
    ctx: typer.Context,
    run: RunArgument,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Whole values, messages and recorded tracebacks; all nodes.")
    ] = False,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Show a run: how it stands, its nodes, what it waits for, why it failed.

    With -o ids only its whole id.

    \b
    outlast show 01a1e436-2c39
    outlast show 01a1e436-2c39 --verbose
    outlast show 01a1e436-2c39 -o json | jq '.nodes[] | select(.status == "failed")'
    """
    carry_out(lambda: _show(settings_of(ctx, store), run, verbose, output))


async def _show(settings: Settings, name: str, verbose: bool, reply: Reply) -> int:
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        if reply is Reply.IDS:
            write_bytes(f"{run}\n".encode())
            return SOUND
        tally = await tally_of(desk, run)
        summary = summarise(run, tally.state)
        view = detail_view(
            summary,
            tally,
            files=await files_of(desk, run),
            actions=await actions_of(desk, run, tally.state, where_of(settings)),
            scratch=await desk.diagnostics.scratch(run, summary.created),
            holding=await desk.diagnostics.holder(run),
        )
        now = await desk.diagnostics.now()
    if reply is Reply.JSON:
        write_json(view, pretty=True)
    else:
        show_lines(lines_of(view, now, verbose=verbose))
    return SOUND
