"""Every option of a node, a run and a question does what it says, or is refused."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e

SOON = 10.0
CASES: dict[tuple[str, str], Callable[[Any], Awaitable[None]]] = {}
"""What shows that an option of a kind is honoured or refused."""


def shows(kind: str, option: str) -> Callable[[Any], Any]:
    def keep(case: Any) -> Any:
        CASES[kind, option] = case
        return case

    return keep


async def came_to(stage: Any, workflow: Any, *args: Any, **options: Any) -> tuple[Any, list[Any], ol.Engine]:
    engine = await stage.engine(**options)
    handle = await engine.start(workflow, *args)
    result = await asyncio.wait_for(handle.result(), SOON)
    return result, await stage.events(engine, handle.run), engine


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def calling(node: Any) -> Any:
    @ol.workflow
    async def calls() -> Any:
        return await node()

    return calls


async def echo(value: int = 1) -> int:
    return value


def failing(times: int, error: type[Exception] = ConnectionError) -> Any:
    async def unsteady() -> int:
        if ol.context().attempt <= times:
            raise error
        return ol.context().attempt

    return unsteady


async def slow() -> None:
    await asyncio.sleep(60)


# --- nodes, where they are defined and where they are called


@shows("node", "name")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, calling(ol.node(name="other")(echo)))
    assert of(events, e.NodeCompleted)[0].node == "other"


@shows("node", "retry")
async def _(stage: Any) -> None:
    assert (await came_to(stage, calling(ol.node(retry=ol.Retry(max_attempts=3, delay=0))(failing(2)))))[0] == 3


@shows("node", "timeout")
async def _(stage: Any) -> None:
    with pytest.raises(TimeoutError):
        await came_to(stage, calling(ol.node(timeout=0.01)(slow)))


@shows("node", "run_in")
async def _(stage: Any) -> None:
    def where() -> str:
        return threading.current_thread().name

    assert (await came_to(stage, calling(ol.node(run_in="thread")(where))))[0] != threading.current_thread().name


@shows("node", "repeatable")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, calling(ol.node(repeatable=False)(echo)))
    assert of(events, e.NodeStarted)[0].repeatable is False


@pytest.mark.parametrize("policy", [{"retry_on": ConnectionError}, {"give_up_on": KeyError}])
async def test_a_policy_names_the_errors_to_try_again_after(stage: Any, policy: dict[str, Any]) -> None:
    retry = ol.Retry(max_attempts=2, delay=0, **policy)
    with pytest.raises(KeyError):
        await came_to(stage, calling(ol.node(retry=retry)(failing(1, KeyError))))


@shows("call", "id")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, calling(ol.node(echo).options(id="k")))
    assert of(events, e.NodeCompleted)[0].node == "echo[k]"


@shows("call", "retry")
async def _(stage: Any) -> None:
    node = ol.node(failing(2)).options(retry=ol.Retry(max_attempts=3, delay=0))
    assert (await came_to(stage, calling(node)))[0] == 3


@shows("call", "timeout")
async def _(stage: Any) -> None:
    with pytest.raises(TimeoutError):
        await came_to(stage, calling(ol.node(slow).options(timeout=0.01)))


@shows("call", "repeatable")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, calling(ol.node(echo).options(repeatable=False)))
    assert of(events, e.NodeStarted)[0].repeatable is False


# --- the same through a map: its items are named by their places


def mapping(node: Any) -> Any:
    @ol.workflow
    async def maps() -> Any:
        return await ol.map(node, [1, 2])

    return maps


@shows("map", "id")
async def _(stage: Any) -> None:
    with pytest.raises(ol.InvalidInput, match=r"test_options.py:\d+: id='k'"):
        await came_to(stage, mapping(ol.node(echo).options(id="k")))


@shows("map", "retry")
async def _(stage: Any) -> None:
    async def unsteady(_: int) -> int:
        return await failing(1)()

    node = ol.node(unsteady).options(retry=ol.Retry(max_attempts=2, delay=0))
    assert (await came_to(stage, mapping(node)))[0] == [2, 2]


@shows("map", "timeout")
async def _(stage: Any) -> None:
    async def slowly(_: int) -> None:
        await slow()

    with pytest.raises(TimeoutError):
        await came_to(stage, mapping(ol.node(slowly).options(timeout=0.01)))


@shows("map", "repeatable")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, mapping(ol.node(echo).options(repeatable=False)))
    assert not any(event.repeatable for event in of(events, e.NodeStarted))


# --- workflows, where they are defined


@shows("workflow", "name")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, ol.workflow(name="other")(echo))
    assert of(events, e.RunCreated)[0].workflow == "other"


@shows("workflow", "on_restart")
async def _(stage: Any) -> None:
    child = ol.workflow(on_restart="hold")(echo)
    _, events, engine = await came_to(stage, calling(child))
    created = of(await stage.events(engine, of(events, e.ChildStarted)[0].child), e.RunCreated)[0]
    assert created.on_restart == "hold"


@shows("workflow", "cleanup")
async def _(stage: Any) -> None:
    @ol.workflow(cleanup=timedelta(milliseconds=50))
    async def swallowing() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await ol.sleep(1000)

    engine = await stage.engine()
    handle = await engine.start(swallowing)
    await stage.until(engine, handle.run, e.TimerSet)
    await handle.cancel()
    ended = await stage.until(engine, handle.run, e.RunCancelled)
    assert ended.event.cleanup == "expired"


@shows("workflow", "exclusive")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, ol.workflow(exclusive="n:{value}")(echo), 3)
    assert of(events, e.RunCreated)[0].exclusive == "n:3"
    with pytest.raises(ol.InvalidInput, match=r"test_options.py:\d+: .*exclusive.*child run"):
        await came_to(stage, calling(ol.workflow(exclusive="n:{value}", name="alone")(echo)))


@shows("workflow", "queue")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, ol.workflow(queue="gpu")(echo))
    assert of(events, e.RunCreated)[0].queue == "gpu"


@shows("workflow", "priority")
async def _(stage: Any) -> None:
    _, events, _ = await came_to(stage, ol.workflow(priority=-4)(echo))
    assert of(events, e.RunCreated)[0].priority == -4


# --- runs that are started


def flow() -> Any:
    """A workflow that this process knows."""
    return ol.workflow(name="flow")(echo)


async def created_by(stage: Any, started: Any) -> tuple[str, e.RunCreated]:
    engine = await stage.engine()
    handle = await engine.start(started)
    await asyncio.wait_for(handle.result(), SOON)
    return handle.run, of(await stage.events(engine, handle.run), e.RunCreated)[0]


@shows("start", "id")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(id="it")))[0] == "it"


@shows("start", "idempotency_key")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(idempotency_key="k")))[1].key == "k"


@shows("start", "title")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(title="T")))[1].title == "T"


@shows("start", "tags")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(tags=["a"])))[1].tags == ("a",)


@shows("start", "attributes")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(attributes={"lot": 7})))[1].attributes == {"lot": 7}


@shows("start", "exclusive")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(exclusive="one")))[1].exclusive == "one"


@shows("start", "queue")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(queue="gpu")))[1].queue == "gpu"


@shows("start", "priority")
async def _(stage: Any) -> None:
    assert (await created_by(stage, ol.workflow(name="flow", priority=5)(echo).options(priority=0)))[1].priority == 0


@shows("start", "fairness_key")
async def _(stage: Any) -> None:
    assert (await created_by(stage, flow().options(fairness_key="acme")))[1].fairness_key == "acme"


@shows("start", "start")
async def _(stage: Any) -> None:
    engine = await stage.engine()
    handle = await engine.start(flow().options(start=False))
    assert (await engine.diagnostics.created(handle.run)).deferred


# --- child runs


async def child_of(stage: Any, child: Any) -> tuple[e.ChildStarted, e.RunCreated, ol.RunSummary]:
    _, events, engine = await came_to(stage, calling(child))
    started = of(events, e.ChildStarted)[0]
    created = of(await stage.events(engine, started.child), e.RunCreated)[0]
    return started, created, await engine.get(started.child)


@shows("child", "id")
async def _(stage: Any) -> None:
    started, created, _ = await child_of(stage, flow().options(id="mine"))
    assert (started.child, created.as_child) == ("mine", "mine")


@shows("child", "idempotency_key")
async def _(stage: Any) -> None:
    assert (await child_of(stage, flow().options(idempotency_key="k")))[0].node == "flow[k]"


@shows("child", "title")
async def _(stage: Any) -> None:
    assert (await child_of(stage, flow().options(title="T")))[2].title == "T"


@shows("child", "tags")
async def _(stage: Any) -> None:
    assert (await child_of(stage, flow().options(tags=["a"])))[2].tags == ("a",)


@shows("child", "attributes")
async def _(stage: Any) -> None:
    _, created, summary = await child_of(stage, flow().options(attributes={"lot": 7}))
    assert created.attributes == summary.attributes == {"lot": 7}


@shows("child", "exclusive")
async def _(stage: Any) -> None:
    with pytest.raises(ol.InvalidInput, match=r"test_options.py:\d+: .*exclusive.*child run"):
        await came_to(stage, calling(flow().options(exclusive="one")))


@shows("child", "queue")
async def _(stage: Any) -> None:
    assert (await child_of(stage, flow().options(queue="gpu")))[2].queue == "gpu"


@shows("child", "priority")
async def _(stage: Any) -> None:
    assert (await child_of(stage, flow().options(priority=7)))[2].priority == 7


@shows("child", "fairness_key")
async def _(stage: Any) -> None:
    assert (await child_of(stage, flow().options(fairness_key="acme")))[2].fairness_key == "acme"


@shows("child", "start")
async def _(stage: Any) -> None:
    with pytest.raises(ol.InvalidInput, match=r"test_options.py:\d+: .*start=False.*child run"):
        await came_to(stage, calling(flow().options(start=False)))


# --- questions


def asking(question: Callable[[], Any]) -> Any:
    @ol.workflow
    async def asks() -> Any:
        return await question()

    return asks


async def asked_in(stage: Any, question: Callable[[], Any]) -> e.InteractionRequested:
    engine = await stage.engine()
    handle = await engine.start(asking(question))
    await stage.until(engine, handle.run, e.InteractionRequested)
    return of(await stage.events(engine, handle.run), e.InteractionRequested)[0]


@shows("ask", "prompt")
async def _(stage: Any) -> None:
    assert (await asked_in(stage, lambda: ol.ask("Who?"))).prompt == "Who?"


@shows("ask", "type")
async def _(stage: Any) -> None:
    assert b"integer" in bytes((await asked_in(stage, lambda: ol.ask("How many?", int))).schema)


@shows("ask", "key")
async def _(stage: Any) -> None:
    assert (await asked_in(stage, lambda: ol.ask("Who?", key="k"))).interaction == "ask[k]"


@shows("approve", "prompt")
async def _(stage: Any) -> None:
    assert (await asked_in(stage, lambda: ol.approve("Pay?"))).prompt == "Pay?"


@shows("approve", "key")
async def _(stage: Any) -> None:
    assert (await asked_in(stage, lambda: ol.approve("Pay?", key="k"))).interaction == "approve[k]"


KINDS: dict[str, Callable[..., Any]] = {
    "node": ol.node,
    "call": ol.Node.options,
    "map": ol.Node.options,
    "workflow": ol.workflow,
    "start": ol.Workflow.options,
    "child": ol.Workflow.options,
    "ask": ol.ask,
    "approve": ol.approve,
}


def options_of(kind: str) -> list[str]:
    from outlast.functions import decorators

    made = {"node": decorators._node, "workflow": decorators._workflow}.get(kind, KINDS[kind])
    return [name for name in inspect.signature(made).parameters if name not in ("self", "fn")]


@pytest.mark.parametrize(("kind", "option"), [(kind, option) for kind in KINDS for option in options_of(kind)])
async def test_every_option_of_every_kind_is_honoured_or_refused(stage: Any, kind: str, option: str) -> None:
    assert (kind, option) in CASES, f"say what {option} of {kind} does"
    await CASES[kind, option](stage)


# --- the id of a child


async def test_a_child_with_an_id_is_found_again_after_a_crash(stage: Any) -> None:
    gate = asyncio.Event()

    @ol.node
    async def gated() -> int:
        await gate.wait()
        return 5

    @ol.workflow
    async def inner() -> int:
        return await gated()

    @ol.workflow
    async def outer() -> int:
        return await inner.options(id="mine")()

    engine = await stage.engine()
    handle = await engine.start(outer)
    assert await _is_there(engine, "mine")
    await stage.until(engine, "mine", e.NodeStarted)
    await stage.crash(engine)
    gate.set()
    engine = await stage.engine()
    assert await asyncio.wait_for((await engine.handle(handle.run)).result(), SOON) == 5
    assert await stage.is_sound(engine, handle.run)
    assert (await engine.get("mine")).parent == handle.run


async def _is_there(engine: ol.Engine, run: str) -> bool:
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        try:
            await engine.get(run)
            return True
        except ol.NotFound:
            await asyncio.sleep(0.01)
    return False


async def test_a_child_with_an_id_may_continue_as_another_run(stage: Any) -> None:
    @ol.workflow
    async def chain(left: int = 1) -> int:
        if left:
            await ol.continue_as_new(left - 1)
        return 7

    assert (await came_to(stage, calling(chain.options(id="mine"))))[0] == 7


async def test_a_child_whose_id_another_run_has_fails_and_says_so(stage: Any) -> None:
    @ol.workflow
    async def outer() -> str:
        try:
            return str(await flow().options(id="taken")())
        except ol.AlreadyExists as error:
            return str(error)

    engine = await stage.engine()
    await (await engine.start(flow().options(id="taken"))).result()
    assert "taken" in await asyncio.wait_for((await engine.start(outer)).result(), SOON)


async def test_an_id_is_given_to_one_child_of_a_run_only(stage: Any) -> None:
    @ol.workflow
    async def outer() -> int:
        return await flow().options(id="mine")(1) + await flow().options(id="mine")(2)

    with pytest.raises(ol.InvalidInput, match="'mine' is the id of another child"):
        await came_to(stage, outer)


async def test_a_fork_replays_a_child_that_had_an_id(stage: Any) -> None:
    @ol.node
    async def after(value: int) -> int:
        return value

    @ol.workflow
    async def outer() -> int:
        return await after(await flow().options(id="mine")(4))

    engine = await stage.engine()
    handle = await engine.start(outer)
    assert await asyncio.wait_for(handle.result(), SOON) == 4
    events = [entry async for entry in engine.events(handle.run)]
    cut = next(entry.seq for entry in events if isinstance(entry.event, e.NodeScheduled)) - 1
    forked = await engine.fork(handle.run, cut)
    assert await asyncio.wait_for(forked.result(), SOON) == 4


async def test_a_child_with_an_id_that_is_called_anew_after_a_jump_is_another_run(stage: Any) -> None:
    @ol.workflow
    async def outer() -> int:
        await ol.node(echo)(0)
        return int(await flow().options(id="mine")(4))

    engine = await stage.engine()
    handle = await engine.start(outer)
    assert await asyncio.wait_for(handle.result(), SOON) == 4
    last = [entry.seq async for entry in engine.events(handle.run)][-1]
    await engine.jump(handle.run, "echo")
    await stage.until(engine, handle.run, e.RunCompleted, after=last)
    started = of([entry.event async for entry in engine.events(handle.run)], e.ChildStarted)
    assert [each.child for each in started] == ["mine-b1"]


def test_options_of_a_workflow_examine_its_signature_once() -> None:
    """A server adds options to each start: its signature and annotations are not examined for each of them."""

    @ol.workflow
    async def flow(value: int) -> int:
        return value

    known = flow._arguments
    assert flow.options(title="x").options(tags=["y"])._arguments is known


def test_options_given_before_a_type_is_defined_find_it_later() -> None:
    namespace: dict[str, Any] = {"ol": ol, "__name__": "later"}
    exec(
        "@ol.workflow(name='later')\n"
        "async def flow(parcel: 'Parcel') -> None: ...\n"
        "titled = flow.options(title='x')\n"
        "class Parcel:\n    pass\n",
        namespace,
    )
    assert namespace["titled"]._arguments._hints == {"parcel": namespace["Parcel"]}
