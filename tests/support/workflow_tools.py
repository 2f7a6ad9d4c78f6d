"""Small nodes and waits for tests of workflow code."""

from __future__ import annotations

import asyncio
from typing import Any

import outlast as ol
from outlast.history import events as e

SOON = 8.0
AGAIN = ol.Retry(max_attempts=3, delay=0.001)


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, SOON)


def is_node(name: str, kind: Any = e.NodeStarted) -> Any:
    return lambda event: isinstance(event, kind) and event.node == name


def names(events: list[Any], kind: Any) -> list[str]:
    return [event.node for event in events if isinstance(event, kind)]


@ol.node
async def echo(value: Any) -> Any:
    return value


@ol.node
def plain_echo(value: Any) -> Any:
    return value


class Gated:
    """Nodes that wait until the gate opens, and record their calls."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.calls: list[Any] = []
        calls, gate = self.calls, self.gate

        @ol.node
        async def gated(value: Any = None) -> Any:
            calls.append(value)
            await gate.wait()
            return value

        self.node = gated


async def crashed_at(stage: Any, workflow: Any, *params: Any, at: Any) -> str:
    """A run whose engine was killed at that event."""
    engine = await stage.engine()
    handle = await engine.start(workflow, *params)
    await soon(stage.until(engine, handle.run, at))
    await stage.crash(engine)
    return str(handle.run)


class Shop(Exception):
    """An exception with data."""

    def __init__(self, item: str, code: int) -> None:
        super().__init__(f"{item} is sold out")
        self.item = item
        self.code = code


async def run_of(stage: Any, workflow: Any, *params: Any) -> Any:
    engine = await stage.engine()
    handle = await engine.start(workflow, *params)
    result = await soon(handle.result())
    assert await stage.is_sound(engine, handle.run)
    return result


@ol.node
async def fail(text: str) -> None:
    raise ValueError(text)


async def asked(stage: Any, kind: Any = int) -> tuple[ol.Engine, Any]:
    @ol.workflow
    async def flow() -> str:
        return repr(await ol.ask("How many?", kind))

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    return engine, handle


def adding() -> Any:
    @ol.workflow
    async def add(one: int, two: int) -> int:
        return int(await echo(one + two))

    return add
