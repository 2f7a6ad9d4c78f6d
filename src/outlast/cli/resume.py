"""`outlast resume` and `outlast retry`: go on here with runs that stopped, and wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from outlast.cli.code_import import workflow_of
from outlast.cli.console import notice, write_bytes, write_json
from outlast.cli.dry_run import dry_run as show_dry_run
from outlast.cli.entrypoint import MISUSED, SOUND, advice, carry_out
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
    RunsArgument,
    StoreOption,
    settings_of,
    whoever,
)
from outlast.cli.outcome import Outcome, report
from outlast.cli.parameters import json_or_text
from outlast.cli.run import see_through, working
from outlast.cli.signals import Interruption
from outlast.cli.waiting import Manner
from outlast.client import Engine, RunSummary
from outlast.compose import open_desk
from outlast.errors import WORKER_RESTARTED, Claimed, NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.types import RunStatusView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Only let them go on, wherever a worker is; nothing is imported here.")
]


class Found(msgspec.Struct, frozen=True):
    """A run that was named, as it was created."""

    run: RunId
    created: e.RunCreated


class Order(msgspec.Struct, frozen=True):
    """What is to be done with the runs: how each is set going, whether it is waited for, and how. `set_going` returns
    another run, if it is that one which then goes on."""

    set_going: Callable[[Engine, RunId], Awaitable[RunId | None]]
    is_waiting: bool
    manner: Manner


ForceOption = Annotated[
    bool, typer.Option("--force", help="Also if nodes completed after the failure, or the run was copied elsewhere.")
]


def resume(
    ctx: typer.Context,
    runs: RunsArgument,
    force: ForceOption = False,
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Go on with runs that were interrupted, failed, held or paused.

    What is done is not done again. The code is imported from --app, then from
    the settings' apps, then from where the run was started; if it is not
    found, the run stays as it is. A run that a live worker advances is waited
    for, and taken over should that worker go. Runs that are over are named.
    To resume a held run is to decide: what held it is done again. A run whose
    nodes completed after its failure, such as what undid something, goes on
    only by --force. So does one that was copied to another store: it then
    goes on in both.

    \b
    outlast resume 01a1e436-2c39
    outlast resume 01a1e436-2c39 --app flows.py
    outlast ps --status failed -o ids | xargs outlast resume
    """

    async def reopen(desk: Engine, run: RunId) -> RunId:
        return await resumed(desk, run, whoever(by), force=force)

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        order = Order(reopen, not no_wait, Manner.of(settings, whoever(by), output))
        return prepared(settings, runs, app or (), order)

    carry_out(begin)


