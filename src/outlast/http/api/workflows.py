"""Which workflows this server can start, and their versions."""

from __future__ import annotations

import time
from inspect import Parameter
from typing import Any

from msgspec import UNSET, UnsetType

from outlast.client import Engine
from outlast.client.reader import RunFilter, RunSummary
from outlast.client.versions import VersionDiff
from outlast.errors import OutlastError
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.history.events import NULL
from outlast.http import requests as r
from outlast.http.api.runs import given
from outlast.http.operations import Call, operation
from outlast.http.starting import known_workflow
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.timeline.phrases import plain_numbers
from outlast.values.arguments import Arguments
from outlast.values.schemas import schema_of
from outlast.views import build
from outlast.views import server as s
from outlast.views import types as v
from outlast.views.server import Percentiles, StatisticsBucketView, StatisticsView, moment

WEEK = 7 * 86_400_000_000
"""In microseconds."""


@operation("GET", "/workflows", "workflows:read", tag="workflows")
async def list_workflows(_: Call) -> s.WorkflowListView:
    """List the workflows that this server can start, with their parameters."""
    names = sorted(registry.user_names())
    return s.WorkflowListView(workflows=tuple(workflow_view(known_workflow(name)) for name in names))


@operation("GET", "/workflows/{workflow}", "workflows:read", tag="workflows", refuses=(404,))
async def get_workflow(call: Call) -> s.WorkflowView:
    """Get one workflow that this server can start."""
    return workflow_view(known_workflow(call.path["workflow"]))


@operation("GET", "/workflows/{workflow}/statistics", "workflows:read", tag="workflows")
async def get_statistics(call: Call, query: r.Statistics) -> s.StatisticsView:
    """Get how the runs of a workflow went over time: counts, and percentiles of their durations.

    The newest 5,000 runs of the time are counted.
    """
    since = time.time_ns() // 1000 - WEEK if query.since is UNSET else query.since
    return await statistics_of(call.engine, call.path["workflow"], since, given(query.until), query.buckets)


@operation("GET", "/workflows/{workflow}/versions", "workflows:read", tag="workflows", refuses=(404,))
async def list_versions(call: Call) -> v.VersionListView:
    """List the versions of a workflow that runs are of, the one used last first."""
    name = call.path["workflow"]
    versions = await call.engine.versions.of(name)
    return v.VersionListView(workflow=name, versions=tuple(map(build.version_view, versions)))


@operation("GET", "/versions/diff", "workflows:read", tag="workflows", refuses=(404, 409))
async def compare_versions(call: Call, query: r.CompareVersions) -> VersionDiff:
    """Compare the code of two versions that runs are of, or of a run with the code of this server.

    A version is named by a run of it, or by its beginning. Without `new`, `old` is a run.
    """
    return await call.engine.versions.diff(query.old, query.new)


def workflow_view(workflow: Workflow[..., Any]) -> s.WorkflowView:
    arguments = workflow._arguments
    parameters = tuple(
        s.ParameterView(
            name=name,
            required=parameter.default is parameter.empty and parameter.kind not in _STARS,
            schema=_schema(arguments, name),
            default=_default(arguments, name, parameter),
        )
        for name, parameter in arguments.signature.parameters.items()
    )
    return s.WorkflowView(
        workflow=workflow.name,
        version=workflow.version,
        entry=workflow._spec.entry,
        doc=(workflow.fn.__doc__ or "").strip(),
        parameters=parameters,
    )


_STARS = (2, 4)  # inspect.Parameter.VAR_POSITIONAL and VAR_KEYWORD


def _default(arguments: Arguments, name: str, parameter: Parameter) -> v.Value | UnsetType:
    if parameter.default is parameter.empty:
        return UNSET
    try:
        return plain_numbers(arguments.codec(name).encode(parameter.default, name))
    except OutlastError:
        return UNSET


def _schema(arguments: Arguments, name: str) -> v.Value:
    try:
        return schema_of(arguments.codec(name).annotation)
    except OutlastError:  # a type that has no JSON Schema
        return NULL


MAX_RUNS = 5_000
"""The most runs that one request reads, the newest first."""


async def statistics_of(engine: Engine, workflow: str, since: int, until: int | None, count: int) -> StatisticsView:
    """The runs that were created from `since` to `until` (default: now), in `count` equal intervals."""
    end = until if until is not None else time.time_ns() // 1000
    runs: list[RunSummary] = []
    is_complete = True
    wanted = RunFilter(workflow=workflow, created_from=since, created_until=end, limit=1000)
    async for summary in engine.iter_runs(wanted):
        if len(runs) == MAX_RUNS:
            is_complete, since = False, runs[-1].created
            break
        runs.append(summary)
    step = max(1, -(-(end - since) // count))
    parts: list[list[RunSummary]] = [[] for _ in range(count)]
    for summary in runs:
        parts[min(count - 1, max(0, (summary.created - since) // step))].append(summary)
    buckets = tuple(
        StatisticsBucketView(since=moment(since + place * step), **_counts(part), duration_ms=_percentiles(part))
        for place, part in enumerate(parts)
    )
    return StatisticsView(
        workflow=workflow,
        since=moment(since),
        until=moment(end),
        is_complete=is_complete,
        **_counts(runs),
        duration_ms=_percentiles(runs),
        buckets=buckets,
    )


def _counts(runs: list[RunSummary]) -> dict[str, int]:
    ended = {status: sum(each.status is status for each in runs) for status in TERMINAL}
    return {
        "runs": len(runs),
        "completed": ended[RunStatus.COMPLETED],
        "failed": ended[RunStatus.FAILED],
        "cancelled": ended[RunStatus.CANCELLED],
    }


def _percentiles(runs: list[RunSummary]) -> Percentiles | None:
    """Of the runs that completed: from creation to the end."""
    took = sorted(max(0, each.updated - each.created) / 1000 for each in runs if each.status is RunStatus.COMPLETED)
    if not took:
        return None
    p50, p90, p99 = (took[min(len(took) - 1, len(took) * share // 100)] for share in (50, 90, 99))
    return Percentiles(p50=p50, p90=p90, p99=p99, longest=took[-1])
