"""Writes `docs/benchmarks.md` from the results, misses and failures included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from benchmarks.goals import GOALS, LISTS, Goal, Unmeasured
from benchmarks.kernel import Kernel, kernel_page
from benchmarks.measures import spread
from benchmarks.plan import PLAN, Results


class Machine(Struct):
    """Where and when it was measured."""

    day: str
    seconds: float
    cores: int | None
    system: str
    python: str
    sqlite: str
    dbos: str


class Line(Struct, frozen=True):
    """One measure, side by side."""

    label: str
    job: str
    measure: str
    digits: int = 0


SIDE_BY_SIDE = (
    Line("W1, p50 of a node, ms", "w1", "p50_ms", 2),
    Line("W1, p99 of a node, ms", "w1", "p99_ms", 2),
    Line("W1, nodes/s", "w1", "nodes_per_s"),
    Line("W1 on a store just made, nodes/s", "w1-fresh", "nodes_per_s"),
    Line("W1, flushes of the device per node ¹", "w1", "device_flushes_per_node", 1),
    Line("W1, flushes per node, counted in SQLite", "w1-flushes", "flushes_per_node", 2),
    Line("W2, nodes/s", "w2", "nodes_per_s"),
    Line("W2, most memory, MB", "w2", "peak_mb"),
    Line("W3, s", "w3", "s", 3),
    Line("W4, until all runs go again, s", "w4", "going_s", 2),
    Line("W4, beyond the ideal, s", "w4", "beyond_s", 1),
    Line("W4, ended nodes run again ²", "w4", "ended_run_again"),
    Line("W4, recorded nodes run again", "w4", "recorded_run_again"),
    Line("W4, nodes lost", "w4", "lost_nodes"),
    Line("W5, 10,000 nodes, s", "w5", "run_s", 2),
    Line("W5, resume once imports are done, s", "w5", "resume_s", 2),
    Line("W5, resume from the start of the process, s", "w5", "resume_from_process_start_s", 2),
    Line("W5, bytes of the store per node", "w5", "bytes_per_node"),
    Line("W6, import of the package, ms", "w6", "import_ms"),
    Line("W6, import of the names a program uses, ms", "w6", "names_ms"),
    Line("W6, cold process to the first result, ms ³", "w6", "first_result_ms"),
    Line("W7, 10 KB, ms per node", "w7", "small_ms_per_node", 2),
    Line("W7, 20 MB, s", "w7", "large_s", 2),
)


PROGRAMS = {job.name: job.program for job in PLAN}
LENGTHS = {
    "w5": "one after the other",
    "w5-long": "one after the other",
    "w5-wide": "1,000 at once",
    "w5-million": "1,000 at once",
}


def page(machine: Machine, results: Results, kernel: Kernel | None) -> str:
    parts = (_top(machine, results), _goals(results), _beside(machine, results), _long(results), _many(results))
    rest = (
        _shared(results),
        _on_postgres(results),
        _on_objects(results),
        _waits(results),
        _calls(results),
        _server(results),
        _failures(results),
        kernel_page(kernel) if kernel else "",
    )
    return "\n".join(filter(None, (*parts, *rest)))


def _top(machine: Machine, results: Results) -> str:
    return f"""# Benchmarks

Measured by `make bench` on {machine.day} in {machine.seconds:.0f} s: {machine.cores} cores, {machine.system},
Python {machine.python}, SQLite {machine.sqlite}. Machines are noisy: compare within a run, read the ratios, and treat small
gaps as ties. Systems take turns, round after round; a figure is the median of the rounds, with their range in brackets; a
ratio is taken within each round. Each line names the program that measured it: `w1` is `python -m benchmarks.w1 --system
outlast`, or `dbos`, or `raw`. How fast the machine was meanwhile: a fixed loop of Python, timed before each program, took
{_figure(results.pace, 0) or "?"} ms.

- W1: one run of 200 trivial nodes, one after the other, after 1,200 others: while SQLite's WAL still grows it is about half
  as fast as when it is written over, so a store that was just made is measured besides.
