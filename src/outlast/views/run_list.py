"""Reads a list of runs."""

from __future__ import annotations

import asyncio
from functools import singledispatch

from outlast.client import Engine
from outlast.store import RunFilter
from outlast.views.build import run_view
from outlast.views.texts import AT_WORK
from outlast.views.types import RunListView


@singledispatch
async def run_list(engine: Engine, query: RunFilter) -> RunListView:
    """A page of the runs that match, newest first, with the holders of those at work."""
    page = await engine.list_runs(query)
    at_work = [each.run for each in page if each.status in AT_WORK]
    holders = dict(zip(at_work, await asyncio.gather(*map(engine.diagnostics.holder, at_work)), strict=True))
    runs = [run_view(each.summary, scratch=each.scratch, holding=holders.get(each.summary.run)) for each in page.items]
    return RunListView(runs=tuple(runs), next=page.next or None)
