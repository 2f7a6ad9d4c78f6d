"""`outlast pause`: let runs stop where they can go on later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from outlast.cli.cancel import found_runs
from outlast.cli.console import notice, write_bytes, write_json
from outlast.cli.entrypoint import MISUSED, SOUND, carry_out
from outlast.cli.options import ByOption, Reply, ReplyOption, RunsArgument, StoreOption, settings_of, whoever
from outlast.cli.outcome import where_of
from outlast.client import Engine, RunSummary
from outlast.compose import open_desk
from outlast.errors import NotAllowed
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.types import RunStatusView


def pause(
    ctx: typer.Context,
    runs: RunsArgument,
    reason: Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Why, for the log.")] = "",
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Pause runs: nothing more begins in them until they are resumed.

    A run that nobody works on is paused at once. Where a worker holds one, its
    nodes have the grace time to reach a checkpoint or their end; those that do
    not are stopped, and done again after the resume. Children go on.

    \b
    outlast pause 01a1e436-2c39 --reason "maintenance"
    outlast ps --status running -o ids | xargs outlast pause
    outlast resume 01a1e436-2c39
    """
    carry_out(lambda: _pause(settings_of(ctx, store), runs, reason, whoever(by), output))


async def _pause(settings: Settings, names: Sequence[str], reason: str, by: str, reply: Reply) -> int:
    found = await found_runs(settings, names)
    code = SOUND
    async with open_desk(settings) as desk:
        for run in found:
            try:
                asked = await desk.pause(run, by=by, reason=reason)
            except NotAllowed as refusal:
                notice(f"outlast: {refusal}", style="red")
                code = MISUSED
            else:
                await _tell(desk, asked, reply, where_of(settings))
    return code


async def _tell(desk: Engine, run: RunId, reply: Reply, where: str) -> None:
    summary = await desk.get(run)
    if reply is Reply.JSON:
        write_json(RunStatusView(run=run, status=summary.status))
    elif reply is Reply.IDS:
        write_bytes(f"{run}\n".encode())
    else:
        notice(*_in_words(summary, where), style="bold")


def _in_words(summary: RunSummary, where: str) -> tuple[str, str]:
    again = f"Go on with it: outlast resume {summary.run}{where}"
    if summary.status is RunStatus.PAUSED:
        return f"run {summary.run} is paused", again
    if summary.held:
        return f"run {summary.run} is held, not paused: {summary.reason}", again
    return f"run {summary.run} is {summary.status}; its worker was asked to pause it, and will soon", again
