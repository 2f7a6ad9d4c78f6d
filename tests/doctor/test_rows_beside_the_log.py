"""What a store keeps beside the log of a run, made wrong by editing the file: rows missing, cells wrong, summaries ahead and
behind. Nobody builds on a log whose end is in doubt (G3, G5); what follows from the log is written again from it (G2)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from outlast.errors import OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.services.sweeper import Sweeper

RUN = RunId("ill")
LAMP = "lamp fetched packed shipped"


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


def paying(ward: Any) -> None:
    """A run whose money was sent, and whose worker died."""
    ward.do(ward.left_after(ward.flows.doctor_paying, completed("pay")))


# --- a log whose end is in doubt (G3, G5) ------------------------------------------------------------------------------


def end_lost(ward: Any) -> None:
    """The log and the head are of an older copy; the summary remembers more."""
    ward.do(ward.left_after(ward.flows.doctor_paying, e.RunCompleted))
    ward.sql("delete from log where first > 5")
    ((first, count, digest),) = ward.rows("select first, count, digest from log order by first desc limit 1")
    ward.sql("update head set version = ?, digest = ?, closed = 0", first + count - 1, digest)


def head_with(column: str, value: Any) -> Any:
    def make(ward: Any) -> None:
        paying(ward)
        ward.sql(f"update head set {column} = ?", value)

    return make


def head_behind(ward: Any) -> None:
    """The head is of an older copy, the log is not."""
    paying(ward)
    ((first, count, digest),) = ward.rows("select first, count, digest from log order by first desc limit 1 offset 1")
    ward.sql("update head set version = ?, digest = ?", first + count - 1, digest)
    ward.sql("update catalogue set at = 1, body = cast(json_set(cast(body as text), '$.at', 1) as blob)")


IN_DOUBT = {
    "the summary is ahead of the log": (end_lost, "G5"),
    "the head has another digest": (head_with("digest", bytes(32)), "G3"),
    "the head has a greater epoch": (head_with("epoch", 9), "G3"),
    "the head has a smaller epoch": (head_with("epoch", 0), "G3"),
    "the head is of another branch": (head_with("branch", 1), "G3"),
    "the head says that its branch opened elsewhere": (head_with("branch_first", 3), "G3"),
    "the head is ahead of the log": (head_with("version", 99), "G3"),
    "the head is behind the log": (head_behind, "G3"),
}


async def by_worker(ward: Any) -> None:
    async with ward.engine() as engine:
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert await engine.workers() == []


async def by_sweeper(ward: Any) -> None:
    store = ward.open()
    await Sweeper(Ledger(store), stale_after=0).sweep()
    await store.close()


def by_verb(name: str) -> Any:
    async def act(ward: Any) -> None:
        async with ward.desk() as desk:
            with suppress(OutlastError):
                await getattr(desk, name)(RUN)

    return act


TAKERS = {
    "a worker": by_worker,
    "a sweeper": by_sweeper,
    "resume": by_verb("resume"),
    "retry": by_verb("retry"),
    "doctor --fix": by_verb("recover"),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("name", IN_DOUBT)
def test_a_run_whose_log_ends_in_doubt_is_left_alone_and_its_claim_released(
    sqlite_ward: Any, name: str, taker: str
) -> None:
    """G3, G5: a node that must not be repeated is not executed, and nothing is appended or overwritten."""
    ward, (make, code) = sqlite_ward, IN_DOUBT[name]
    make(ward)
    kept = ward.dump()
    ward.do(TAKERS[taker](ward))
    assert ward.did == []
    now = ward.dump()
    assert {table: now[table] for table in ("log", "catalogue", "wait")} == {
        table: kept[table] for table in ("log", "catalogue", "wait")
    }
    told = ward.doctor(RUN)
    assert (told["exit"], [each["code"] for each in told["runs"][0]["findings"]]) == (1, [code])
    assert RUN in ward.shell("ps", "-a").stdout
