"""`outlast cancel`: ask runs to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from outlast.cli.console import notice, write_bytes, write_json
from outlast.cli.entrypoint import MISUSED, SOUND, carry_out
from outlast.cli.options import ByOption, Reply, ReplyOption, RunsArgument, StoreOption, settings_of, whoever
from outlast.client import Engine, RunSummary
from outlast.compose import open_desk
from outlast.errors import NotAllowed
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.types import RunStatusView


def cancel(
    ctx: typer.Context,
    runs: RunsArgument,
    reason: Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="Why, for the log.")] = "",
    force: Annotated[bool, typer.Option("--force", help="End the run at once, without its clean-up.")] = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Cancel runs: nodes that run are told to stop, and the code cleans up.

    A worker executes the clean-up: what the workflow does in `finally` and in
    `except CancelledError`. A run that nobody advances and that has no clean-up
    ends here. Cancel a run again, or with --force, to end it at once.
    Runs that are over already are named.

    \b
    outlast cancel 01a1e436-2c39 --reason "wrong input"
    outlast ps --status waiting --since 1h -o ids | xargs outlast cancel
    """
    carry_out(lambda: _cancel(settings_of(ctx, store), runs, reason, whoever(by), force, output))


async def _cancel(settings: Settings, names: Sequence[str], reason: str, by: str, force: bool, reply: Reply) -> int:
    found = await found_runs(settings, names)
    code = SOUND
    async with open_desk(settings) as desk:
        for run in found:
            try:
                asked = await desk.cancel(run, by=by, reason=reason, force=force)
            except NotAllowed as refusal:
                notice(f"outlast: {refusal}", style="red")
                code = MISUSED
            else:
                await _tell(desk, asked, reply)
    return code


async def found_runs(settings: Settings, names: Sequence[str]) -> list[RunId]:
    """The runs that are named, each once, before anything is done: a store that is not there is not made for this."""
    async with open_desk(settings, readonly=True) as desk:
        return list(dict.fromkeys([await desk.find(name) for name in names]))


async def _tell(desk: Engine, run: RunId, reply: Reply) -> None:
    summary = await desk.get(run)
    if reply is Reply.JSON:
        write_json(RunStatusView(run=run, status=summary.status))
    elif reply is Reply.IDS:
        write_bytes(f"{run}\n".encode())
    else:
        notice(_in_words(summary), style="bold")


def _in_words(summary: RunSummary) -> str:
    if summary.status is RunStatus.CANCELLED:
        return f"run {summary.run} is cancelled"
    if summary.status is RunStatus.COMPENSATING:
        return f"run {summary.run} is cancelled and cleans up; cancel it again to end it at once"
    return (
        f"run {summary.run} is {summary.status} and was cancelled: a worker that has its code ends it, after its clean-up; "
        "cancel it again to end it at once"
    )
