"""Several nodes at once: `ol.gather` begins them all and waits for all of them.

Each result is kept the moment it is there. After a crash only the nodes that were not done are done again.
"""

import asyncio

import outlast as ol


@ol.node
async def price(shop: str, item: str) -> int:
    """Imagine three shops that answer in their own time."""
    await asyncio.sleep(len(shop) / 100)
    return sum(map(ord, shop + item)) % 100


@ol.node
async def order(shop: str, item: str, cents: int) -> str:
    return f"{item} from {shop} for {cents}"


@ol.workflow
async def buy(item: str, shops: list[str]) -> str:
    prices = await ol.gather(*(price(shop, item) for shop in shops))
    cents, shop = min(zip(prices, shops, strict=True))
    return await order(shop, item, cents)


if __name__ == "__main__":
    print(ol.run(buy, "lamp", ["Alder", "Birch & Sons", "Cedar"]))
