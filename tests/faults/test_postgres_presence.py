"""The death of a process is known by its session on the server: soon, and only if it is true (S6)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from outlast.errors import StoreError
from outlast.history.ids import WorkerId
from outlast.store import Claim
from outlast.stores.postgres import PostgresStore
from outlast.testing.contract.samples import ANN, BEN, A
from support.servers.postgres_admin import cut_lines

WORKER = """
import asyncio, os, sys, time
from outlast.stores.postgres import PostgresStore
from outlast.testing.contract.samples import ANN, A, begin, land, summary

async def work(url, ttl, forks):
    store = PostgresStore(url)
    await store.enrol(ANN, ttl)
    await land(store, begin(A, summary=summary(A), claim=ANN))
    if forks and os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print("holds", flush=True)
    while True:
        await asyncio.sleep(ttl / 5)
        assert await store.renew(ANN, ttl)

asyncio.run(work(sys.argv[1], float(sys.argv[2]), sys.argv[3] == "1"))
"""
TAKEOVER_S = 3.0
"""Seconds from the death of a worker to the claim of its run by another that looks once a second."""


@contextmanager
def holder(url: str, ttl: float = 30.0, *, forks: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A process whose worker ann holds run A."""
    command = [sys.executable, "-c", WORKER, url, str(ttl), str(int(forks))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


async def claim_soon(store: PostgresStore, seconds: float) -> tuple[Claim | None, float]:
    """Look for work once a second, and whenever the store announces some. Return the claim, and the seconds it took."""
    began, news = time.monotonic(), asyncio.Event()
    end = store.subscribe(lambda _: news.set())
    try:
        while time.monotonic() - began < seconds:
            if claims := await store.claim(BEN):
                return claims[0], time.monotonic() - began
            news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await news.wait()
        return None, seconds
    finally:
        end()


async def ben(url: str) -> PostgresStore:
    store = PostgresStore(url)
    await store.enrol(BEN, 60)
    return store


async def is_live(store: PostgresStore, worker: WorkerId = ANN) -> bool:
    (enrolled,) = [each for each in await store.workers() if each.worker == worker]
    holding = await store.holding(A)
    assert holding is not None
    assert holding.worker != worker or holding.is_live == enrolled.is_live
    return enrolled.is_live


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "with-a-forked-child"])
def test_the_runs_of_a_killed_process_are_claimed_within_three_seconds(postgres_url: str, forks: bool) -> None:
    async def scene() -> None:
        with holder(postgres_url, forks=forks) as process:
            store = await ben(postgres_url)
            assert await store.claim(BEN) == []
            assert await is_live(store)
            await asyncio.sleep(0.5)
            process.kill()
            claim, taken = await claim_soon(store, 10)
            print(f"\nclaimed {taken:.2f} s after the death")
            assert claim is not None
            assert (claim.run, claim.previous, claim.cause) == (A, ANN, "dead")
            assert taken < TAKEOVER_S
            assert not await is_live(store)
            await store.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_a_run_that_is_claimed_by_name_is_waited_for(postgres_url: str) -> None:
    async def scene() -> None:
        with holder(postgres_url) as process:
            store = await ben(postgres_url)
            assert await store.claim(BEN, runs=[A]) == []
            process.kill()
            process.wait()
            (claim,) = await store.claim(BEN, runs=[A])
            assert (claim.previous, claim.cause) == (ANN, "dead")
            await store.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


def cut_again_and_again(url: str, seconds: float) -> None:
    async def scene() -> None:
        with holder(url) as process:
            store = await ben(url)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                cut, looking = asyncio.create_task(cut_lines(url)), time.monotonic() + 1.0
                while time.monotonic() < looking:
                    with suppress(StoreError):  # its connection was cut as well
                        assert await store.claim(BEN) == [], "the worker is alive"
                    await asyncio.sleep(0.02)
                assert await cut > 0
            assert process.poll() is None
            process.kill()
            claim, taken = await claim_soon(store, 10)
            assert claim is not None
            assert (claim.cause, taken < TAKEOVER_S) == ("dead", True)
            await store.close()

    asyncio.run(asyncio.wait_for(scene(), seconds + 60))


def test_a_living_process_keeps_its_runs_while_connections_are_cut(postgres_url: str) -> None:
    cut_again_and_again(postgres_url, 4)


@pytest.mark.soak
def test_a_living_process_keeps_its_runs_while_connections_are_cut_for_long(postgres_url: str) -> None:
    cut_again_and_again(postgres_url, 20)


def test_a_frozen_process_loses_its_runs_when_its_lease_ends(postgres_url: str) -> None:
    async def scene() -> None:
        with holder(postgres_url, ttl=4.0) as process:
            store = await ben(postgres_url)
            os.kill(process.pid, signal.SIGSTOP)
            claim, _ = await claim_soon(store, 2.5)
            assert claim is None, "its session lives"
            claim, _ = await claim_soon(store, 10)
            assert claim is not None
            assert (claim.previous, claim.cause) == (ANN, "expired")
            await store.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_behind_a_pooler_only_the_lease_counts(postgres_url: str) -> None:
    async def scene() -> None:
        with holder(f"{postgres_url}&pgbouncer=1", ttl=6.0) as process:
            store = await ben(postgres_url)
            process.kill()
            claim, _ = await claim_soon(store, 3.5)
            assert claim is None
            claim, _ = await claim_soon(store, 10)
            assert claim is not None
            assert claim.cause == "expired"
            await store.close()

    asyncio.run(asyncio.wait_for(scene(), 60))
