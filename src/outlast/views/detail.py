"""Reads everything that is known about a run; examines it, repairs it, and exports it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import singledispatch

from outlast import maintenance
from outlast.client import Engine
from outlast.history.ids import RunId
from outlast.lifecycle.summary import summarise
from outlast.views.actions import actions_of, planned_repair, repair
from outlast.views.build import detail_view, examination_view, run_view
from outlast.views.files import files_of
from outlast.views.run_view import tally_of
from outlast.views.types import ExaminationView, RunDetailView


@singledispatch
async def read_detail(engine: Engine, run: RunId, where: str = "", *, repairs: bool = False) -> RunDetailView:
    """The view of a run. Status, result and nodes come from one reading of its log, so that they agree, also while the run
    goes on. `where` names the store in the commands of the actions; with `repairs` they include the repair of the run."""
    tally = await tally_of(engine, run)
    summary = summarise(run, tally.state)
    scratch = await engine.diagnostics.scratch(run, summary.created)
    listed = run_view(summary, scratch=scratch, holding=await engine.diagnostics.holder(run))
    files, actions = await files_of(engine, run), await actions_of(engine, run, tally.state, where, repairs=repairs)
    known_by = await engine.diagnostics.workers_knowing(summary.workflow)
    return detail_view(listed, tally, files=files, actions=actions, known_by=known_by)


@singledispatch
async def examine(
    engine: Engine, run: RunId, *, fix: bool = False, dry_run: bool = False, blobs: bool = True
) -> ExaminationView:
    """The findings about a run; with `fix` also its repairs, or in a dry run the plan of the first one. Without `blobs`,
    the content of blobs is not read."""
    found = await engine.diagnose(run, blobs=blobs)
    if not fix or not found.remedies:
        return examination_view(found)
    if dry_run:
        return examination_view(found, [await planned_repair(engine, run, found.remedies[0])])
    return examination_view(found, await repair(engine, run), await engine.diagnose(run, blobs=blobs))


@singledispatch
def exported(engine: Engine, run: RunId) -> AsyncIterator[bytes]:
    """The whole log of a run with all its branches and values, line by line, without line ends."""
    return maintenance.exported(engine._store, run)
