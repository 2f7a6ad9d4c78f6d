"""A workflow whose log stays short: `ol.continue_as_new` ends this run and starts its successor.

The successor is a run of the same workflow with the given parameters and its own log. A caller that waits for the
first run gets the result of the last one.
"""

import outlast as ol


@ol.node
async def water(plant: str, day: int) -> str:
    return f"{plant}, day {day}"


@ol.workflow
async def garden(plant: str, days: int, day: int = 1, notes: list[str] | None = None) -> list[str]:
    notes = [*(notes or []), await water(plant, day)]
    if day < days:
        await ol.sleep(0.05)  # until tomorrow
        await ol.continue_as_new(plant, days, day + 1, notes)
    return notes


if __name__ == "__main__":
    print(*ol.run(garden, "basil", 3), sep="\n")
