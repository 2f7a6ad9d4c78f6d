"""Nodes on a real Dask cluster of two workers on loopback: what comes back, what is stopped, and what a lost worker costs.

X1 to X5 are the promises of `runtime.executors`."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import outlast as ol
from outlast.errors import InvalidInput, NotStorable
from outlast.functions import registry
from outlast.history import events as e
from outlast.ledger.blob_names import is_elsewhere
from outlast.settings import read_settings

HERE = Path(__file__).parent
PATIENCE = 600.0
"""Seconds until a test that waits for an event is given up; no result depends on it."""

Scene = Callable[[ol.Engine], Awaitable[Any]]


@pytest.fixture(scope="module")
def heavy() -> Iterator[ModuleType]:
    """What there is to do. The process knows no other workflows meanwhile."""
    known = dict(registry._workflows)
    sys.path.insert(0, str(HERE))
    import heavy

    yield heavy
    sys.path.remove(str(HERE))
    registry._workflows.clear()
    registry._workflows.update(known)


@pytest.fixture(scope="module")
def scheduler(heavy: ModuleType) -> Iterator[str]:
    """The address of a cluster with two workers of one thread each."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def played(scene: Scene, **options: Any) -> Any:
        async def whole() -> Any:
            async with (
                asyncio.timeout(PATIENCE),
                ol.open(tmp_path / "runs.db", **{"dask": scheduler, **options}) as engine,
            ):
                return await scene(engine)

        return asyncio.run(whole())

    return played


async def events(engine: ol.Engine, run: str) -> list[e.AnyEvent]:
    verification = await engine.verify(run)
    assert not verification.violations, verification.violations
    return [entry.event async for entry in engine.events(run)]


async def until(engine: ol.Engine, run: str, is_it: Callable[[Any], bool]) -> None:
    async with aclosing(engine.watch(run)) as entries:
        async for entry in entries:
            if is_it(entry.event):
                return


async def until_true(look: Callable[[], Any]) -> None:
    while not look():
        await asyncio.sleep(0.01)


def failures(said: list[e.AnyEvent]) -> list[e.Failure]:
    return [event.error for event in said if isinstance(event, e.NodeFailed)]


# --- what goes in and what comes out -----------------------------------------------------------------------------------


def test_an_error_comes_back_as_itself(play: Callable[..., Any], heavy: ModuleType) -> None:
    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.failing, 7)
        assert await run.result() == 7
        (failure,) = failures(await events(engine, run.run))
        assert failure.kind == "heavy:ShopError"
        assert "in fail" in failure.trace

    play(scene)


def test_a_node_knows_its_attempt_and_is_heard(play: Callable[..., Any], heavy: ModuleType) -> None:
    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.knowing)
        known = await run.result()
        assert known["token"] == f"{run.run}/know/0"
        assert (known["attempt"], known["feedback"]) == (1, "none")
        assert known["pid"] != os.getpid()
        assert [event.node for event in await events(engine, run.run) if isinstance(event, e.NodeCheckpointed)] == [
            "know"
        ]
        while "this is heard" not in [line.text async for line in engine.lines(run.run)]:
            await asyncio.sleep(0.01)
        again = await engine.retry(run.run, "know", feedback={"tone": "warmer"})
        assert (await again.result())["feedback"] == {"tone": "warmer"}

    play(scene)


def test_a_large_result_goes_to_the_store_by_itself(
    play: Callable[..., Any], heavy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.integrations.dask import cluster

    brought = []
    answer = cluster._answer
    monkeypatch.setattr(cluster, "_answer", lambda *given: brought.append(answer(*given)) or brought[-1])

    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.enlarged, 3_000_000)
        assert await run.result() == 3_000_000
        (output,) = [event.output for event in await events(engine, run.run) if isinstance(event, e.NodeCompleted)]
        assert is_elsewhere(output)

    play(scene)
    assert [type(each) for each in brought] == [cluster.StoredResult]


def test_a_large_result_comes_through_the_scheduler_where_the_store_is_out_of_reach(
    heavy: ModuleType, scheduler: str
) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE), ol.open("memory:", dask=scheduler) as engine:
            assert await (await engine.start(heavy.enlarged, 3_000_000)).result() == 3_000_000

    asyncio.run(whole())


