"""Recovery may be killed anywhere, and many may recover at once: there is one recovery and one outcome (P1, P2, P3, V9)."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.lifecycle.status import RunStatus
from outlast.testing.faults import Died, Fault, Way

LAMP = "lamp fetched packed shipped"
RUN = RunId("ill")
DEATHS: tuple[Way, ...] = ("die_before", "die_after")


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


# --- the states that are recovered from --------------------------------------------------------------------------------


def said_waiting(ward: Any) -> None:
    ward.do(ward.killed_in("pack", ward.flows.doctor_errand, "lamp"))
    ward.summary(RUN, status=RunStatus.WAITING)


def jump_asked(ward: Any) -> None:
    ward.do(ward.killed_in("ship", ward.flows.doctor_errand, "lamp"))

    async def ask() -> None:
        store = ward.open()
        ledger = Ledger(store)
        await ledger.deliver(RUN, [e.JumpRequested(target=5, branch=1, redo=("pack",))])
        await ledger.close()
        await store.close()

    ward.do(ask())


def failed_without_consequence(ward: Any) -> None:
    error = e.Failure("builtins:ConnectionError", "no", category="transient")
    failed = e.NodeFailed(node="shaky", error=error)
    last = lambda event: isinstance(event, e.NodeStarted) and event.node == "shaky"  # noqa: E731
    ward.do(ward.left_after(ward.flows.doctor_shaky, last, failed))


def unversioned(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), version=""))


def killed(ward: Any) -> None:
    ward.do(ward.killed_in("pack", ward.flows.doctor_errand, "lamp"))


STATES = {
    "A1": (said_waiting, LAMP, ["pack", "ship"]),
    "D2": (jump_asked, LAMP, ["pack", "ship"]),
    "A4": (failed_without_consequence, "lamp at last shipped", ["shaky", "ship"]),
    "E1": (unversioned, LAMP, ["ship"]),
    "C1": (killed, LAMP, ["pack", "ship"]),
}


class Again:
    """The same state, as often as it is wanted."""

    def __init__(self, ward: Any) -> None:
        self.ward = ward
        self.memory = copy.copy(vars(ward.memory))
        self.file = ward.file.read_bytes() if ward.kind == "sqlite" else b""

    def put_back(self) -> None:
        for name, value in self.memory.items():
            setattr(self.ward.memory, name, _copied(value))
        if self.file:
            for path in self.ward.file.parent.glob("runs.db*"):
                if path.is_file():
                    path.unlink()
            self.ward.file.write_bytes(self.file)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return list(value) if isinstance(value, list) else value


def judge(ward: Any, name: str, *, has_died: bool = False) -> None:
    """One recovery, one count of the interruption, a sound log. A summary that was wrong is right from the takeover on: who
    dies just after that leaves a run to the next one that is merely interrupted."""
    events = [entry.event for entry in ward.events(RUN)]
    recovered = [event.code for event in events if isinstance(event, e.RunRecovered)]
    assert recovered == [name] * (name != "C1") or (recovered == [] and name == "A1" and has_died)
    crashes = [event for event in events if isinstance(event, e.NodeScheduled) and event.cause == "crash"]
    assert len(crashes) <= 1
    assert ward.is_sound(RUN)
    assert ward.recover(RUN) == []


def finish(ward: Any, name: str) -> None:
    _, result, did = STATES[name]
    ward.did.clear()
    assert ward.do(ward.complete(RUN)) == result
    assert ward.did == did
    assert ward.is_sound(RUN)


# --- dying -------------------------------------------------------------------------------------------------------------


async def _recover(ward: Any, fault: Fault | None) -> int:
    async with ward.desk(fault) as desk:
        try:
            await desk.recover(RUN)
        except Died:
            assert fault is not None
        return int(ward.faults.calls)


def cross(ward: Any, name: str, step: int) -> int:
    STATES[name][0](ward)
    again = Again(ward)
    again.put_back()
    calls = ward.do(_recover(ward, None))
    judge(ward, name)
    finish(ward, name)
    points = 0
    for way in DEATHS:
        for call in range(1, calls + 1, step):
            again.put_back()
            ward.do(_recover(ward, Fault(way, call)))
            ward.do(_recover(ward, None))
            judge(ward, name, has_died=True)
            if points % 5 == 0:
                finish(ward, name)
            points += 1
    return points


@pytest.mark.parametrize("name", STATES)
def test_a_recovery_that_dies_at_any_call_to_the_store_is_done_once_by_the_next_one(
    memory_ward: Any, name: str
) -> None:
    """P1, P2, V9."""
    assert cross(memory_ward, name, 1) >= 20


@pytest.mark.parametrize("name", ["A1", "D2"])
def test_a_recovery_on_sqlite_that_dies_is_done_once_by_the_next_one(sqlite_ward: Any, name: str) -> None:
    """P1, P2, V9: every seventh call; `make faults` dies at all of them."""
    assert cross(sqlite_ward, name, 7) >= 4


@pytest.mark.soak
@pytest.mark.parametrize("name", STATES)
def test_a_recovery_on_sqlite_that_dies_at_any_call_is_done_once_by_the_next_one(sqlite_ward: Any, name: str) -> None:
    """P1, P2, V9."""
    assert cross(sqlite_ward, name, 1) >= 20


def test_a_run_that_is_interrupted_twice_in_the_same_node_counts_two_interruptions_and_completes(ward: Any) -> None:
    """P2, V9."""
    ward.do(ward.killed_in("pack", ward.flows.doctor_errand, "lamp"))

    async def killed_again() -> None:
        ward.flows.SLOW.add("pack")
        async with ward.doomed():
            while ward.did.count("pack") < 2:
                await asyncio.sleep(0.002)
        ward.flows.SLOW.clear()

    ward.do(killed_again())
    assert [finding.code for finding in ward.recover(RUN)] == ["C1"]
    ward.did.clear()
    assert ward.do(ward.complete(RUN)) == LAMP
    assert ward.did == ["pack", "ship"]
    events = [entry.event for entry in ward.events(RUN)]
    assert [event.attempt for event in events if isinstance(event, e.NodeStarted) and event.node == "pack"] == [1, 2, 3]
    assert ward.is_sound(RUN)


def test_a_run_that_is_interrupted_five_times_in_the_same_node_is_held_by_the_recovery(memory_ward: Any) -> None:
    """Settled 14: a node that takes its process down each time must not do so for ever."""
    ward = memory_ward
    ward.do(ward.killed_in("pack", ward.flows.doctor_errand, "lamp"))

    async def killed_again() -> None:
        before = ward.did.count("pack")
        ward.flows.SLOW.add("pack")
        async with ward.doomed():
            while ward.did.count("pack") == before:
                await asyncio.sleep(0.002)
        ward.flows.SLOW.clear()

    for _ in range(4):
        ward.do(killed_again())
    assert [finding.code for finding in ward.recover(RUN)] == ["C1"]
    assert ward.status(RUN) == "failed"
    assert ward.recover(RUN) == []
    assert ward.is_sound(RUN)


# --- many at once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATES)
def test_of_eight_desks_that_recover_at_once_one_does(ward: Any, name: str) -> None:
    """P3."""
    STATES[name][0](ward)

    async def all_at_once() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(_recover(ward, None))

    ward.do(all_at_once())
    judge(ward, name)
    finish(ward, name)


@pytest.mark.parametrize("name", STATES)
def test_of_eight_recoveries_at_one_desk_one_does_it_and_none_fails(ward: Any, name: str) -> None:
    """P3."""
    STATES[name][0](ward)

    async def all_at_once() -> None:
        async with ward.desk() as desk, asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(desk.recover(RUN))

    ward.do(all_at_once())
    judge(ward, name)
    finish(ward, name)


DOCTOR = """
import sys, time, pathlib
from outlast.cli import main
store, go = sys.argv[1:]
print("here", flush=True)
while not pathlib.Path(go).exists():
    time.sleep(0.001)
sys.argv = ["outlast", "doctor", "ill", "--fix", "--store", store]
main()
"""


def test_of_eight_processes_that_recover_at_once_one_does(sqlite_ward: Any, tmp_path: Path) -> None:
    """P3: real processes, and the command as a person types it."""
    ward, go = sqlite_ward, tmp_path / "go"
    said_waiting(ward)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    doctors = [
        subprocess.Popen(
            [sys.executable, "-c", DOCTOR, str(ward.file), str(go)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=tmp_path,
            text=True,
        )
        for _ in range(8)
    ]
    try:
        for each in doctors:
            assert each.stdout is not None
            assert each.stdout.readline() == "here\n"
        go.touch()
        until = time.monotonic() + 60
        told = [each.communicate(timeout=max(1, until - time.monotonic())) for each in doctors]
    finally:
        for each in doctors:
            each.kill()
            each.wait()
    assert {each.returncode for each in doctors} <= {0, 1}, told
    assert sum("repaired A1" in out for out, _ in told) == 1
    assert "Traceback" not in "".join(error for _, error in told)
    judge(ward, "A1")
    finish(ward, "A1")
