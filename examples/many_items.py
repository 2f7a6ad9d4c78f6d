"""One node over many items, a few at a time: `ol.map`.

Items are read as nodes finish, and results arrive in the order of the items, so a map over a million lines needs
memory only for the running ones. `async for` yields results as they arrive; `await ol.map(...)` returns them as a
list.
"""

import asyncio
from collections.abc import Iterator

import outlast as ol


@ol.node
async def resize(photo: int) -> int:
    """Imagine a photo made smaller; returns its size in kilobytes."""
    await asyncio.sleep(0.01)
    return 100 + photo % 7


@ol.workflow
async def album(photos: int) -> int:
    total = 0
    async for size in ol.map(resize, names(photos), concurrency=4):
        total += size
    return total


def names(count: int) -> Iterator[int]:
    """Could as well be the lines of a file that is read meanwhile."""
    yield from range(count)


if __name__ == "__main__":
    print(ol.run(album, 100), "kilobytes")
