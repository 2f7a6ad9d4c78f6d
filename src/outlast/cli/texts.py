"""Runs in words: ids made short, statuses coloured, what a run waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from outlast.cli.times import until
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary

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


def wait_in_words(wait: Wait, now: int) -> str:
    """What one wait is for."""
    when = f" {until(wait.due, now)}" if wait.due is not None else ""
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


def about(summary: RunSummary, now: int) -> str:
    """What a person asks next about a run: what it waits for, why it stopped, else what it is called."""
    shown = [wait_in_words(wait, now) for wait in summary.waits[:2]]
    if summary.waiting > len(shown):
        shown.append(f"{summary.waiting - len(shown)} more")
    parts = [", ".join(shown), _why(summary)]
    return " · ".join(filter(None, parts)) or cropped(summary.title)


def _why(summary: RunSummary) -> str:
    reason = cropped(summary.reason)
    if summary.held:
        return f"held: {reason}"
    if summary.recoverable:
        return f"{reason} (recoverable)"
    return reason
