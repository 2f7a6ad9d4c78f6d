"""A workflow that never grows too long: `ol.continue_as_new` ends this run and lets a new one go on.

The successor is a run of the same workflow with the parameters you give, and a log of its own. Who waits for the
result of the first run gets that of the last one.
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
