"""`outlast worker`, `workers` and `sweeper`: processes that advance runs, who holds what, and what nobody does."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import FrameType
from typing import Annotated, Any

import msgspec
import typer

from outlast.cli import streams
from outlast.cli.code_import import keep_lines, load_here
from outlast.cli.console import notice, show_lines, write_json
from outlast.cli.engine_log import LogFormatOption, QuietOption, VerboseOption, log, log_to_stderr
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import AppOption, Form, FormOption, StoreOption, settings_of
from outlast.compose import Opening, open_desk, sweeping
from outlast.errors import InvalidInput, StoreError
from outlast.services.sweeper import INTERVAL_S, STALE_AFTER_S, Report
from outlast.settings import Settings
from outlast.views.build import sweep_view, worker_view
from outlast.views.text import lines_of
from outlast.views.types import WorkerListView


def worker(
    ctx: typer.Context,
    app: AppOption = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="How many runs it advances at once.", min=1)
    ] = None,
    grace: Annotated[
        float | None, typer.Option(help="Seconds that nodes have to end when it is told to leave.", min=0)
    ] = None,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    log_format: LogFormatOption = None,
    store: StoreOption = None,
) -> None:
    """Advance runs until told to leave: those that are ready, and those of workers that died.

    It takes only runs of workflows that its code knows. On SIGTERM or Ctrl+C it
    takes no more, lets nodes end or reach a checkpoint, and gives its runs back.

    \b
    outlast worker --app flows --store postgresql://db/outlast
    outlast worker --app flows.py --concurrency 50
    """

    def begin() -> Coroutine[Any, Any, int]:
        settings = settings_of(ctx, store)
        load_here(app or (), settings)
        log_to_stderr(verbose=verbose, quiet=quiet, log_format=log_format)
        given = {"concurrency": concurrency, "grace": grace}
        given = {name: value for name, value in given.items() if value is not None}
        return _work(msgspec.structs.replace(settings, apps=(), **given))

    carry_out(begin)


async def _work(settings: Settings) -> int:
    from outlast.functions import registry

    if not registry.names():
        raise InvalidInput("the worker knows no workflow: name the module or file that defines some with --app")
    keep_lines()
    streams.drop_output()
    with Leaving() as leaving:
        async with Opening(settings) as desk:
            names = registry.names()
            known = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
            log.info("worker %s advances %s", desk.diagnostics.worker_id, known)
            await leaving.wait()
            log.info("leaving: no more runs are taken, nodes may end (again to leave at once)")
            await desk.drain()
    return SOUND


class Leaving:
    """Stands by while it is entered: the first Ctrl+C or SIGTERM is told to whoever waits, the second leaves at once. What
    is in the log is good, and what was under way is found by whoever goes on."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._is_heard = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Leaving:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            numbers = [each for each in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(each) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    async def wait(self, seconds: float | None = None) -> bool:
        """Return when somebody wants it to leave, or after so many seconds; whether somebody does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        return self._wanted.is_set()

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self._is_heard:
            os._exit(128 + number)
        self._is_heard = True
        self._loop.call_soon_threadsafe(self._wanted.set)


def workers(ctx: typer.Context, store: StoreOption = None, output: FormOption = Form.TEXT) -> None:
    """Show which workers hold runs, how many, and whether they are alive.

    \b
    outlast workers
    outlast workers -o json | jq '.workers[] | select(.live | not)'
    """
    carry_out(lambda: _workers(settings_of(ctx, store), output))


async def _workers(settings: Settings, form: Form) -> int:
    async with open_desk(settings, readonly=True) as desk:
        found = await desk.workers()
        now = await desk.diagnostics.now()
    view = WorkerListView(workers=tuple(map(worker_view, found)))
    if form is Form.JSON:
        write_json(view, pretty=True)
    elif found:
        show_lines(lines_of(view, now))
    else:
        notice("no worker holds a run")
    return SOUND


def sweeper(
    ctx: typer.Context,
    interval: Annotated[float, typer.Option(help="Seconds between two sweeps.", min=0.1)] = INTERVAL_S,
    stale_after: Annotated[
        float, typer.Option(help="Seconds that a claim may have expired before it counts.", min=0)
    ] = STALE_AFTER_S,
    once: Annotated[bool, typer.Option("--once", help="Sweep once and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; change nothing.")] = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    log_format: LogFormatOption = None,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Find runs that should go on and that nobody advances, and hand them to the next worker.

    Each worker does this as well, every five minutes.

    \b
    outlast sweeper --once --dry-run
    outlast sweeper --interval 300 --stale-after 600
    """
    log_to_stderr(verbose=verbose, quiet=quiet, log_format=log_format)
    carry_out(lambda: _sweep(settings_of(ctx, store), interval, stale_after, once, dry_run, output))


async def _sweep(settings: Settings, interval: float, stale_after: float, once: bool, dry_run: bool, form: Form) -> int:
    with Leaving() as leaving:
        async with sweeping(settings, stale_after=stale_after, readonly=dry_run) as sweeper:
            _tell(await sweeper.sweep(dry_run=dry_run), form, dry_run)
            while not once and not await leaving.wait(interval):
                try:
                    _tell(await sweeper.sweep(dry_run=dry_run), form, dry_run)
                except StoreError as error:  # it may come back; at the first sweep it would be a mistake in the command
                    log.error("%s; the next sweep is in %g s", error, interval)
    return SOUND


def _tell(report: Report, form: Form, dry_run: bool) -> None:
    view = sweep_view(report, dry_run=dry_run)
    if form is Form.JSON:
        write_json(view)
    else:
        for each in lines_of(view, 0):
            log.info("%s", each.text)
