"""The reports that a server composes itself: nothing is read twice, and no log is sent for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import replace

from outlast.history.ids import RunId
from outlast.remote.connection import path_of
from outlast.remote.engine import RemoteEngine
from outlast.store import RunFilter
from outlast.views.actions import planned
from outlast.views.detail import examine, exported, read_detail
from outlast.views.run_list import run_list
from outlast.views.types import ExaminationView, PlanView, RunDetailView, RunListView


@read_detail.register(RemoteEngine)
async def _(engine: RemoteEngine, run: RunId, where: str = "", *, repairs: bool = False) -> RunDetailView:
    view = await engine.detail(run, repairs=repairs)
    return replace(view, actions=tuple(replace(each, command=each.command + where) for each in view.actions))


@run_list.register(RemoteEngine)
async def _(engine: RemoteEngine, query: RunFilter) -> RunListView:
    return await engine._reader.run_list(query)


@planned.register(RemoteEngine)
async def _(engine: RemoteEngine, run: RunId, action: str, **options: Any) -> PlanView:
    return await engine.plan(run, action, **options)


@examine.register(RemoteEngine)
async def _(
    engine: RemoteEngine, run: RunId, *, fix: bool = False, dry_run: bool = False, blobs: bool = True
) -> ExaminationView:
    view = await engine.examination(run, fix=fix and not dry_run, blobs=blobs)
    if not view.repairs:
        return replace(view, after=None)
    return view if fix and not dry_run else replace(view, repairs=view.repairs[:1] if dry_run else ())


@exported.register(RemoteEngine)
def _(engine: RemoteEngine, run: RunId) -> AsyncIterator[bytes]:
    return engine.connection.lines(path_of("runs", run, "export"))
