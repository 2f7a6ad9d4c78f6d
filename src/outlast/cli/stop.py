"""`outlast pause` and `outlast cancel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from outlast.cli.console import notice, show_reply
from outlast.cli.entrypoint import MISUSED, SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import ByOption, Output, OutputOption, ReasonOption, RunsArgument
from outlast.cli.outcome import where_of
from outlast.client import Engine, RunSummary
from outlast.errors import NotAllowed
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.types import RunStatusView


@command
async def pause(
    settings: Settings,
    runs: RunsArgument,
    *,
    reason: ReasonOption = "",
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> int:
    """Pause runs.

    A run without a live worker is paused at once. Otherwise its running nodes
    have the grace time to complete or to reach a checkpoint; nodes that do not
    are stopped, and repeated after `outlast resume`. Children continue.

    \b
    outlast pause 01a1e436-2c39 --reason "maintenance"
    outlast ps --status running -o ids | xargs outlast pause
    outlast resume 01a1e436-2c39
    """

    def text(summary: RunSummary) -> Sequence[str]:
        run, again = summary.run, f"Resume it: outlast resume {summary.run}{where_of(settings)}"
        if summary.status is RunStatus.PAUSED:
            return f"run {run} is paused", again
        if summary.held:
            return f"run {run} is held, not paused: {summary.reason}", again
        return f"run {run} is {summary.status}; its worker will pause it", again

    async def request(engine: Engine, run: RunId) -> RunId:
        return await engine.pause(run, by=by, reason=reason)

    return await _each(settings, runs, request, text, output)


@command
async def cancel(
    settings: Settings,
    runs: RunsArgument,
    *,
    reason: ReasonOption = "",
    force: Annotated[bool, typer.Option("--force", help="End the run at once, without its clean-up.")] = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> int:
    """Cancel runs.

    Running nodes are stopped. A worker then executes the clean-up of the
    workflow: its `finally` and `except CancelledError` blocks. A run without a
    worker and without clean-up ends at once. To skip the clean-up, cancel the
    run again or use --force.

    \b
    outlast cancel 01a1e436-2c39 --reason "wrong input"
    outlast ps --status waiting --since 1h -o ids | xargs outlast cancel
    """

    def text(summary: RunSummary) -> Sequence[str]:
        again = "cancel it again to end it at once"
        if summary.status is RunStatus.CANCELLED:
            return (f"run {summary.run} is cancelled",)
        if summary.status is RunStatus.COMPENSATING:
            return (f"run {summary.run} is cancelled and cleans up; {again}",)
        return (f"run {summary.run} is {summary.status}; a worker with its code will cancel it; {again}",)

    async def request(engine: Engine, run: RunId) -> RunId:
        return await engine.cancel(run, by=by, reason=reason, force=force)

    return await _each(settings, runs, request, text, output)


async def _each(
    settings: Settings,
    names: Sequence[str],
    request: Callable[[Engine, RunId], Awaitable[RunId]],
    text: Callable[[RunSummary], Sequence[str]],
    output: Output,
) -> int:
    async with opened(settings, readonly=True) as engine:  # creates no store
        runs = dict.fromkeys([await engine.find(name) for name in names])
    code = SOUND
    async with opened(settings) as engine:
        for run in runs:
            try:
                summary = await engine.get(await request(engine, run))
            except NotAllowed as refusal:
                notice(f"outlast: {refusal}", style="red")
                code = MISUSED
            else:
                view = RunStatusView(run=summary.run, status=summary.status)
                show_reply(view, output, summary.run, *text(summary))
    return code
