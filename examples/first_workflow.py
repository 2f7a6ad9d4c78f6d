"""Your first workflow: two nodes, one after the other.

A node is a unit of work. Its result is stored, so a completed node is not executed again. A workflow is plain Python
that calls nodes. Kill this program between the two nodes and start it again: the run continues with the second node.
"""

import outlast as ol


@ol.node
async def fetch(city: str) -> list[float]:
    """Imagine a request to a weather service."""
    return [float(len(city)), 11.5, 14.0, 9.5]


@ol.node
async def publish(city: str, mean: float) -> str:
    """Imagine a message that must be sent once."""
    return f"{city}: {mean:.1f} degrees"


@ol.workflow
async def weather(city: str) -> str:
    degrees = await fetch(city)
    mean = sum(degrees) / len(degrees)  # code outside of nodes runs again after a crash: that is fine for arithmetic
    return await publish(city, mean)


if __name__ == "__main__":
    print(ol.run(weather, "Bergen"))