- W2: 1,000 runs of 5 trivial nodes at once.
- W3: one run with 1,000 trivial nodes at once.
- W4: 500 runs of 5 nodes of 2 s; `kill -9` when two fifths of the nodes have ended; a new process.
- W5: one run of 10,000 trivial nodes; `kill -9` at its end; a new process goes through it again.
- W6: importing, and a cold process up to its first durable result.
- W7: 1,000 nodes that return 10 KB of JSON, and one that returns 20 MB.
"""


def _goals(results: Results) -> str:
    rows = []
    for goal in GOALS:
        if isinstance(goal, Unmeasured):
            rows.append((goal.measure, goal.goal, "", f"not measured: {goal.reason}", ""))
        else:
            rows.append((goal.measure, goal.goal, goal.found(results), goal.verdict(results), f"`{goal.program}`"))
    measured = [goal.verdict(results) == "met" for goal in GOALS if isinstance(goal, Goal)]
    return f"""## Goals

{sum(measured)} of {len(measured)} that can be measured are met.

{_table(("measure", "goal", "found", "", "program"), rows)}
"""


def _beside(machine: Machine, results: Results) -> str:
    rows = [
        (
            line.label,
            _figure(results.values(line.job, line.measure), line.digits),
            _figure(results.values(line.job, line.measure, "dbos"), line.digits),
            _figure(results.values(line.job, line.measure, "raw"), line.digits),
            _ratio(results.ratios(line.job, line.measure, "dbos")),
            _ratio(results.ratios(line.job, line.measure, "raw")),
            f"`{PROGRAMS[line.job]}`",
        )
        for line in SIDE_BY_SIDE
    ]
    heads = ("measure", "Outlast", "DBOS", "raw", "Outlast / DBOS", "Outlast / raw", "program")
    return f"""## Beside DBOS and raw SQLite

DBOS {machine.dbos} on SQLite, in an environment of its own, each workload in the way that is fastest for it. *Raw* is plain
SQLite with WAL and synchronous=FULL: one row of the bytes of a boundary per node, one commit per row in W1, as many rows per
commit as there are runs or nodes at once in W2 and W3; it keeps no history and finds nothing again.

{_table(heads, rows)}

¹ By anybody on the machine meanwhile. ² Their bodies had ended when the process was killed; the store did not hold it yet.
³ {_figure(results.values("w6", "bare_ms"), 0)} ms of it for a Python program that does nothing.
"""


def _long(results: Results) -> str:
    rows = []
    for job, how in LENGTHS.items():
        columns = ("nodes", "events", "run_s", "resume_s", "resume_peak_mb", "resume_growth_mb", "bytes_per_node")
        values = {column: results.values(job, column) for column in columns}
        if not all(values.values()):
            continue
        rate = [events / taken for events, taken in zip(values["events"], values["resume_s"], strict=True)]
        rows.append(
            (
                f"{values['nodes'][0]:,.0f}",
                how,
                f"{values['events'][0]:,.0f}",
                _figure(values["run_s"], 1),
                _figure(values["resume_s"], 2),
                _figure(rate, 0),
                _figure(values["resume_peak_mb"], 0),
                _figure(values["resume_growth_mb"], 0),
                _figure(values["bytes_per_node"], 0),
            )
        )
    heads = (
        "nodes",
        "",
        "events",
        "run, s",
        "resume, s",
        "resume, events/s",
        "peak, MB",
        "of it for the run, MB",
        "bytes/node",
    )
    return f"""## Long runs

The run of W5 at other lengths and widths (`w5 --nodes 100000`, `w5 --nodes 333333 --width 1000`; a single figure is of one
round).

{_table(heads, rows)}
"""


def _many(results: Results) -> str:
    rows = [
        (label, *(_figure(results.values(job, measure), digits) for job in ("waiting", "finished")))
        for label, measure, digits in (
            ("runs in the store", "runs", 0),
            ("runs started per second", "started_per_s", 0),
            ("runs finished per second (one node each)", "finished_per_s", 0),
            ("growth of the process's memory from 20,000 runs on, MB", "growth_mb", 1),
            ("memory of a fresh process on this store, MB", "fresh_mb", 1),
            ("memory of a fresh process on an empty store, MB", "fresh_empty_mb", 1),
            ("start-up to the first durable result on this store, ms", "start_up_ms", 0),
            ("start-up to the first durable result on an empty store, ms", "start_up_empty_ms", 0),
            ("bytes of the store per run", "bytes_per_run", 0),
        )
    ]
    return f"""## Many runs

