"""`outlast doctor`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from outlast.cli.console import notice, show_view, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, command
from outlast.cli.opening import opened
from outlast.cli.options import AppOption, BlobsOption, Form, FormOption, SomeRunsArgument
from outlast.cli.progress import Ticker, each_run
from outlast.client import Diagnosis, Engine, Finding
from outlast.errors import InvalidInput, NotFound, OutlastError, ServerError
from outlast.history.ids import RunId
from outlast.ledger.verification import STRANGE
from outlast.lifecycle.timeline.phrases import counted
from outlast.settings import Settings
from outlast.views.build import examination_view
from outlast.views.detail import examine
from outlast.views.types import DoctorView, ExaminationView


@partial(command, loads_code=True)
async def doctor(
    settings: Settings,
    runs: SomeRunsArgument = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Examine every run, also ended ones.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what can be repaired without loss of data.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: show the repairs; change nothing.")] = False,
    blobs: BlobsOption = True,
    app: AppOption = None,  # noqa: ARG001 - it is imported before
    output: FormOption = Form.TEXT,
) -> int:
    """Diagnose runs: problems, the events that prove them, their likely cause,
    and the actions that are safe.

    Without a RUN, all unfinished runs are examined. Without --fix, nothing is
    changed. --fix deletes no event: events that are not valid stay on their
    branch.

    \b
    outlast doctor
    outlast doctor 01a1e436-2c39
    outlast doctor 01a1e436-2c39 --fix --dry-run
    outlast doctor --all --fix
    """
    if runs and everything:
        raise InvalidInput("RUN and --all exclude each other: give one of them")
    if dry_run and not fix:
        raise InvalidInput("--dry-run requires --fix")
    ticker, examined, ill, seen = Ticker(), list[ExaminationView](), 0, 0
    async with opened(settings, readonly=not fix or dry_run) as engine:
        wanted = [await engine.find(name) for name in runs or ()]
        async for run in each_run(engine, wanted, ticker, "examining", unfinished=not everything):
            view = await _examined(engine, run, fix, dry_run, blobs)
            if view is None:
                continue
            ticker.clear()
            seen, ill = seen + 1, ill + (not view.sound)
            if output is Form.JSON:
                examined.append(view)
            elif wanted or view.repairs or not view.sound:
                show_view(view, output, now=await engine.diagnostics.now())
    if output is Form.JSON:
        write_json(DoctorView(runs=tuple(examined), seen=seen, ill=ill), pretty=True)
    elif not wanted:
        what = "run" if everything else "unfinished run"
        notice(f"{counted(seen, what)} examined, {ill or 'none'} with problems")
    return VIOLATED if ill else SOUND


async def _examined(engine: Engine, run: RunId, fix: bool, dry_run: bool, blobs: bool) -> ExaminationView | None:
    try:
        return await examine(engine, run, fix=fix, dry_run=dry_run, blobs=blobs)
    except NotFound:
        return None  # removed after it was listed
    except ServerError:
        raise
    except (OutlastError, *STRANGE) as error:  # the other runs are examined all the same
        finding = Finding(code="G3", standing="reported", sentence=f"the run cannot be examined: {error}")
        return examination_view(Diagnosis(run, "unreadable", (finding,)))
