"""Mistakes that type checkers are to find. Each comment says which; one that is not needed is itself an error."""

from __future__ import annotations

import outlast as ol


@ol.node
async def fetch(url: str, *, limit: int = 10) -> bytes:
    return url.encode()[:limit]


@ol.node
def count(data: bytes) -> int:
    return len(data)


@ol.workflow
async def child(number: int) -> str:
    return str(number)


@ol.workflow
async def calls() -> None:
    await fetch(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await fetch()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await fetch("x", 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await fetch("x", limit="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await fetch("x", size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await count("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await child("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    text: str = await fetch("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    number: int = count(b"x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await fetch.options(id="a")(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await fetch.options(ids="a")("x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    print(text, number)


@ol.workflow
async def verbs() -> None:
    both: tuple[bytes, str] = await ol.gather(fetch("x"), count(b"x"))  # type: ignore[assignment]  # pyright: ignore
    print(both)
    await ol.map(count, ["x"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    answer = await ol.ask("How many?", int)
    text: str = answer  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(text)
    await ol.sleep("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ol.approve()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def desk(engine: ol.Engine) -> None:
    await engine.start(child, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await engine.start(child)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    count.fn("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await engine.start(fetch, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    number: int = await (await engine.start(child, 1)).result()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(number)
    ol.run(child, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@ol.node(run_in="cloud")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportArgumentType]
def elsewhere() -> None: ...