Runs that wait in a question, and runs that are done; one round each, start-up is the median of 5, imports not counted
(`many_runs waiting --nodes 100000`, `many_runs finished --nodes 100000`).

{_table(("measure", "waiting", "finished"), rows)}
"""


def _shared(results: Results) -> str:
    rows = [
        (str(processes), *(_figure(results.values("w2-shared", name, system), 0) for system in ("outlast", "dbos")))
        for processes in (1, 2)
        if results.values("w2-shared", name := f"nodes_per_s_{processes}")
    ]
    if not rows:
        return ""
    return f"""## Shared by processes

W2, its runs shared by processes on one SQLite file: one process of Python keeps one core busy (`w2_shared`).

{_table(("processes", "Outlast, nodes/s", "DBOS, nodes/s"), rows)}
"""


def _on_postgres(results: Results) -> str:
    rows = [
        (str(workers), _figure(results.values("w2-postgres", f"nodes_per_s_{workers}"), 0))
        for workers in (1, 2, 4)
        if results.values("w2-postgres", f"nodes_per_s_{workers}")
    ]
    if not rows:
        return ""
    return f"""## On PostgreSQL

W2, its runs shared by several worker processes, on a real server on the same machine with fsync on: it takes its share of
the cores (`w2_postgres`).

{_table(("workers", "nodes/s"), rows)}
"""


def _server(results: Results) -> str:
    counted = [
        (
            what,
            *(_figure(results.values("server", f"{name}_{unit}"), digits) for unit, digits in ((per, 0), ("ratio", 2))),
        )
        for what, name, per in (
            ("the empty handler, answers/s", "empty", "per_s"),
            ("starts/s, each durable when it is answered", "starts", "per_s"),
            ("answers to questions/s, likewise", "answers", "per_s"),
            ("streamed events/s, of 8 clients that read a log", "events", "per_s"),
        )
    ]
    paged = [
        (
            order,
            *(_figure(results.values("server-lists", f"{kind}_{name}_{end}"), 1) for kind in ("sqlite", "postgres")),
        )
        for order, name, end in (
            ("newest first", "newest", "ms"),
            ("newest first, 95th percentile", "newest", "p95_ms"),
            ("of one status", "status", "ms"),
            ("of one status, 95th percentile", "status", "p95_ms"),
        )
    ]
    if not results.values("server", "empty_per_s"):
        return ""
    idle = _figure(results.values("server", "idle_mb"), 0)
    return f"""## The server

One process of `outlast serve` on SQLite, with its worker, and 16 connections that each wait for one answer after the other,
beside the same web framework with an empty handler (`server`). Idle, it has {idle} MB resident.

{_table(("measure", "a second", "ratio to the empty handler"), counted)}

A page of 50 runs over HTTP out of 200,000, in ms; half of the pages are from the middle of the list (`server lists`).

