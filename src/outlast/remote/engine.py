"""The engine of a server: the verbs of `Engine`, carried out over HTTP."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, ParamSpec, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from outlast.client.branch_plans import Plan, encoded
from outlast.client.bulk import Bulk, Order, Progress, Target
from outlast.client.deletion import Pruned
from outlast.client.diagnostics import Diagnostics
from outlast.client.evidence import Diagnosis
from outlast.client.facade import Engine
from outlast.client.handle import RunHandle
from outlast.client.questions import Asked
from outlast.client.reader import CANDIDATES, Reader, Statuses, WorkerRuns, checked_filter, one_of
from outlast.client.results import Question, answer_json, called_as, error_of, known_node, no_output
from outlast.client.starts import pack
from outlast.client.versions import Version, VersionDiff, Versions
from outlast.definition.durations import Seconds, seconds, seconds_or_none
from outlast.errors import (
    Damaged,
    InvalidInput,
    NotAllowed,
    NotAsked,
    NotFound,
    NotPermitted,
    RunGone,
    ServerAway,
    StillRunning,
)
from outlast.functions.decorators import Node, Workflow
from outlast.functions.dry_replay import DryRun
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId, checked_run, uuid7
from outlast.history.lineage import Interval
from outlast.history.record import Entry
from outlast.ledger.blob_names import is_elsewhere
from outlast.ledger.verification import Verification
from outlast.lifecycle.actions import Verb
from outlast.lifecycle.branching import BranchSummary
from outlast.lifecycle.comparison import Comparison
from outlast.lifecycle.diagnosis import Finding
from outlast.lifecycle.explanation import Explanation
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.remote import decode
from outlast.remote.connection import LONG_POLL_S, PAGE, Connection, fields, path_of
from outlast.remote.decode import WireComparison, WireEvent
from outlast.services.sweeper import STALE_AFTER_S, Report
from outlast.store import Holding, Line, Page, RunFilter, Tombstone
from outlast.values.attributes import checked_attributes, condition_text
from outlast.values.codec import codec_for, encode
from outlast.values.tracebacks import folded
from outlast.views import server as s
from outlast.views import types as t
from outlast.views.build import attributes_view
from outlast.views.times import micros

P = ParamSpec("P")
R = TypeVar("R")
_ANY = codec_for(Any)
_ENDINGS = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunContinued)


class _Ending(Struct):
    run: RunId
    ending: WireEvent | None


class _Events(Struct):
    events: list[WireEvent]
    next: int | None


class _Run(Struct):
    run: RunId


class _Migrated(Struct):
    replay: DryRun


class _Plan(Struct):
    would_append: tuple[WireEvent, ...]


class _Damage(Struct):
    seq: int


class _Message(Struct):
    event: WireEvent | None = None
    reason: str = ""


def only_there(what: str) -> NotAllowed:
    """The refusal of a verb that needs the store or the code itself."""
    return NotAllowed(f"{what} needs the store: a server does not offer it; do it where the store is")


V = TypeVar("V", bound=Callable[..., Any])


def _sent(verb: V, carry_out: Callable[[Any, RunId, str, dict[str, Any]], Awaitable[Any]], name: str = "") -> V:
    """A verb with this signature. `carry_out` gets the object, the run, the name of the verb, and the other arguments that
    were given as a body."""
    signature, name = inspect.signature(verb), name or verb.__name__

    @functools.wraps(verb)
    async def sent(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return await carry_out(given.pop("self"), given.pop("run"), name, _body(given))

    return cast("V", sent)


async def _changed(engine: RemoteEngine, run: RunId, verb: str, body: dict[str, Any]) -> RunId:
    return (await engine.connection.post(path_of("runs", run, verb), _Run, body)).run


async def _continued(engine: RemoteEngine, run: RunId, verb: str, body: dict[str, Any]) -> RunHandle[Any]:
    return RunHandle(engine, await _changed(engine, run, verb, body))


async def _planned(diagnostics: RemoteDiagnostics, run: RunId, verb: str, body: dict[str, Any]) -> list[e.AnyEvent]:
    """The events that a verb would append to a run."""
    path, body = path_of("runs", run, "plan"), {"action": verb, **body}
    return decode.events_of((await diagnostics.connection.post(path, _Plan, body, repeats=True)).would_append, run)


class RemoteReader(Reader):
    """Reads the runs of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def now(self) -> int:
        return micros((await self._connection.get("/clock", s.ClockView)).now) or 0

    async def find(self, prefix: str) -> RunId:
        wanted, runs = checked_run(prefix), list[RunId]()
        async for page in self._connection.pages("/run-ids", s.RunIdListView, prefix=wanted):
            runs += page.runs
            if len(runs) > CANDIDATES:
                break
        if not runs:
            raise NotFound(f"Workflow not found: the server {self._connection.address} has no run {prefix}")
        return one_of(runs, wanted)

    async def run_ids(self, *, unfinished: bool = False) -> AsyncIterator[RunId]:
        seen = set[RunId]()
        async for page in self._connection.pages("/run-ids", s.RunIdListView, unfinished=unfinished):
            for run in page.runs:
                if run not in seen:
                    seen.add(run)
                    yield run

    async def get(self, run: RunId) -> RunSummary:
        return decode.summary_of(await self.summary(run))

    async def summary(self, run: RunId) -> t.RunView:
        """A run as it is in lists."""
        return await self._connection.get(path_of("runs", run, "summary"), t.RunView)

    async def holder(self, run: RunId) -> Holding | None:
        return decode.holding_of(await self.summary(run))

    async def scratch(self, run: RunId, created: int) -> bytes:
        return decode.listed_of(await self.summary(run)).scratch

    async def list_runs(self, query: RunFilter) -> Page:
        view = await self.run_list(query)
        return Page(tuple(map(decode.listed_of, view.runs)), view.next or "")

    async def run_list(self, query: RunFilter) -> t.RunListView:
        """A page of a list of runs."""
        if query.limit < 1:
            raise InvalidInput(f"limit must be at least 1, not {query.limit}")
        return await self._connection.get(
            "/runs",
            t.RunListView,
            status=query.statuses,
            workflow=query.workflow,
            tag=query.tags,
            parent=query.parent,
            text=query.text,
            since=query.created_from,
            until=query.created_until,
            prefix=query.prefix,
            queue=query.queue,
            held=query.held,
            attribute=tuple(map(condition_text, query.attributes)),
            sort=query.order,
            children=False if query.roots else None,
            limit=min(query.limit, PAGE),
            cursor=query.after,
        )

    async def end(self, run: RunId) -> s.HeadView:
        """The end of a log."""
        return await self._connection.get(path_of("runs", run, "head"), s.HeadView)

    async def current_branch(self, run: RunId) -> int:
        return (await self.end(run)).branch

    async def lineage(self, run: RunId, branch: int | None = None) -> tuple[Interval, ...]:
        found = await self._connection.get(path_of("runs", run, "lineage"), s.LineageView, branch=branch)
        return tuple((each.first, each.last) for each in found.intervals)

    async def events(
        self, run: RunId, *, node: str = "", branch: int | None = None, everything: bool = False, after: int = 0
    ) -> AsyncIterator[Entry]:
        if everything and branch is not None:
            raise InvalidInput("give either a branch or everything")
        if after < 0:
            raise InvalidInput(f"after must be 0 or the number of an event, not {after}")
        query = {"node": node, "branch": branch, "everything": everything}
        async for page in self._connection.pages(
            path_of("runs", run, "events"), _Events, after=after, by="after", **query
        ):
            for entry in decode.entries_of(page.events, run):
                yield entry

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0
    ) -> AsyncIterator[Line]:
        path, query = path_of("runs", run, "logs"), {"node": node, "attempt": attempt}
        async for page in self._connection.pages(path, s.LogListView, after=after, by="after", **query):
            for line in page.lines:
                yield decode.line_of(line)

    async def verify(self, run: RunId, *, blobs: bool = True) -> Verification:
        view = await self._connection.get(path_of("runs", run, "verify"), t.VerificationView, blobs=blobs)
        return decode.verification_of(view)

    async def workers(self) -> list[WorkerRuns]:
        return decode.workers_of((await self._connection.get("/workers", t.WorkerListView)).workers)


