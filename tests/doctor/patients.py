"""Workflows whose runs fall ill, and what their nodes really did."""

from __future__ import annotations

import asyncio

import outlast as ol

DID: list[str] = []
"""Which nodes began an attempt, in this process."""
SLOW: set[str] = set()
"""Nodes that do not come to an end in this life."""


async def _do(name: str) -> None:
    DID.append(name)
    if name in SLOW:
        await asyncio.sleep(3600)


@ol.node
async def fetch(item: str) -> str:
    await _do("fetch")
    return f"{item} fetched"


@ol.node
async def pack(item: str) -> str:
    await _do("pack")
    return f"{item} packed"


@ol.node
async def ship(item: str) -> str:
    await _do("ship")
    return f"{item} shipped"


@ol.node(retry=3)
async def shaky(item: str) -> str:
    await _do("shaky")
    return f"{item} at last"


@ol.node
async def hopeless(item: str) -> str:
    await _do("hopeless")
    raise ValueError(f"no {item}")


@ol.node
async def large(item: str) -> str:
    await _do("large")
    return item + "x" * 1_100_000


@ol.node(repeatable=False)
async def pay(item: str) -> str:
    await _do("pay")
    return f"{item} paid"


@ol.workflow
async def doctor_errand(item: str) -> str:
    return await ship(await pack(await fetch(item)))


@ol.workflow
async def doctor_steps(item: str) -> str:
    async with ol.step("one"):
        got = await fetch(item)
    async with ol.step("two"):
        return await pack(got)


@ol.workflow
async def doctor_asking(item: str) -> str:
    got = await fetch(item)
    is_wanted = await ol.approve("Send it?")
    return await pack(f"{got} ({is_wanted})")


@ol.workflow
async def doctor_shaky(item: str) -> str:
    return await ship(await shaky(item))


@ol.workflow
async def doctor_hopeless(item: str) -> str:
    return await ship(await hopeless(item))


@ol.workflow
async def doctor_caught(item: str) -> str:
    try:
        return await hopeless(item)
    except ValueError:
        return await ship(f"no {item}, and so a parcel")


@ol.workflow
async def doctor_large(item: str) -> int:
    return len(await ship(await large(item)))


@ol.workflow
async def doctor_paying(item: str) -> str:
    return await ship(await pay(await fetch(item)))


@ol.workflow(on_restart="hold")
async def doctor_held(item: str) -> str:
    return await ship(await pack(await fetch(item)))


@ol.workflow(exclusive="van:{item}")
async def doctor_alone(item: str) -> str:
    return await ship(await pack(item))


@ol.node
async def tag(item: str) -> str:
    await _do("tag")
    return f"{item} tagged"


async def moving_1(item: str) -> str:
    got = await fetch(item)
    boxed = await pack(got)
    is_wanted = await ol.approve("Send it?")
    return await ship(f"{boxed} ({is_wanted})")


async def moving_2(item: str) -> str:
    got = await fetch(item)
    label = await tag(item)
    boxed = await pack(got)
    is_wanted = await ol.approve("Send it?")
    return await ship(f"{boxed}, {label} ({is_wanted})")


async def moving_3(item: str) -> str:
    """As the first one, up to where its runs wait."""
    got = await fetch(item)
    boxed = await pack(got)
    is_wanted = await ol.approve("Send it?")
    return await ship(f"{boxed} at last ({is_wanted})")


async def moving_4(item: str) -> str:
    """Has nothing in common with the first one."""
    return await ship(item)


@ol.workflow
async def doctor_two_questions(item: str) -> list[str]:
    got = await fetch(item)
    colour, size = await ol.gather(ol.ask("Colour?", key="colour"), ol.ask("Size?", key="size"))
    return [got, colour, size]


@ol.workflow
async def doctor_child(item: str) -> str:
    return await ship(await ol.ask("Which one?", key="which"))


@ol.workflow
async def doctor_parent(item: str) -> str:
    got = await fetch(item)
    return f"{got}, {await doctor_child(item)}"


@ol.node
async def numbered(i: int) -> int:
    await _do(f"numbered {i}")
    return i


@ol.workflow
async def doctor_numbered() -> int:
    return await numbered(1) + 1


@ol.node(repeatable=False)
async def refused_payment(item: str) -> str:
    await _do("refused_payment")
    raise ValueError("no money")


@ol.workflow
async def doctor_unpaid(item: str) -> str:
    try:
        return await refused_payment(item)
    except ValueError:
        return await ol.ask("How else?")


@ol.workflow
async def doctor_guardian(item: str) -> str:
    return await doctor_asking(item)


@ol.workflow
async def doctor_continuing(item: str, again: bool = True) -> str:
    if again:
        ol.continue_as_new(item, again=False)
    is_wanted = await ol.approve("Send it?")
    return await pack(f"{item} ({is_wanted})")


@ol.workflow
async def doctor_sleeping(item: str) -> str:
    await ol.sleep(3600)
    return await fetch(item)