{_table(("list", "SQLite", "PostgreSQL"), paged)}
"""


STORES = ("sqlite", "postgres")


def _by_store(results: Results, rows: Sequence[tuple[str, str, str, int]]) -> str:
    """A table of measures by store. A row has a label, the job, the measure without the name of the store, and digits."""
    cells = [
        (label, *(_figure(results.values(job, f"{kind}_{measure}"), digits) for kind in STORES), f"`{PROGRAMS[job]}`")
        for label, job, measure, digits in rows
    ]
    filled = [row for row in cells if any(row[1:3])]
    return _table(("measure", "SQLite", "PostgreSQL", "program"), filled) if filled else ""


def _waits(results: Results) -> str:
    ways = (
        ("in memory", "resident"),
        ("released from memory", "released"),
        ("from another process, in memory", "other_process_resident"),
        ("from another process, released", "other_process_released"),
    )
    table = _by_store(
        results,
        (
            ("`kill -9` of a worker to the takeover by another, s", "takeover", "s", 2),
            *(
                (f"answer to the next node, {how}, {end}, ms", "continuation", f"{name}_{end}_ms", 2)
                for how, name in ways
                for end in ("p50", "p90")
            ),
            ("CPU of an idle worker with waiting runs, share of a core", "continuation", "idle_cpu_share", 4),
            ("150 children at once, s", "children", "150_s", 2),
            ("the same, CPU ms per child", "children", "150_cpu_ms_per_child", 2),
            ("2,000 children at once, s", "children", "2000_s", 2),
            ("the same, CPU ms per child", "children", "2000_cpu_ms_per_child", 2),
            ("10,000 children at once, s", "children-many", "10000_s", 2),
            ("the same, CPU ms per child", "children-many", "10000_cpu_ms_per_child", 2),
            ("10,000 timers due in one second, s", "timers", "s", 2),
            ("10,000 runs pruned, runs/s", "deletion", "deleted_per_s", 0),
            ("p99 of appends before, ms", "deletion", "p99_before_ms", 2),
            ("p99 of appends meanwhile, ms", "deletion", "p99_during_ms", 2),
            ("size of the store before, MB", "deletion", "mb_before", 1),
            ("size of the store after, MB", "deletion", "mb_after", 1),
        ),
    )
    if not table:
        return ""
    return f"""## Takeovers, answers, children, timers, deletion

PostgreSQL is a real server on the same machine with fsync on; it takes its share of the cores.

{table}
"""


def _calls(results: Results) -> str:
    claims = (
        ("one run, 100,000 of another workflow ready", "few"),
        ("one of 100,000", "many"),
        ("a hundred of 100,000", "hundred"),
        ("none", "none"),
    )
    table = _by_store(
        results,
        (
            *((f"list: {name.replace('_', ' ')}", "store-calls", f"list_{name}_ms", 1) for name in LISTS),
            *((f"claim: {what}", "store-calls", f"claim_{name}_ms", 1) for what, name in claims),
        ),
    )
    if not table:
        return ""
    return f"""## Lists and claims

Calls of the store, in ms (medians): pages of 50 out of 200,000 runs, and claims.

{table}
"""


def _on_objects(results: Results) -> str:
    rows = [
        (measure, _figure(results.values(job, name), digits))
        for measure, job, name, digits in (
            ("200 nodes one after the other, ms per node", "w2-objects", "s3_ms_per_node", 2),
            ("the same, requests per node", "w2-objects", "s3_requests_per_node", 2),
            ("100 runs of 5 nodes at once, nodes/s", "w2-objects", "s3_nodes_per_s", 0),
            ("the same, requests per node", "w2-objects", "s3_requests_per_node_of_five", 2),
            (
                "the only run of a workflow claimed, with 5,000 runs of another one ready, s",
                "claims-objects",
                "other_s",
                3,
            ),
            ("the same, requests", "claims-objects", "other_requests", 0),
            (
                "300 runs of 5 nodes of another process, of one workflow, nodes/s",
                "claims-objects",
                "nodes_per_s_of_1",
                0,
            ),
            ("the same, requests per node", "claims-objects", "requests_per_node_of_1", 2),
            ("the same, of ten workflows, nodes/s", "claims-objects", "nodes_per_s_of_10", 0),
            ("the same, requests per node", "claims-objects", "requests_per_node_of_10", 2),
        )
    ]
    if not any(cell for _, cell in rows):
        return ""
    return f"""## On objects

In a bucket on a SeaweedFS server on the same machine; one process. Requests are all that were made, those that begin and
end the runs included (`w2_objects`, `claims_objects`).

{_table(("measure", "s3://"), rows)}
"""


def _failures(results: Results) -> str:
    lines = [
        f"- `{job}` on {system}: {reason}"
        for job, systems in results.failures.items()
        for system, reason in systems.items()
    ]
    return "\n".join(("## Not measured\n", *lines, "")) if lines else ""


def _figure(values: Sequence[float], digits: int) -> str:
    return spread(values, digits) if values else ""


def _ratio(values: Sequence[float]) -> str:
    """With about three significant digits."""
    middle = median(values) if values else 0
    return _figure(values, 0 if middle >= 100 else 1 if middle >= 10 else 2 if middle >= 1 else 3)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
