"""Named parts of a workflow: the nodes called in `async with ol.step("...")` belong to that step.

Steps appear in the log and in the names of nodes (`check/measure`), and each step counts its calls separately.
`options(id=...)` names one call among many by its item.
"""

import outlast as ol


@ol.node
async def measure(part: str) -> int:
    return len(part)


@ol.node
async def join(parts: list[str]) -> str:
    return "-".join(parts)


@ol.workflow
async def build(parts: list[str]) -> str:
    async with ol.step("check"):
        lengths = [await measure.options(id=part)(part) for part in parts]
    async with ol.step("assemble"):
        whole = await join([part for part, length in zip(parts, lengths, strict=True) if length > 2])
        length = await measure(whole)
    return f"{whole}: {length} long"


if __name__ == "__main__":
    print(ol.run(build, ["oak", "ox", "elm", "ash"]))
