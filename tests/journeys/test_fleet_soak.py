"""Four `outlast worker` processes, one of them killed or frozen past its claim every second, until all runs are complete
(P1, P2, P3). `FLEET_RUNS` says how many runs there are; what was done is printed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Raw

from outlast.compose import open_store
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Kind, Record, entries
from outlast.ledger import Ledger
from outlast.ledger.verification import verify
from outlast.lifecycle.status import RunStatus
from outlast.store import RunFilter, Store
from support import commands

WORKERS, NODES = 4, 4
SECONDS = 60
"""For which workers are killed and frozen; after that they are left in peace to end what there is."""
PEACE = 240
FLOWS = """
import asyncio, os
import outlast as ol

@ol.node
async def fleet_step(place: int) -> int:
    await asyncio.sleep(0.02)
    notes = os.open("notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(notes, f"{ol.idempotency_key()} {ol.context().attempt}\\n".encode())
    os.close(notes)
    return place

@ol.workflow
async def fleet_story(count: int) -> int:
    return sum([await fleet_step(place) for place in range(count)])
"""


class Fleet:
    """Four workers; whoever is killed is replaced, whoever is frozen wakes when its claim has run out."""

    def __init__(self, folder: Path, store: str, claim: float) -> None:
        self.folder, self.store, self.claim = folder, store, claim
        self.rng = random.Random(1)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.frozen: dict[int, float] = {}
        self.deeds: Counter[str] = Counter()
        (folder / "outlast.toml").touch()
        (folder / "fleet_flows.py").write_text(FLOWS)

    def start(self) -> None:
        command = [sys.executable, "-m", "outlast", "worker", "--app", "fleet_flows", "--concurrency", "25"]
        with (self.folder / "said").open("ab") as said:
            self.workers.append(
                commands.Popen(
                    [*command, "--store", self.store, "--grace", "1"],
                    cwd=self.folder,
                    env=os.environ | {"OUTLAST_CLAIM": str(self.claim)},
                    stdout=said,
                    stderr=said,
                )
            )

    def harm_one(self) -> None:
        awake = [each for each in self.workers if each.pid not in self.frozen]
        if len(awake) < 2:
            return
        victim = self.rng.choice(awake)
        if self.rng.random() < 0.6:
            victim.kill()
            victim.wait()
            self.workers.remove(victim)
            self.start()
            self.deeds["killed"] += 1
        else:
            victim.send_signal(signal.SIGSTOP)
            self.frozen[victim.pid] = time.monotonic() + 1.5 * self.claim
            self.deeds["frozen"] += 1

    def wake(self, *, all: bool = False) -> None:
        for worker in self.workers:
            if worker.pid in self.frozen and (all or self.frozen[worker.pid] < time.monotonic()):
                worker.send_signal(signal.SIGCONT)
                del self.frozen[worker.pid]

    def end(self) -> list[int]:
        """Ask all to leave, and say how they left."""
        self.wake(all=True)
        give_up = time.monotonic() + 20
        for worker in self.workers:
            while not heeds(worker.pid, signal.SIGTERM) and time.monotonic() < give_up:
                time.sleep(0.01)  # it was started a moment ago, and would die of the word instead of hearing it
            worker.terminate()
        codes = []
        for worker in self.workers:
            try:
                codes.append(worker.wait(20))
            except subprocess.TimeoutExpired:
                worker.kill()
                codes.append(worker.wait())
        return codes


def heeds(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal by now."""
    said = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in said.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


async def soak(folder: Path, address: str, count: int, claim: float) -> None:
    began = time.monotonic()
    store = open_store(address)
    ledger = Ledger(store)
    runs = [RunId(f"run-{number:05}") for number in range(count)]
    created = e.RunCreated(workflow="fleet_story", params=Raw(b'{"count":%d}' % NODES), entry="fleet_flows:fleet_story")
    for at in range(0, count, 500):
        await asyncio.gather(*(ledger.create_ready(run, created) for run in runs[at : at + 500]))
    filled = time.monotonic()
    fleet = Fleet(folder, address, claim)
    try:
        for _ in range(WORKERS):
            fleet.start()
        while (done := await completed(store, count)) < count:
            assert time.monotonic() - filled < SECONDS + PEACE, f"only {done} of {count} are complete"
            if time.monotonic() - filled < SECONDS:
                fleet.harm_one()
            fleet.wake()
            await asyncio.sleep(1)
        took = time.monotonic() - filled
    finally:
        codes = fleet.end()
    assert codes == [0] * WORKERS, "who is told to leave leaves in good order"
    counts, ended = Counter[str](), dict[str, int]()
    for run in runs:
        proof = await verify(store, run)
        assert proof.is_sound, (run, proof.violations)
        found, completing = judge(await store.read(run))
        counts += found
        ended |= {f"{run}/{node}": attempt for node, attempt in completing.items()}
    made = Counter(tuple(line.split()) for line in (folder / "notes").read_text().splitlines())
    assert set(made.values()) == {1}, "an attempt was made twice"
    late = [(token, attempt) for token, attempt in made if int(attempt) > ended[token.rpartition("/")[0]]]
    assert not late, "a node was done again that had completed"
    assert len({token for token, _ in made}) == counts["completed nodes"] == count * NODES
    again = len(made) - count * NODES
    await ledger.close()
    await store.close()
    print(
        f"\n{count} runs of {NODES} nodes, {WORKERS} workers, claim {claim:g} s: filled in {filled - began:.1f} s, all "
        f"complete in {took:.1f} s; {dict(fleet.deeds)}; {dict(counts)}; {again} nodes done again that were under way"
    )


async def completed(store: Store, count: int) -> int:
    done, after = 0, ""
    while True:
        page = await store.search(RunFilter(statuses=(RunStatus.COMPLETED,), after=after, limit=1000))
        done, after = done + len(page.items), page.next
        if not after:
            return done


def judge(log: list[Record]) -> tuple[Counter[str], dict[str, int]]:
    """Each owner writes under its own epoch only, and no node completes twice. Which attempt completed each, too."""
    owners, last, nodes = {0}, 0, dict[str, int]()
    found: Counter[str] = Counter()
    for record in log:
        for entry in entries(record):
            match entry.event:
                case e.RunTakenOver(epoch=epoch, cause=cause):
                    assert epoch > max(owners)
                    owners.add(epoch)
                    found["takeovers"] += 1
                    found["takeovers of the lost"] += cause != "claimed"
                case e.NodeCompleted(node=node, attempt=attempt):
                    assert node not in nodes, "it completed twice"
                    nodes[node] = attempt
                case e.NodeScheduled(cause="crash"):
                    found["interrupted nodes"] += 1
                case _:
                    pass
        if record.kind not in (Kind.GUEST, Kind.CONTROL):
            assert record.epoch == max(owners), "a stale owner has written"
            assert record.epoch >= last
            last = record.epoch
    found["completed nodes"] = len(nodes)
    return found, nodes


@pytest.mark.soak
def test_a_fleet_on_a_server_completes_all_though_one_is_lost_every_second(postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(soak(tmp_path, postgres_url, int(os.environ.get("FLEET_RUNS", "2000")), claim=3))


@pytest.mark.soak
def test_a_fleet_on_a_bucket_completes_all_though_one_is_lost_every_second(tmp_path: Path) -> None:
    """Claims in a bucket last ten seconds at least."""
    from support.servers import s3

    address = s3.shared().address(f"fleet/{os.urandom(6).hex()}")
    asyncio.run(soak(tmp_path, address, int(os.environ.get("FLEET_RUNS", "2000")), claim=10))
