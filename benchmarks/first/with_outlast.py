"""One durable node with Outlast."""

import asyncio
import sys
import time

import outlast as ol


@ol.node
async def double(number: int) -> int:
    return 2 * number


@ol.workflow
async def first(number: int) -> int:
    return await double(number)


async def main(path: str) -> None:
    async with ol.open(path) as engine:
        handle = await engine.start(first, number=21)
        assert await handle.result() == 42
        print(time.monotonic(), flush=True)


asyncio.run(main(sys.argv[1]))
