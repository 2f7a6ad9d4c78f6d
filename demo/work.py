"""One process of the demo: starts the report, or finds it started, and works until it is done."""

from __future__ import annotations

import asyncio
import sys

import outlast as ol
from demo.flow import report


async def main(store: str, folder: str, target: str) -> None:
    async with ol.open(store) as engine:
        handle = await engine.start(report.options(id="report"), folder, target)
        print("result", await handle.result(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
