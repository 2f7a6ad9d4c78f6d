"""`outlast run`: start a workflow here, and wait for what it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from outlast.cli.code_import import named_workflow
from outlast.cli.console import notice
from outlast.cli.entrypoint import carry_out
from outlast.cli.explain import way_on
from outlast.cli.options import AppOption, ByOption, Reply, ReplyOption, StoreOption, settings_of, whoever
from outlast.cli.outcome import Outcome, outcome, report
from outlast.cli.parameters import Called, read_parameters
from outlast.cli.signals import Interruption
from outlast.cli.waiting import Attendant, Manner
from outlast.client import Engine
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.settings import Settings
from outlast.views.files import files_of_family

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow


def run(
    ctx: typer.Context,
    workflow: Annotated[
        str,
        typer.Argument(help="module:workflow, file.py:workflow, or a module that has only one.", metavar="WORKFLOW"),
    ],
    parameters: Annotated[
        list[str] | None, typer.Argument(help="Parameters: JSON, or plain text.", metavar="KEY=VALUE...")
    ] = None,
    document: Annotated[
        str | None,
        typer.Option("--json", metavar="OBJECT", help="Parameters as one JSON object; - reads it from stdin."),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="The id of the run: asked for twice, it is one run.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="The same, by a key of this workflow's own.")] = None,
    title: Annotated[str, typer.Option(help="What people call the run.")] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="May be given again.")] = None,
    app: AppOption = None,
    by: ByOption = None,
    store: StoreOption = None,
    output: ReplyOption = Reply.TEXT,
) -> None:
    """Run a workflow here and print what it returns.

    Modules are looked for in the current folder and in the project's.
    Ctrl+C pauses it, `outlast resume` goes on with it.

    \b
    outlast run flows:letters text="to last"
    outlast run flows.py:letters --json '{"text": "to last"}' --id letters-1
    outlast run flows:letters text="to last" -o json | jq .result
    """

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        if workflow.startswith(":"):
            raise InvalidInput(f"{workflow!r} names no module: write module:workflow, or file.py:workflow")
        found = named_workflow(workflow, app or (), settings)
        called = read_parameters(found, parameters or (), document)
        started = found.options(id=id, idempotency_key=key, title=title, tags=tuple(tag or ()))
        return _run(settings, started, called, Manner.of(settings, whoever(by), output))

    carry_out(begin)


async def _run(settings: Settings, workflow: Workflow[..., Any], called: Called, manner: Manner) -> int:
    with Interruption(manner.by, manner.where) as interruption:
        async with working(settings) as desk:
            if interruption.code:
                notice("outlast: interrupted before the run began")
                return interruption.code
            args, kwargs = called
            handle = await desk.start(workflow, *args, **kwargs)
            interruption.runs.append(handle.run)
            if manner.reply is Reply.TEXT:
                notice(f"run {handle.run} of {workflow.name}")
            ended = await see_through(desk, handle.run, workflow, manner, interruption)
        return interruption.code_of(report(ended, manner.reply, manner.where))


def working(settings: Settings) -> Any:
    """An engine that advances the runs that are started or resumed here, and no others."""
    from outlast.compose import Opening

    return Opening(msgspec.structs.replace(settings, apps=()), take_over_others=False)


async def see_through(
    desk: Engine, run: RunId, workflow: Workflow[..., Any], manner: Manner, interruption: Interruption
) -> Outcome:
    """Wait for the end of a run, or until it is paused or a person has to decide. Raises only what is no end of the run."""
    attendant = Attendant(desk, run, manner)
    try:
        value = await _attended(desk, attendant, workflow, interruption)
    except Exception:
        if attendant.tally.state.status not in (RunStatus.FAILED, RunStatus.CANCELLED):
            raise
        tally, outline = attendant.tally, attendant.tally.state.outline
        can_go_on = outline.recoverable and not outline.held
        return Outcome(tally, way_on=await way_on(desk, tally.run, manner.where) if can_go_on else "")
    if attendant.tally.state.status is not RunStatus.COMPLETED:
        return Outcome(attendant.tally, files=tuple(await files_of_family(desk, attendant.tally)))
    return outcome(attendant.tally, workflow, value)


async def _attended(
    desk: Engine, attendant: Attendant, workflow: Workflow[..., Any], interruption: Interruption
) -> Any:
    """What the run returned, or None if it has not ended: it is paused, or goes on elsewhere."""
    result = asyncio.create_task(attendant.result(workflow))
    wanted = asyncio.create_task(interruption.wait())
    try:
        await asyncio.wait({result, wanted}, return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            attendant.be_quiet()
            await interruption.pause(desk)
            await attendant.look()
            if attendant.tally.state.status not in TERMINAL:
                return None
        return await result
    finally:
        for task in (result, wanted):
            task.cancel()
        await asyncio.gather(result, wanted, return_exceptions=True)
