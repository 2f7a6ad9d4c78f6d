"""The first outcome wins: `ol.race` takes the first outcome and cancels the other calls.

The winner is in the log: after a crash the race is not run again, even if the other call would be faster today.
"""

import asyncio

import outlast as ol


@ol.node
async def ask_mirror(name: str, seconds: float) -> str:
    """Imagine a download that takes its time."""
    await asyncio.sleep(seconds)
    return f"a file from {name}"


@ol.node
async def unpack(file: str) -> str:
    return f"{file}, unpacked"


@ol.workflow
async def download(mirrors: dict[str, float]) -> str:
    won = await ol.race(*(ask_mirror(name, seconds) for name, seconds in mirrors.items()))
    return f"mirror {won.index}: {await unpack(won.value)}"


if __name__ == "__main__":
    print(ol.run(download, {"Oslo": 3.0, "Lisbon": 0.1, "Athens": 5.0}))
