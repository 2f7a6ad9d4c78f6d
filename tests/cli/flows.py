"""Workflows for the tests of the command line; each test has a copy in its own folder, and files there steer the nodes."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import outlast as ol

log = logging.getLogger("flows")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Order:
    item: str
    count: int


@ol.node
def note(text: str) -> str:
    """Leaves a mark each time it is done."""
    log.info("noting %s", text)
    with Path("noted.txt").open("a") as file:
        file.write(f"{text}\n")
    return text


@ol.node
async def gate() -> str:
    """Waits for the file `open`."""
    Path("at-the-gate").touch()
    ol.progress(1, 4, "standing there")
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return "through"


@ol.node(repeatable=False)
async def once_only() -> str:
    Path("at-the-gate").touch()
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return "once"


@ol.node
async def wants_repair() -> str:
    log.warning("looking\nfor the repair")
    if not Path("repaired").exists():
        raise ValueError("broken [red]here[/red]")
    return "whole"


@ol.workflow
async def greet(name: str, times: int = 1, loud: bool = False) -> str:
    said = await note(" ".join([f"hello {name}"] * times))
    return said.upper() if loud else said


@ol.workflow
async def mixed(
    when: datetime, colour: Colour, order: Order, path: Path, more: list[int] | None = None
) -> dict[str, str]:
    return {
        "when": when.date().isoformat(),
        "colour": colour.name,
        "order": f"{order.count} {order.item}",
        "path": path.name,
    }


@ol.workflow
async def passing() -> str:
    await note("before")
    return await gate()


@ol.workflow
async def fragile() -> str:
    await note("before")
    return await wants_repair()


@ol.workflow
async def delicate() -> str:
    return await once_only()


@ol.workflow(on_restart="hold")
async def careful() -> str:
    await note("before")
    return await gate()


@ol.workflow
async def asking() -> str:
    is_wanted = await ol.approve("Shall we?")
    count = await ol.ask("How many?", int)
    return f"{is_wanted} {count}"


DRAFT = "Publish this?\n\n" + "\n".join(f"  line {number} of the draft" for number in range(40)) + "\n  THE END"


@ol.workflow
async def drafting() -> bool:
    return await ol.approve(DRAFT)


@ol.workflow
async def asking_below() -> bool:
    return await drafting()


@ol.workflow
async def asking_twice() -> str:
    first, second = await ol.gather(ol.ask("First?", key="one"), ol.ask("Second?", key="two"))
    return f"{first} {second}"


@ol.workflow
async def nothing() -> None:
    pass


@ol.workflow
async def again(left: int) -> str:
    if left:
        await ol.continue_as_new(left=left - 1)
    return "the last one"


@ol.workflow
async def family(name: str) -> str:
    async with ol.step("indoors"):
        return await greet(name)


@ol.node
def set_attempt_log(text: str) -> None:
    print(text)


@ol.workflow
async def speaking() -> str:
    await set_attempt_log("loud and clear")
    return await gate()


@ol.node
async def reach_checkpoints(name: str) -> int:
    """Writes a file, a number after each time that the gate was open, with a checkpoint behind each."""
    begin = ol.last_checkpoint(0)
    async with ol.output_path(f"out/{name}.txt") as path:
        path.write_text("half")
        for number in range(begin, 3):
            Path("at-the-gate").touch()
            while not Path("open").exists():
                await asyncio.sleep(0.01)
            await ol.checkpoint(number + 1)
        path.write_text("whole")
    return begin


@ol.node
def write_at_once(name: str) -> str:
    with ol.output_path(f"out/{name}.txt") as path:
        path.write_text("whole")
    return name


@ol.workflow
async def writing() -> int:
    await write_at_once("first")
    return await reach_checkpoints("second")


@ol.workflow
async def parenting() -> int:
    return await writing()


@ol.node
def stubborn() -> str:
    """Neither looks nor ends until the file `open` is there."""
    Path("at-the-gate").touch()
    while not Path("open").exists():
        time.sleep(0.01)
    return "ended"


@ol.workflow
async def stubbornly() -> str:
    return await stubborn()


@ol.workflow
async def returning(value: Any, text: str = "") -> Any:
    return text or value


@ol.workflow
async def asking_for_counts() -> Any:
    return await ol.ask("How many of each?", dict[str, int])


@ol.node
def reserve(what: str) -> str:
    if what == "hotel":
        raise LookupError("no rooms")
    return what


@ol.node
def give_back(what: str) -> None:
    pass


@ol.workflow
async def travelling() -> str:
    flight = await reserve("flight")
    try:
        return await reserve("hotel")
    except LookupError:
        await give_back(flight)
        raise