def retry(
    ctx: typer.Context,
    run: RunArgument,
    node: Annotated[
        str | None, typer.Argument(help="The node; that which the run failed of by default.", metavar="NODE")
    ] = None,
    feedback: Annotated[
        str | None, typer.Option("--feedback", "-f", metavar="VALUE", help="Given to the node: JSON, or plain text.")
    ] = None,
    children: ChildrenOption = Children.CANCEL,
    force: ForceOption = False,
    reason: ReasonOption = "",
    app: AppOption = None,
    no_wait: NoWaitOption = False,
    dry_run: DryRunOption = False,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Do a node again and go on from there.

    A failed node gets another attempt where it is. One that completed is done
    again on a new branch; what followed from it stays readable on the old one.
    Children started since are cancelled; with --children keep they go on, and
    the run does not wait for them. If nodes completed after the failure, such
    as what undid something, --force is needed: their effects stay.

    \b
    outlast retry 01a1e436-2c39
    outlast retry 01a1e436-2c39 fetch#3
    outlast retry 01a1e436-2c39 draft --feedback "shorter, please"
    """

    async def reopen(desk: Engine, found: RunId) -> None:
        await desk.retry(
            found, node, feedback=given(), by=whoever(by), reason=reason, children=children.value, force=force
        )

    def given() -> Any:
        return None if feedback is None else json_or_text(feedback, "--feedback")

    async def preview(desk: Engine, found: RunId) -> Sequence[e.AnyEvent]:
        return await desk.diagnostics.preview_retry(found, node, feedback=given(), children=children.value, force=force)

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        if dry_run:
            return show_dry_run(settings, run, preview, output)
        order = Order(reopen, not no_wait, Manner.of(settings, whoever(by), output))
        return prepared(settings, [run], app or (), order)

    carry_out(begin)


async def resumed(desk: Engine, run: RunId, by: str, *, force: bool = False) -> RunId:
    """Let a run go on that has stopped or was interrupted, or the one that it continued as, which is returned. If a live
    worker goes on with it anyhow, stand by."""
    run = await desk.diagnostics.continued_as(run)
    summary = await desk.get(run)
    try:
        await desk.resume(run, by=by, force=force)
    except NotAllowed as refusal:
        if summary.status in (RunStatus.CREATED, RunStatus.WAITING):
            notice(str(refusal))
        elif summary.status in (RunStatus.FAILED, RunStatus.PAUSED) or not isinstance(refusal.__cause__, Claimed):
            raise
        other = await desk.diagnostics.take_over_later(run)
        if other and desk.diagnostics.worker_id:
            notice(f"run {run} is advanced by worker {other}: waiting for it, and going on here if it dies or hangs")
    return run


def prepared(settings: Settings, names: Sequence[str], apps: Sequence[str], order: Order) -> Coroutine[Any, Any, int]:
    """A run that is not there, and code that is not found, is refused before anything is changed."""
    found = asyncio.run(_found(settings, names))
    if not order.is_waiting:
        return _reopen_only(settings, found, order)
    workflows = [workflow_of(each.created, apps, settings) for each in found]
    return _go_on(settings, list(zip(found, workflows, strict=True)), order)


async def _found(settings: Settings, names: Sequence[str]) -> list[Found]:
    found: dict[RunId, Found] = {}
    async with open_desk(settings, readonly=True) as desk:
        for name in names:
            run = await desk.find(name)
            found[run] = Found(run, await desk.diagnostics.created(run))
    return list(found.values())


async def _reopen_only(settings: Settings, found: Sequence[Found], order: Order) -> int:
    code = SOUND
    async with open_desk(settings) as desk:
        for each in found:
            before = await desk.get(each.run)
            run = await _restart_child(desk, each.run, order)
            if run is None:
                code = MISUSED
                continue
            summary = await desk.get(run)
            has_changed = run != each.run or summary.at > before.at
            _tell_reopened(summary, has_changed, order.manner.reply)
    return code


def _tell_reopened(summary: RunSummary, has_changed: bool, reply: Reply) -> None:
    if reply is Reply.JSON:
        write_json(RunStatusView(run=summary.run, status=summary.status, resumed=has_changed))
    elif reply is Reply.IDS:
        write_bytes(f"{summary.run}\n".encode())
    else:
        how = "goes on" if has_changed else f"is {summary.status} and goes on"
        notice(f"run {summary.run} {how} as soon as a worker has its code")


async def _restart_child(desk: Engine, run: RunId, order: Order) -> RunId | None:
    """The run that goes on now. One that is refused is named, and keeps nobody else waiting: None."""
    try:
        return await order.set_going(desk, run) or run
    except NotAllowed as refusal:
        notice(f"outlast: {refusal}", advice(refusal), style="red")
        return None


async def _go_on(settings: Settings, found: Sequence[tuple[Found, Workflow[..., Any]]], order: Order) -> int:
    code = SOUND
    with Interruption(order.manner.by, order.manner.where) as interruption:
        async with working(settings) as desk:
            going: list[tuple[RunId, Workflow[..., Any]]] = []
            for each, workflow in found:
                if interruption.code:
                    break
                run = await _restart_child(desk, each.run, order)
                if run is None:
                    code = MISUSED
                    continue
                interruption.runs.append(run)
                going.append((run, workflow))
            for run, workflow in going:
                ended = await _seen_through(desk, run, workflow, order, interruption)
                if run in interruption.runs:
                    interruption.runs.remove(run)
                code = max(code, interruption.code_of(report(ended, order.manner.reply, order.manner.where)))
        return code


async def _seen_through(
    desk: Engine, run: RunId, workflow: Workflow[..., Any], order: Order, interruption: Interruption
) -> Outcome:
    """A run that is only held because it was interrupted goes on: whoever resumes it has decided."""
    ended = await see_through(desk, run, workflow, order.manner, interruption)
    error = ended.tally.state.outline.error
    if ended.tally.state.outline.held and error is not None and error.kind == WORKER_RESTARTED:
        if await _restart_child(desk, ended.tally.run, order) is None:
            return ended
        return await see_through(desk, run, workflow, order.manner, interruption)
    return ended
