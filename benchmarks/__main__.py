"""Measure everything and write `docs/benchmarks.md`."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import apsw

from benchmarks import appends, long_log
from benchmarks.workload import spread

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
LENGTHS = (10_000, 100_000, 1_000_000)


def main() -> None:
    began = time.perf_counter()
    _say("appends alone and in groups, against raw SQLite …")
    rounds = appends.measure()
    _say("bytes and flushes per boundary …")
    size = asyncio.run(appends.bytes_per_boundary())
    flushes = asyncio.run(appends.flushes_per_append())
    lengths = {}
    for events in LENGTHS:
        _say(f"a log of {events:,} events …")
        lengths[events] = long_log.measure(events)
    page = _page(rounds, size, flushes, lengths, time.perf_counter() - began)
    PAGE.write_text(page)
    print(page)
    _say(f"written to {PAGE}")


def _page(
    rounds: list[appends.Round],
    size: float,
    flushes: float,
    lengths: dict[int, dict[str, float]],
    seconds: float,
) -> str:
    ratios = [each.lone / each.raw_lone for each in rounds]
    return f"""# Benchmarks

Measured by `make bench` on {datetime.now(UTC):%Y-%m-%d} in {seconds:.0f} s: {os.cpu_count()} cores, {
        platform.system()
    },
Python {platform.python_version()}, SQLite {
        apsw.sqlite_lib_version()
    }. Machines are noisy: compare within a run, read the
ratios, and treat small gaps as ties. Median of {len(rounds)} rounds, range in brackets.

A *boundary* is what one trivial node costs: NodeCompleted of one node, NodeScheduled and NodeStarted of the next, in one
append. *Raw* is one plain insert of the same bytes per commit into SQLite with WAL and synchronous=FULL on the same disk.

## Appends on SQLite, every one flushed to the disk

| measure | goal | found |
| --- | --- | --- |
| raw inserts, one per commit, per second | | {spread([each.raw_lone for each in rounds])} |
| lone boundaries per second | | {spread([each.lone for each in rounds])} |
| lone boundaries as a share of raw | at least 0.70 | {spread(ratios, 2)} |
| raw rows, 1,000 per commit, per second | | {spread([each.raw_grouped for each in rounds])} |
| events per second through the ledger, 1,000 runs at once | at least 120,000 | {
        spread([each.grouped_events for each in rounds])
    } |
| boundaries through the ledger as a share of raw rows | | {
        spread([each.grouped_events / 3 / each.raw_grouped for each in rounds], 2)
    } |
| bytes in the file per boundary | at most 300 | {size:.0f} |
| flushes per lone boundary, checkpoints included | about 1 | {flushes:.2f} |

## One long log

Written with `durability="relaxed"`, so that only the length of the log could slow the appends down. Loading is what a
takeover does: read the lineage from the file, decode it, fold it. Memory is the growth of the process's largest resident set.

| events | appends/s, first tenth | appends/s, last tenth | file, MB | load, s | load, events/s | load, MB | fold alone, events/s | verify, s | verify, MB |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{chr(10).join(_length(found) for found in lengths.values())}

Goal for the fold: 500,000 events per second, linear to a million events: the time per event at {
        LENGTHS[-1]:,} events is
{
        lengths[LENGTHS[-1]]["load_s"]
        / lengths[LENGTHS[-1]]["events"]
        / (lengths[LENGTHS[0]]["load_s"] / lengths[LENGTHS[0]]["events"]):.2f}
times that at {LENGTHS[0]:,}.
"""


def _length(found: dict[str, float]) -> str:
    cells = [
        f"{found['events']:,.0f}",
        f"{found['first_tenth_appends_per_s']:,.0f}",
        f"{found['last_tenth_appends_per_s']:,.0f}",
        f"{found['file_mb']:,.1f}",
        f"{found['load_s']:,.2f}",
        f"{found['load_events_per_s']:,.0f}",
        f"{found['load_mb']:,.0f}",
        f"{found['fold_events_per_s']:,.0f}",
        f"{found['verify_s']:,.2f}",
        f"{found['verify_mb']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
