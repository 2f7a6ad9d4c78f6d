"""The workloads, the systems that run them, and the number of rounds."""

from __future__ import annotations

from msgspec import Struct

from benchmarks.program import Found

ALL = ("dbos", "outlast", "raw")
PEERS = ("dbos", "outlast")
OURS = ("outlast",)


class Job(Struct, frozen=True):
    """One program on one or more systems; they take turns, round after round."""

    name: str
    program: str
    systems: tuple[str, ...] = ALL
    rounds: int = 3
    seconds: float = 240.0
    """How long one system may take in one round."""

    def command(self, system: str) -> str:
        return f"python -m benchmarks.{self.program} --system {system}"


PLAN = (
    Job("w1", "w1", rounds=5),
    Job("w1-fresh", "w1 fresh", systems=("outlast", "raw"), rounds=5),
    Job("w1-share", "w1 share", systems=OURS, rounds=5),
    Job("w1-flushes", "w1 flushes", systems=("outlast", "raw")),
    Job("w2", "w2"),
    Job("w2-shared", "w2_shared", systems=PEERS),
    Job("w2-postgres", "w2_postgres", systems=OURS),
    Job("w2-objects", "w2_objects", systems=OURS),
    Job("claims-objects", "claims_objects --nodes 5000", systems=OURS, rounds=1),
    Job("w3", "w3", rounds=5),
    Job("w4", "w4", systems=PEERS, seconds=400),
    Job("w5", "w5 --nodes 10000", systems=PEERS),
    Job("w5-long", "w5 --nodes 100000", systems=OURS, rounds=1, seconds=600),
    Job("w5-wide", "w5 --nodes 10000 --width 1000", systems=OURS),
    Job("w5-million", "w5 --nodes 333333 --width 1000", systems=OURS, rounds=1, seconds=600),
    Job("w6", "w6"),
    Job("w7", "w7"),
    Job("server", "server", systems=OURS),
    Job("server-lists", "server --nodes 200000 lists", systems=OURS, rounds=1, seconds=900),
    Job("takeover", "takeover --nodes 5", systems=OURS, rounds=1),
    Job("continuation", "continuation --nodes 200", systems=OURS, rounds=1, seconds=400),
    Job("children", "children --nodes 2000", systems=OURS),
    Job("children-many", "children --nodes 10000", systems=OURS, rounds=1),
    Job("timers", "timers --nodes 10000", systems=OURS, rounds=1, seconds=600),
    Job("deletion", "deletion --nodes 10000", systems=OURS, rounds=1, seconds=900),
    Job("command", "command --nodes 100", systems=OURS, rounds=1),
    Job("store-calls", "store_calls --nodes 200000", systems=OURS, rounds=1, seconds=900),
    Job("waiting", "many_runs waiting --nodes 100000", systems=OURS, rounds=1, seconds=900),
    Job("finished", "many_runs finished --nodes 100000", systems=OURS, rounds=1, seconds=900),
)


class Results(Struct):
    """The results of the programs by job and system, round by round, and the reasons for missing ones."""

    found: dict[str, dict[str, list[Found]]] = {}
    failures: dict[str, dict[str, str]] = {}
    pace: list[float] = []
    """How fast the machine was before each of them."""

    def values(self, job: str, measure: str, system: str = "outlast") -> list[float]:
        """One measure of one system in every round; empty where it was not found."""
        rounds = self.found.get(job, {}).get(system, [])
        return [found[measure] for found in rounds if measure in found]

    def ratios(self, job: str, measure: str, over: str, system: str = "outlast") -> list[float]:
        """Round by round, the one system's value over the other's."""
        pairs = zip(self.values(job, measure, system), self.values(job, measure, over), strict=False)
        return [ours / theirs for ours, theirs in pairs if theirs]
