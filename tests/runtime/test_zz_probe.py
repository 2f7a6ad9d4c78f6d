from __future__ import annotations
import asyncio
import outlast as ol
from outlast.history import events as e

async def test_first(stage):
    gate = asyncio.Event()
    calls = []
    @ol.node
    async def a(n: int) -> int:
        calls.append("a")
        return n + 1
    @ol.node
    async def b(n: int) -> int:
        calls.append("b")
        await gate.wait()
        return n * 2
    @ol.workflow
    async def flow(n: int) -> int:
        return await b(await a(n))
    engine = await stage.engine()
    h = await engine.start(flow, 3)
    await stage.until(engine, h.run, lambda ev: isinstance(ev, e.NodeStarted) and ev.node == "b")
    await stage.crash(engine)
    gate.set()
    engine = await stage.engine()
    assert await engine.result(h.run, workflow=flow) == 8
    assert calls == ["a", "b", "b"]
    for ev in await stage.events(engine, h.run): print(ev)
    assert await stage.is_sound(engine, h.run)