class RemoteEngine(Engine):
    """The engine of a server. `outlast.connect` opens one.

    Its verbs are those of `Engine`, with the same results and errors. The server advances the runs, with the code that it
    knows. It records the name of the token as the user: `by` must be empty."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._reader: RemoteReader = RemoteReader(connection)
        self.versions = RemoteVersions(connection)
        self.diagnostics = RemoteDiagnostics(self)
        self.bulk = RemoteBulk(self)

    # --- starting and finding

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        params, options = pack(workflow, args, kwargs).inputs, dict(workflow._start_options)
        if options.pop("exclusive", ""):
            raise InvalidInput("a server takes the exclusive key from the workflow: give it to @workflow(exclusive=…)")
        run = await self.start_by_name(workflow.name, params if bytes(params) != b"null" else {}, **options)
        return RunHandle(self, run, workflow)

    async def start_by_name(
        self,
        workflow: str,
        params: Raw | Mapping[str, Any],
        *,
        id: str = "",
        idempotency_key: str = "",
        title: str = "",
        tags: Iterable[str] = (),
        attributes: Mapping[str, Any] | None = None,
        start: bool = True,
        queue: str | None = None,
        priority: int | None = None,
        fairness_key: str | None = None,
    ) -> RunId:
        """Start a run of a workflow that only the server knows, with these parameters by name. Returns its id."""
        given = params if isinstance(params, Raw) else {name: _encoded(each, name) for name, each in params.items()}
        body = fields(queue=queue, priority=priority, fairness_key=fairness_key)
        body |= {"workflow": workflow, "params": given, "title": title, "tags": list(tags), "start": start}
        if attributes:
            body["attributes"] = attributes_view(checked_attributes("attributes", attributes))
        if not idempotency_key:  # with an id, the request may be repeated
            body["id"] = id or uuid7(int(time.time() * 1000), os.urandom(10))
        found = await self.connection.post("/runs", _Run, body, key=idempotency_key, repeats=True)
        return found.run

    async def parameters(self, workflow: str) -> dict[str, Any]:
        """The JSON Schema of each parameter of a workflow that the server knows; None if any value is accepted."""
        found = await self.connection.get(path_of("workflows", workflow), s.WorkflowView)
        return {each.name: msgspec.json.decode(each.schema) for each in found.parameters}

    async def handle(self, run: str) -> RunHandle[Any]:
        return RunHandle(self, await self.find(run))

    # --- waiting

    async def result(
        self, run: RunId, *, workflow: Workflow[..., Any] | None = None, timeout: Seconds | None = None
    ) -> Any:
        __tracebackhide__ = True
        limit = seconds_or_none(timeout, "timeout")
        async for left in _rounds(limit):
            found = await self.connection.get(path_of("runs", run, "ending"), _Ending, wait=left)
            if found.ending is not None:
                (ending,) = decode.events_of([found.ending], found.run)
                return await self._outcome(found.run, ending, workflow)
        raise StillRunning(f"run {run} has not ended within {limit:g} s; it continues")

    async def _outcome(self, run: RunId, ending: e.AnyEvent, workflow: Workflow[..., Any] | None) -> Any:
        __tracebackhide__ = True
        assert isinstance(ending, _ENDINGS)
        if isinstance(ending, e.RunCompleted):
            codec = workflow._arguments.returns if workflow is not None else _ANY
            return codec.decode(await self._value(run, ending.output, ""))
        raise folded(error_of(run, ending, workflow.fn.__module__ if workflow is not None else ""))

    async def _value(self, run: RunId, raw: e.Value, node: str) -> e.Value:
        """A value of the log, or the blob that it refers to."""
        if not is_elsewhere(raw):
            return raw
        response = await self.connection.send("GET", path_of("runs", run, "output"), query={"node": node})
        return Raw(response.content)

    async def watch(
        self, run: RunId, *, after: int = 0, stalled: Callable[[bool], None] | None = None
    ) -> AsyncIterator[Entry]:
        backoff, is_over = self.connection.backoff(), (await self._reader.end(run)).closed
        while True:
            try:
                async with aclosing(cast("Any", self.connection.messages(run=f"{run}@{after}"))) as messages:
                    async for kind, data in messages:
                        if kind == "missing":
                            await self._reader.end(run)
                            raise NotFound(f"there is no run {run}")
                        if kind == "damaged":
                            found = msgspec.json.decode(data, type=_Damage)
                            raise Damaged("the server cannot read the log", run=run, seq=found.seq)
                        if kind == "end":
                            _check_credential(data)
                            break
                        if kind in ("stalled", "resumed") and stalled is not None:
                            stalled(kind == "stalled")
                        for entry in _entries(kind, data, run):
                            if entry.seq > after:
                                after = entry.seq
                                is_over = is_over or isinstance(entry.event, _ENDINGS)
                                yield entry
                        if is_over and kind in ("event", "backfill_complete") and await self._is_read(run, after):
                            return
                        backoff = self.connection.backoff()
            except ServerAway as error:
                if not await backoff.wait():
                    raise error from None

    async def _is_read(self, run: RunId, seq: int) -> bool:
        """Whether the run is over and its log ends here."""
        head = await self._reader.end(run)
        return head.closed and head.version <= seq

    # --- questions

    async def asked(self, run: RunId, question: str | None = None, *, timeout: Seconds | None = None) -> Question:
        limit = seconds_or_none(timeout, "timeout")
        async for left in _rounds(limit):
            try:
                asking, wait = await self.question(run, question, wait=left)
            except NotAsked:
                continue
            except RunGone:
                await self._raise_failure(run)
                raise
            return Question(asking, wait.id, wait.text, msgspec.json.decode(wait.detail))
        what = "anything" if question is None else repr(question)
        raise StillRunning(f"run {run} has not asked {what} within {limit:g} s; it continues")

    async def _raise_failure(self, run: RunId) -> None:
        found = await self.connection.get(path_of("runs", run, "ending"), _Ending)
        if found.ending is not None and found.ending.type in ("RunFailed", "RunCancelled"):
            await self.result(found.run)

    async def question(self, run: RunId, interaction: str | None = None, *, wait: float = 0) -> Asked:
        """The open question that an answer to a run is for, and the run that asks it."""
        path = path_of("runs", run, "question")
        found = await self.connection.get(path, s.InboxItemView, interaction=interaction, wait=wait or None)
        return found.run, decode.wait_of(found)

    async def answer(self, run: RunId, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        _check_by(by)
        asking, wait = await self.question(run, interaction)
        raw = answer_json(value, msgspec.json.decode(wait.detail))
        body = {"value": raw, "interaction": wait.id}
        return (await self.connection.post(path_of("runs", asking, "answer"), _Run, body)).run

    async def questions(self, run: RunId) -> list[Wait]:
        detail = await self.detail(run, repairs=False)
        return [decode.wait_of(each) for each in detail.questions]

    async def detail(self, run: RunId, *, repairs: bool) -> t.RunDetailView:
        """Everything that is known of a run."""
        return await self.connection.get(path_of("runs", run), t.RunDetailView, repairs=repairs)

    # --- control

    begin = _sent(Engine.begin, _continued, "start")
    cancel = _sent(Engine.cancel, _changed)
    pause = _sent(Engine.pause, _changed)
    resume = _sent(Engine.resume, _continued)
    retry = _sent(Engine.retry, _continued)
    jump = _sent(Engine.jump, _continued)
    rewind = _sent(Engine.rewind, _continued)
    activate = _sent(Engine.activate, _continued)
    fork = _sent(Engine.fork, _continued)

    async def pause_all(self, runs: Iterable[RunId] = (), *, by: str = "", reason: str = "") -> None:
        """Nothing: this process advances no run."""

    async def drain(self) -> None:
        """Nothing: this process advances no run."""

    async def plan(self, run: RunId, action: str, **options: Any) -> t.PlanView:
        """What an action would do to a run."""
        return await self.connection.post(
            path_of("runs", run, "plan"), t.PlanView, {"action": action, **_body(options)}, repeats=True
        )

    # --- deleting

    async def delete(self, run: RunId, *, force: bool = False, by: str = "", reason: str = "") -> Tombstone:
        _check_by(by)
        return decode.tombstone_of(
            await self.connection.delete_once(path_of("runs", run), t.TombstoneView, force=force, reason=reason)
        )

    async def prune(
        self,
        older: Seconds,
        *,
        workflow: str = "",
        status: Statuses | None = None,
        force: bool = False,
        dry_run: bool = False,
        by: str = "",
        reason: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> Pruned:
        """See `Engine.prune`. Bulk actions of the server delete the runs; the space is freed within minutes."""
        _check_by(by)
        statuses = checked_filter(None, workflow, status, None).statuses
        body = fields(
            older=seconds(older, "older"),
            workflow=workflow,
            status=statuses,
            force=force,
            dry_run=dry_run,
            reason=reason,
        )
        report, kept = Pruned(dry_run=dry_run), Counter[str]()
        while True:
            view = await self.connection.post("/prune", t.PrunedView, body, repeats=dry_run)
            found = decode.pruned_of(view)
            report.merge(found)
            if view.bulk is None:
                break
            tell(f"bulk action {view.bulk} deletes {found.runs:,} runs")
            await self.result(RunId(view.bulk))
            left = (await self.bulk.progress(RunId(view.bulk))).count_left()
            report.runs -= left
            kept[f"was skipped: outlast bulk show {view.bulk}"] += left
            if not view.more or left == found.runs:
                break
        report.refused = found.refused + kept
        return report

    # --- what happened

    async def output(self, run: RunId, node: Node[..., Any] | str) -> Any:
        found = await self.connection.get(path_of("runs", run, "nodes"), s.NodeListView)
        calls = {each.node: each for each in found.nodes}
        name = called_as(node, run, calls)
        if not name or calls[name].status != "completed":
            raise no_output(node, run)
        known = node if isinstance(node, Node) else known_node((await self.get(run)).workflow, name)
        codec = known._arguments.returns if known is not None else _ANY
        return codec.decode(await self._value(run, calls[name].output, name))

    async def explain(self, run: RunId, *, branch: int | None = None, full: bool = False) -> Explanation:
        return await self.connection.get(path_of("runs", run, "explain"), Explanation, branch=branch, full=full)

    async def branches(self, run: RunId) -> tuple[BranchSummary, ...]:
        view = await self.connection.get(path_of("runs", run, "branches"), t.BranchTreeView)
        return tuple(map(decode.branch_of, view.branches))

    async def compare(
        self, run: RunId, other: RunId | None = None, *, branch: int | None = None, other_branch: int | None = None
    ) -> Comparison:
        path = path_of("runs", run, "compare")
        found = await self.connection.get(path, WireComparison, other=other, branch=branch, other_branch=other_branch)
        return decode.comparison_of(found)

    # --- health

    async def diagnose(self, run: RunId, *, blobs: bool = True) -> Diagnosis:
        return decode.diagnosis_of(await self.examination(run, blobs=blobs))

    async def recover(self, run: RunId) -> list[Finding]:
        return decode.repaired_of(await self.examination(run, fix=True))

    async def examination(self, run: RunId, *, fix: bool = False, blobs: bool = True) -> t.ExaminationView:
        """The findings about a run, and its repairs, or the plans of repairs."""
        path = path_of("runs", run, "doctor")
        if fix:
            body = {"fix": True, "blobs": blobs}
            return await self.connection.post(path, t.ExaminationView, body, repeats=True)
        return await self.connection.get(path, t.ExaminationView, blobs=blobs)

    async def sweep(self, *, dry_run: bool = False, stale_after: Seconds = STALE_AFTER_S) -> Report:
        body = {"dry_run": dry_run, "stale_after": seconds(stale_after, "stale_after")}
        return decode.report_of(await self.connection.post("/sweep", t.SweepReportView, body, repeats=True))

    async def who(self) -> s.SessionView:
        """Who sends these requests."""
        return await self.connection.get("/session", s.SessionView)

    async def audit(self, limit: int, **query: Any) -> t.AuditListView:
        """Who changed what through the server, the newest first: up to `limit` entries."""
        entries, cursor = list[t.AuditEntryView](), ""
        while True:
            size = min(PAGE, limit - len(entries))
            page = await self.connection.get("/audit", t.AuditListView, limit=size, cursor=cursor, **query)
            entries += page.entries
            if page.next is None or len(entries) == limit:
                return t.AuditListView(entries=tuple(entries), next=page.next)
            cursor = page.next

    # --- tokens

    async def create_token(self, name: str, role: str, expires_s: float | None) -> t.NewTokenView:
        return await self.connection.post("/tokens", t.NewTokenView, fields(name=name, role=role, expires_in=expires_s))

    async def tokens(self) -> t.TokenListView:
        return await self.connection.get("/tokens", t.TokenListView)

    async def revoke_token(self, id: str) -> None:
        await self.connection.delete(path_of("tokens", id))


class RemoteBulk(Bulk):
    """Bulk actions on a server."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine
        self._connection = engine.connection

    async def _existing(self, key: str) -> None:
        """None: the server looks for it."""

    async def _start(self, order: Order, targets: list[Target], key: str) -> RunId:
        _check_by(order.by)
        value = encode(order.value, where="value") if order.action == "answer" else None
        body = fields(action=order.action, runs=targets, reason=order.reason, value=value, force=order.force or None)
        return (await self._connection.post("/bulk", _Run, body, key=key)).run

    async def progress(self, run: RunId) -> Progress:
        pages = [page async for page in self._connection.pages(path_of("bulk", run), t.BulkView)]
        return decode.progress_of(pages[-1], [each for page in pages for each in page.outcomes])

    async def retry(self, run: RunId, *, by: str = "") -> RunId:
        _check_by(by)
        return (await self._connection.post(path_of("bulk", run, "retry"), _Run, {}, repeats=True)).run

    async def _questions(self, runs: Iterable[RunSummary]) -> dict[str, list[Wait]]:
        found: dict[str, list[Wait]] = {each.run: [] for each in runs}
        async for page in self._connection.pages("/inbox", s.InboxView):
            for each in page.questions:
                if each.run in found:
                    found[each.run].append(decode.wait_of(each))
        return found


