"""`outlast worker`, `outlast workers` and `outlast sweeper`."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from outlast.cli import streams
from outlast.cli.code_import import load_here, log_info
from outlast.cli.console import notice, show_view, write_json
from outlast.cli.engine_log import LogFormatOption, QuietOption, VerboseOption, log, log_to_stderr
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import AppOption, Form, FormOption, QueueLimitOption, WorkerQueuesOption, queue_flags
from outlast.cli.signals import StopSignals
from outlast.compose import opening
from outlast.errors import InvalidInput, ServerError, StoreError
from outlast.services.sweeper import INTERVAL_S, STALE_AFTER_S, Report
from outlast.settings import Settings, with_flags
from outlast.views.build import sweep_view, worker_view
from outlast.views.text import lines_of
from outlast.views.types import WorkerListView


@partial(command, store_only="a server has workers of its own, or start the worker where the store is")
def worker(
    settings: Settings,
    app: AppOption = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Maximum number of runs to execute at once.", min=1)
    ] = None,
    grace: Annotated[
        float | None, typer.Option(help="Seconds for running nodes to complete when the worker stops.", min=0)
    ] = None,
    queue: WorkerQueuesOption = None,
    queue_limit: QueueLimitOption = None,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    log_format: LogFormatOption = None,
) -> Coroutine[Any, Any, int]:
    """Execute runs until stopped: runs that are ready, and runs of workers that died.

    The worker takes only runs whose workflow its code defines. After SIGTERM or
    Ctrl+C it takes no more runs, waits until nodes complete or reach a
    checkpoint, and releases its runs. A second signal exits at once.

    \b
    outlast worker --app flows --store postgresql://db/outlast
    outlast worker --app flows.py --concurrency 50
    outlast worker --app flows --queue gpu --queue-limit gpu=3
    """
    load_here(app or (), settings)
    log_to_stderr(verbose=verbose, quiet=quiet, log_format=log_format)
    flags = {"concurrency": concurrency, "grace": grace, **queue_flags(queue, queue_limit)}
    return _work(msgspec.structs.replace(with_flags(settings, flags), apps=()))


async def _work(settings: Settings) -> int:
    from outlast.functions import registry

    if not registry.user_names():
        raise InvalidInput("the worker has no workflow: name a module or file with workflows with --app")
    log_info()
    streams.drop_output()  # a node must not fail because its output is not read
    with StopSignals() as signals:
        async with opening(settings) as engine:
            names = registry.user_names()
            known = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
            log.info("worker %s executes %s", engine.diagnostics.worker_id, known)
            await signals.wait()
            log.info("stopping: no more runs are taken, running nodes may complete (signal again to exit at once)")
            await engine.drain()
    return SOUND


@command
async def workers(settings: Settings, output: FormOption = Form.TEXT) -> int:
    """List the workers of a store: whether they are alive, and their runs.

    \b
    outlast workers
    outlast workers -o json | jq '.workers[] | select(.live | not)'
    """
    async with opened(settings, readonly=True) as engine:
        found = await engine.workers()
        now = await engine.diagnostics.now()
    if found or output is Form.JSON:
        show_view(WorkerListView(workers=tuple(map(worker_view, found))), output, now=now)
    else:
        notice("the store has no workers")
    return SOUND


@command
def sweeper(
    settings: Settings,
    interval: Annotated[float, typer.Option(help="Seconds between two sweeps.", min=0.1)] = INTERVAL_S,
    stale_after: Annotated[
        float, typer.Option(help="Seconds after which an expired claim counts as abandoned.", min=0)
    ] = STALE_AFTER_S,
    once: Annotated[bool, typer.Option("--once", help="Sweep once and exit.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; change nothing.")] = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    log_format: LogFormatOption = None,
    output: FormOption = Form.TEXT,
) -> Coroutine[Any, Any, int]:
    """Find runs that no worker executes although they could continue, and make
    them ready for the next worker.

    Each worker does this too, every five minutes.

    \b
    outlast sweeper --once --dry-run
    outlast sweeper --interval 300 --stale-after 600
    """
    log_to_stderr(verbose=verbose, quiet=quiet, log_format=log_format)
    return _sweep(settings, interval, stale_after, once, dry_run, output)


async def _sweep(settings: Settings, interval: float, stale_after: float, once: bool, dry_run: bool, form: Form) -> int:
    with StopSignals() as signals:
        async with opened(settings, readonly=dry_run) as engine:
            sweep = partial(engine.sweep, dry_run=dry_run, stale_after=stale_after)
            _show(await sweep(), form, dry_run)
            while not once and not await signals.wait(interval):
                try:
                    _show(await sweep(), form, dry_run)
                except (
                    StoreError,
                    ServerError,
                ) as error:  # may be temporary; an error of the first sweep ends the command
                    log.error("%s; the next sweep is in %g s", error, interval)
    return SOUND


def _show(report: Report, form: Form, dry_run: bool) -> None:
    view = sweep_view(report, dry_run=dry_run)
    if form is Form.JSON:
        write_json(view)
    else:
        for each in lines_of(view, 0):
            log.info("%s", each.text)
