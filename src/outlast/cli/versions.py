"""`outlast versions list`, `outlast versions diff` and `outlast migrate`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from outlast.cli.code_import import workflow_of
from outlast.cli.command import Command, group
from outlast.cli.console import notice, show_lines, show_view
from outlast.cli.entrypoint import DIFFERS, SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import (
    AppOption,
    ByOption,
    Children,
    ChildrenOption,
    Form,
    FormOption,
    ReasonOption,
    RunArgument,
)
from outlast.client import Engine
from outlast.history.ids import RunId
from outlast.lifecycle.timeline.phrases import counted, plain
from outlast.settings import Settings
from outlast.views.build import version_view
from outlast.views.lines import line
from outlast.views.types import VersionListView

app = group("List and compare versions of workflows.")


@app.command("list", cls=Command)
@partial(command, loads_code=True)
async def versions(
    settings: Settings,
    workflow: Annotated[str, typer.Argument(help="Name of the workflow.", metavar="WORKFLOW")],
    app: AppOption = None,  # noqa: ARG001 - it is imported before
    output: FormOption = Form.TEXT,
) -> int:
    """List the versions of a workflow, the one used last first.

    \b
    outlast versions list digest
    outlast versions list digest --app flows.py
    """
    async with opened(settings, readonly=True) as engine:
        found = await engine.versions.of(workflow)
    show_view(VersionListView(workflow=workflow, versions=tuple(map(version_view, found))), output)
    return SOUND


@app.command(cls=Command)
@partial(command, loads_code=True)
async def diff(
    settings: Settings,
    old: Annotated[str, typer.Argument(help="Run, or the beginning of a version.", metavar="RUN|VERSION")],
    new: Annotated[
        str | None, typer.Argument(help="Run or version (default: the current code).", metavar="RUN|VERSION")
    ] = None,
    app: AppOption = None,
) -> int:
    """Compare the code of a run with the current code; with --server, with that of
    the server.

    \b
    outlast versions diff 01a1e436-2c39
    outlast versions diff 01a1e436-2c39 01a1e440-77ab
    outlast versions diff 5f0c2e 9ab311
    """
    async with opened(settings, readonly=True) as engine:
        if not (new or settings.url):
            workflow_of(await engine.diagnostics.created(await engine.find(old)), app or (), settings)
        found = await engine.versions.diff(old, new or "")
    if not found.diff:
        notice(f"version {found.old[:12]} and version {found.new[:12]} have the same code")
        return SOUND
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for each in found.diff.splitlines():
        show_lines([line((plain(each, keep_indent=True), styles.get(each[:1], "")), fit="copy")])
    return DIFFERS


@partial(command, loads_code=True)
async def migrate(
    settings: Settings,
    run: RunArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    by: ByOption,
) -> int:
    """Move a run to the current code; with --server, to that of the server. The command shows the effect and asks for
    confirmation.

    The run keeps its log up to the first event that the current code does not
    agree with, and continues from there on a new branch.

    \b
    outlast migrate 01a1e436-2c39 --app flows.py
    """
    async with opened(settings) as engine:
        found = await engine.find(run)
        if not settings.url:
            workflow_of(await engine.diagnostics.created(found), app or (), settings)
        await engine.versions.check_migration(found)
        if not yes:
            await _explain(engine, found)
            if not typer.confirm("Move the run to the current code?", err=True):
                notice(f"run {found} was not changed")
                return SOUND
        replay = await engine.migrate(found, by=by, reason=reason, children=children.value)
    if replay.agrees:
        notice(f"the current code agrees with the log of run {found}: it continues without a new branch", style="bold")
    else:
        notice(f"run {found} continues after event {replay.upto} with the current code, on a new branch", style="bold")
    return SOUND


async def _explain(engine: Engine, run: RunId) -> None:
    replay = await engine.versions.replay(run)
    if replay.agrees:
        notice(f"the current code agrees with all {counted(replay.events, 'event')} of run {run}")
        return
    left = 0
    async for entry in engine.events(run, after=replay.upto):
        left += type(entry.event).__name__ == "NodeCompleted"
    notice(
        f"{replay.divergence}",
        f"The current code agrees with the log up to event {replay.upto}. {counted(left, 'completed node')} after it stay "
        "on the old branch; the new branch reuses results that the current code requests in the same way.",
    )
