"""`outlast start`, `outlast resume` and `outlast retry`."""

from __future__ import annotations

import asyncio
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
from outlast.errors import WORKER_RESTARTED, Claimed, NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.actions import planned
from outlast.views.types import RunStatusView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

Change: TypeAlias = Callable[[Engine, RunId], Awaitable[RunId | None]]
"""Makes a run continue. Returns another run if that one continues instead."""


class Request(msgspec.Struct, frozen=True):
    """A change, and how the command waits for the runs afterwards. `reply` is the message if it does not wait."""

    change: Change
    options: WaitOptions
    reply: str = "run {run} continues when a worker with its code takes it"


ForceOption: TypeAlias = Annotated[
    bool,
    typer.Option("--force", help="Also if nodes completed after the failure, or the run was copied to another store."),
]


@command
def start(
    settings: Settings,
    runs: RunsArgument,
    *,
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Start runs that were created with `outlast run --no-start`.

    \b
    outlast start 01a1e436-2c39
    outlast ps --status created -o ids | xargs outlast start --no-wait
    """

    async def change(engine: Engine, run: RunId) -> None:
        await engine.begin(run, by=by)

    return continued(settings, runs, change, app, no_wait, by, output)


@command
def resume(
    settings: Settings,
    runs: RunsArgument,
    *,
    force: ForceOption = False,
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
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

    async def change(engine: Engine, run: RunId) -> RunId:
        return await _resumed(engine, run, by, force=force)

    reply = {"reply": "Workflow {run} resumed"} if settings.url else {}
    return continued(settings, runs, change, app, no_wait, by, output, **reply)


@command
def retry(
    settings: Settings,
    run: RunArgument,
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
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
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

    async def change(engine: Engine, found: RunId) -> None:
        await engine.retry(found, node, feedback=given, by=by, reason=reason, children=children.value, force=force)

    if dry_run:
        options = {"node": node or "", "feedback": given, "by": by, "children": children.value, "force": force}
        return show_plan(settings, run, "retry", options, output)
    return continued(settings, [run], change, app, no_wait, by, output)


async def show_plan(settings: Settings, name: str, action: str, options: dict[str, Any], output: Output) -> int:
    """Show the events that an action would append to a run."""
    async with opened(settings, readonly=True) as engine:
        run = await engine.find(name)
        show_view(await planned(engine, run, action, **options), output, ids=[run])
    return SOUND


def continued(
    settings: Settings,
    names: Sequence[str],
    change: Change,
    app: list[str] | None,
    no_wait: bool,
    by: str,
    output: Output,
    **reply: str,
) -> Coroutine[Any, Any, int]:
    """Make runs continue, and wait for them unless a server advances them. A missing run, or missing code, is refused
    before any change."""
    request = Request(change, WaitOptions.of(settings, by, output), **reply)
    found = asyncio.run(_found(settings, names))
    if no_wait or settings.url:
        return _change_only(settings, list(found), request)
    workflows = {run: workflow_of(created, app or (), settings) for run, created in found.items()}
    return _change_and_wait(settings, workflows, request)


async def _found(settings: Settings, names: Sequence[str]) -> dict[RunId, e.RunCreated]:
    async with opened(settings, readonly=True) as engine:
        runs = [await engine.find(name) for name in names]
        return {run: await engine.diagnostics.created(run) for run in runs}


async def _resumed(engine: Engine, run: RunId, by: str, *, force: bool) -> RunId:
    """Resume a run, or the run that it continued as, which is returned. A run that a live worker executes is taken over
    if the worker dies."""
    run = await engine.diagnostics.continued_as(run)
    summary = await engine.get(run)
    try:
        await engine.resume(run, by=by, force=force)
    except NotAllowed as refusal:
        if summary.status in (RunStatus.CREATED, RunStatus.WAITING) and not summary.awaits_start:
            notice(str(refusal))
        elif summary.status in (RunStatus.FAILED, RunStatus.PAUSED) or not isinstance(refusal.__cause__, Claimed):
            raise
        other = await engine.diagnostics.take_over_later(run)
        if other and engine.diagnostics.worker_id:
            notice(f"worker {other} executes run {run}: waiting for it; this command takes over if that worker dies")
    return run


async def _changed(engine: Engine, run: RunId, request: Request) -> RunId | None:
    """The run that continues; None after a refusal, which is printed and does not affect the other runs."""
    try:
        return await request.change(engine, run) or run
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
