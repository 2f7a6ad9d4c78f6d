"""`outlast jump`, `rewind`, `activate` and `fork`: take a run another way. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any

import msgspec
import typer

from outlast.cli.console import notice
from outlast.cli.dry_run import dry_run as show_dry_run
from outlast.cli.entrypoint import carry_out
from outlast.cli.options import (
    AppOption,
    ByOption,
    Children,
    ChildrenOption,
    DryRunOption,
    ReasonOption,
    Reply,
    ReplyOption,
    RunArgument,
    StoreOption,
    settings_of,
    whoever,
)
from outlast.cli.parameters import json_or_text
from outlast.cli.resume import NoWaitOption, Order, prepared
from outlast.cli.waiting import Manner
from outlast.client import Engine, branch_plans
from outlast.client.branch_plans import Plan
from outlast.errors import InvalidInput
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.actions import Verb
from outlast.lifecycle.branch_plan import START

EditOption = Annotated[
    list[str] | None,
    typer.Option(
        "--edit",
        metavar="NAME=VALUE",
        help="At a node: output=VALUE is what it returned, NAME=VALUE what it is called with; may be given again.",
    ),
]


def jump(
    ctx: typer.Context,
    run: RunArgument,
    to: Annotated[
        str,
        typer.Option("--to", metavar="EVENT|NODE|QUESTION", help="An event's number, a node, a question, or `start`."),
    ],
    edit: EditOption = None,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Go back to a place in a run, and go on from there as a new branch.

    An event is named by its number: the new branch begins after it. A node or
    a question is gone back to its beginning, and done or asked again. What the
    run did since stays readable on its old branch, and results that have
    nothing to do with it are taken over. Children started since are cancelled;
    with --children keep they go on, and the run does not wait for them.

    \b
    outlast jump 01a1e436-2c39 --to 17
    outlast jump 01a1e436-2c39 --to fetch#3 --dry-run
    outlast jump 01a1e436-2c39 --to fetch --edit url=https://example.org
    outlast jump 01a1e436-2c39 --to summarise --edit output='"by hand"'
    """

    async def turn(desk: Engine, found: RunId) -> None:
        edits, who = _edits(edit or [], to), whoever(by)
        await desk.jump(found, to, **edits, by=who, reason=reason, children=children.value)

    def plan() -> Plan:
        return branch_plans.to_place(to, **({"inputs": None} | _edits(edit or [], to)), by=whoever(by), reason=reason)

    if dry_run:
        _preview(ctx, run, "jump", plan, children, store, output)
    else:
        _carry_out(ctx, run, turn, app, no_wait, by, store, output)


def rewind(
    ctx: typer.Context,
    run: RunArgument,
    nodes: Annotated[int, typer.Argument(help="How many completed nodes to go back.", metavar="N")] = 1,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Go back over the last completed nodes and do them again, as a new branch.

    \b
    outlast rewind 01a1e436-2c39
    outlast rewind 01a1e436-2c39 3
    """

    async def turn(desk: Engine, found: RunId) -> None:
        await desk.rewind(found, nodes, by=whoever(by), reason=reason, children=children.value)

    if dry_run:
        _preview(ctx, run, "rewind", lambda: branch_plans.back(nodes), children, store, output)
    else:
        _carry_out(ctx, run, turn, app, no_wait, by, store, output)


def activate(
    ctx: typer.Context,
    run: RunArgument,
    branch: Annotated[int, typer.Argument(help="The branch to go on with.", metavar="BRANCH")],
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Go on from the end of an older branch, as a new one.

    If that branch had ended, its outcome is the run's again.

    \b
    outlast branches 01a1e436-2c39
    outlast activate 01a1e436-2c39 0
    """

    async def turn(desk: Engine, found: RunId) -> None:
        await desk.activate(found, branch, by=whoever(by), reason=reason, children=children.value)

    _carry_out(ctx, run, turn, app, no_wait, by, store, output)


def fork(
    ctx: typer.Context,
    run: RunArgument,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT|NODE|QUESTION", help="Where to fork it; where it stands by default."),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="The id of the new run.")] = None,
    title: Annotated[str, typer.Option(help="What people call the new run.")] = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Start a new run that has the history of this one up to a place.

    The run itself is not touched, and goes on beside its fork.

    \b
    outlast fork 01a1e436-2c39
    outlast fork 01a1e436-2c39 --at fetch#3 --id second-try
    """

    async def forked(desk: Engine, found: RunId) -> RunId:
        handle = await desk.fork(found, at, id=id, title=title, by=whoever(by))
        notice(f"run {handle.run} is a fork of {found}")
        return handle.run

    _carry_out(ctx, run, forked, app, no_wait, by, store, output)


def _preview(
    ctx: typer.Context,
    run: str,
    verb: Verb,
    plan: Callable[[], Plan],
    children: Children,
    store: str | None,
    output: Reply,
) -> None:
    async def preview(desk: Engine, found: RunId) -> Sequence[e.AnyEvent]:
        return await desk.diagnostics.preview(found, verb, branch_plans.leaving(plan(), children.value))

    carry_out(lambda: show_dry_run(settings_of(ctx, store), run, preview, output))


def _carry_out(
    ctx: typer.Context,
    run: str,
    turn: Callable[[Engine, RunId], Awaitable[RunId | None]],
    app: list[str] | None,
    no_wait: bool,
    by: str | None,
    store: str | None,
    output: Reply,
) -> None:
    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        order = Order(turn, not no_wait, Manner.of(settings, whoever(by), output))
        return prepared(settings, [run], app or (), order)

    carry_out(begin)


def _edits(edit: list[str], to: str) -> dict[str, Any]:
    """What was edited, as arguments of `Engine.jump`."""
    if edit and (to == START or (to.isascii() and to.isdigit())):
        what = "the start of the run" if to == START else f"event {to}"
        raise InvalidInput(
            f"only what a node is called with or returns can be edited, and {what} is no node: --to a node"
        )
    told: dict[str, Any] = {}
    for each in edit:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{each!r} is no edit: write output=VALUE, or NAME=VALUE for a parameter of the node")
        if name in told:
            raise InvalidInput(f"{name} is edited twice")
        told[name] = json_or_text(text, f"--edit {name}")
    if "output" in told:
        if len(told) > 1:
            raise InvalidInput("with an output the node is not called, so there is nothing to edit about its inputs")
        return {"output": told["output"]}
    return {"inputs": told} if told else {"output": msgspec.UNSET}
