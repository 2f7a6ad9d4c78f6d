"""Parts of views as text: short ids, the colour of a status, progress, the worker, the reason of a status."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from outlast.history.events import Failure
from outlast.lifecycle.attributes import attribute_text
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.timeline.phrases import counted, cropped, failure, wait_text
from outlast.views.times import micros, span
from outlast.views.types import Attribute, AttributeTimeView, ErrorView, HolderView, ProgressView, RunView, WaitView

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
MIN_ID = 13
"""Characters of a UUIDv7 that hold its millisecond. Two runs seldom share them."""
MAX_TEXT = 300
"""Characters of a text in a table."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short_ids(runs: Iterable[str], least: int = MIN_ID) -> dict[str, str]:
    """Each run id, cut to a unique prefix if it is a UUID."""
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


def wait_view_text(wait: WaitView, now: int) -> str:
    return wait_text(Wait(wait.kind, wait.id, wait.node, micros(wait.due), wait.text), now)


def attribute_view_text(value: Attribute) -> str:
    """An attribute as it is written on the command line; a time without its microseconds."""
    if isinstance(value, AttributeTimeView):
        return (value.time or "").replace(".000000Z", "Z")
    return attribute_text(value)


def error_text(error: ErrorView) -> str:
    """`ValueError: message`, with the module of a class that is not a builtin."""
    return failure(Failure(error.kind, error.message))


def amount_text(progress: ProgressView) -> str:
    """`1,304 of 5,000`."""
    return f"{progress.done:,g}" if progress.total is None else f"{progress.done:,g} of {progress.total:,g}"


def progress_text(progress: ProgressView) -> str:
    """`fetch 1,304 of 5,000: the third page`."""
    text = f": {cropped(progress.text, 60)}" if progress.text else ""
    return f"{cropped(progress.node, 40)} {amount_text(progress)}{text}"


def holder_text(holder: HolderView | None, now: int) -> str:
    """Why a running run makes no progress: its worker is gone. Empty if the worker is alive."""
    if holder is None:
        return "no worker holds it"
    seen = micros(holder.last_seen)
    return "" if holder.live else "worker gone" if seen is None else f"worker gone for {span(now - seen)}"


def about(run: RunView, now: int) -> str:
    """The last column of a list of runs: progress, waits and since when, the reason of the status, or the title."""
    shown = [wait_view_text(wait, now) for wait in run.waits[:2]]
    if run.waiting > len(shown):
        shown.append(f"{run.waiting - len(shown)} more")
    opened = [since for wait in run.waits if (since := micros(wait.since)) is not None]
    if opened and run.status is RunStatus.WAITING:
        shown[-1] += f", for {span(now - min(opened))}"
    at_work = [progress_text(each) for each in run.progress if each.total is None or each.done < each.total][:2]
    gone = holder_text(run.holder, now) if run.status in AT_WORK else ""
    reason = cropped(run.reason, MAX_TEXT)
    why = f"held: {reason}" if run.held else f"{reason} (recoverable)" if run.recoverable else reason
    return " · ".join(filter(None, [gone, ", ".join(at_work), ", ".join(shown), why])) or cropped(run.title, MAX_TEXT)


def size(count: int) -> str:
    """A number of bytes: 12 bytes, 4.2 kB, 1.3 GB."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}" if unit != "bytes" else counted(count, "byte")
        amount /= 1000
    return f"{amount:,.1f} TB"
