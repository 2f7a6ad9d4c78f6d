"""What of asyncio works in workflow code, and what is refused."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from support.workflow_tools import Gated, crashed_at, echo, is_node, names, plain_echo, run_of, soon


async def with_gather() -> Any:
    return await asyncio.gather(echo(1), echo(2))


async def with_task_group() -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(echo(number)) for number in (1, 2)]
    return [task.result() for task in tasks]


async def with_timeout() -> Any:
    try:
        async with asyncio.timeout(0.01):
            await ol.sleep(3600)
    except TimeoutError:
        return [1, 2]


async def with_wait_for() -> Any:
    with suppress(TimeoutError):
        await asyncio.wait_for(ol.sleep(3600), 0.01)
    return [1, await asyncio.wait_for(echo(2), 60)]


async def with_sleep() -> Any:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return [1, 2]


async def with_event() -> Any:
    event = asyncio.Event()

    async def set_it() -> int:
        await echo(0)
        event.set()
        return 1

    task = asyncio.create_task(set_it())
    await event.wait()
    return [await task, 2]


async def with_queue() -> Any:
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def produce() -> None:
        for number in (1, 2):
            await queue.put(await echo(number))

    task = asyncio.create_task(produce())
    found = [await queue.get(), await queue.get()]
    await task
    return found


async def with_lock() -> Any:
    lock, found = asyncio.Lock(), []

    async def work(number: int) -> None:
        async with lock:
            found.append(await echo(number))

    await asyncio.gather(work(1), work(2))
    return found


async def with_semaphore_and_condition() -> Any:
    condition, found = asyncio.Condition(), []

    async def waiter() -> None:
        async with condition:
            await condition.wait()
            found.append(2)

    task = asyncio.create_task(waiter())
    async with asyncio.Semaphore(1):
        found.append(await echo(1))
    async with condition:
        condition.notify_all()
    await task
    return found


async def with_wait() -> Any:
    done, _ = await asyncio.wait([asyncio.create_task(echo(1)), asyncio.create_task(echo(2))])
    return sorted(task.result() for task in done)


async def with_as_completed() -> Any:
    return sorted([await each for each in asyncio.as_completed([echo(1), echo(2)])])


async def with_shield() -> Any:
    return [await asyncio.shield(echo(1)), 2]


async def with_callback(call: Any) -> Any:
    loop = asyncio.get_running_loop()
    found = loop.create_future()

    async def helper() -> None:
        found.set_result(await echo(2))

    call(loop, lambda: asyncio.create_task(helper()).add_done_callback(lambda task: task.result()))
    return [1, await found]


async def with_call_soon() -> Any:
    return await with_callback(lambda loop, helper: loop.call_soon(helper))


async def with_call_later() -> Any:
    return await with_callback(lambda loop, helper: loop.call_later(0.001, helper))


async def with_generator_left_half_way() -> Any:
    ended = asyncio.get_running_loop().create_future()

    async def numbers() -> Any:
        try:
            yield await echo(1)
        finally:
            ended.set_result(await echo(2))

    async for _ in numbers():
        break
    return [1, await ended]


async def with_async_generator() -> Any:
    async def numbers() -> Any:
        yield await echo(1)
        yield await echo(2)

    return [number async for number in numbers()]


DURABLE = [
    with_gather,
    with_task_group,
    with_timeout,
    with_wait_for,
    with_sleep,
    with_event,
    with_queue,
    with_lock,
    with_semaphore_and_condition,
    with_wait,
    with_as_completed,
    with_shield,
    with_call_soon,
    with_call_later,
    with_generator_left_half_way,
    with_async_generator,
]


@pytest.mark.parametrize("body", DURABLE, ids=lambda body: body.__name__)
async def test_asyncio_that_is_durable_works_in_workflows(stage: Any, body: Any) -> None:
    @ol.workflow
    async def flow() -> Any:
        return list(await body())

    assert await run_of(stage, flow) == [1, 2]


@pytest.mark.parametrize("body", DURABLE, ids=lambda body: body.__name__)
async def test_asyncio_in_workflows_is_the_same_after_a_crash(stage: Any, body: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> Any:
        found = list(await body())
        await gated.node()
        return found

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == [1, 2]
    assert await stage.is_sound(engine, run)


async def order_of_a_task_group() -> list[int]:
    order: list[int] = []

    async def each(number: int) -> None:
        try:
            await ol.sleep(3600)
        finally:
            order.append(number)

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(each(number))
            await echo(None)
            raise ValueError
    return order


async def order_of_as_completed() -> list[int]:
    tasks = [asyncio.create_task(echo(number)) for number in range(20)]
    await asyncio.wait(tasks)
    return [await each for each in asyncio.as_completed(tasks)]


async def order_of_a_set() -> list[int]:
    return [await each for each in {echo(number) for number in range(20)}]


async def order_of_a_set_of_gathers() -> list[int]:
    return [(await each)[0] for each in {ol.gather(echo(number)) for number in range(20)}]


@pytest.mark.parametrize(
    "body",
    [order_of_a_task_group, order_of_as_completed, order_of_a_set, order_of_a_set_of_gathers],
    ids=lambda body: body.__name__,
)
async def test_what_was_in_a_set_comes_in_the_same_order_after_a_crash(stage: Any, body: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> Any:
        return await gated.node(await body())

    run = await crashed_at(stage, flow, at=is_node("gated"))
    gated.gate.set()
    engine = await stage.engine()
    assert await soon(engine.result(run)) == gated.calls[0]
    assert await stage.is_sound(engine, run)


async def test_calls_may_be_in_a_set_in_a_plain_workflow(stage: Any) -> None:
    @ol.workflow
    def flow() -> list[int]:
        return sorted(each.wait() for each in {echo(number) for number in range(3)})

    assert await run_of(stage, flow) == [0, 1, 2]


async def cancelled_as_a_task(call: Any) -> None:
    task = asyncio.create_task(call)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def cancelled_by_its_group(call: Any) -> None:
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(call)
            raise ValueError


async def without_any_time(call: Any) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(call, 0)


@pytest.mark.parametrize("make", [lambda: echo(1), lambda: ol.gather(echo(1), echo(2))], ids=["a node", "a gather"])
@pytest.mark.parametrize(
    "cancel", [cancelled_as_a_task, cancelled_by_its_group, without_any_time], ids=lambda cancel: cancel.__name__
)
async def test_a_call_that_is_cancelled_before_it_began_does_not_begin(stage: Any, make: Any, cancel: Any) -> None:
    @ol.workflow
    async def flow() -> Any:
        await cancel(make())
        return await plain_echo("after")

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await soon(handle.result()) == "after"
    assert names(await stage.events(engine, handle.run), e.NodeScheduled) == ["plain_echo"]


async def test_a_gather_that_others_wait_for_goes_on_if_a_task_of_it_is_cancelled_before_it_began(stage: Any) -> None:
    @ol.workflow
    async def flow() -> Any:
        both = ol.gather(echo(1), echo(2))
        others = asyncio.create_task(only(ol.gather(both)))
        await asyncio.sleep(0)
        await cancelled_as_a_task(both)
        return await others

    async def only(one: Any) -> Any:
        return (await one)[0]

    assert await run_of(stage, flow) == [1, 2]


async def in_a_thread() -> None:
    await asyncio.to_thread(print)


async def in_an_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def connecting() -> None:
    await asyncio.open_connection("localhost", 1)


async def serving() -> None:
    await asyncio.start_server(lambda *_: None, "localhost", 0)


async def in_a_subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


async def with_a_signal() -> None:
    asyncio.get_running_loop().add_signal_handler(2, print)


async def from_another_thread() -> None:
    asyncio.get_running_loop().call_soon_threadsafe(print)


async def resolving() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


@pytest.mark.parametrize(
    "body",
    [in_a_thread, in_an_executor, connecting, serving, in_a_subprocess, with_a_signal, from_another_thread, resolving],
    ids=lambda body: body.__name__,
)
async def test_asyncio_that_is_not_durable_is_refused(stage: Any, body: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await body()

    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await run_of(stage, flow)


async def test_a_future_of_the_real_loop_is_refused(stage: Any) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @ol.workflow
    async def flow() -> None:
        await future

    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await run_of(stage, flow)
    future.cancel()


async def test_a_workflow_that_waits_for_what_never_comes_is_refused(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ol.NotDurable, match="Do this in a node"):
        await run_of(stage, flow)


async def test_a_workflow_that_runs_in_circles_is_refused(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.functions import loop

    monkeypatch.setattr(loop, "_QUIET_AFTER", 1000)

    @ol.workflow
    async def flow() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(ol.NotDurable, match="without awaiting a node"):
        await run_of(stage, flow)