def test_a_checkpoint_that_is_too_large_is_refused(play: Callable[..., Any], heavy: ModuleType) -> None:
    async def scene(engine: ol.Engine) -> None:
        with pytest.raises(NotStorable, match="too large for a node on a Dask cluster"):
            await (await engine.start(heavy.hoarding)).result()

    play(scene)


# --- stopping ----------------------------------------------------------------------------------------------------------


def test_a_cancelled_run_stops_its_task(play: Callable[..., Any], heavy: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "said"

    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.lingering, str(file))
        await until_true(file.exists)
        await engine.cancel(run.run)
        await until_true(lambda: file.read_text() == "stopped")
        with pytest.raises(ol.RunCancelled):
            await run.result()

    play(scene)


def test_the_next_attempt_begins_when_the_one_whose_time_is_up_has_ended(
    play: Callable[..., Any], heavy: ModuleType, tmp_path: Path
) -> None:
    """X3"""

    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.slow, str(tmp_path))
        attempt = await run.result()
        assert attempt >= 2
        failed = [failure.category for failure in failures(await events(engine, run.run))]
        assert failed == ["timeout"] * (attempt - 1)

    play(scene)


def test_a_paused_run_ends_its_task_at_a_checkpoint_and_goes_on_from_there(
    play: Callable[..., Any], heavy: ModuleType, tmp_path: Path
) -> None:
    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.marching, str(tmp_path / "go"))
        await until(engine, run.run, lambda event: isinstance(event, e.NodeCheckpointed))
        await engine.pause(run.run)
        await until(engine, run.run, lambda event: isinstance(event, e.RunPaused))
        (tmp_path / "go").touch()
        again = await engine.resume(run.run)
        attempt, start = await again.result()
        assert attempt == 2
        assert start >= 1

    play(scene)


def test_a_task_that_waits_for_a_worker_is_taken_back(
    play: Callable[..., Any], heavy: ModuleType, tmp_path: Path
) -> None:
    async def scene(engine: ol.Engine) -> None:
        busy = [await engine.start(heavy.lingering, str(tmp_path / f"busy-{number}")) for number in range(2)]
        await until_true(lambda: len(list(tmp_path.glob("busy-*"))) == 2)
        waiting = await engine.start(heavy.lingering, str(tmp_path / "waiting"))
        await until(engine, waiting.run, lambda event: isinstance(event, e.NodeStarted))
        for run in (waiting, *busy):
            await engine.cancel(run.run)
        assert await (await engine.start(heavy.squares, 2)).result() == [0, 1]
        assert not (tmp_path / "waiting").exists()

    play(scene)


# --- workers that are lost ---------------------------------------------------------------------------------------------


def test_a_worker_killed_half_way_costs_only_the_attempts_it_ran(
    play: Callable[..., Any], heavy: ModuleType, tmp_path: Path
) -> None:
    """X2: the attempt under way, and those whose results Dask still kept on that worker. Dask itself repeats nothing."""
    marks = tmp_path / "marks"
    marks.mkdir()
    killed: list[str] = []

    async def scene(engine: ol.Engine) -> list[e.AnyEvent]:
        run = await engine.start(heavy.squares, 200, str(marks), 80)
        await until_true(lambda: list(marks.glob("80-1-*")))
        (mark,) = marks.glob("80-1-*")
        killed.append(mark.name.rpartition("-")[2])
        os.kill(int(killed[0]), signal.SIGKILL)
        assert await run.result() == [number * number for number in range(200)]
        return await events(engine, run.run)

    said = play(scene)
    numbers = {event.node: math.isqrt(int(bytes(event.output))) for event in said if isinstance(event, e.NodeCompleted)}
    completed = [event.node for event in said if isinstance(event, e.NodeCompleted)]
    assert len(completed) == len(set(completed)) == 200
    crashed = [event.node for event in said if isinstance(event, e.NodeScheduled) and event.cause == "crash"]
    assert len(crashed) == len(set(crashed))
    started = Counter(event.node for event in said if isinstance(event, e.NodeStarted))
    assert started == Counter(completed) + Counter(crashed)
    begun = [path.name.split("-") for path in marks.iterdir()]
    assert Counter((number, attempt) for number, attempt, _ in begun).most_common(1)[0][1] == 1
    ran = {number: process for number, attempt, process in begun if attempt == "1"}
    lost = [str(numbers[node]) for node in crashed]
    assert "80" in lost
    assert {ran[number] for number in lost} == set(killed), "an attempt was lost that ran elsewhere"


