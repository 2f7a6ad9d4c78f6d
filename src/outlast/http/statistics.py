"""How the runs of a workflow went over time: from their summaries, a bounded number of them."""

from __future__ import annotations

import time

from outlast.client import Engine
from outlast.client.reader import RunFilter, RunSummary
from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.views.server import Percentiles, StatisticsBucketView, StatisticsView, moment

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