class RemoteVersions(Versions):
    """The versions of workflows on a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of(self, workflow: str) -> list[Version]:
        path = path_of("workflows", workflow, "versions")
        found = await self._connection.get(path, t.VersionListView)
        return list(map(decode.version_of, found.versions))

    async def diff(self, old: str, new: str = "") -> VersionDiff:
        return await self._connection.get("/versions/diff", VersionDiff, old=old, new=new)

    async def replay(self, run: RunId) -> DryRun:
        return await self._connection.get(path_of("runs", run, "replay"), DryRun)

    async def migrate(self, run: RunId, *, by: str = "", reason: str = "", children: Children = "cancel") -> DryRun:
        _check_by(by)
        path, body = path_of("runs", run, "migrate"), fields(reason=reason, children=children)
        return (await self._connection.post(path, _Migrated, body)).replay

    async def check_migration(self, run: RunId) -> None:
        """Nothing: the server refuses to move a run that is over."""


class RemoteDiagnostics(Diagnostics):
    """Details of runs of a server."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine
        self._reader = engine._reader
        self.connection = engine.connection

    @property
    def worker_id(self) -> str:
        return ""

    async def workers_knowing(self, workflow: str) -> tuple[str, ...]:
        return tuple(
            each.worker for each in await self._engine.workers() if each.is_live and workflow in each.info.workflows
        )

    async def created(self, run: RunId) -> e.RunCreated:
        path = path_of("runs", run, "events")
        page = await self._engine.connection.get(path, _Events, everything=True, limit=1)
        (entry,) = decode.entries_of(page.events, run)
        assert isinstance(entry.event, e.RunCreated)
        return entry.event

    async def continued_as(self, run: RunId) -> RunId:
        return (await self._engine._reader.end(run)).latest

    async def open_question(self, run: RunId, question: str | None = None) -> Asked:
        return await self._engine.question(run, question)

    async def preview(self, run: RunId, verb: Verb, plan: Plan) -> list[e.AnyEvent]:
        raise only_there("diagnostics.preview")

    preview_activate = _sent(Diagnostics.preview_activate, _planned, "activate")
    preview_pause = _sent(Diagnostics.preview_pause, _planned, "pause")
    preview_cancel = _sent(Diagnostics.preview_cancel, _planned, "cancel")
    preview_retry = _sent(Diagnostics.preview_retry, _planned, "retry")

    async def preview_recovery(self, run: RunId, finding: Finding) -> list[e.AnyEvent]:
        raise only_there("diagnostics.preview_recovery")

    async def take_over_later(self, run: RunId) -> str:
        """Nothing: the server's workers advance the run."""
        return ""


