"""Runs in words: ids made short, statuses coloured, what a run waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from outlast.lifecycle.status import RunStatus
from outlast.views.times import micros, span, until
from outlast.views.types import ErrorView, HolderView, ProgressView, RunView, WaitView

COLOURS = {
    RunStatus.CREATED: "cyan",
    RunStatus.RUNNING: "bold blue",
    RunStatus.WAITING: "yellow",
    RunStatus.PAUSED: "magenta",
    RunStatus.COMPENSATING: "magenta",
    RunStatus.COMPLETED: "green",
    RunStatus.FAILED: "bold red",
    RunStatus.CANCELLED: "dim",
}
AT_WORK = (RunStatus.RUNNING, RunStatus.COMPENSATING)
SHORTEST = 13
"""So much of a UUIDv7 is the millisecond it was made in: seldom shared, also with runs that are not on the screen."""
LONGEST = 300
"""More of a text is not shown in a table."""
LONGEST_WAIT = 80
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def plain(text: str, *, keep_indent: bool = False) -> str:
    """Text from anywhere on one line, without effect on a terminal: white space becomes a space, other controls visible."""
    words = text if keep_indent else " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in words)


def cropped(text: str, length: int = LONGEST) -> str:
    """`plain`, and not longer than that."""
    words = plain(text[: 4 * length])
    return words if len(words) <= length and len(text) <= 4 * length else words[: length - 1] + "…"


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def short_ids(runs: Iterable[str], least: int = SHORTEST) -> dict[str, str]:
    """Each run's id cut to what tells it from the others; ids that people chose stay whole."""
    ordered = sorted(set(runs))
    shared = dict.fromkeys(ordered, 0)
    for one, other in pairwise(ordered):
        common = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
        shared[one], shared[other] = max(shared[one], common), max(shared[other], common)
    return {run: _cut(run, max(least, shared[run] + 1)) for run in ordered}


def _cut(run: str, length: int) -> str:
    if not _UUID.fullmatch(run):
        return run
    return run[:length] if run[length - 1] != "-" else run[: length + 1]


def wait_in_words(wait: WaitView, now: int) -> str:
    """What one wait is for."""
    due = micros(wait.due)
    when = f" {until(due, now)}" if due is not None else ""
    text = cropped(wait.text, LONGEST_WAIT)
    match wait.kind:
        case "interaction":
            return f"answer to “{text or plain(wait.id)}”" + (f" (expires{when})" if when else "")
        case "signal":
            return f"signal {text or plain(wait.id)}"
        case "timer" if wait.id == f"retry:{wait.node}":
            return f"retry of {plain(wait.node)}{when}" + (f" after “{text}”" if text else "")
        case "timer":
            return f"timer {plain(wait.id)}{when}"
        case "child":
            return f"child {text} {plain(wait.id)}".replace("  ", " ")
        case "outbox" | "trigger":
            return f"{wait.kind} {text or plain(wait.id)}"


def progress_in_words(progress: ProgressView) -> str:
    """`fetch 1,304 of 5,000: the third page`."""
    amount = f"{progress.done:,g}" if progress.total is None else f"{progress.done:,g} of {progress.total:,g}"
    text = f": {cropped(progress.text, 60)}" if progress.text else ""
    return f"{cropped(progress.node, 40)} {amount}{text}"


def holder_in_words(holder: HolderView | None, now: int) -> str:
    """What is wrong with the worker of a run that is at work; empty if nothing is."""
    if holder is None:
        return "no worker holds it"
    if holder.live:
        return ""
    seen = micros(holder.last_seen)
    return "worker gone" if seen is None else f"worker gone for {span(now - seen)}"


def about(run: RunView, now: int) -> str:
    """What a person asks next about a run: its progress, what it waits for and since when, why it stopped, or its title."""
    shown = [wait_in_words(wait, now) for wait in run.waits[:2]]
    if run.waiting > len(shown):
        shown.append(f"{run.waiting - len(shown)} more")
    opened = [since for wait in run.waits if (since := micros(wait.since)) is not None]
    if opened and run.status is RunStatus.WAITING:
        shown[-1] += f", for {span(now - min(opened))}"
    at_work = [progress_in_words(each) for each in run.progress if each.total is None or each.done < each.total][:2]
    gone = holder_in_words(run.holder, now) if run.status in AT_WORK else ""
    parts = [gone, ", ".join(at_work), ", ".join(shown), _why(run)]
    return " · ".join(filter(None, parts)) or cropped(run.title)


def _why(run: RunView) -> str:
    reason = cropped(run.reason)
    if run.held:
        return f"held: {reason}"
    if run.recoverable:
        return f"{reason} (recoverable)"
    return reason


def error_in_words(error: ErrorView) -> str:
    """`ValueError: its message`, with the module of a class unless it is a built-in one."""
    module, _, name = error.kind.rpartition(":")
    kind = name if module in ("", "builtins", "__main__", "outlast.errors") else f"{module}.{name}"
    return f"{kind}: {error.message}" if error.message else kind


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}" if unit != "bytes" else counted(count, "byte")
        amount /= 1000
    return f"{amount:,.1f} TB"