def test_the_attempt_after_a_crash_finds_its_checkpoint(
    play: Callable[..., Any], heavy: ModuleType, tmp_path: Path
) -> None:
    async def scene(engine: ol.Engine) -> None:
        assert await (await engine.start(heavy.stepping, str(tmp_path))).result() == 1

    play(scene)


def test_a_node_that_must_not_be_repeated_holds_its_run(play: Callable[..., Any], heavy: ModuleType) -> None:
    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.paying)
        await until(engine, run.run, lambda event: isinstance(event, e.RunFailed) and event.held)
        assert [event.attempt for event in await events(engine, run.run) if isinstance(event, e.NodeStarted)] == [1]

    play(scene)


def test_a_scheduler_that_comes_back_is_found_again(
    play: Callable[..., Any], heavy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: an attempt that ran when all was lost counts as a crash, and the next waits for the scheduler."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)

    def begun() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(script), str(port)], cwd=HERE, env={**os.environ, "PYTHONPATH": str(HERE)}
        )

    async def scene(engine: ol.Engine) -> list[e.AnyEvent]:
        run = await engine.start(heavy.outliving, str(tmp_path))
        await until_true((tmp_path / "begun-1").exists)
        clusters[0].kill()
        clusters.append(begun())
        assert await run.result() == 2
        return await events(engine, run.run)

    clusters = [begun()]
    try:
        said = play(scene, dask=f"tcp://127.0.0.1:{port}")
    finally:
        for cluster in clusters:
            cluster.kill()
            cluster.wait(PATIENCE)
    assert [event.cause for event in said if isinstance(event, e.NodeScheduled)] == ["first", "crash"]


CLUSTER = """
import sys, threading
from distributed import LocalCluster

if __name__ == "__main__":
    LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", scheduler_port=int(sys.argv[1]),
        dashboard_address="127.0.0.1:0", silence_logs=50,
    )
    threading.Event().wait()
"""


# --- clusters that are not there ---------------------------------------------------------------------------------------


def test_a_scheduler_that_is_away_fails_the_node_and_nothing_else(
    play: Callable[..., Any], heavy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"

        async def scene(engine: ol.Engine) -> None:
            run = await engine.start(heavy.squares, 2)
            other = await engine.start(heavy.staying, 1)
            assert await other.result() == 2
            with pytest.raises(ConnectionError, match=f"the Dask scheduler at {address} could not be reached"):
                await run.result()
            assert {failure.category for failure in failures(await events(engine, run.run))} <= {
                "transient",
                "cancelled",
            }

        with dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}):
            play(scene, dask=address)


def test_without_a_cluster_the_node_says_what_to_set(play: Callable[..., Any], heavy: ModuleType) -> None:
    async def scene(engine: ol.Engine) -> None:
        with pytest.raises(InvalidInput, match="name it in the setting dask"):
            await (await engine.start(heavy.failing, 1)).result()

    play(scene, dask="")


def test_without_the_extra_the_node_says_what_to_install(
    play: Callable[..., Any], heavy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "outlast.integrations.dask.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)

    async def scene(engine: ol.Engine) -> None:
        run = await engine.start(heavy.failing, 1)
        with pytest.raises(InvalidInput, match=r"pip install 'outlast\[dask\]'"):
            await run.result()
        (failure,) = failures(await events(engine, run.run))
        assert failure.category == "permanent"

    play(scene)


def test_a_local_cluster_comes_with_the_engine_and_goes_with_it(play: Callable[..., Any], heavy: ModuleType) -> None:
    async def scene(engine: ol.Engine) -> int:
        return (await (await engine.start(heavy.knowing)).result())["pid"]

    pid = play(scene, dask="local:1")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# --- around it ---------------------------------------------------------------------------------------------------------


def test_nothing_of_dask_is_imported_before_a_node_wants_it() -> None:
    look = (
        "import sys, outlast, outlast.compose; print([name for name in ('dask', 'distributed') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("address", ["local", "local:2", "tcp://127.0.0.1:8786", "tls://scheduler:8786"])
def test_addresses_that_can_be_meant(address: str, tmp_path: Path) -> None:
    assert read_settings(environment={"OUTLAST_DASK": address}, start=tmp_path).dask == address


def test_an_async_node_does_not_run_on_a_cluster() -> None:
    with pytest.raises(InvalidInput, match="runs on the loop, not in a cluster"):

        @ol.node(run_in="dask")
        async def fetch() -> None: ...
