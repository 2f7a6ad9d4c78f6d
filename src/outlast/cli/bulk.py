"""`outlast bulk`: one action on all runs that match, carried out by a run of its own."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from outlast.cli.command import Command, group
from outlast.cli.console import notice, show_view
from outlast.cli.entrypoint import MISUSED, SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import (
    ByOption,
    ConditionOption,
    Form,
    FormOption,
    HeldOption,
    QueueOption,
    ReasonOption,
    RunArgument,
)
from outlast.cli.outcome import where_of
from outlast.cli.parameters import read_json
from outlast.cli.ps import wanted_of
from outlast.cli.run import working
from outlast.client.bulk import ACTIONS, MAX_RUNS
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.timeline.phrases import counted
from outlast.settings import Settings
from outlast.store import RunFilter
from outlast.values.attributes import checked_conditions
from outlast.views.build import bulk_view
from outlast.views.times import parse_time
from outlast.views.types import BulkPreviewView

app = group("Act on all runs that match a filter.")

ActionName = StrEnum("ActionName", {name.upper(): name for name in ACTIONS})  # type: ignore[misc]
StatusOption = Annotated[
    list[str] | None,
    typer.Option("--status", "-s", metavar="STATUS", help="Runs in this status, as in `outlast ps`; can be repeated."),
]
LeaveOption = Annotated[bool, typer.Option("--no-wait", help="Leave the bulk action to a worker.")]


@app.command(cls=Command)
@command
async def start(
    settings: Settings,
    action: Annotated[ActionName, typer.Argument(help="What to do to each run.", metavar="ACTION")],
    *,
    status: StatusOption = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", "-w", metavar="NAME", help="Runs of this workflow.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="Runs with this tag; repeated: with all.")
    ] = None,
    attribute: ConditionOption = None,
    queue: QueueOption = None,
    held: HeldOption = False,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Runs with this text in their id, workflow, title, tags or reason."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Runs created since this time: 2h, 7d …", metavar="WHEN")] = None,
    until: Annotated[str | None, typer.Option(help="Runs created before this time.", metavar="WHEN")] = None,
    value: Annotated[str | None, typer.Option("--json", metavar="JSON", help="The answer, for `answer`.")] = None,
    reason: ReasonOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many runs match and allow it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    no_wait: LeaveOption = False,
    by: ByOption,
    output: FormOption = Form.TEXT,
) -> int:
    """Cancel, pause, resume, retry, delete, approve, reject or answer all runs that match.

    The runs that match when you confirm are fixed. A run of the workflow
    `outlast.bulk` carries the action out: if this command is killed, a worker
    continues it. Runs whose state does not allow the action are skipped.

    \b
    outlast bulk start cancel --status waiting --workflow refund --dry-run
    outlast bulk start cancel --status waiting --workflow refund --reason recall
    outlast bulk start retry --status failed --since 2h --yes
    """
    chosen = next(each for each in ACTIONS if each == action.value)
    if (value is not None) is not (chosen == "answer"):
        raise InvalidInput("the answer is given with --json, for the action answer only")
    given = read_json(value, "--json") if value is not None else None
    async with opened(settings, readonly=True) as engine:
        now = await engine.diagnostics.now()
        runs = wanted_of(status or (), held=held)
        wanted = RunFilter(
            statuses=runs.statuses,
            held=runs.held,
            queue=queue or "",
            attributes=checked_conditions("--attribute", attribute or ()),
            workflow=workflow or "",
            tags=tuple(tag or ()),
            text=text or "",
            created_from=parse_time(since, now) if since else None,
            created_until=parse_time(until, now) if until else None,
        )
        preview = await engine.bulk.preview(wanted, runs.has)
    view = BulkPreviewView(matched=preview.matched, allowed=preview.allowed, skipped=preview.skipped)
    if dry_run:
        show_view(view, output, action=chosen)
        return SOUND
    if not yes:
        _confirm(chosen, preview.matched, preview.allowed[chosen])
    if no_wait:
        async with opened(settings) as desk:
            run = await desk.bulk.start(chosen, wanted, runs.has, by=by, reason=reason, value=given)
        notice(f"run {run} carries it out: outlast bulk show {run}{where_of(settings)}")
        return SOUND
    async with _working(settings) as engine:
        run = await engine.bulk.start(chosen, wanted, runs.has, by=by, reason=reason, value=given)
        notice(f"run {run} carries it out")
        await engine.result(run)
    return await _show(settings, run, output)


def _confirm(action: str, runs: int, allowed: int) -> None:
    question = f"{action.capitalize()} {counted(runs, 'run')}? {allowed} of them allow it now."
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} Confirm with --yes, or see more with --dry-run.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(MISUSED)


@app.command(cls=Command)
@command
async def show(settings: Settings, run: RunArgument, output: FormOption = Form.TEXT) -> int:
    """Show a bulk action and what became of each run.

    \b
    outlast bulk show 01a1e436-2c39
    """
    async with opened(settings, readonly=True) as engine:
        found = await engine.find(run)
    return await _show(settings, found, output)


@app.command(cls=Command)
@command
async def retry(
    settings: Settings, run: RunArgument, no_wait: LeaveOption = False, *, by: ByOption, output: FormOption = Form.TEXT
) -> int:
    """Try the runs of a bulk action again that failed or were not reached.

    \b
    outlast bulk retry 01a1e436-2c39
    """
    async with opened(settings) if no_wait else _working(settings) as engine:
        again = await engine.bulk.retry(await engine.find(run), by=by)
        notice(f"run {again} tries them again")
        if not no_wait:
            await engine.result(again)
    return SOUND if no_wait else await _show(settings, again, output)


def _working(settings: Settings) -> Any:
    """An engine that carries the action out here, or a server that does."""
    return opened(settings) if settings.url else working(settings)


async def _show(settings: Settings, run: RunId, form: Form) -> int:
    async with opened(settings, readonly=True) as engine:
        view, _ = bulk_view(await engine.bulk.progress(run), limit=MAX_RUNS)
    show_view(view, form)
    return SOUND
