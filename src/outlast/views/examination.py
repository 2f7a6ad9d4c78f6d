"""Examines a run, and repairs it."""

from __future__ import annotations

from functools import singledispatch

from outlast.client import Engine
from outlast.history.ids import RunId
from outlast.views.actions import planned_repair, repair
from outlast.views.build import examination_view
from outlast.views.types import ExaminationView


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
