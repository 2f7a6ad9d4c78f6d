"""The text forms of views: styled lines for a terminal; plain text for `str(view)` and notebooks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from outlast.lifecycle.status import TERMINAL, RunStatus
from outlast.lifecycle.timeline.phrases import counted, cropped, duration, plain
from outlast.views import types as t
from outlast.views.lines import Line, Span, line, table
from outlast.views.texts import (
    COLOURS,
    MAX_TEXT,
    about,
    attribute_view_text,
    error_text,
    holder_text,
    progress_text,
    short_ids,
    size,
    wait_view_text,
)
from outlast.views.times import local, micros, span

SHOWN = 50
"""Nodes, steps, children and waits that are shown without `verbose`."""
SHOWN_VIOLATIONS = 20
MAX_VALUE = 200
"""Characters of a value or message that are shown without `verbose`."""
MAX_ATTRIBUTE = 24
"""Characters of a search attribute in a list of runs."""
MAX_WAIT = 80
"""Characters of a question in a list of waits."""
_NODE_STYLES = {"completed": "green", "failed": "red", "running": "bold blue"}
_STANDING_STYLES = {"consistent": "green", "repairable": "yellow", "reported": "bold red"}


def text_of(view: t.View) -> str:
    """The text form of a view now."""
    return "\n".join(each.text for each in lines_of(view, time.time_ns() // 1000))


def lines_of(view: t.View, now: int, **options: Any) -> Iterator[Line]:
    """The text form of a view as lines. Durations are measured at `now`."""
    form = _FORMS.get(type(view), _plainly)
    return form(view, now, **options)


def _plainly(view: t.View, now: int) -> Iterator[Line]:  # noqa: ARG001
    """A view without its own form: a table of its fields."""
    rows: list[list[Span | str]] = []
    for name in view.__struct_fields__:
        value = getattr(view, name)
        shown = str(value) if isinstance(value, str | int | float) else msgspec.json.encode(value).decode()
        rows.append([(name, "cyan"), cropped("-" if value is None else shown, MAX_TEXT)])
    yield from table(rows)


def _titles(*names: str) -> list[Span | str]:
    return [(name, "bold") for name in names]


def _time(time: str | None, *, full: bool = True) -> str:
    at = micros(time)
    return "-" if at is None else local(at, full=full)


# --- runs


def _run_list(view: t.RunListView, now: int, *, columns: Sequence[str] = ()) -> Iterator[Line]:
    """The runs, with these search attributes as columns."""
    ids = short_ids(run.run for run in view.runs)
    shown = {name: _column([run.attributes.get(name) for run in view.runs]) for name in columns}
    rows = [[*_titles("run", "workflow", "status", " age", "done", *columns, "waits for, or why")]]
    for place, run in enumerate(view.runs):
        # The summary of a running run is not written after every node: its number would be old.
        done = "" if run.status is RunStatus.RUNNING else f"{run.done_nodes:>4}"
        age = span(now - (micros(run.created) or now))
        status: Span = ("held" if run.held else run.status, COLOURS[run.status])
        name, workflow = (plain(ids[run.run]), "cyan"), cropped(run.workflow, 24)
        attributes = [column[place] for column in shown.values()]
        rows.append([name, workflow, status, f"{age:>4}", done, *attributes, about(run, now)])
    yield from table(rows)


def _column(values: Sequence[t.Attribute | None]) -> list[str]:
    """The values of an attribute, one for each run. Numbers stand below each other."""
    texts = ["" if value is None else cropped(attribute_view_text(value), MAX_ATTRIBUTE) for value in values]
    is_number = [isinstance(value, int | float) and not isinstance(value, bool) for value in values]
    widest = max((len(text) for text, number in zip(texts, is_number, strict=True) if number), default=0)
    return [text.rjust(widest) if number else text for text, number in zip(texts, is_number, strict=True)]


def _run(view: t.RunView, now: int) -> Iterator[Line]:
    yield from _run_list(t.RunListView(runs=(view,), next=None), now)


class _Detail:
    """The text form of one run."""

    def __init__(self, view: t.RunDetailView, now: int, *, verbose: bool = False) -> None:
        self._view, self._now, self._verbose = view, now, verbose
        self._longest = 100_000 if verbose else MAX_VALUE

    def lines(self) -> Iterator[Line]:
        view = self._view
        yield from table([[(name, "cyan"), value] for name, value in self._facts()])
        yield from self._part("progress", [[progress_text(each)] for each in view.progress])
        yield from self._part("nodes", list(self._nodes()))
        yield from self._part("steps", [[plain(step.step), "done" if step.completed else ""] for step in view.steps])
        yield from self._part("children", list(self._children()))
        files = (
            [(plain(file.path), "cyan"), "" if file.complete else "partial", plain(file.node)] for file in view.files
        )
        yield from self._part("files", list(files))
        yield from self._part("waits for", [self._wait(wait) for wait in view.waits])
        yield from self._long_questions()
        yield from self._error()
        yield from self._actions()

    def _part(self, title: str, rows: Sequence[Sequence[Span | str]]) -> Iterator[Line]:
        if not rows:
            return
        shown = rows if self._verbose else rows[-SHOWN:]
        more = f" (the last {SHOWN} of {len(rows)}; --verbose shows all)" if len(shown) < len(rows) else ""
        yield line()
        yield line((title, "bold"), more)
        yield from table(shown, indent="  ")

    def _facts(self) -> Iterator[tuple[str, Span]]:
        view = self._view
        yield "run", (plain(view.run), "")
        yield "workflow", (plain(view.workflow) + (f"  ({plain(view.entry)})" if view.entry else ""), "")
        yield "status", (f"{view.status}{self._why()}", COLOURS[view.status])
        tags = " ".join(f"#{tag}" for tag in view.tags)
        attributes = ", ".join(f"{name}={attribute_view_text(value)}" for name, value in view.attributes.items())
        others = {"title": view.title, "tags": tags, "attributes": attributes, "queue": view.queue}
        others |= {"priority": str(view.priority or ""), "fairness key": view.fairness_key}
        others |= {"parent": view.parent or "", "continues as": view.successor or ""}
        yield from ((name, (cropped(text, MAX_TEXT), "")) for name, text in others.items() if text)
        if view.holder is not None and view.holder.live:
            yield "worker", (plain(view.holder.worker), "")
        created, updated = micros(view.created) or self._now, micros(view.updated) or self._now
        yield "created", (f"{_time(view.created)}, {span(self._now - created)} ago", "")
        last = "ended" if view.status in TERMINAL else "last event"
        yield last, (f"{_time(view.updated)}, after {span(updated - created)}", "")
        yield "params", (self._value(view.params) or "none", "")
        if view.status is RunStatus.COMPLETED:
            yield "result", (self._value(view.result) or "null", "")

    def _why(self) -> str:
        view = self._view
        if view.held:
            return ", held: a person must decide"
        if view.recoverable:
            return ", recoverable"
        if view.status in (RunStatus.RUNNING, RunStatus.COMPENSATING):
            gone = holder_text(view.holder, self._now)
            return f", {gone}" if gone else ""
        reason = f", {cropped(view.reason, MAX_TEXT)}" if view.reason else ""
        return reason if view.status in (RunStatus.PAUSED, RunStatus.CANCELLED) else ""

    def _nodes(self) -> Iterator[list[Span | str]]:
        for node in self._view.nodes:
            is_stopped = node.status == "running" and self._view.status is RunStatus.PAUSED
            status = "stopped" if is_stopped else node.status
            tries = counted(node.attempt, "attempt") if node.attempt > 1 else ""
            outcome = self._value(node.output)
            if node.error is not None and node.status != "completed":
                outcome = self._failure(node.error)
            time = "" if is_stopped else self._time_of(node)
            yield [(plain(node.node), "cyan"), (status, _NODE_STYLES.get(status, "")), tries, time, outcome]
        if self._view.retired_nodes:
            yield ["…", "completed", "", "", f"{self._view.retired_nodes} more completed nodes, retired"]

    def _time_of(self, node: t.NodeView) -> str:
        began, retry = micros(node.began), micros(node.retry_at)
        if node.status == "running":
            return f"for {span(self._now - began)}" if began is not None else ""
        if retry is not None:
            return f"next attempt in {duration(retry - self._now)}"
        return duration(node.ms * 1000) if node.ms else ""

    def _children(self) -> Iterator[list[Span | str]]:
        for child in self._view.children:
            error = self._failure(child.error) if child.error else ""
            yield [(plain(child.run), "cyan"), cropped(child.workflow or "", 40), child.status or "not ended", error]

    def _wait(self, wait: t.WaitView) -> list[Span | str]:
        since = micros(wait.since)
        return [wait_view_text(wait, self._now), (f"for {span(self._now - since)}" if since else "", "dim")]

    def _long_questions(self) -> Iterator[Line]:
        """The whole text of each question that is cut above."""
        for question in self._view.questions:
            if question.text != cropped(question.text, MAX_WAIT):
                yield line()
                yield line(("question", "bold"), f" {plain(question.id)}")
                yield from _indented(question.text)

    def _error(self) -> Iterator[Line]:
        error = self._view.error
        if error is None:
            return
        yield line()
        yield line(("error", "bold red"), f" in node {plain(error.node)}" if error.node else "")
        yield from _indented(self._failure(error))
        if self._verbose and error.trace:
            yield line()
            yield from _indented(error.trace.rstrip())
        elif error.trace:
            yield line(("  --verbose shows its traceback", "dim"))

    def _actions(self) -> Iterator[Line]:
        useful = [action for action in self._view.actions if action.useful]
        others = [action.action for action in self._view.actions if not action.useful]
        if useful:
            yield line()
            yield line(("next", "bold"))
        for action in useful:
            yield line("  ", (plain(action.command), "cyan"), fit="copy", note=plain(action.why))
            events = (f"append {_planned(event)}" for event in action.appends or ())
            for effect in (*action.effects, *events):
                yield line((f"      {plain(effect)}", "dim"), fit="wrap")
        if others:
            yield line()
            yield line((f"also allowed: {', '.join(others)}", "dim"), fit="wrap")

    def _failure(self, error: t.ErrorView) -> str:
        return cropped(error_text(error), self._longest)

    def _value(self, raw: msgspec.Raw) -> str:
        text = bytes(memoryview(raw)[: 4 * self._longest]).decode(errors="replace")
        if text == "null":
            return ""
        if text.startswith('{"$":"blob"'):
            return f"{msgspec.json.decode(raw)['size']} bytes in a blob"
        return cropped(text, self._longest)


def _detail(view: t.RunDetailView, now: int, *, verbose: bool = False) -> Iterator[Line]:
    yield from _Detail(view, now, verbose=verbose).lines()


def _indented(text: str) -> Iterator[Line]:
    for each in text.split("\n"):
        yield line(f"  {plain(each.expandtabs(), keep_indent=True)}", fit="wrap")


# --- branches


def _branch_tree(view: t.BranchTreeView, now: int, *, full: bool = True) -> Iterator[Line]:  # noqa: ARG001
    rows: list[list[Span | str]] = [_titles("branch", "events", "opened", "ended", "why")]
    for guide, branch in tree(view.branches):
        events = f"{branch.first}–{branch.last}" if branch.last > branch.first else f"{branch.first}"
        opened = _time(branch.opened, full=full)
        if branch.parent is not None:
            opened += f", after event {branch.cutoff}" if branch.cutoff else ", from the start"
        who = " by ".join(filter(None, (branch.cause, cropped(branch.by or "", 40))))
        why = ": ".join(filter(None, (who, cropped(branch.reason or "", 80)))) or "the start of the run"
        rows.append(
            [
                (f"{guide}{branch.branch}{' *' if branch.current else ''}", "bold" if branch.current else "cyan"),
                f"{events}, {counted(branch.nodes, 'node')} done",
                opened,
                (_standing(branch), COLOURS[branch.status]),
                why,
            ]
        )
    yield from table(rows)


def tree(branches: Sequence[t.BranchView]) -> Iterator[tuple[str, t.BranchView]]:
    """Each branch with the tree lines before it; children below their parents in the order they opened."""
    below: dict[int | None, list[t.BranchView]] = {}
    for each in branches:
        below.setdefault(each.parent, []).append(each)
    pending = [("", "", each) for each in reversed(below.get(None, []))]
    while pending:
        lead, guide, each = pending.pop()
        yield guide, each
        children = below.get(each.branch, [])
        for child in reversed(children):
            is_last = child is children[-1]
            pending.append((lead + ("   " if is_last else "│  "), lead + ("└─ " if is_last else "├─ "), child))


def _standing(branch: t.BranchView) -> str:
    """Its status, or the status in which the run left it."""
    status = "held" if branch.held else str(branch.status)
    is_left = not branch.current and branch.status not in (*TERMINAL, RunStatus.WAITING)
    return f"left while {status}" if is_left else status


# --- repair and proof


def _verification(view: t.VerificationView, now: int, *, wide: bool = True) -> Iterator[Line]:  # noqa: ARG001
    run = view.run if wide else short_ids([view.run], least=18)[view.run]
    counts = ", ".join(
        [counted(view.events, "event"), counted(view.appends, "append"), counted(view.branches, "branch", "branches")]
    )
    verdict = ("ok   ", "bold green") if view.sound else ("BAD  ", "bold red")
    digest = view.digest if wide else view.digest[:8]
    ident = (f"{plain(run):<{36 if wide else 18}}", "cyan")
    yield line(verdict, ident, f"  {counts}, digest {digest or 'none'}", fit="copy")
    for violation in view.violations[:SHOWN_VIOLATIONS]:
        place = f" at event {violation.seq}" if violation.seq else ""
        text = f"     {violation.invariant}{place}: {cropped(violation.message, MAX_TEXT)}"
        yield line((text, "red"), fit="wrap")
    if len(view.violations) > SHOWN_VIOLATIONS:
        yield line(f"     and {len(view.violations) - SHOWN_VIOLATIONS} more; -o json shows all")
    if any(each.seq == 1 and each.invariant == "V1" and "digest" in each.message for each in view.violations):
        yield line("     the first digest differs: the log may be written with another key (--key-file)", fit="wrap")


def _examination(view: t.ExaminationView, now: int) -> Iterator[Line]:  # noqa: ARG001
    troubles = sum(finding.standing != "consistent" for finding in view.findings)
    verdict = counted(troubles, "finding") if troubles else "no problem"
    yield line((view.run, "bold cyan"), "  ", (view.status, COLOURS.get(view.status, "")), f"  {verdict}", fit="wrap")  # type: ignore[call-overload]
    for finding in view.findings:
        yield from _finding(finding)
    for repair in view.repairs:
        yield from _repair(repair)
    left = [finding for finding in view.after or () if finding.standing != "consistent"]
    if left:
        yield line(("  remaining findings:", "bold"))
    for finding in left:
        yield from _finding(finding)


def _finding(finding: t.FindingView) -> Iterator[Line]:
    head = f"  {finding.code:<4}{plain(finding.sentence)}"
    yield line((head, _STANDING_STYLES[finding.standing]), fit="wrap")
    if finding.events:
        noun = "event" if len(finding.events) == 1 else "events"
        yield line((f"        proved by {noun} {', '.join(map(str, finding.events))}", "dim"), fit="wrap")
    if finding.cause and finding.standing != "consistent":
        yield line((f"        likely cause: {finding.cause}", "dim"), fit="wrap")
    for action in finding.actions:
        yield line(f"        → {plain(action)}", fit="copy")


def _repair(repair: t.RepairView) -> Iterator[Line]:
    if repair.error is not None:
        yield line((f"  could not be repaired: {plain(repair.error)}", "bold red"), fit="wrap")
    elif repair.done:
        branch = f", on new branch {repair.new_branch}" if repair.new_branch is not None else ""
        yield line((f"  repaired {repair.code}{branch}: {plain(repair.reason)}", "bold green"), fit="wrap")
    elif repair.effects:
        yield line((f"  for {repair.code}, --fix would:", "bold"))
        for effect in repair.effects:
            yield line(f"    {plain(effect)}", fit="wrap")
    elif repair.needed:
        yield line((f"  for {repair.code}, --fix would take the run over and append:", "bold"), fit="wrap")
        for event in repair.appends:
            yield line(f"    {_planned(event)}", fit="wrap")


def _planned(event: t.PlannedEventView) -> str:
    return plain(f"{event.type}  {event.text}").rstrip()


def _plan(view: t.PlanView, now: int) -> Iterator[Line]:  # noqa: ARG001
    yield line((f"The command would append these events to run {view.run}:", "bold"), fit="wrap")
    for event in view.would_append:
        yield line(f"  {_planned(event)}", fit="wrap")
    yield from (line(f"  {plain(effect)}", fit="wrap") for effect in view.effects)
    for event in view.would_append:
        for verb in ("cancelled", "detached") if event.type == "BranchOpened" else ():
            if children := event.fields[verb]:
                text = f"{counted(len(children), 'child', 'children')} would be {verb}: {', '.join(children)}"
                yield line((plain(text), "yellow"), fit="wrap")


# --- workers, code and stores


def _version_list(view: t.VersionListView, now: int) -> Iterator[Line]:  # noqa: ARG001
    rows: list[list[Span | str]] = [_titles("version", "runs", "first", "last", "")]
    for each in view.versions:
        remark = " ".join(["current code"] * each.current + ["not stored"] * (not each.stored))
        rows.append([each.version[:12] or "none", str(each.runs), _time(each.first), _time(each.last), remark])
    yield from table(rows)


def _worker_list(view: t.WorkerListView, now: int) -> Iterator[Line]:
    rows: list[list[Span | str]] = [_titles("worker", "", "last seen", "host", "runs", "workflows")]
    for each in view.workers:
        seen = micros(each.last_seen)
        ago = "-" if seen is None else f"{span(now - seen)} ago"
        workflows = plain(", ".join(each.workflows[:5]) + (" …" if len(each.workflows) > 5 else "")) or "-"
        status = ("alive", "green") if each.live else ("gone", "red")
        rows.append([plain(each.worker), status, ago, plain(each.host) or "-", str(len(each.runs)), workflows])
    yield from table(rows)


def _sweep(view: t.SweepReportView, now: int) -> Iterator[Line]:  # noqa: ARG001
    for seen in view.runs:
        if seen.reason != "ready":
            is_done = seen.is_recovered or (view.dry_run and seen.outcome)
            done = f"{'would be ' * view.dry_run}{seen.outcome}" if is_done else "not changed"
            yield line(f"{seen.run}  {seen.reason}: {seen.detail}; {done}", fit="wrap")
    counts = f"{view.healthy} healthy, {view.waiting} waiting, {view.recovered} recovered, {view.stalled} stalled"
    yield line((f"{counted(view.scanned, 'unfinished run')}: {counts}", "bold"))


def _store(view: t.StoreView, now: int) -> Iterator[Line]:  # noqa: ARG001
    runs = ", ".join(f"{count} {plain(status)}" for status, count in view.runs.items())
    facts = {
        "path": plain(view.path),
        "size": size(view.bytes) + (f", and {size(view.wal_bytes)} of WAL" if view.wal_bytes else ""),
        "schema": str(view.schema),
        view.kind: view.library,
        "runs": f"{sum(view.runs.values())}" + (f": {runs}" if runs else ""),
        "deleted": str(view.deleted),
        "blobs": f"{view.blobs.count}, {size(view.blobs.bytes)} in {plain(view.blobs.path)}",
        "workers": f"{view.workers.live} alive" + (f", {view.workers.gone} gone" if view.workers.gone else ""),
    }
    yield from table([[(name, "cyan"), value] for name, value in facts.items()])


def _backup(view: t.BackupView, now: int) -> Iterator[Line]:  # noqa: ARG001
    blobs = f"{counted(view.blobs.count, 'blob')}, {size(view.blobs.bytes)}"
    yield line(plain(f"{view.path}: {counted(view.runs, 'run')}, {size(view.bytes)}, and {blobs}"), fit="wrap")


def _tombstone(view: t.TombstoneView, now: int) -> Iterator[Line]:  # noqa: ARG001
    kept = "its id and its idempotency key stay" if view.key else "its id stays"
    yield line(f"run {plain(view.run)} was deleted; {kept} in use")


def _pruned(view: t.PrunedView, now: int) -> Iterator[Line]:  # noqa: ARG001
    done = "would be deleted" if view.dry_run else "left to a bulk action" if view.bulk else "deleted"
    yield line(
        (f"{counted(view.runs, 'run')} {done}", "bold"), f", with {counted(view.events, 'event')}" * bool(view.runs)
    )
    if view.first and view.last:
        yield line("  the first ended ", _time(view.first), ", the last ", _time(view.last))
    for why, runs in view.refused.items():
        yield line(f"{counted(runs, 'run')} kept, each {plain(why)}", fit="wrap")
    if view.blobs:
        yield line(f"{counted(view.blobs, 'blob')} removed that no run names")


def _bulk_preview(view: t.BulkPreviewView, now: int, *, action: str = "") -> Iterator[Line]:  # noqa: ARG001
    yield line((f"{counted(view.matched, 'run')} match", "bold"))
    for name in (action,) if action else view.allowed:
        yield line((name, "cyan"), f": {view.allowed[name]} allow it")
        for why, runs in view.skipped[name].items():
            yield line(f"  {counted(runs, 'run')} skipped: {plain(why)}")


def _bulk(view: t.BulkView, now: int) -> Iterator[Line]:  # noqa: ARG001
    left = view.confirmed - view.done - view.skipped - view.failed
    counts = f"{view.done} done, {view.skipped} skipped, {view.failed} failed" + (f", {left} left" if left else "")
    yield line(
        (f"{view.action} {counted(view.confirmed, 'run')}", "bold"),
        (f": {counts}", "red" if view.failed else ""),
    )
    styles = {"done": "green", "failed": "red"}
    yield from table(
        [
            [(plain(each.run), "cyan"), (each.result or "left", styles.get(each.result or "", "")), plain(each.reason)]
            for each in view.outcomes
        ]
    )


def _audit(view: t.AuditListView, now: int) -> Iterator[Line]:  # noqa: ARG001
    rows: list[list[Span | str]] = [_titles("time", "who", "from", "what", "about", "result")] if view.entries else []
    for each in view.entries:
        result: Span = (f"{each.status} {each.code}".strip(), "red" if each.status >= 400 else "green")
        about = " ".join(filter(None, (plain(each.subject), plain(each.note))))
        rows.append([_time(each.time), plain(each.by) or "unknown", plain(each.address), each.action, about, result])
    yield from table(rows)


def _settings(view: t.SettingsView, now: int) -> Iterator[Line]:  # noqa: ARG001
    rows: list[list[Span | str]] = [_titles("setting", "value", "from")]
    for name, setting in view.settings.items():
        rows.append([(name, "cyan"), _setting(setting.value), (plain(setting.source), "dim")])
    yield from table([*rows, [("project", "cyan"), plain(view.root), ""]])


def _setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return plain(", ".join(value)) or "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(f"{value:g}" if isinstance(value, float) else str(value)) or "-"


_FORMS: dict[type[t.View], Callable[..., Iterator[Line]]] = {
    t.RunListView: _run_list,
    t.RunView: _run,
    t.RunDetailView: _detail,
    t.BranchTreeView: _branch_tree,
    t.VerificationView: _verification,
    t.ExaminationView: _examination,
    t.PlanView: _plan,
    t.VersionListView: _version_list,
    t.WorkerListView: _worker_list,
    t.SweepReportView: _sweep,
    t.TombstoneView: _tombstone,
    t.PrunedView: _pruned,
    t.BulkPreviewView: _bulk_preview,
    t.BulkView: _bulk,
    t.AuditListView: _audit,
    t.StoreView: _store,
    t.BackupView: _backup,
    t.SettingsView: _settings,
}
