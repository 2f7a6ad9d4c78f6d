"""One process of the demo: starts the report, or joins the started run, and prints its result."""

from __future__ import annotations

import asyncio
import sys

import outlast as ol
from demo.flow import report


async def main(store: str, folder: str, target: str) -> None:
    async with ol.open(store) as engine:
        handle = await engine.start(report.options(id="report"), folder, target)
        result = await handle.result()
    links = f"{len(result.broken_links)} broken link ({', '.join(result.broken_links)})"
    print(f"{result.pages} pages, {result.words} words, {links}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
