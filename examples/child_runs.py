"""A workflow that starts others: a workflow called inside a workflow is a child run.

A child has its own log and its own line in `outlast ps`, and another process may advance it. Its parent waits for its
result or continues meanwhile, as with a node.
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
