"""Bulk actions: preview, confirm, follow, and try failures again."""

from __future__ import annotations

import sys
from functools import partial

import msgspec
from msgspec import UNSET

from outlast.client.bulk import ANSWERS, MAX_RUNS, Action, Target
from outlast.history.ids import RunId
from outlast.http import requests as r
from outlast.http.api.runs import MAX_KEY, filter_of, given, matches, run_of
from outlast.http.cursors import after_of, cursor_of
from outlast.http.operations import Call, Reply, operation
from outlast.http.permissions import Permission
from outlast.http.problems import HttpError
from outlast.http.starting import value_of
from outlast.lifecycle.timeline.phrases import counted
from outlast.views import build
from outlast.views import types as v

PERMISSION: dict[Action, Permission] = {
    "cancel": "runs:cancel",
    "pause": "runs:pause",
    "resume": "runs:resume",
    "retry": "runs:retry",
    "approve": "runs:answer",
    "reject": "runs:answer",
    "answer": "runs:answer",
    "delete": "runs:delete",
}
"""What each action needs besides `runs:bulk`."""


@operation(
    "POST",
    "/bulk/preview",
    "runs:bulk",
    tag="bulk",
    audited=False,
    body_required=True,
    example={"filter": {"status": ["waiting"], "workflow": "refund"}},
)
async def preview_bulk(call: Call, body: r.PreviewBody) -> v.BulkPreviewView:
    """Count the runs that match a filter, or that are named, and for each action those that allow it. Nothing is changed."""
    chosen = partial(matches, query=body.filter)
    found = await call.engine.bulk.preview(filter_of(body.filter), chosen, runs=body.runs or None)
    return v.BulkPreviewView(matched=found.matched, allowed=found.allowed, skipped=found.skipped)


@operation(
    "POST",
    "/bulk",
    "runs:bulk",
    tag="bulk",
    statuses=(201,),
    refuses=(409,),
    headers={"Idempotency-Key": "The same key is the same bulk action: the one that exists is answered."},
    example={"action": "cancel", "filter": {"status": ["waiting"], "workflow": "refund"}, "reason": "recalled"},
)
async def start_bulk(call: Call, body: r.BulkBody) -> Reply[v.BulkView]:
    """Confirm a bulk action on the runs that match a filter now, or on the runs that are named.

    The runs are fixed by this. A run of the workflow `outlast.bulk` carries the action out, also after a crash. The
    permission of the action is needed too: `runs:cancel`, `runs:pause`, `runs:resume`, `runs:retry` or `runs:delete`, and
    `runs:answer` for the others.
    """
    call.must_be_allowed(PERMISSION[body.action])
    if (body.filter is UNSET) is not bool(body.runs):
        raise HttpError("http.invalid", "give a filter or runs", field="body.filter")
    if (body.value is UNSET) is (body.action == "answer"):
        raise HttpError("http.invalid", "a value belongs to the action answer, and to no other", field="body.value")
    if body.force is not UNSET and body.action != "delete":
        raise HttpError("http.invalid", "force belongs to the action delete, and to no other", field="body.force")
    key = call.request.headers.get("idempotency-key", "")
    if len(key) > MAX_KEY or not key.isprintable():
        detail = f"use up to {MAX_KEY} printable characters"
        raise HttpError("http.invalid", detail, field="header.Idempotency-Key")
    run = await call.engine.bulk.start(
        body.action,
        None if body.filter is UNSET else filter_of(body.filter),
        None if body.filter is UNSET else partial(matches, query=body.filter),
        targets=[Target(each.run, each.interaction) for each in body.runs],
        by=call.by,
        reason=body.reason,
        value=None if body.value is UNSET else value_of(body.value, "value"),
        force=body.force is True,
        key=key,
    )
    return await _started(call, run)


@operation(
    "POST",
    "/prune",
    "runs:delete",
    tag="bulk",
    statuses=(200, 201),
    example={"older": 2_592_000, "workflow": "digest", "dry_run": True},
)
async def prune_runs(call: Call, body: r.PruneBody) -> Reply[v.PrunedView]:
    """Delete the runs that ended long ago.

    200 with `dry_run`, or if no run matches. Otherwise 201: the bulk action `bulk` deletes the runs that match now, up to
    10,000. Held runs are kept, and so are those that can be resumed, unless with `force`.
    """
    limit = sys.maxsize if body.dry_run else MAX_RUNS
    report, found, more = await call.engine._deletions.candidates(
        body.older, body.workflow, body.status or None, force=body.force, limit=limit
    )
    call.note = f"{'dry run: ' * body.dry_run}delete {counted(len(found), 'run')}"
    if body.dry_run or not found:
        return Reply(build.pruned_view(report), 200)
    bulk = await call.engine.bulk.start(
        "delete", targets=map(Target, found), by=call.by, reason=body.reason, force=body.force
    )
    call.subject, report.dry_run = bulk, False
    return Reply(build.pruned_view(report, bulk=bulk, more=more), 201, {"Location": f"/api/v1/bulk/{bulk}"})


@operation("GET", "/bulk/{run}", "runs:read", tag="bulk")
async def get_bulk(call: Call, query: r.BulkResults) -> v.BulkView:
    """Get a bulk action with its progress and a result for each run."""
    run, result = await run_of(call), given(query.result)
    about = [run, result]
    first = int(after_of(about, query.cursor) or 0)
    found, next = build.bulk_view(await call.engine.bulk.progress(run), result=result, first=first, limit=query.limit)
    return msgspec.structs.replace(found, next=cursor_of(about, str(next)) if next is not None else None)


@operation("POST", "/bulk/{run}/retry", "runs:bulk", tag="bulk", statuses=(201,), refuses=(409,))
async def retry_bulk(call: Call) -> Reply[v.BulkView]:
    """Try the runs of a bulk action again that failed or were not reached, as a new bulk action."""
    run = await run_of(call)
    found = await call.engine.bulk.progress(run)
    call.must_be_allowed(PERMISSION[found.order.action])
    return await _started(call, await call.engine.bulk.retry(run, by=call.by))


async def _started(call: Call, run: RunId) -> Reply[v.BulkView]:
    found, _ = build.bulk_view(await call.engine.bulk.progress(run))
    call.subject, call.note = run, f"{found.action} {counted(found.confirmed, 'run')}"
    if found.action in ANSWERS:
        given = {"approve": "yes", "reject": "no"}.get(found.action, "")
        call.decision = {"text": call.note.capitalize(), "answer": given}
    return Reply(found, 201, {"Location": f"/api/v1/bulk/{run}"})
