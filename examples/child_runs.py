"""A workflow that starts others: call a workflow inside a workflow and it is a run of its own.

A child has its own log, its own place in `outlast ps`, and may be advanced by another process. Its parent waits for
its result or goes on meanwhile, as with a node.
"""

import outlast as ol


@ol.node
async def pick(item: str) -> str:
    return f"{item} from the shelf"


@ol.node
async def pack(items: list[str]) -> str:
    return f"a parcel with {' and '.join(items)}"


@ol.workflow
async def parcel(items: list[str]) -> str:
    return await pack(await ol.gather(*(pick(item) for item in items)))


@ol.workflow
async def shipment(orders: list[list[str]]) -> str:
    parcels = await ol.gather(*(parcel(items) for items in orders))
    return f"{len(parcels)} parcels: {'; '.join(parcels)}"


if __name__ == "__main__":
    print(ol.run(shipment, [["a lamp", "a rug"], ["a chair"]]))
