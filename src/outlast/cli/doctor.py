"""`outlast doctor`: what is the matter with runs, and putting it right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Annotated, Any

import typer

from outlast.cli.code_import import load_here
from outlast.cli.console import notice, show_lines, write_json
from outlast.cli.entrypoint import SOUND, VIOLATED, carry_out
from outlast.cli.options import AppOption, Form, FormOption, StoreOption, settings_of
from outlast.cli.progress import Ticker
from outlast.client import Diagnosis, Engine, Finding
from outlast.compose import open_desk
from outlast.errors import InvalidInput, NotFound, OutlastError
from outlast.history.ids import RunId
from outlast.ledger.verification import STRANGE
from outlast.settings import Settings
from outlast.views.actions import planned_repair, repair
from outlast.views.build import examination_view
from outlast.views.text import lines_of
from outlast.views.texts import counted
from outlast.views.types import DoctorView, ExaminationView


def doctor(
    ctx: typer.Context,
    runs: Annotated[list[str] | None, typer.Argument(help="Runs: ids or beginnings of them.", metavar="RUN")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run, those that are over too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what can be repaired without losing anything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: only show what would be appended.")] = False,
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Whether to hold the content of blobs against their hashes.")
    ] = True,
    app: AppOption = None,
    store: StoreOption = None,
    output: FormOption = Form.TEXT,
) -> None:
    """Say what is the matter with runs: which state they are in, what proves it,
    what caused it, and what is safe to do.

    Without a run, all unfinished ones are looked at. Nothing is changed unless
    --fix says so, and even then nothing is deleted: what cannot be built upon
    stays on its branch.

    \b
    outlast doctor
    outlast doctor 01a1e436-2c39
    outlast doctor 01a1e436-2c39 --fix --dry-run
    outlast doctor --all --fix
    """

    def begin() -> Coroutine[Any, Any, int]:
        if runs and everything:
            raise InvalidInput("name the runs to look at, or say --all")
        if dry_run and not fix:
            raise InvalidInput("--dry-run shows what --fix would do: say both")
        settings = settings_of(ctx, store)
        load_here(app or (), settings)
        return _visits(settings, runs or [], everything, (fix, dry_run, blobs), output)

    carry_out(begin)


async def _visits(
    settings: Settings, names: list[str], everything: bool, wishes: tuple[bool, bool, bool], form: Form
) -> int:
    fix, dry_run, _ = wishes
    is_changing = fix and not dry_run
    async with open_desk(settings, readonly=not is_changing) as desk:
        wanted = [await desk.find(name) for name in names]
        examined, ill, seen = list[ExaminationView](), 0, 0
        async for run in _runs(desk, wanted, everything):
            view = await _examined(desk, run, *wishes)
            if view is None:
                continue
            seen, ill = seen + 1, ill + (not view.sound)
            if form is Form.JSON:
                examined.append(view)
            elif wanted or view.repairs or not view.sound:
                show_lines(lines_of(view, await desk.diagnostics.now()))
    if form is Form.JSON:
        write_json(DoctorView(runs=tuple(examined), seen=seen, ill=ill), pretty=True)
    elif not wanted:
        what = "run" if everything else "unfinished run"
        notice(f"{counted(seen, what)} looked at, {ill or 'none'} with something to be done")
    return VIOLATED if ill else SOUND


async def _examined(desk: Engine, run: RunId, fix: bool, dry_run: bool, blobs: bool) -> ExaminationView | None:
    try:
        found = await desk.diagnose(run, blobs=blobs)
    except NotFound:
        return None  # removed since it was listed
    except (OutlastError, *STRANGE) as error:  # the others are examined all the same
        finding = Finding(code="G3", standing="reported", sentence=f"the run cannot be looked at: {error}")
        return examination_view(Diagnosis(run, "unreadable", (finding,)))
    if not fix or not found.remedies:
        return examination_view(found)
    if dry_run:
        return examination_view(found, [await planned_repair(desk, run, found.remedies[0])])
    return examination_view(found, await repair(desk, run), await desk.diagnose(run, blobs=blobs))


async def _runs(desk: Engine, wanted: list[RunId], everything: bool) -> AsyncIterator[RunId]:
    if wanted:
        for run in wanted:
            yield run
        return
    ticker, done = Ticker(), 0
    try:
        async for run in desk.diagnostics.run_ids(unfinished=not everything):
            ticker.show(f"looking at run {done + 1}: {run}")
            done += 1
            yield run
    finally:
        ticker.clear()
