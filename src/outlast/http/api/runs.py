"""Starting runs and reading them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET
from starlette.responses import Response, StreamingResponse

from outlast.errors import InvalidInput, NotFound, OutlastError
from outlast.history.events import Value
from outlast.history.ids import RunId, checked_run
from outlast.http import requests as r
from outlast.http.cursors import after_of, cursor_of
from outlast.http.operations import Call, Reply, operation
from outlast.http.problems import HttpError, status_of
from outlast.http.starting import start, waited
from outlast.ledger.blob_names import blob_of, is_elsewhere, values_in
from outlast.ledger.reading import missing
from outlast.lifecycle.explanation import Explanation
from outlast.lifecycle.summary import RunSummary
from outlast.lifecycle.timeline.phrases import plain_numbers
from outlast.services.tracing import valid_traceparent
from outlast.store import BlobRef, Listed, RunFilter
from outlast.values.attributes import checked_conditions
from outlast.views import build
from outlast.views import server as s
from outlast.views import types as v
from outlast.views.detail import exported, read_detail
from outlast.views.run_list import run_views
from outlast.views.run_view import tally_of

MAX_KEY = 200
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_HASH = re.compile("[0-9a-f]{16,128}")


async def run_of(call: Call) -> RunId:
    """The run in the path; `NotFound` if there is none of that id, `RunDeleted` if it was deleted."""
    try:
        run = checked_run(call.path["run"])
    except InvalidInput as error:
        raise NotFound(str(error)) from None
    if await call.state.store.head(run) is None:
        raise await missing(call.state.store, run)
    return run


def _trace(call: Call) -> str:
    return valid_traceparent(call.request.headers.get("traceparent", ""))


def given(value: Any) -> Any:
    return None if value is UNSET else value


# --- starting


@operation(
    "POST",
    "/runs",
    "runs:start",
    tag="runs",
    statuses=(201, 200),
    headers={
        "Idempotency-Key": "The same key is the same start: the run that exists is answered, whatever its status."
    },
    refuses=(404, 409),
    example={"workflow": "digest", "params": {"urls": ["https://example.com"]}, "wait": 2},
)
async def start_run(call: Call, body: r.StartBody) -> Reply[s.StartedView]:
    """Start a run; it is durable when this answers.

    201 is a new run, 200 one that exists. With `wait`, the answer comes when the run has ended or the time is over; a client
    that leaves cancels nothing. With `start: false` the run is created, and neither a worker nor a restart begins it until
    `start`.
    """
    call.subject, call.note = body.id, body.workflow
    key = call.request.headers.get("idempotency-key", "")
    if len(key) > MAX_KEY or not key.isprintable():
        detail = f"use up to {MAX_KEY} printable characters"
        raise HttpError("http.invalid", detail, field="header.Idempotency-Key")
    view, is_new = await start(call.state, body, key=key, by=call.by, trace=_trace(call))
    call.subject = view.run
    if body.wait and body.start:
        view = await waited(call.state, view, body.wait)
    return Reply(view, 201 if is_new else 200, {"Location": f"/api/v1/runs/{view.run}"})


@operation(
    "POST",
    "/runs/batch",
    "runs:start",
    tag="runs",
    example={"items": [{"workflow": "digest", "params": {"urls": []}, "key": "monday"}]},
)
async def start_batch(call: Call, body: r.BatchBody) -> s.BatchView:
    """Start several runs, each by itself, with a result for each.

    An item that is refused does not stop the others. `wait` is not for batches.
    """
    items = []
    for item in body.items:
        try:
            if item.wait:
                raise InvalidInput("wait: a batch does not wait for results")
            view, is_new = await start(call.state, item, key=item.key, by=call.by, trace=_trace(call))
            made = s.BatchItemView(started=view, status=201 if is_new else 200, code=None, detail=None)
        except HttpError as error:
            made = s.BatchItemView(started=None, status=error.status, code=error.code, detail=error.detail)
        except OutlastError as error:
            made = s.BatchItemView(started=None, status=status_of(error), code=error.code, detail=str(error))
        items.append(made)
    call.note = f"{sum(each.started is not None for each in items)} of {len(items)} accepted"
    return s.BatchView(items=tuple(items))


# --- lists


@operation("GET", "/runs", "runs:read", tag="runs")
async def list_runs(call: Call, query: r.ListRuns) -> v.RunListView:
    """List runs, newest first.

    With `sort`, they are sorted by a search attribute instead. A run that existed and matched throughout comes exactly
    once, also if runs are started meanwhile. A cursor is valid for the filter it was made for. With `asks` a page may have
    fewer runs than `limit` although `next` is set: the search of one request is bounded.
    """
    about = (filter_of(query), given(query.asks))
    found, after = await _search(call, query, after_of(about, query.cursor), query.limit)
    return v.RunListView(runs=await run_views(call.engine, found), next=cursor_of(about, after) or None)


@operation("GET", "/count", "runs:read", tag="runs")
async def count_runs(call: Call, query: r.CountRuns) -> s.RunCountView:
    """Count the runs that match a filter, up to 1,000."""
    found, after = await _search(call, query, "", MAX_COUNT)
    return s.RunCountView(count=len(found), more=bool(after))


MAX_COUNT = 1000
MAX_SEARCHED = 5000
"""Runs that one request looks at."""


def filter_of(query: r.CountRuns) -> RunFilter:
    return RunFilter(
        statuses=query.status,
        workflow=query.workflow,
        tags=query.tag,
        parent=query.parent,
        roots=not query.children,
        text=query.text,
        created_from=given(query.since),
        created_until=given(query.until),
        prefix=query.prefix,
        queue=query.queue,
        held=given(query.held),
        attributes=checked_conditions("attribute", query.attribute),
        order=query.sort if isinstance(query, r.ListRuns) else "",
    )


async def _search(call: Call, query: r.CountRuns, after: str, limit: int) -> tuple[list[Listed], str]:
    """Up to `limit` runs that match, and where to continue. Whether a run asks, only its summary knows."""
    found: list[Listed] = []
    wanted, searched = filter_of(query), 0
    while True:
        size = limit - len(found)
        page = await call.engine.list_runs(msgspec.structs.replace(wanted, after=after, limit=size))
        found += [each for each in page.items if matches(each.summary, query)]
        after, searched = page.next, searched + size
        if not after or len(found) == limit or searched >= MAX_SEARCHED:
            return found, after


def matches(summary: RunSummary, query: r.CountRuns) -> bool:
    is_asking = summary.held or any(wait.kind == "interaction" for wait in summary.waits)
    return query.asks in (UNSET, is_asking)


@operation("GET", "/runs/{run}", "runs:read", tag="runs")
async def get_run(call: Call, query: r.GetRun) -> v.RunDetailView:
    """Get everything that is known of one run.

    With `repairs`, the run is examined, and its actions include a repair if one is needed.
    """
    return await read_detail(call.engine, await run_of(call), repairs=query.repairs)


@operation("GET", "/runs/{run}/events", "runs:read", tag="runs")
async def list_events(call: Call, query: r.ListEvents) -> s.EventListView:
    """List the events of a run, of its current lineage or of another one."""
    run = await run_of(call)
    found: list[v.EventView] = []
    branch, node = given(query.branch), query.node
    events = call.engine.events(run, node=node, branch=branch, everything=query.everything, after=query.after)
    async for entry in events:
        if len(found) == query.limit:
            return s.EventListView(events=tuple(found), next=found[-1].seq)
        found.append(build.event_view(entry))
    return s.EventListView(events=tuple(found), next=None)


@operation("GET", "/runs/{run}/branches", "runs:read", tag="runs")
async def list_branches(call: Call) -> v.BranchTreeView:
    """List the branches of a run in the order they opened."""
    run = await run_of(call)
    return v.BranchTreeView(run=run, branches=tuple(map(build.branch_view, await call.engine.branches(run))))


@operation("GET", "/runs/{run}/lineage", "runs:read", tag="runs")
async def get_lineage(call: Call, query: r.OfBranch) -> s.LineageView:
    """Get the intervals of events that a branch sees."""
    run, branch = await run_of(call), given(query.branch)
    intervals = await call.engine.diagnostics.lineage(run, branch)
    shown = tuple(s.IntervalView(first=first, last=last) for first, last in intervals)
    return s.LineageView(
        run=run, branch=await call.engine.diagnostics.current_branch(run) if branch is None else branch, intervals=shown
    )


@operation("GET", "/runs/{run}/nodes", "runs:read", tag="runs")
async def list_nodes(call: Call) -> s.NodeListView:
    """List the nodes of a run."""
    run = await run_of(call)
    tally = await tally_of(call.engine, run)
    return s.NodeListView(run=run, nodes=build.node_views(tally), retired=tally.retired)


@operation("GET", "/runs/{run}/logs", "runs:read", tag="runs")
async def list_logs(call: Call, query: r.ListLogs) -> s.LogListView:
    """List what the nodes of a run logged."""
    run = await run_of(call)
    page = await call.state.store.lines(
        run, node=query.node, attempt=given(query.attempt), after=query.after, limit=query.limit
    )
    next = page[-1].number if len(page) == query.limit else None
    return s.LogListView(lines=tuple(map(build.line_view, page)), next=next)


@operation("GET", "/runs/{run}/explain", "runs:read", tag="runs")
async def explain_run(call: Call, query: r.Explain) -> Explanation:
    """Explain a run in plain words."""
    return await call.engine.explain(await run_of(call), branch=given(query.branch), full=query.full)


@operation("GET", "/runs/{run}/timeline", "runs:read", tag="runs")
async def get_timeline(call: Call, query: r.OfBranch) -> Explanation:
    """Get the timeline of a run: every event in words, with nothing left out."""
    return await call.engine.explain(await run_of(call), branch=given(query.branch), full=True)


@operation("GET", "/runs/{run}/compare", "runs:read", tag="runs", refuses=(409,))
async def compare_runs(call: Call, query: r.Compare) -> v.ComparisonView:
    """Compare two branches of a run, or two runs, event by event.

    Without another run or branch, the current branch is compared with the one before it.
    """
    run, other = await run_of(call), checked_run(query.other) if query.other else None
    found = await call.engine.compare(run, other, branch=given(query.branch), other_branch=given(query.other_branch))
    return build.comparison_view(found)


@operation("GET", "/runs/{run}/verify", "runs:read", tag="runs")
async def verify_run(call: Call, query: r.Verify) -> v.VerificationView:
    """Verify the log of a run against its invariants and digests."""
    return build.verification_view(await call.engine.verify(await run_of(call), blobs=query.blobs))


@operation(
    "GET",
    "/runs/{run}/export",
    "runs:read",
    tag="runs",
    answers=bytes,
    content="application/jsonl",
)
async def export_run(call: Call) -> Response:
    """Export the whole log of a run, with all its branches and values, as lines of JSON.

    `outlast export` writes the same, and `replay_check` reads it. If the log cannot be read to its end, the connection is
    closed before the end of the answer.
    """
    run = await run_of(call)
    found = exported(call.engine, run)
    first = await anext(found)  # refused here if the log cannot be read at all

    async def lines() -> AsyncIterator[bytes]:
        yield first + b"\n"
        async for line in found:
            yield line + b"\n"

    headers = {"Content-Disposition": f'attachment; filename="{_plain(run)}.jsonl"'}
    return StreamingResponse(lines(), headers=headers, media_type="application/jsonl")


# --- outputs


@operation("GET", "/runs/{run}/output", "runs:read", tag="runs", answers=v.Value, statuses=(200, 206), refuses=(416,))
async def get_output(call: Call, query: r.Output) -> Response:
    """Download the result of a run, or the output of one of its nodes, as JSON. Ranges are supported."""
    run, node = await run_of(call), query.node
    tally = await tally_of(call.engine, run)
    found = tally.state.nodes.get(node) if node else None
    if node and found is None:
        raise NotFound(f"run {run} has no node {node!r}")
    raw = found.output if found is not None else tally.state.outline.output
    return await _download(call, raw, f"{run}.json")


@operation(
    "GET",
    "/runs/{run}/blobs/{hash}",
    "runs:read",
    tag="runs",
    answers=bytes,
    content="application/octet-stream",
    statuses=(200, 206),
    refuses=(416,),
)
async def get_blob(call: Call) -> Response:
    """Download a blob that the log of this run refers to. Ranges are supported."""
    run, hash = await run_of(call), call.path["hash"]
    if _HASH.fullmatch(hash):
        async for entry in call.engine.events(run, everything=True):
            for raw in values_in(entry.event):
                if is_elsewhere(raw) and (ref := blob_of(raw)).hash == hash:
                    return _streamed(call, ref.size, _chunks_of(call, ref), f"{hash[:16]}.bin", BINARY)
    raise NotFound(f"run {run} refers to no blob {hash[:128]!r}")


BINARY = "application/octet-stream"


def _chunks_of(call: Call, ref: BlobRef) -> AsyncIterator[bytes]:
    return call.state.store.blobs.open(ref)


async def _download(call: Call, raw: Value, name: str) -> Response:
    if is_elsewhere(raw):
        ref = blob_of(raw)
        return _streamed(call, ref.size, _chunks_of(call, ref), name, "application/json")
    data = bytes(plain_numbers(raw))

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    return _streamed(call, len(data), chunks(), name, "application/json")


def _streamed(call: Call, size: int, chunks: AsyncIterator[bytes], name: str, media: str) -> Response:
    """The content, or the range of it that was asked for, as an attachment that no browser interprets."""
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{_plain(name)}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    first, last = _range(call.request.headers.get("range"), size)
    status = 200 if (first, last) == (0, size - 1) else 206
    if status == 206:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    headers["Content-Length"] = str(max(0, last - first + 1))
    return StreamingResponse(_within(chunks, first, last), status, headers, media)


def _plain(name: str) -> str:
    """A file name with nothing in it that a shell, a header or a file system interprets."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _range(header: str | None, size: int) -> tuple[int, int]:
    """The first and the last byte; a header that is no single range of bytes is ignored, as HTTP has it."""
    match = _RANGE.fullmatch(header.replace(" ", "")) if header else None
    if match is None or not (match[1] or match[2]):
        return 0, size - 1
    if match[1]:
        first, last = int(match[1]), min(int(match[2]) if match[2] else size - 1, size - 1)
    else:
        first, last = max(0, size - int(match[2])), size - 1
    if match[1] and match[2] and int(match[2]) < int(match[1]):
        return 0, size - 1
    if first > last:
        headers = {"Content-Range": f"bytes */{size}"}
        raise HttpError("http.range", f"the content has {size} bytes", headers=headers)
    return first, last


async def _within(chunks: AsyncIterator[bytes], first: int, last: int) -> AsyncIterator[bytes]:
    at = 0
    async for chunk in chunks:
        if at > last:
            break
        part = chunk[max(0, first - at) : last + 1 - at]
        at += len(chunk)
        if part:
            yield part