async def _rounds(limit: float | None) -> AsyncIterator[float]:
    """How long to wait for an answer each time, until the limit is over."""
    clock = asyncio.get_running_loop().time
    end = None if limit is None else clock() + limit
    while True:
        left = LONG_POLL_S if end is None else max(0.0, min(LONG_POLL_S, end - clock()))
        yield left
        if end is not None and clock() >= end:
            return


def _entries(kind: str, data: bytes, run: RunId) -> list[Entry]:
    found = msgspec.json.decode(data, type=_Message).event if kind == "event" else None
    return decode.entries_of([found], run) if found is not None else []


def _body(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a verb as a body: what is None is left out, and values of users are encoded."""
    _check_by(given.pop("by", ""))
    for name in given.keys() & {"output", "feedback"}:
        value = given[name]
        given[name] = None if (value is None and name == "feedback") or value is msgspec.UNSET else encoded(value, name)
    if (inputs := given.get("inputs")) is not None:
        given["inputs"] = {name: encoded(value, name) for name, value in inputs.items()}
    return fields(**given)


def _encoded(value: Any, where: str) -> Raw:
    return value if isinstance(value, Raw) else encode(value, where=where)


def _check_credential(data: bytes) -> None:
    if msgspec.json.decode(data, type=_Message).reason == "unauthenticated":
        raise NotPermitted("the token is no longer valid, and the server ended the stream")


def _check_by(by: str) -> None:
    if by:
        raise InvalidInput(f"by={by!r}: a server records the name of the token; omit it")
