"""`outlast delete` and `outlast prune`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from outlast.cli.bulk import StatusOption
from outlast.cli.console import notice, show_reply, show_view
from outlast.cli.entrypoint import MISUSED, SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import ByOption, Form, FormOption, Output, OutputOption, ReasonOption, RunsArgument
from outlast.cli.progress import Ticker
from outlast.cli.ps import wanted_of
from outlast.client import Engine
from outlast.errors import Damaged, InvalidInput, NotAllowed
from outlast.lifecycle.timeline.phrases import counted
from outlast.settings import Settings
from outlast.views.build import pruned_view, tombstone_view
from outlast.views.text import text_of
from outlast.views.times import parse_time
from outlast.views.types import PrunedView

ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Also delete runs that can be resumed, or that another run may need."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@command
async def delete(
    settings: Settings,
    runs: RunsArgument,
    *,
    force: ForceOption = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> int:
    """Delete runs that have ended: their logs, lines and blobs.

    This cannot be undone. The id and the idempotency key of a deleted run stay
    in use, so that nobody starts it again by mistake. A run that has not ended
    is refused: cancel it first.

    \b
    outlast delete 01a1e436-2c39
    outlast ps --status cancelled -o ids | xargs outlast delete --yes
    """
    async with opened(settings, readonly=True) as engine:  # creates no store
        found = dict.fromkeys([await engine.find(name) for name in runs])
        if not yes:
            _confirm("\n".join([await _named(engine, run) for run in found]), len(found))
    code = SOUND
    async with opened(settings) as engine:
        for run in found:
            try:
                view = tombstone_view(await engine.delete(run, force=force, by=by, reason=reason))
            except (NotAllowed, Damaged) as refusal:
                notice(f"outlast: {refusal}", style="red")
                code = MISUSED
            else:
                show_reply(view, output, run, text_of(view))
    return code


async def _named(engine: Engine, run: str) -> str:
    summary = await engine.get(await engine.find(run))
    return f"{summary.run}  {summary.workflow}, {'held' if summary.held else summary.status}  {summary.title}".rstrip()


def _confirm(what: str, runs: int) -> None:
    question = f"Delete {counted(runs, 'run')}? This cannot be undone."
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} Confirm with --yes.")
    notice(what)
    if not typer.confirm(question, err=True):
        raise typer.Exit(MISUSED)


@command
async def prune(
    settings: Settings,
    older: Annotated[
        str, typer.Option("--older", metavar="TIME", help="Delete runs that ended before this: 30d, 12h …")
    ],
    *,
    workflow: Annotated[
        str | None, typer.Option("--workflow", "-w", metavar="NAME", help="Delete runs of this workflow.")
    ] = None,
    status: StatusOption = None,
    force: ForceOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted and what kept.")] = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    by: ByOption,
    output: FormOption = Form.TEXT,
) -> int:
    """Delete the runs that ended long ago, and free their space.

    Runs that have not ended or are held are kept, and so are those that can be
    resumed, unless with --force. The command can be interrupted at any moment:
    repeat it to delete the rest. Workers continue meanwhile.

    \b
    outlast prune --older 30d --dry-run
    outlast prune --older 30d --workflow digest --yes
    outlast prune --older 90d --status failed --force
    """
    ticker, wanted = Ticker(), wanted_of(status or ())
    if wanted.held:
        raise InvalidInput("--status held: prune deletes no held runs: name them with `outlast delete RUN --force`")

    async def pruned(engine: Engine, age: float, dry_run: bool) -> PrunedView:
        try:
            report = await engine.prune(
                age,
                workflow=workflow or "",
                status=wanted.statuses or None,
                force=force,
                dry_run=dry_run,
                by=by,
                reason=reason,
                tell=ticker.show,
            )
        finally:
            ticker.clear()
        return pruned_view(report)

    async with opened(settings, readonly=True) as engine:
        now = await engine.diagnostics.now()
        age = (now - parse_time(older, now)) / 1e6
        if age < 0:
            raise InvalidInput(f"--older {older} is in the future")
        if dry_run or not yes:
            planned = await pruned(engine, age, True)
            if dry_run or not planned.runs:
                show_view(planned, output, now=now)
                return SOUND
            _confirm(text_of(planned), planned.runs)
    async with opened(settings) as engine:
        view = await pruned(engine, age, False)
    show_view(view, output, now=now)
    return SOUND
