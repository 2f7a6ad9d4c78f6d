"""Reads a list of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import singledispatch

from outlast.client import Engine
from outlast.store import Listed, RunFilter
from outlast.views.build import run_view
from outlast.views.texts import AT_WORK
from outlast.views.types import RunListView, RunView


@singledispatch
async def run_list(engine: Engine, query: RunFilter) -> RunListView:
    """A page of the runs that match, newest first, with the holders of those at work."""
    page = await engine.list_runs(query)
    return RunListView(runs=await run_views(engine, page.items), next=page.next or None)


async def run_views(engine: Engine, listed: Sequence[Listed]) -> tuple[RunView, ...]:
    at_work = [each.summary.run for each in listed if each.summary.status in AT_WORK]
    holders = dict(zip(at_work, await asyncio.gather(*map(engine.diagnostics.holder, at_work)), strict=True))
    return tuple(run_view(each.summary, scratch=each.scratch, holding=holders.get(each.summary.run)) for each in listed)
