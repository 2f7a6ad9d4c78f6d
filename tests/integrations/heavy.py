"""What the Dask workers of the tests are given to do."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import outlast as ol

log = logging.getLogger("heavy")


class ShopError(Exception):
    def __init__(self, shelf: int) -> None:
        super().__init__(f"shelf {shelf} is empty")
        self.shelf = shelf


@ol.node(run_in="dask")
def square(number: int, folder: str = "", *, is_endless: bool = False) -> int:
    """Writes a mark when an attempt begins. The first attempt of one that is endless ends with its process only."""
    if folder:
        Path(folder, f"{number}-{ol.context().attempt}-{os.getpid()}").touch()
    while is_endless and ol.context().attempt == 1:
        time.sleep(0.02)
    return number * number


@ol.workflow
async def squares(upto: int, folder: str = "", endless: int = -1) -> list[int]:
    return await ol.gather(*(square(number, folder, is_endless=number == endless) for number in range(upto)))


@ol.node(run_in="dask")
def fail(shelf: int) -> None:
    raise ShopError(shelf)


@ol.workflow
async def failing(shelf: int) -> int:
    try:
        await fail(shelf)
    except ShopError as error:
        return error.shelf
    return 0


@ol.node(run_in="dask")
def know() -> dict[str, Any]:
    log.info("this is heard")
    ol.progress(1, 2, "half")
    ol.checkpoint({"done": 1})
    return {
        "token": ol.idempotency_key(),
        "attempt": ol.context().attempt,
        "feedback": ol.feedback("none"),
        "kept": ol.last_checkpoint("nothing"),
        "pid": os.getpid(),
    }


@ol.workflow
async def knowing() -> dict[str, Any]:
    return await know()


@ol.node(run_in="dask")
def linger(file: str) -> str:
    """Runs until it is told to stop, and says when it has."""
    Path(file).write_text("begun")
    while not ol.is_stopping():
        time.sleep(0.01)
    Path(file).write_text("stopped")
    return "told"


@ol.workflow
async def lingering(file: str) -> str:
    return await linger(file)


@ol.node(run_in="dask", timeout=1.0, retry=1000)
def slow_at_first(folder: str) -> int:
    """The first attempt that begins does not end in time, and takes a while to end; where none begins in time, so be it."""
    try:
        Path(folder, "begun").touch(exist_ok=False)
    except FileExistsError:
        assert Path(folder, "first-ended").exists(), "two attempts at once"
        return ol.context().attempt
    while not ol.is_stopping():
        time.sleep(0.01)
    time.sleep(0.3)
    Path(folder, "first-ended").touch()
    return 0


@ol.workflow
async def slow(folder: str) -> int:
    return await slow_at_first(folder)


@ol.node(run_in="dask")
def march(file: str) -> tuple[int, int]:
    """Keeps its step until the file is there; which attempt arrived, and where it began."""
    start: int = ol.last_checkpoint(0)
    step = start
    while not Path(file).exists():
        step += 1
        ol.checkpoint(step)
        time.sleep(0.05)
    return ol.context().attempt, start


@ol.workflow
async def marching(file: str) -> tuple[int, int]:
    return await march(file)


@ol.node(run_in="dask")
def outlive(folder: str) -> int:
    """Its first attempt ends with its process only."""
    Path(folder, f"begun-{ol.context().attempt}").touch()
    while ol.context().attempt == 1:
        time.sleep(0.1)
    return ol.context().attempt


@ol.workflow
async def outliving(folder: str) -> int:
    return await outlive(folder)


@ol.node(run_in="dask")
def large(size: int) -> str:
    return "x" * size


@ol.workflow
async def enlarged(size: int) -> int:
    return len(await large(size))


@ol.node(run_in="dask")
def step_by_step(folder: str) -> int:
    """Its first process dies after its checkpoint; the next goes on from there."""
    start: int = ol.last_checkpoint(0)
    ol.checkpoint(start + 1)
    if start == 0:
        os._exit(3)
    return start


@ol.workflow
async def stepping(folder: str) -> int:
    return await step_by_step(folder)


@ol.node(run_in="dask", repeatable=False)
def pay() -> None:
    os._exit(3)


@ol.workflow
async def paying() -> None:
    await pay()


@ol.node(run_in="dask")
def hoard() -> None:
    ol.checkpoint("x" * 100_000)


@ol.workflow
async def hoarding() -> None:
    await hoard()


@ol.node
async def near(number: int) -> int:
    return number + 1


@ol.workflow
async def staying(number: int) -> int:
    return await near(number)
