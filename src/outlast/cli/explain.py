"""`outlast explain`: what happened in a run, its state, and what can be done."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from outlast.cli.console import screen, show_wrapped, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.cli.outcome import where_of
from outlast.cli.run_argument import BranchArgument, found
from outlast.client import Engine
from outlast.compose import open_desk
from outlast.history.ids import RunId
from outlast.settings import Settings
from outlast.views import diagnosis

STYLES = {"title": "bold", "info": "dim", "warning": "yellow", "error": "red", "command": "cyan"}


def explain(
    ctx: typer.Context,
    run: BranchArgument,
    full: Annotated[bool, typer.Option("--full", "-f", help="An entry for every event.")] = False,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Explain a run: its timeline, its state, its problems, and the commands that are useful now.

    The left column is the time since the run was created. A long timeline joins similar events.

    \b
    outlast explain 01a1e436-2c39
    outlast explain 01a1e436-2c39@1 --full
    outlast explain 01a1e436-2c39 -o json | jq -r '.timeline.entries[].text'[/dim]
    """
    carry_out(lambda: _explain(settings_of(ctx, store), run, full, output))


async def _explain(settings: Settings, name: str, full: bool, form: Form) -> int:
    async with open_desk(settings, readonly=True) as desk:
        run, branch = await found(desk, name)
        explanation = await desk.explain(run, branch=branch, full=full)
    if form is Form.JSON:
        write_json(explanation, pretty=True)
        return SOUND
    console = screen()
    for line in diagnosis.lines(explanation, where_of(settings)):
        show_wrapped(console, line.margin, Text(line.text, style=STYLES.get(line.style, "")), note=line.note)
    return SOUND


async def way_on(desk: Engine, run: RunId, where: str) -> str:
    """The command that continues a run that failed: `outlast resume`, or a jump to before what the run undid."""
    actions = (await desk.explain(run)).actions
    return next((each.command for each in actions if each.verb in ("resume", "jump")), f"outlast resume {run}") + where
