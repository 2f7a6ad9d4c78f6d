"""`outlast versions list`, `versions diff` and `migrate`: which code runs are of, and moving them to new code."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from outlast.cli.code_import import load_here, workflow_of
from outlast.cli.command import Command, group
from outlast.cli.console import notice, show_lines, write_json
from outlast.cli.entrypoint import DIFFERS, SOUND, carry_out
from outlast.cli.options import (
    AppOption,
    ByOption,
    Children,
    ChildrenOption,
    Form,
    FormOption,
    ReasonOption,
    RunArgument,
    StoreOption,
    settings_of,
    whoever,
)
from outlast.client import Engine
from outlast.compose import open_desk
from outlast.errors import InvalidInput, NotFound
from outlast.history.ids import RunId
from outlast.settings import Settings
from outlast.views.build import version_view
from outlast.views.lines import line
from outlast.views.text import lines_of
from outlast.views.texts import counted, plain
from outlast.views.types import VersionListView

app = group("The versions of workflows that runs are of.")


@app.command("list", cls=Command)
def versions(
    ctx: typer.Context,
    workflow: Annotated[str, typer.Argument(help="The name of a workflow.", metavar="WORKFLOW")],
    modules: AppOption = None,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """List the versions of a workflow that runs are of, the one used last first.

    \b
    outlast versions list digest
    outlast versions list digest --app flows.py
    """

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        load_here(modules or (), settings)
        return _versions(settings, workflow, output)

    carry_out(begin)


async def _versions(settings: Settings, workflow: str, form: Form) -> int:
    async with open_desk(settings, readonly=True) as desk:
        found = await desk.versions.of(workflow)
    view = VersionListView(workflow=workflow, versions=tuple(map(version_view, found)))
    if form is Form.JSON:
        write_json(view, pretty=True)
    else:
        show_lines(lines_of(view, 0))
    return SOUND


@app.command(cls=Command)
def diff(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(help="A run, or the beginning of a version.", metavar="RUN|VERSION")],
    new: Annotated[str | None, typer.Argument(help="The same; today's code by default.", metavar="RUN|VERSION")] = None,
    modules: AppOption = None,
    store: StoreOption = None,
) -> None:
    """Show how the code of a run differs from today's, or two versions from each other.

    \b
    outlast versions diff 01a1e436-2c39
    outlast versions diff 01a1e436-2c39 01a1e440-77ab
    outlast versions diff 5f0c2e 9ab311
    """

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        load_here(modules or (), settings)
        return _diff(settings, old, new, modules or ())

    carry_out(begin)


async def _diff(settings: Settings, old: str, new: str | None, apps: Any) -> int:
    async with open_desk(settings) as desk:
        before = await _version(desk, old)
        if new is not None:
            after = await _version(desk, new)
        else:
            run = await desk.find(old)
            workflow_of(await desk.diagnostics.created(run), apps, settings)
            after = await desk.versions.current(run)
        text = await desk.versions.diff(before, after)
    if not text:
        notice(f"version {before[:12]} and version {after[:12]} have the same text")
        return SOUND
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for each in text.splitlines():
        show_lines([line((plain(each, keep_indent=True), styles.get(each[:1], "")), fit="copy")])
    return DIFFERS


async def _version(desk: Engine, name: str) -> str:
    """The version of a run, or the one version that begins so."""
    try:
        return (await desk.get(await desk.find(name))).version
    except (NotFound, InvalidInput):
        found = await desk.versions.starting_with(name)
    if len(found) != 1:
        raise InvalidInput(f"there is no run {name!r}, and {len(found) or 'no'} versions that begin so")
    return found[0]


def migrate(
    ctx: typer.Context,
    run: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    modules: AppOption = None,
    by: ByOption = None,
    store: StoreOption = None,
) -> None:
    """Move a run to today's code, after showing what that means.

    As far as today's code agrees with what the log holds, the log is kept.
    What follows stays on its branch, and the run goes on beside it.

    \b
    outlast migrate 01a1e436-2c39 --app flows.py
    """

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        load_here(modules or (), settings)
        return _migrate(settings, run, modules or (), yes, whoever(by), reason, children)

    carry_out(begin)


async def _migrate(
    settings: Settings, name: str, apps: Any, yes: bool, by: str, reason: str, children: Children
) -> int:
    async with open_desk(settings) as desk:
        run = await desk.find(name)
        workflow_of(await desk.diagnostics.created(run), apps, settings)
        await desk.versions.check_migration(run)
        if not yes:
            await _explain(desk, run)
            if not typer.confirm("Move the run to today's code?", err=True):
                notice(f"run {run} stays as it is")
                return SOUND
        rehearsal = await desk.migrate(run, by=by, reason=reason, children=children.value)
    if rehearsal.agrees:
        notice(f"today's code agrees with the log of run {run}: it goes on as it is, no branch is needed", style="bold")
    else:
        notice(f"run {run} goes on from event {rehearsal.upto} with today's code, as a new branch", style="bold")
    return SOUND


async def _explain(desk: Engine, run: RunId) -> None:
    rehearsal = await desk.versions.replay(run)
    if rehearsal.agrees:
        notice(f"today's code agrees with all {counted(rehearsal.events, 'event')} of run {run}")
        return
    left = 0
    async for entry in desk.events(run, after=rehearsal.upto):
        left += type(entry.event).__name__ == "NodeCompleted"
    notice(
        f"{rehearsal.divergence}",
        f"Today's code agrees with the log up to event {rehearsal.upto}; {counted(left, 'completed node')} after it stay "
        "on the old branch, and results that the new code asks for in the same way are taken over.",
    )
