"""W2 on PostgreSQL: 1,000 runs of 5 trivial nodes each, all at once, shared by 1, 2 and 4 worker processes.

The server is a real one on this machine with fsync on; it shares the cores with the workers and all other processes.
"""

from __future__ import annotations

from benchmarks.program import Found, Stage, play
from benchmarks.w2_shared import prepare, shared, work

WORKERS = (1, 2, 4)


def measure(stage: Stage) -> Found:
    from support.servers.postgres import postgres_server

    found: Found = {}
    with postgres_server() as server:
        for workers in WORKERS:
            place = stage.place / str(workers)
            place.mkdir()
            (place / "address").write_text(f"{server.url}?schema=w2_{workers}")
            found[f"nodes_per_s_{workers}"] = shared(stage, place, workers)
    return {**found, "nodes_per_s": max(found.values())}


if __name__ == "__main__":
    play({"measure": measure, "prepare": prepare, "work": work})
