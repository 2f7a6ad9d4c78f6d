"""The kernel alone: appends through the ledger, one long log, and their section of the page."""

from __future__ import annotations

import asyncio
import gc

import msgspec
from msgspec import Struct

from benchmarks import appends, long_log
from benchmarks.collect import say
from benchmarks.goals import LINEAR, Wanted, verdict
from benchmarks.measures import spread

LENGTHS = (10_000, 100_000, 1_000_000)


class Kernel(Struct):
    """The results."""

    rounds: list[appends.Round]
    size: float
    flushes: float
    lengths: list[dict[str, float]]


def measure() -> Kernel:
    gc.collect()
    say("kernel: appends alone and in groups, against raw SQLite …")
    rounds = appends.measure()
    say("kernel: bytes and flushes per boundary …")
    size = asyncio.run(appends.bytes_per_boundary())
    flushes = asyncio.run(appends.flushes_per_append())
    lengths = []
    for events in LENGTHS:
        say(f"kernel: a log of {events:,} events …")
        lengths.append(long_log.measure(events))
    return Kernel(rounds, size, flushes, lengths)


def kernel_page(found: Kernel) -> str:
    return f"""## The kernel: appends on SQLite, every one flushed to the disk

A *boundary* is what one trivial node costs: NodeCompleted of one node, NodeScheduled and NodeStarted of the next, in one
append. *Raw* is one plain insert of the same bytes per commit into SQLite with WAL and synchronous=FULL on the same disk.
Median of {len(found.rounds)} rounds (`python -m benchmarks.kernel`).

| measure | goal | found | |
| --- | --- | --- | --- |
{_rows(found)}

## The kernel: one long log

Written with `durability="relaxed"`, so that only the length of the log could slow the appends down. Loading is what a
takeover does: read the lineage from the file, decode it, fold it. Memory is the growth of the process's largest resident
set (`python -m benchmarks.kernel`).

| {" | ".join(_COLUMNS)} |
| {" | ".join("---" for _ in _COLUMNS)} |
{chr(10).join(_length(each) for each in found.lengths)}
"""


def _rows(found: Kernel) -> str:
    rounds = found.rounds
    shares = [each.lone / each.raw_lone for each in rounds]
    grouped = [each.grouped_events / 3 / each.raw_grouped for each in rounds]
    longest = found.lengths[-1]
    growth = _per_event(longest) / _per_event(found.lengths[0])
    rows = (
        _row("raw inserts, one per commit, per second", [each.raw_lone for each in rounds]),
        _row("lone boundaries per second", [each.lone for each in rounds]),
        _row("lone boundaries as a share of raw", shares, "at least", 0.7, 2),
        _row("raw rows, 1,000 per commit, per second", [each.raw_grouped for each in rounds]),
        _row(
            "events per second through the ledger, 1,000 runs at once",
            [each.grouped_events for each in rounds],
            "at least",
            120_000,
        ),
        _row("boundaries through the ledger as a share of raw rows", grouped, digits=2),
        _row("bytes in the file per boundary", [found.size], "at most", 300),
        _row("flushes per lone boundary, checkpoints included", [found.flushes], "at most", 1.1, 2),
        _row("fold alone, events per second, longest log", [longest["fold_events_per_s"]], "at least", 500_000),
        _row("loading, time per event, longest log to shortest", [growth], "at most", LINEAR, 2),
    )
    return "\n".join(rows)


def _row(label: str, values: list[float], wanted: Wanted | None = None, number: float = 0, digits: int = 0) -> str:
    goal, outcome = (f"{wanted} {number:,g}", verdict(wanted, number, values)) if wanted else ("", "")
    return f"| {label} | {goal} | {spread(values, digits)} | {outcome} |"


_COLUMNS = {
    "events": ("events", 0),
    "appends/s, first tenth": ("first_tenth_appends_per_s", 0),
    "appends/s, last tenth": ("last_tenth_appends_per_s", 0),
    "file, MB": ("file_mb", 1),
    "load, s": ("load_s", 2),
    "load, events/s": ("load_events_per_s", 0),
    "load, MB": ("load_mb", 0),
    "fold alone, events/s": ("fold_events_per_s", 0),
    "verify, s": ("verify_s", 2),
    "verify, MB": ("verify_mb", 0),
}


def _length(found: dict[str, float]) -> str:
    return f"| {' | '.join(f'{found[key]:,.{digits}f}' for key, digits in _COLUMNS.values())} |"


def _per_event(found: dict[str, float]) -> float:
    return found["load_s"] / found["events"]


if __name__ == "__main__":
    print(msgspec.json.encode(measure()).decode())
