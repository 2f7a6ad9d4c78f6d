"""The commands that make runs continue: `start`, `resume` and `retry`, and those that go back, which delete no event."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import typer

from outlast.cli.code_import import workflow_of
from outlast.cli.console import notice, show_reply, show_view
from outlast.cli.entrypoint import MISUSED, SOUND, advice, command
from outlast.cli.opening import opened
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
    RunsArgument,
)
from outlast.cli.outcome import Outcome, report
from outlast.cli.parameters import json_or_text
from outlast.cli.run import wait_for_end, working
from outlast.cli.signals import Interruption
from outlast.cli.waiting import WaitOptions
from outlast.client import Engine
from outlast.client.handle import RunHandle
from outlast.errors import WORKER_RESTARTED, Claimed, InvalidInput, NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.branch_plan import START
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.actions import planned
from outlast.views.types import RunStatusView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

CONTINUES = "run {run} continues when a worker with its code takes it"
Change: TypeAlias = Callable[[Engine, RunId, str, dict[str, Any]], Awaitable[RunId]]
"""Makes a run continue by a verb of the engine, with these arguments. Returns the run that continues."""


class Request(msgspec.Struct, frozen=True):
    """A change, and how the command waits for the runs afterwards. `reply` is the message if it does not wait."""

    change: Callable[[Engine, RunId], Awaitable[RunId]]
    options: WaitOptions
    reply: str


async def _called(engine: Engine, run: RunId, verb: str, arguments: dict[str, Any]) -> RunId:
    handle: RunHandle[Any] = await getattr(engine, verb)(run, **arguments)
    return handle.run


def continues(
    verb: str, change: Change = _called, *, many: bool = False, can_plan: bool = False, reply: str = CONTINUES
) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., None]]:
    """A command that makes a run, or `many` runs, continue, and waits for them unless a server advances them. The function
    returns the arguments of the engine's `verb`. RUN and the common options are added, with --dry-run if it `can_plan`.
    `reply` is the message if a server continues the run. A missing run, or missing code, is refused before any change."""

    def made(function: Callable[..., dict[str, Any]]) -> Callable[..., None]:
        def begin(
            settings: Settings,
            run: RunArgument | list[str],
            *,
            app: AppOption = None,
            no_wait: NoWaitOption = False,
            dry_run: DryRunOption = False,
            by: ByOption,
            output: OutputOption = Output.TEXT,
            **given: Any,
        ) -> Coroutine[Any, Any, int]:
            arguments = {**function(**given), "by": by}
            names = [run] if isinstance(run, str) else run
            if dry_run:
                return _show_plan(settings, names[0], verb, arguments, output)
            options, shown = WaitOptions.of(settings, by, output), reply if settings.url else CONTINUES
            request = Request(lambda engine, found: change(engine, found, verb, arguments), options, shown)
            found = asyncio.run(_found(settings, names))
            if no_wait or settings.url:
                return _change_only(settings, list(found), request)
            workflows = {run: workflow_of(created, app or (), settings) for run, created in found.items()}
            return _change_and_wait(settings, workflows, request)

        first, run, *common, _ = inspect.signature(begin, eval_str=True).parameters.values()
        own = inspect.signature(function, eval_str=True).parameters.values()
        run = run.replace(annotation=RunsArgument if many else RunArgument)
        shown = [first, run, *own, *(each for each in common if can_plan or each.name != "dry_run")]
        keyword = inspect.Parameter.KEYWORD_ONLY
        begin.__signature__ = inspect.Signature([each.replace(kind=keyword) for each in shown])  # type: ignore[attr-defined]
        begin.__name__, begin.__doc__ = function.__name__, function.__doc__
        return command(begin)

    return made


async def _resumed(engine: Engine, run: RunId, verb: str, arguments: dict[str, Any]) -> RunId:
    """Resume a run, or the run that it continued as, which is returned. A run that a live worker executes is taken over
    if the worker dies."""
    run = await engine.diagnostics.continued_as(run)
    summary = await engine.get(run)
    try:
        await _called(engine, run, verb, arguments)
    except NotAllowed as refusal:
        if summary.status in (RunStatus.CREATED, RunStatus.WAITING) and not summary.awaits_start:
            notice(str(refusal))
        elif summary.status in (RunStatus.FAILED, RunStatus.PAUSED) or not isinstance(refusal.__cause__, Claimed):
            raise
        other = await engine.diagnostics.take_over_later(run)
        if other and engine.diagnostics.worker_id:
            notice(f"worker {other} executes run {run}: waiting for it; this command takes over if that worker dies")
    return run


ForceOption: TypeAlias = Annotated[
    bool,
    typer.Option("--force", help="Also if nodes completed after the failure, or the run was copied to another store."),
]


@continues("begin", many=True)
def start() -> dict[str, Any]:
    """Start runs that were created with `outlast run --no-start`.

    \b
    outlast start 01a1e436-2c39
    outlast ps --status created -o ids | xargs outlast start --no-wait
    """
    return {}


@continues("resume", _resumed, many=True, reply="Workflow {run} resumed")
def resume(*, force: ForceOption = False) -> dict[str, Any]:
    """Resume runs that were interrupted, failed, held or paused.

    Completed nodes are not repeated. The code is imported from --app, then from
    the setting `apps`, then from the module the run was started from; without
    its code, a run is not changed.
    If a live worker executes a run, the command waits for it, and takes the run
    over if that worker dies. Resuming a held run is a decision: the interrupted
    node is repeated. A run whose nodes completed after its failure, such as
    nodes that undo others, requires --force. So does a run that was copied to
    another store: it then continues in both.

    With --server, the server advances the runs and the command does not wait.

    \b
    outlast resume 01a1e436-2c39
    outlast resume 01a1e436-2c39 --app flows.py
    outlast ps --status failed -o ids | xargs outlast resume
    """
    return {"force": force}


@continues("retry", can_plan=True)
def retry(
    node: Annotated[
        str | None, typer.Argument(help="Node to retry (default: the node that failed).", metavar="NODE")
    ] = None,
    *,
    feedback: Annotated[
        str | None,
        typer.Option("--feedback", "-f", metavar="VALUE", help="Feedback for the node: JSON, or plain text."),
    ] = None,
    children: ChildrenOption = Children.CANCEL,
    force: ForceOption = False,
    reason: ReasonOption = "",
) -> dict[str, Any]:
    """Repeat a node and continue from there.

    A failed node gets another attempt. A completed node is repeated on a new
    branch; the old branch stays readable. Children that were started since are
    cancelled; with --children keep they continue, and the run does not wait for
    them. If nodes completed after the failure, such as nodes that undo others,
    --force is required: their effects stay.

    \b
    outlast retry 01a1e436-2c39
    outlast retry 01a1e436-2c39 fetch#3
    outlast retry 01a1e436-2c39 draft --feedback "shorter, please"
    """
    given = None if feedback is None else json_or_text(feedback, "--feedback")
    return {"node": node, "feedback": given, "children": children.value, "force": force, "reason": reason}


@continues("jump", can_plan=True)
def jump(
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
) -> dict[str, Any]:
    """Go back in a run and continue from there on a new branch.

    With the number of an event, the new branch begins after that event. With a
    node or a question, it begins before its call, and the node is repeated or the
    question asked again; code that was changed may call it otherwise. With
    --edit, the call stays and the branch begins before its outcome, so that what
    ran beside it stays too. The old branch stays readable; results that do not
    depend on the change are reused. Children that were started since are
    cancelled; with --children keep they continue, and the run does not wait for
    them.

    \b
    outlast jump 01a1e436-2c39 --to 17
    outlast jump 01a1e436-2c39 --to fetch#3 --dry-run
    outlast jump 01a1e436-2c39 --to fetch --edit url=https://example.org
    outlast jump 01a1e436-2c39 --to summarise --edit output='"by hand"'
    """
    return {"to": to, **_edits(edit or [], to), "children": children.value, "reason": reason}


@continues("rewind", can_plan=True)
def rewind(
    nodes: Annotated[int, typer.Argument(help="Number of completed nodes to repeat.", metavar="N")] = 1,
    *,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
) -> dict[str, Any]:
    """Repeat the last completed nodes, on a new branch.

    \b
    outlast rewind 01a1e436-2c39
    outlast rewind 01a1e436-2c39 3
    """
    return {"nodes": nodes, "children": children.value, "reason": reason}


@continues("activate")
def activate(
    branch: Annotated[int, typer.Argument(help="Branch to continue from.", metavar="BRANCH")],
    *,
    children: ChildrenOption = Children.CANCEL,
    reason: ReasonOption = "",
) -> dict[str, Any]:
    """Continue from the end of an older branch, on a new branch.

    If the older branch had ended, the run ends the same way.

    \b
    outlast branches 01a1e436-2c39
    outlast activate 01a1e436-2c39 0
    """
    return {"branch": branch, "children": children.value, "reason": reason}


async def _forked(engine: Engine, run: RunId, verb: str, arguments: dict[str, Any]) -> RunId:
    fork = await _called(engine, run, verb, arguments)
    notice(f"run {fork} is a fork of {run}")
    return fork


@continues("fork", _forked)
def fork(
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="EVENT|NODE|QUESTION", help="Place to fork at (default: the last event)."),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of the new run.")] = None,
    title: Annotated[str, typer.Option(help="Title of the new run.")] = "",
) -> dict[str, Any]:
    """Start a new run with the history of this one up to a place.

    This run is not changed and continues.

    \b
    outlast fork 01a1e436-2c39
    outlast fork 01a1e436-2c39 --at fetch#3 --id second-try
    """
    return {"at": at, "id": id, "title": title}


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


async def _show_plan(settings: Settings, name: str, action: str, options: dict[str, Any], output: Output) -> int:
    """Show the events that an action would append to a run."""
    async with opened(settings, readonly=True) as engine:
        run = await engine.find(name)
        show_view(await planned(engine, run, action, **options), output, ids=[run])
    return SOUND


async def _found(settings: Settings, names: Sequence[str]) -> dict[RunId, e.RunCreated]:
    async with opened(settings, readonly=True) as engine:
        runs = [await engine.find(name) for name in names]
        return {run: await engine.diagnostics.created(run) for run in runs}


async def _changed(engine: Engine, run: RunId, request: Request) -> RunId | None:
    """The run that continues; None after a refusal, which is printed and does not affect the other runs."""
    try:
        return await request.change(engine, run)
    except NotAllowed as refusal:
        notice(f"outlast: {refusal}", advice(refusal), style="red")
        return None


async def _change_only(settings: Settings, runs: Sequence[RunId], request: Request) -> int:
    code = SOUND
    async with opened(settings) as engine:
        for each in runs:
            before = await engine.get(each)
            run = await _changed(engine, each, request)
            if run is None:
                code = MISUSED
                continue
            summary = await engine.get(run)
            has_changed = run != each or summary.at > before.at
            view = RunStatusView(run=run, status=summary.status, resumed=has_changed)
            later = "when a worker with its code takes it"
            text = (
                request.reply.format(run=run) if has_changed else f"run {run} is {summary.status} and continues {later}"
            )
            show_reply(view, request.options.output, run, text, style="dim")
    return code


async def _change_and_wait(settings: Settings, workflows: dict[RunId, Workflow[..., Any]], request: Request) -> int:
    code, options = SOUND, request.options
    with Interruption(options.by, options.where) as interruption:
        async with working(settings) as engine:
            going: list[tuple[RunId, Workflow[..., Any]]] = []
            for each, workflow in workflows.items():
                if interruption.code:
                    break
                run = await _changed(engine, each, request)
                if run is None:
                    code = MISUSED
                    continue
                interruption.runs.append(run)
                going.append((run, workflow))
            for run, workflow in going:
                ended = await _ended(engine, run, workflow, request, interruption)
                if run in interruption.runs:
                    interruption.runs.remove(run)
                code = max(code, interruption.code_of(report(ended, options.output, options.where)))
        return code


async def _ended(
    engine: Engine, run: RunId, workflow: Workflow[..., Any], request: Request, interruption: Interruption
) -> Outcome:
    """The end of a run. A run that is held because of the interruption is resumed again: the user has decided."""
    ended = await wait_for_end(engine, run, workflow, request.options, interruption)
    outline = ended.tally.state.outline
    if outline.held and outline.error is not None and outline.error.kind == WORKER_RESTARTED:
        if await _changed(engine, ended.tally.run, request) is None:
            return ended
        return await wait_for_end(engine, run, workflow, request.options, interruption)
    return ended
