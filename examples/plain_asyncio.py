"""What you know of asyncio works durably: `gather`, `TaskGroup`, `timeout` and `sleep` inside a workflow.

The time they take is written down like any other timer. What cannot be durable, such as opening a socket in the
workflow itself, is refused by name: it belongs in a node.
"""

import asyncio

import outlast as ol


@ol.node
async def brew(what: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return what


@ol.workflow
async def breakfast(patience: float) -> list[str]:
    async with asyncio.TaskGroup() as kitchen:
        tea = kitchen.create_task(brew("tea", 0.02))
        porridge = kitchen.create_task(with_honey("porridge"))
    await asyncio.sleep(0.05)  # let it cool
    try:
        async with asyncio.timeout(patience):
            egg = await brew("an egg", 100 * patience)
    except TimeoutError:
        egg = "no egg, it took too long"
    fruit = await asyncio.gather(brew("a pear", 0.01), brew("a plum", 0.01))
    return [tea.result(), porridge.result(), egg, *fruit]


async def with_honey(what: str) -> str:
    """A helper is an ordinary coroutine; the nodes it calls are as durable as any."""
    return f"{await brew(what, 0.01)} with {await brew('honey', 0.01)}"


if __name__ == "__main__":
    print(*ol.run(breakfast, 0.3), sep=", ")
