"""The goals, and whether they were met. A goal that cannot be measured yet is listed with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct

from benchmarks.measures import spread
from benchmarks.plan import Results
from benchmarks.store_calls import lists

Wanted: TypeAlias = Literal["at least", "at most"]

LISTS = tuple(lists(1))

LINEAR = 1.25
"""How much more each node or event may cost in a run ten or more times as long before that is not linear: the noise."""


class Goal(Struct, frozen=True):
    """One line of the page, with the `program` that measures it."""

    measure: str
    wanted: Wanted
    number: float
    program: str
    values: Callable[[Results], Sequence[float]]
    digits: int = 0
    unit: str = ""
    about: str = ""
    """What the goal is called where its number alone would mislead."""

    @property
    def goal(self) -> str:
        return self.about or f"{self.wanted} {self.number:,g}{self.unit}"

    def found(self, results: Results) -> str:
        values = self.values(results)
        return f"{spread(values, self.digits)}{self.unit}" if values else "nothing"

    def verdict(self, results: Results) -> str:
        return verdict(self.wanted, self.number, self.values(results))


def verdict(wanted: Wanted, number: float, values: Sequence[float]) -> str:
    """Met, or by how much not, from the median of the results."""
    if not values:
        return "**not measured**: the program failed"
    found = median(values)
    if found >= number if wanted == "at least" else found <= number:
        return "met"
    if not number or not found:
        return f"**missed**: {found:,g} instead of {number:,g}"
    if wanted == "at least":
        return f"**missed**: {found / number:.0%} of the goal"
    return f"**missed**: {found / number:.3g} times the goal"


class Unmeasured(Struct, frozen=True):
    """A goal for a missing feature."""

    measure: str
    goal: str
    reason: str


def _of(job: str, measure: str) -> Callable[[Results], Sequence[float]]:
    return lambda results: results.values(job, measure)


def _times(job: str, measure: str, over: str) -> Callable[[Results], Sequence[float]]:
    return lambda results: results.ratios(job, measure, over)


def _nodes_left_or_twice(results: Results) -> Sequence[float]:
    kinds = ("lost_nodes", "stuck_runs", "recorded_run_again", "begun_twice_after")
    return [sum(counts) for counts in zip(*(results.values("w4", kind) for kind in kinds), strict=True)]


def _events_per_s(results: Results) -> Sequence[float]:
    pairs = zip(results.values("w5", "events"), results.values("w5", "resume_s"), strict=True)
    return [events / taken for events, taken in pairs]


def _growth(long: str, short: str, cost: str, per: str) -> Callable[[Results], Sequence[float]]:
    """The cost of one unit in a long run, divided by that in a short one of the same shape."""

    def values(results: Results) -> Sequence[float]:
        whole = [results.values(job, what) for job in (long, short) for what in (cost, per)]
        if not all(whole):
            return []
        long_cost, long_units, short_cost, short_units = map(median, whole)
        return [long_cost / long_units / (short_cost / short_units)]

    return values


def _start_up(job: str) -> Callable[[Results], Sequence[float]]:
    def values(results: Results) -> Sequence[float]:
        pairs = zip(results.values(job, "start_up_ms"), results.values(job, "start_up_empty_ms"), strict=True)
        return [full / empty for full, empty in pairs]

    return values


def _growth_of_children(kind: str) -> Callable[[Results], Sequence[float]]:
    return lambda results: [
        many / few
        for many, few in zip(
            results.values("children-many", f"{kind}_10000_cpu_ms_per_child"),
            results.values("children-many", f"{kind}_150_cpu_ms_per_child"),
            strict=True,
        )
    ]


def _slowest_list(kind: str) -> Callable[[Results], Sequence[float]]:
    def values(results: Results) -> Sequence[float]:
        rounds = [results.values("store-calls", f"{kind}_list_{name}_ms") for name in LISTS]
        return [max(each) for each in zip(*rounds, strict=True)]

    return values


GOALS: tuple[Goal | Unmeasured, ...] = (
    Goal("W1, nodes/s as a share of raw inserts/s", "at least", 0.6, "w1 share", _of("w1-share", "of_raw"), 2),
    Goal(
        "the same on a store just made, its WAL still growing",
        "at least",
        0.6,
        "w1 fresh",
        _times("w1-fresh", "nodes_per_s", "raw"),
        2,
    ),
    Goal("W1, nodes/s, times DBOS", "at least", 10, "w1", _times("w1", "nodes_per_s", "dbos"), 1, about="about 10"),
    Goal(
        "W1, flushes per node", "at most", 1.1, "w1 flushes", _of("w1-flushes", "flushes_per_node"), 2, about="about 1"
    ),
    Goal("W2, nodes/s, one process", "at least", 25_000, "w2", _of("w2", "nodes_per_s")),
    Goal("W2, nodes/s, one process, times DBOS", "at least", 100, "w2", _times("w2", "nodes_per_s", "dbos")),
    Goal(
        "W2, nodes/s, the best of 1 and 2 processes on one file",
        "at least",
        25_000,
        "w2_shared",
        _of("w2-shared", "nodes_per_s"),
    ),
    Goal("the same, times the best of DBOS", "at least", 100, "w2_shared", _times("w2-shared", "nodes_per_s", "dbos")),
    Goal(
        "W2 on PostgreSQL, nodes/s, the best of 1, 2 and 4 workers",
        "at least",
        12_000,
        "w2_postgres",
        _of("w2-postgres", "nodes_per_s"),
    ),
    Goal("W3", "at most", 0.1, "w3", _of("w3", "s"), 3, " s"),
    Goal("W4, until all runs go again", "at most", 0.5, "w4", _of("w4", "going_s"), 2, " s"),
    Goal(
        "W4, nodes lost, runs stuck, recorded nodes run again, nodes run twice",
        "at most",
        0,
        "w4",
        _nodes_left_or_twice,
        about="none",
    ),
    Goal("W5, 10,000 nodes", "at most", 3, "w5", _of("w5", "run_s"), 2, " s"),
    Goal("W5, resume once imports are done", "at most", 0.3, "w5", _of("w5", "resume_s"), 3, " s"),
    Goal("W5, replay of functions, events/s", "at least", 200_000, "w5", _events_per_s),
    Goal(
        "W5, time per node, 100,000 nodes to 10,000",
        "at most",
        LINEAR,
        "w5 --nodes 100000",
        _growth("w5-long", "w5", "run_s", "nodes"),
        2,
        about=f"linear: at most {LINEAR}",
    ),
    Goal(
        "W5, resume per event, 300,000 events to 30,000",
        "at most",
        LINEAR,
        "w5 --nodes 100000",
        _growth("w5-long", "w5", "resume_s", "events"),
        2,
        about=f"linear: at most {LINEAR}",
    ),
    Goal(
        "W5, resume per event, 1,000,000 events to 30,000, nodes 1,000 at once",
        "at most",
        LINEAR,
        "w5 --nodes 333333 --width 1000",
        _growth("w5-million", "w5-wide", "resume_s", "events"),
        2,
        about=f"linear: at most {LINEAR}",
    ),
    Unmeasured("W5, a graph run of 1,000,000 events resumes", "about 1 s", "there are no graph runs yet"),
    Goal("W6, `import outlast` over asyncio and msgspec", "at most", 40, "w6", _of("w6", "import_ms"), 0, " ms"),
    Goal("W6, the same with the names a program uses", "at most", 40, "w6", _of("w6", "names_ms"), 0, " ms"),
    Goal("W6, cold process to the first durable result", "at most", 250, "w6", _of("w6", "first_result_ms"), 0, " ms"),
    Goal("W7, outputs of 10 KB, per node", "at most", 0.4, "w7", _of("w7", "small_ms_per_node"), 2, " ms"),
    Goal("W7, an output of 20 MB", "at most", 0.15, "w7", _of("w7", "large_s"), 2, " s"),
    Goal("disk, bytes per trivial node (the run of W5)", "at most", 300, "w5", _of("w5", "bytes_per_node")),
    Goal(
        "100,000 waiting runs, growth of resident memory, bytes per run",
        "at most",
        100,
        "many_runs waiting --nodes 100000",
        _of("waiting", "growth_bytes_per_run"),
        about="none: under 100",
    ),
    Goal(
        "100,000 finished runs, start-up time to that of an empty store",
        "at most",
        LINEAR,
        "many_runs finished --nodes 100000",
        _start_up("finished"),
        2,
        about=f"the same: at most {LINEAR}",
    ),
    *(
        goal
        for kind, where, takeover_s, timers_s in (("sqlite", "SQLite", 0.5, 2), ("postgres", "PostgreSQL", 3, 4))
        for goal in (
            Goal(
                f"from `kill -9` of a worker to the takeover by another one, {where}",
                "at most",
                takeover_s,
                "takeover",
                _of("takeover", f"{kind}_s"),
                2,
                " s",
            ),
            *(
                Goal(
                    f"from an answer to the next node, {how}, {where}, p50",
                    "at most",
                    most,
                    "continuation",
                    _of("continuation", f"{kind}_{name}_p50_ms"),
                    2,
                    " ms",
                )
                for name, how, most in (
                    ("resident", "in memory", 1),
                    ("released", "released from memory", 5),
                    ("other_process_resident", "from another process", 5),
                )
            ),
            Goal(
                f"2,000 children of one parent, {where}",
                "at most",
                2.5,
                "children --nodes 2000",
                _of("children", f"{kind}_2000_s"),
                2,
                " s",
            ),
            Goal(
                f"CPU per child, 10,000 children to 150, {where}",
                "at most",
                LINEAR,
                "children --nodes 10000",
                _growth_of_children(kind),
                2,
                about=f"the same: at most {LINEAR}",
            ),
            Goal(
                f"10,000 timers that are due in one second, {where}",
                "at most",
                timers_s,
                "timers --nodes 10000",
                _of("timers", f"{kind}_s"),
                2,
                " s",
            ),
            Goal(
                f"p99 of appends while 10,000 runs are pruned to that before, {where}",
                "at most",
                2,
                "deletion --nodes 10000",
                _of("deletion", f"{kind}_p99_ratio"),
                2,
            ),
            Goal(
                f"the slowest of {len(LISTS)} lists out of 200,000 runs, {where}",
                "at most",
                20,
                "store_calls --nodes 200000",
                _slowest_list(kind),
                1,
                " ms",
            ),
        )
    ),
    Goal("`outlast --help`", "at most", 150, "command", _of("command", "help_ms"), 0, " ms"),
    Goal("`outlast ps`", "at most", 180, "command", _of("command", "ps_ms"), 0, " ms"),
    Goal("the idle server, resident memory", "at most", 80, "server", _of("server", "idle_mb"), 0, " MB"),
    *(
        Goal(
            f"a page of 50 out of 200,000 runs over HTTP, {order}, {where}",
            "at most",
            50,
            "server --nodes 200000 lists",
            _of("server-lists", f"{kind}_{name}_ms"),
            1,
            " ms",
        )
        for kind, where in (("sqlite", "SQLite"), ("postgres", "PostgreSQL"))
        for name, order in (("newest", "newest first"), ("status", "of one status"))
    ),
)
