"""Large values and secrets in workflows."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from support.workflow_tools import Gated, crashed_at, echo, is_node, soon

# --- secrets ----------------------------------------------------------------------------------------------------------


VALUE = "kj3h4-very-secret"


async def all_bytes(stage: Any) -> bytes:
    return b"".join(path.read_bytes() for path in Path(stage.file).parent.rglob("*") if path.is_file())


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> ol.Secret:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    return ol.Secret("SHOP_KEY")


async def test_of_a_secret_only_the_reference_is_stored(stage: Any, secret: ol.Secret) -> None:
    seen: list[str] = []

    @ol.node
    async def login(key: ol.Secret) -> int:
        seen.append(str(key.reveal()))
        return len(key.reveal())

    @ol.workflow
    async def flow(key: ol.Secret) -> int:
        return await login(key)

    engine = await stage.engine()
    assert await soon((await engine.start(flow, secret)).result()) == len(VALUE)
    await stage.close(engine)
    assert seen == [VALUE]
    assert VALUE.encode() not in await all_bytes(stage)


async def test_a_revealed_secret_is_refused_as_a_result(stage: Any, secret: ol.Secret) -> None:
    @ol.node
    async def leaking(key: ol.Secret) -> Any:
        return {"key": key.reveal()}

    @ol.workflow
    async def flow(key: ol.Secret) -> Any:
        return await leaking(key)

    engine = await stage.engine()
    with pytest.raises(ol.NotStorable, match="secret"):
        await soon((await engine.start(flow, secret)).result())


async def test_a_secret_is_masked_in_errors_and_log_lines(stage: Any, secret: ol.Secret) -> None:
    @ol.node
    async def leaking(key: ol.Secret) -> None:
        logging.getLogger("shop").warning("the key is %s", key.reveal())
        raise ValueError(f"not with {key.reveal()}")

    @ol.workflow
    async def flow(key: ol.Secret) -> None:
        await leaking(key)

    engine = await stage.engine()
    handle = await engine.start(flow, secret)
    with pytest.raises(ValueError, match=r"not with \*\*\*"):
        await soon(handle.result())
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    assert [line.text async for line in desk.lines(handle.run)] == ["the key is ***"]
    await stage.close(desk)
    assert VALUE.encode() not in await all_bytes(stage)


# --- large values -----------------------------------------------------------------------------------------------------


async def test_large_values_lie_in_blobs_and_come_back_after_a_crash(stage: Any) -> None:
    gated = Gated()
    large = "x" * 2_500_000

    @ol.workflow
    async def flow(text: str) -> str:
        found = await echo(text + "y")
        await gated.node()
        return str(found) + "z"

    run = await crashed_at(stage, flow, large, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == large + "yz"
    blobs = [path for path in Path(f"{stage.file}.blobs").rglob("*") if path.is_file()]
    assert len(blobs) >= 3
    assert await stage.is_sound(engine, run)


@pytest.mark.parametrize(
    "odd", [None, (1, 2), {1: 2}, float("inf"), 2**64, {"$": 1}], ids=["plain", "tuple", "keys", "inf", "int", "mark"]
)
async def test_a_large_result_is_one_blob_and_is_told_as_it_is_read(stage: Any, odd: Any) -> None:
    """R1. What is begun early and turns out to be stored otherwise leaves nothing behind."""
    told: list[Any] = []
    large = {"rows": [{"id": number, "text": "x" * 80} for number in range(20_000)], "odd": odd}

    @ol.node
    async def returning() -> Any:
        return large

    @ol.workflow
    async def flow() -> int:
        told.append(await returning())
        return 1

    engine = await stage.engine()
    run = await engine.start(flow)
    assert await soon(run.result()) == 1
    assert told == [large]
    assert told[0]["rows"] is not large["rows"]
    assert len(await large_files(stage)) == 1


async def test_a_large_result_that_is_refused_leaves_nothing_behind(stage: Any) -> None:
    deep: Any = "x" * 2_000_000
    for _ in range(200):
        deep = [deep]

    @ol.node
    async def returning() -> Any:
        return deep

    @ol.workflow
    async def flow() -> None:
        await returning()

    engine = await stage.engine()
    run = await engine.start(flow)
    with pytest.raises(ol.NotStorable, match="128 levels deep"):
        await soon(run.result())
    assert await large_files(stage) == []


async def large_files(stage: Any) -> list[Path]:
    """Those beside the store, once nobody writes any more."""
    for thread in threading.enumerate():
        if thread.name.startswith("outlast-blob"):
            await asyncio.to_thread(thread.join)
    return [
        path for path in Path(f"{stage.file}.blobs").rglob("*") if path.is_file() and path.stat().st_size > 1_000_000
    ]


async def test_a_missing_blob_holds_the_run_that_needs_it(stage: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> int:
        found = await echo("x" * 2_500_000)
        await gated.node()
        return len(found)

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    for path in Path(f"{stage.file}.blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld, match="blob"):
        await soon(engine.result(run))
