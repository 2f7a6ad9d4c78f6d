"""What clients look up: ids, the head and the summary of a run, its result once it has ended, the question it asks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from outlast.errors import Damaged, InvalidInput, NotAsked, OutlastError, RunGone, StillRunning
from outlast.history.ids import RunId, checked_run
from outlast.http import requests as r
from outlast.http.api.runs import run_of
from outlast.http.cursors import after_of, cursor_of
from outlast.http.operations import Call, operation
from outlast.lifecycle import status
from outlast.store import RunFilter
from outlast.views import build
from outlast.views import server as s
from outlast.views import types as v
from outlast.views.times import iso

UNFINISHED = tuple(sorted(status.UNFINISHED))


@operation("GET", "/run-ids", "runs:read", tag="runs", refuses=(410,))
async def list_run_ids(call: Call, query: r.ListIds) -> s.RunIdListView:
    """List the ids of runs: of all, of unfinished ones, or those with a prefix.

    Without a prefix, runs are listed by the catalogue and then by their logs. Either may be wrong, so that a run may come
    twice. A prefix of a deleted run, and of no other, is refused.
    """
    wanted = RunFilter(prefix=query.prefix, statuses=UNFINISHED if query.unfinished else (), limit=query.limit)
    asked = (query.prefix, query.unfinished)
    by, _, after = after_of(asked, query.cursor).partition(":")
    if by == "log":
        runs, after = await call.state.store.runs(unfinished=query.unfinished, after=after, limit=query.limit)
        return _ids(runs, asked, f"log:{after}" if after else "")
    page = await call.engine.list_runs(msgspec.structs.replace(wanted, after=after))
    runs = [summary.run for summary in page]
    if query.prefix and not query.cursor:
        with suppress(Damaged):
            exact = checked_run(query.prefix)
            if exact not in runs and await call.state.store.head(exact) is not None:
                runs.insert(0, exact)
    following = f"catalogue:{page.next}" if page.next else "" if query.prefix else "log:"
    if query.prefix and not (query.cursor or runs or following):
        with suppress(InvalidInput):
            await call.engine._reader.must_not_be_deleted(checked_run(query.prefix))
    return _ids(runs, asked, following)


def _ids(runs: Iterable[RunId], asked: object, following: str) -> s.RunIdListView:
    return s.RunIdListView(runs=tuple(runs), next=cursor_of(asked, following) or None)


@operation("GET", "/runs/{run}/head", "runs:read", tag="runs")
async def get_head(call: Call) -> s.HeadView:
    """Get the end of the log of a run, and the last run that it continued as."""
    run = await run_of(call)
    head = await call.engine._reader.head(run)
    latest = await call.engine.diagnostics.continued_as(run)
    return s.HeadView(run=run, version=head.version, branch=head.branch, closed=head.closed, latest=latest)


@operation("GET", "/runs/{run}/summary", "runs:read", tag="runs")
async def get_summary(call: Call) -> v.RunView:
    """Get a run as it is in lists, without reading its log."""
    run = await run_of(call)
    diagnostics, summary = call.engine.diagnostics, await call.engine.get(run)
    scratch = await diagnostics.scratch(run, summary.created)
    return build.run_view(summary, scratch=scratch, holding=await diagnostics.holder(run))


@operation("GET", "/runs/{run}/ending", "runs:read", tag="runs")
async def get_ending(call: Call, query: r.Wait) -> s.EndingView:
    """Get the event with which a run ended or is held; of a run that continued as another one, that of the last one.

    With `wait`, the answer comes when the run has ended, or the time is over.
    """
    run, ending = await call.engine._results.ending(await run_of(call), query.wait)
    summary = await call.engine.get(run)
    shown = None if ending is None else build.planned_view(ending, summary.updated)
    return s.EndingView(run=run, status=summary.status, ending=shown)


@operation("GET", "/runs/{run}/question", "runs:read", tag="people", refuses=(409,))
async def get_question(call: Call, query: r.WhichQuestion) -> s.InboxItemView:
    """Get the open question that an answer to this run is for.

    The run itself asks it, or the run that it continued as, or one of its children. With `wait`, the answer comes when the
    run asks it, or the time is over.
    """
    run, which = await run_of(call), query.interaction or None
    if query.wait:
        try:
            await call.engine.asked(run, which, timeout=query.wait)
        except StillRunning as error:
            raise NotAsked(str(error)) from None
        except OutlastError:
            raise
        except Exception as error:  # of the workflow
            raise RunGone(f"run {run} failed and asks nothing") from error
    asking, wait = await call.engine.diagnostics.open_question(run, which)
    return s.asked_view(asking, wait)


@operation("GET", "/clock", "runs:read", tag="service")
async def get_clock(call: Call) -> s.ClockView:
    """Get the time by the clock of the store, which all times of runs are of."""
    return s.ClockView(now=iso(await call.engine.diagnostics.now()))
