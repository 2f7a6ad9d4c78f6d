"""What the log holds of the inputs of a node: themselves, or a hash where they are not shown (decision 17)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import outlast as ol
from outlast.functions.commands import SHOWN_INPUTS
from outlast.history import events as e
from outlast.history.ids import input_hash


@ol.node
async def measured(text: str) -> int:
    return len(text)


@ol.workflow
async def measuring(text: str) -> int:
    return await measured(text)


async def _started(path: Path, text: str) -> e.NodeStarted:
    async with ol.open(path) as engine:
        handle = await engine.start(measuring, text)
        assert await handle.result() == len(text)
        told = [entry.event async for entry in engine.events(handle.run)]
        return next(event for event in told if isinstance(event, e.NodeStarted))


@pytest.mark.parametrize(
    ("spare", "is_shown"),
    [(0, True), (-1, False)],
    ids=["as long as may be shown", "longer than that"],
)
def test_inputs_are_shown_or_else_hashed(tmp_path: Path, spare: int, is_shown: bool) -> None:
    text = "x" * (SHOWN_INPUTS - len('{"text":""}') - spare)
    inputs = f'{{"text":"{text}"}}'.encode()
    started = asyncio.run(_started(tmp_path / "runs.db", text))
    assert bytes(started.inputs) == (inputs if is_shown else b"null")
    assert started.hash == ("" if is_shown else input_hash(inputs))
