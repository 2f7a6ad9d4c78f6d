"""Without async: workflows and nodes that are plain functions.

A plain workflow calls `.wait()` where an async one uses `await`. Plain nodes run in threads, so they may block; with
`run_in="process"` they run in separate processes, for CPU-bound work.
"""

import time

import outlast as ol


@ol.node
def squeeze(fruit: str) -> int:
    time.sleep(0.01)
    return len(fruit) * 10


@ol.node
def bottle(millilitres: int) -> str:
    return f"a bottle of {millilitres} ml"


@ol.workflow
def juice(fruits: list[str]) -> str:
    with ol.step("press"):
        juices = ol.gather(*(squeeze(fruit) for fruit in fruits)).wait()
    return bottle(sum(juices)).wait()


if __name__ == "__main__":
    print(ol.run(juice, ["apple", "pear", "quince"]))
