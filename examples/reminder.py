"""Waiting for a time: `ol.sleep`, for seconds or for months.

The due time is in the store, and no process needs to run meanwhile: stop the program, start an engine after the due
time, and the workflow continues at once. `ol.now()` is the time in the log, the same in every replay.
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
