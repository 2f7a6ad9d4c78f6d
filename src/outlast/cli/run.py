"""`outlast run`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from outlast.cli.code_import import named_workflow
from outlast.cli.console import notice, show_reply
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import AppOption, ByOption, Output, OutputOption
from outlast.cli.outcome import Outcome, outcome, report
from outlast.cli.parameters import read_attributes, read_parameters
from outlast.cli.questions import parameters_by_schema
from outlast.cli.signals import Interruption
from outlast.cli.waiting import RunWatcher, WaitOptions
from outlast.client import Engine
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.settings import Settings
from outlast.views.files import files_of_family
from outlast.views.types import RunStatusView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow


@command
def run(
    settings: Settings,
    workflow: Annotated[
        str,
        typer.Argument(
            help="module:workflow, file.py:workflow, or a module with only one workflow.", metavar="WORKFLOW"
        ),
    ],
    parameters: Annotated[
        list[str] | None, typer.Argument(help="Parameters: JSON, or plain text.", metavar="KEY=VALUE")
    ] = None,
    *,
    document: Annotated[
        str | None,
        typer.Option("--json", metavar="OBJECT", help="Parameters as a JSON object; - reads it from stdin."),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Run id. Starting the same id again returns the existing run.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="Idempotency key: like --id, but any text. Starting it again returns the existing run."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the run.")] = "",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="Tag of the run; can be repeated.")
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Queue in which the run waits.")] = None,
    priority: Annotated[
        int | None, typer.Option(help="Priority of the run, from -100 to 100; the greatest begins first.")
    ] = None,
    fairness_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The runs of each key take turns, for example of each customer.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=VALUE",
            help="Search attribute of the run: a number, true, false, a time with a zone, or text; can be repeated. "
            "Double quotes make it text: 'code=\"12\"'.",
        ),
    ] = None,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Create the run only; `outlast start` begins it.")
    ] = False,
    app: AppOption = None,
    by: ByOption,
    output: OutputOption = Output.TEXT,
) -> Coroutine[Any, Any, int]:
    """Run a workflow and print its result.

    Modules are searched in the current folder and in the project folder first.
    Ctrl+C pauses the run; `outlast resume` continues it.

    With --server, WORKFLOW is the name of a workflow that the server knows, and
    Ctrl+C ends the waiting only.

    \b
    outlast run flows:letters text="to last"
    outlast run flows.py:letters --json '{"text": "to last"}' --id letters-1
    outlast run flows:letters text="to last" -o json | jq .result
    outlast run flows:bill order=17 --attribute customer=acme --attribute total=12.5
    """
    if workflow.startswith(":"):
        raise InvalidInput(f"{workflow!r} has no module: write module:workflow, or file.py:workflow")
    options = WaitOptions.of(settings, by, output)
    attributes = read_attributes(attribute or ())
    texts: dict[str, Any] = {"title": title, "tags": tuple(tag or ()), "attributes": attributes}
    placing: dict[str, Any] = {"queue": queue, "priority": priority, "fairness_key": fairness_key}
    if settings.url:
        given = {"id": id or "", "idempotency_key": key or "", "start": not no_start, **texts, **placing}
        return _run_there(settings, workflow, parameters or (), document, given, options)
    found = named_workflow(workflow, app or (), settings)
    args, kwargs = read_parameters(found, parameters or (), document)
    started = found.options(id=id, idempotency_key=key, start=not no_start, **texts, **placing)

    async def start(engine: Engine) -> RunId:
        return (await engine.start(started, *args, **kwargs)).run

    if no_start:
        return _create(settings, start, found.name, options)
    return _run(working(settings), start, found.name, found, options, Interruption(by, options.where))


def _run_there(
    settings: Settings,
    workflow: str,
    pairs: Sequence[str],
    document: str | None,
    given: dict[str, Any],
    options: WaitOptions,
) -> Coroutine[Any, Any, int]:
    """Run a workflow that a server knows."""
    from outlast.remote.engine import RemoteEngine

    name = workflow.rpartition(":")[2]

    async def start(engine: Engine) -> RunId:
        assert isinstance(engine, RemoteEngine)
        called = parameters_by_schema(await engine.parameters(name), pairs, document)
        return await engine.start_by_name(name, called, **given)

    if not given["start"]:
        return _create(settings, start, name, options)
    interruption = Interruption(options.by, options.where, is_elsewhere=True)
    return _run(opened(settings), start, name, None, options, interruption)


async def _create(
    settings: Settings, start: Callable[[Engine], Awaitable[RunId]], name: str, options: WaitOptions
) -> int:
    """Create a run that begins when `outlast start` starts it."""
    async with opened(settings) as engine:
        run = await start(engine)
        view = RunStatusView(run=run, status=(await engine.get(run)).status)
    said = f"run {run} of {name} is created", f"Start it: outlast start {run}{options.where}"
    show_reply(view, options.output, run, *said)
    return SOUND


async def _run(
    opening: AbstractAsyncContextManager[Engine],
    start: Callable[[Engine], Awaitable[RunId]],
    name: str,
    workflow: Workflow[..., Any] | None,
    options: WaitOptions,
    interruption: Interruption,
) -> int:
    """Start a run and wait for its end. Without the workflow, its result carries its own types."""
    with interruption:
        async with opening as engine:
            if interruption.code:
                notice("outlast: interrupted before the run started")
                return interruption.code
            run = await start(engine)
            interruption.runs.append(run)
            if options.output is Output.TEXT:
                notice(f"run {run} of {name}")
            ended = await wait_for_end(engine, run, workflow, options, interruption)
        return interruption.code_of(report(ended, options.output, options.where))


def working(settings: Settings) -> Any:
    """An engine that executes only the runs that are started or resumed here."""
    from outlast.compose import opening

    return opening(msgspec.structs.replace(settings, apps=()), take_over_others=False)


async def wait_for_end(
    engine: Engine, run: RunId, workflow: Workflow[..., Any] | None, options: WaitOptions, interruption: Interruption
) -> Outcome:
    """Wait until a run ends, is held or is paused. Raises errors that are not the end of the run."""
    watcher = RunWatcher(engine, run, options)
    try:
        value = await _result(engine, watcher, workflow, interruption)
    except Exception:
        tally, outline = watcher.tally, watcher.tally.state.outline
        if tally.state.status not in (RunStatus.FAILED, RunStatus.CANCELLED):
            raise
        if not outline.recoverable or outline.held:
            return Outcome(tally)
        actions = (await engine.explain(tally.run)).actions
        resume = next((each.command for each in actions if each.verb in ("resume", "jump")), "")
        return Outcome(tally, resume=resume and resume + options.where)
    if watcher.tally.state.status is not RunStatus.COMPLETED:
        return Outcome(watcher.tally, files=tuple(await files_of_family(engine, watcher.tally)))
    return outcome(watcher.tally, workflow, value)


async def _result(
    engine: Engine, watcher: RunWatcher, workflow: Workflow[..., Any] | None, interruption: Interruption
) -> Any:
    """The result of the run; None if it is paused or continues on another worker."""
    result = asyncio.create_task(watcher.result(workflow))
    interrupted = asyncio.create_task(interruption.wait())
    try:
        await asyncio.wait({result, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            watcher.be_quiet()
            await interruption.pause(engine)
            await watcher.look()
            if watcher.tally.state.status not in TERMINAL:
                return None
        return await result
    finally:
        for task in (result, interrupted):
            task.cancel()
        await asyncio.gather(result, interrupted, return_exceptions=True)
