"""Code that blocks the event loop is named with its place, and costs its worker no claims (S6).

No test waits for a time: what blocks goes on until it has been reported, or until the claim has been renewed."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.compose import open_store
from outlast.engine.worker import Worker
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.ledger import system_clock
from outlast.stores.memory import MemoryStore
from outlast.testing.processes import engine_and_worker

CLAIM = 2.0
GIVE_UP_S = 30.0
reported = threading.Event()
until_renewed: list[Any] = []


@ol.node
async def watched_step() -> int:
    return 1


@ol.node
async def blocking_node() -> bool:
    return reported.wait(GIVE_UP_S)


@ol.workflow
async def blocking_workflow() -> bool:
    await watched_step()
    return reported.wait(GIVE_UP_S)


@ol.workflow
def blocking_plain_workflow() -> bool:
    watched_step().wait()
    return reported.wait(GIVE_UP_S)


@ol.workflow
async def workflow_of_a_blocking_node() -> bool:
    return await blocking_node()


@ol.workflow
async def renewed_meanwhile() -> bool:
    await watched_step()
    (is_renewed,) = until_renewed
    return bool(is_renewed())


@pytest.fixture
def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the watchdog reports; what blocks goes on when it has."""
    found: list[str] = []
    reported.clear()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())
            reported.set()

    handler = Handler()
    logging.getLogger("outlast.engine").addHandler(handler)
    yield found
    logging.getLogger("outlast.engine").removeHandler(handler)


@pytest.mark.parametrize(
    ("workflow", "who", "line"),
    [
        (blocking_workflow, "workflow blocking_workflow (run blocked)", 3),
        (blocking_plain_workflow, "workflow blocking_plain_workflow (run blocked)", 3),
        (workflow_of_a_blocking_node, "node blocking_node (run blocked)", None),
    ],
    ids=["workflow", "plain workflow", "node"],
)
def test_what_blocks_the_loop_is_reported_with_file_and_line(
    workflow: Any, who: str, line: int | None, reports: list[str]
) -> None:
    async def scene() -> None:
        async with engine_and_worker(MemoryStore(), 10, 30.0, system_clock, b"") as (client, _):
            handle = await client.start(workflow.options(id="blocked"))
            assert await handle.result() is True, "it was never reported"

    asyncio.run(scene())
    function = workflow.fn if line is not None else blocking_node.fn
    place = f"test_watchdog.py:{function.__code__.co_firstlineno + (line or 2)}"
    assert who in reports[0]
    assert place in reports[0]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_worker_whose_loop_is_blocked_for_longer_than_its_claim_keeps_its_runs(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("postgres_url") if kind == "postgres" else str(tmp_path / "runs.db")

    async def scene() -> None:
        store = MemoryStore() if kind == "memory" else open_store(address)
        async with engine_and_worker(store, 10, CLAIM, system_clock, b"") as (client, worker):
            until_renewed[:] = [lambda: _is_renewed(worker)]
            handle = await client.start(renewed_meanwhile.options(id="blocked"))
            assert await handle.result() is True, "nobody renewed"
        events = [each for record in await store.read(RunId("blocked")) for each in record.events()]
        assert not any(isinstance(event, e.RunTakenOver) for event in events)
        await store.close()

    asyncio.run(scene())


def _is_renewed(worker: Worker) -> bool:
    """Block until the claim is good for twice as long as it was when this began."""
    lease = worker.lease
    began, give_up = lease.clock(), time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up:
        if lease.until > began + 2 * CLAIM and lease.clock() > began + CLAIM:
            return True
        time.sleep(0.01)
    return False
