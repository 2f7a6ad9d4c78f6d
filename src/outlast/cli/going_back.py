"""`outlast jump`, `outlast rewind`, `outlast activate` and `outlast fork`. They delete no event."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any

import msgspec
import typer

from outlast.cli.console import notice
from outlast.cli.entrypoint import command
from outlast.cli.options import (
    AppOption,
    ByOption,
    Children,
    ChildrenOption,
    DryRunOption,
    NoWaitOption,
    Output,
    OutputOption,
    ReasonOption,
    RunArgument,
)
from outlast.cli.parameters import json_or_text
from outlast.cli.resume import continued, show_plan
from outlast.client import Engine
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.branch_plan import START
from outlast.settings import Settings


@command
def jump(
    settings: Settings,
    run: RunArgument,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="EVENT|NODE|QUESTION", help="Number of an event, a node, a question, or `start`."),
    ],
    edit: Annotated[
        list[str] | None,
        typer.Option(
            "--edit",
            metavar="NAME=VALUE",
            help="For a node: output=VALUE sets its result, NAME=VALUE a parameter; can be repeated.",
        ),
    ] = None,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Go back in a run and continue from there on a new branch.

    With the number of an event, the new branch begins after that event. With a
    node or a question, it begins before it, and the node is repeated or the
    question asked again. The old branch stays readable; results that do not
    depend on the change are reused. Children that were started since are
    cancelled; with --children keep they continue, and the run does not wait for
    them.

    \b
    outlast jump 01a1e436-2c39 --to 17
    outlast jump 01a1e436-2c39 --to fetch#3 --dry-run
    outlast jump 01a1e436-2c39 --to fetch --edit url=https://example.org
    outlast jump 01a1e436-2c39 --to summarise --edit output='"by hand"'
    """
    edits = _edits(edit or [], to)

    async def change(engine: Engine, found: RunId) -> None:
        await engine.jump(found, to, **edits, by=by, reason=reason, children=children.value)

    if dry_run:
        options = {"to": to, **edits, "by": by, "reason": reason, "children": children.value}
        return show_plan(settings, run, "jump", options, output)
    return continued(settings, [run], change, app, no_wait, by, output)


@command
def rewind(
    settings: Settings,
    run: RunArgument,
    nodes: Annotated[int, typer.Argument(help="Number of completed nodes to repeat.", metavar="N")] = 1,
    *,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Repeat the last completed nodes, on a new branch.

    \b
    outlast rewind 01a1e436-2c39
    outlast rewind 01a1e436-2c39 3
    """

    async def change(engine: Engine, found: RunId) -> None:
        await engine.rewind(found, nodes, by=by, reason=reason, children=children.value)

    if dry_run:
        options = {"nodes": nodes, "by": by, "reason": reason, "children": children.value}
        return show_plan(settings, run, "rewind", options, output)
    return continued(settings, [run], change, app, no_wait, by, output)


@command
def activate(
    settings: Settings,
    run: RunArgument,
    branch: Annotated[int, typer.Argument(help="Branch to continue from.", metavar="BRANCH")],
    *,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Continue from the end of an older branch, on a new branch.

    If the older branch had ended, the run ends the same way.

    \b
    outlast branches 01a1e436-2c39
    outlast activate 01a1e436-2c39 0
    """

    async def change(engine: Engine, found: RunId) -> None:
        await engine.activate(found, branch, by=by, reason=reason, children=children.value)

    return continued(settings, [run], change, app, no_wait, by, output)


@command
def fork(
    settings: Settings,
    run: RunArgument,
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT|NODE|QUESTION", help="Place to fork at (default: the last event)."),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of the new run.")] = None,
    title: Annotated[str, typer.Option(help="Title of the new run.")] = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Start a new run with the history of this one up to a place.

    This run is not changed and continues.

    \b
    outlast fork 01a1e436-2c39
    outlast fork 01a1e436-2c39 --at fetch#3 --id second-try
    """

    async def change(engine: Engine, found: RunId) -> RunId:
        handle = await engine.fork(found, at, id=id, title=title, by=by)
        notice(f"run {handle.run} is a fork of {found}")
        return handle.run

    return continued(settings, [run], change, app, no_wait, by, output)


def _edits(edit: list[str], to: str) -> dict[str, Any]:
    """The edits as arguments of `Engine.jump`."""
    if edit and (to == START or (to.isascii() and to.isdigit())):
        what = "the start of the run" if to == START else f"event {to}"
        raise InvalidInput(
            f"--edit changes a result or parameters of a node, and {what} is no node: give a node to --to"
        )
    edits: dict[str, Any] = {}
    for each in edit:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--edit {each!r} is not valid: write output=VALUE, or NAME=VALUE for a parameter")
        if name in edits:
            raise InvalidInput(f"--edit {name} is given twice")
        edits[name] = json_or_text(text, f"--edit {name}")
    if "output" in edits:
        if len(edits) > 1:
            raise InvalidInput("--edit output replaces the call of the node: omit the edits of its parameters")
        return {"output": edits["output"]}
    return {"inputs": edits} if edits else {"output": msgspec.UNSET}
