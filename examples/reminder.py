"""Waiting for a time: `ol.sleep`, for seconds or for months.

The time is written down, and nobody has to stay awake for it: stop the program, start an engine after the time has
come, and the workflow goes on at once. `ol.now()` is the time by the log, the same whenever the code is gone through
again.
"""

import outlast as ol


@ol.node
async def write_to(name: str, text: str) -> str:
    return f"to {name}: {text}"


@ol.workflow
async def remind(name: str, seconds: float) -> list[str]:
    began = ol.now()
    first = await write_to(name, "your trial begins")
    await ol.sleep(seconds)  # or ol.sleep(days=14), or ol.sleep(until=...)
    waited = (ol.now() - began).total_seconds() >= seconds
    return [first, await write_to(name, "your trial is over" if waited else "too early!")]


if __name__ == "__main__":
    print(*ol.run(remind, "Ada", 0.5), sep="\n")
