"""A workflow whose code changed between a crash and the resume.

Where code and log agree, the run goes on with the new code. Where they do not, nothing is guessed and nothing is changed:
the run is held with a message that shows what the log has and what the code asked for, its log is sound, and with the old
code again a `resume` completes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e


class World:
    """Nodes that count their calls, and one that waits until the crash is over."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        calls, gate = self.calls, self.gate

        @ol.node
        async def first(number: int) -> int:
            calls.append("first")
            return number + 1

        @ol.node
        async def second(number: int) -> int:
            calls.append("second")
            return number * 10

        @ol.node
        async def third(number: int) -> int:
            calls.append("third")
            return number - 1

        @ol.node
        async def pending(number: int) -> int:
            calls.append("pending")
            await gate.wait()
            return number + 1000

        @ol.node(name="first")
        async def first_as_text(number: int) -> str:
            return str(number)

        @ol.node(name="first")
        async def first_renamed_parameter(count: int) -> int:
            return count + 1

        self.first, self.second, self.third, self.pending = first, second, third, pending
        self.first_as_text, self.first_renamed_parameter = first_as_text, first_renamed_parameter


Flow = Callable[[World], Any]
PATIENCE = 60.0


def workflow(fn: Any) -> Any:
    """The function as the workflow `flow`, whichever version of it this is."""
    return ol.workflow(name="flow")(fn)


async def crashed(stage: Any, world: World, old: Any, *params: Any, at: str = "pending") -> str:
    """A run of the old code whose engine died while that node was under way."""
    engine = await stage.engine()
    handle = await engine.start(old, *params)
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.NodeStarted) and event.node == at)
    await stage.crash(engine)
    world.gate.set()
    return handle.run


async def held_with(engine: ol.Engine, run: str) -> str:
    with pytest.raises(ol.RunHeld) as caught:
        await asyncio.wait_for(engine.result(run), PATIENCE)
    return str(caught.value)


# --- one table: what the code was, what it is now, what is said about it ----------------------------------------------


def old_code(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def added(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        number = await world.third(number)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def removed(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.second(number)
        return await world.pending(number)

    return flow


def reordered(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.second(number)
        number = await world.first(number)
        return await world.pending(number)

    return flow


def renamed(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        number = await world.third(number)
        return await world.pending(number)

    return flow


def other_inputs(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number + 1)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def other_inputs_in_flight(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        number = await world.second(number)
        return await world.pending(number + 1)

    return flow


def in_flight_removed(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        return await world.second(number)

    return flow


def ended_early(world: World) -> Any:
    async def flow(number: int) -> int:
        return number

    return flow


def raising(world: World) -> Any:
    async def flow(number: int) -> int:
        raise ValueError("not today")

    return flow


def in_a_step(world: World) -> Any:
    async def flow(number: int) -> int:
        async with ol.step("all"):
            number = await world.first(number)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def in_a_task(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await asyncio.create_task(world.first(number))
        (number,) = await ol.gather(helper(world, number))
        return await world.pending(number)

    return flow


async def helper(world: World, number: int) -> int:
    return await world.second(number)


def keyed_name(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first.options(id="one")(number)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def with_a_timer(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        await ol.sleep(0.001)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def with_a_question(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        await ol.approve("Go on?")
        number = await world.second(number)
        return await world.pending(number)

    return flow


def as_a_child(world: World) -> Any:
    @ol.workflow(name="first")
    async def first_as_child(number: int) -> int:
        return number + 1

    async def flow(number: int) -> int:
        number = await first_as_child(number)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def parameter_of_a_node_renamed(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first_renamed_parameter(number)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def result_of_a_node_retyped(world: World) -> Any:
    async def flow(number: int) -> int:
        text = await world.first_as_text(number)
        number = await world.second(int(text))
        return await world.pending(number)

    return flow


def parameter_removed(world: World) -> Any:
    async def flow() -> int:
        number = await world.first(1)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def parameter_renamed(world: World) -> Any:
    async def flow(count: int) -> int:
        number = await world.first(count)
        number = await world.second(number)
        return await world.pending(number)

    return flow


def parameter_retyped(world: World) -> Any:
    async def flow(number: list[str]) -> int:
        return await world.pending(await world.second(await world.first(1)))

    return flow


def parameter_added(world: World) -> Any:
    async def flow(number: int, factor: int) -> int:
        return await world.pending(await world.second(await world.first(number)))

    return flow


def awaiting_something_else(world: World) -> Any:
    async def flow(number: int) -> int:
        number = await world.first(number)
        await asyncio.Event().wait()
        return await world.pending(await world.second(number))

    return flow


CHANGES: dict[str, tuple[Flow, str, str]] = {
    "a node is added": (added, "'second'", "'third'"),
    "a node is removed": (removed, "'first'", "'second'"),
    "nodes are reordered": (reordered, "'first'", "'second'"),
    "a node is renamed": (renamed, "'second'", "'third'"),
    "a node has other inputs": (other_inputs, '{"number":1}', '{"number":2}'),
    "the node in flight has other inputs": (other_inputs_in_flight, '{"number":20}', '{"number":21}'),
    "the node in flight is removed": (in_flight_removed, "'pending'", "the code has ended"),
    "the code ends early": (ended_early, "'first'", "the code has ended"),
    "the code raises": (raising, "'first'", "the code has ended"),
    "a node is now in a step": (in_a_step, "'first'", "'all/first'"),
    "a node is now in a task": (in_a_task, "'second'", "'2/second'"),
    "a node now has a key": (keyed_name, "'first'", "'first[one]'"),
    "a timer is added": (with_a_timer, "'second'", "'sleep'"),
    "a question is added": (with_a_question, "'second'", "'approve'"),
    "a node is now a child run": (as_a_child, "node 'first'", "child run 'first'"),
    "a parameter of a node is renamed": (parameter_of_a_node_renamed, '{"number":1}', '{"count":1}'),
    "a node returns another type": (result_of_a_node_retyped, "'first'", "str"),
    "a parameter is removed": (parameter_removed, "number", "does not take now"),
    "a parameter is renamed": (parameter_renamed, "the code does not accept the parameters", "'count'"),
    "a parameter has another type": (parameter_retyped, "the code does not accept the parameters", "list"),
    "a parameter without default is added": (parameter_added, "the code does not accept the parameters", "'factor'"),
    "the code waits for what never comes": (awaiting_something_else, "'second'", "nothing"),
}


async def changed(stage: Any, change: str) -> tuple[World, ol.Engine, str, dict[str, Any]]:
    """A run of the old code, and an engine that knows only the new code."""
    world = World()
    run = await crashed(stage, world, workflow(old_code(world)), 1)
    known = stage.forget()
    workflow(CHANGES[change][0](world))
    return world, await stage.engine(), run, known


@pytest.mark.parametrize("change", CHANGES)
async def test_changed_code_is_held_with_what_the_log_has_and_what_the_code_asked_for(stage: Any, change: str) -> None:
    _, engine, run, _ = await changed(stage, change)
    said = await held_with(engine, run)
    _, has, asked = CHANGES[change]
    assert has in said
    assert asked in said


@pytest.mark.parametrize("change", CHANGES)
async def test_a_log_that_changed_code_could_not_follow_is_sound(stage: Any, change: str) -> None:
    _, engine, run, _ = await changed(stage, change)
    await held_with(engine, run)
    assert await stage.is_sound(engine, run)


@pytest.mark.parametrize("change", CHANGES)
async def test_with_the_old_code_again_a_held_run_is_resumed_and_completes(stage: Any, change: str) -> None:
    world, engine, run, known = await changed(stage, change)
    await held_with(engine, run)
    stage.know(known)
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1020
    assert world.calls == ["first", "second", "pending", "pending"]
    assert await stage.is_sound(engine, run)


@pytest.mark.parametrize("is_over", [False, True], ids=["while it is found out", "afterwards"])
async def test_changed_code_is_diverged_to_whoever_waits_for_the_result(stage: Any, is_over: bool) -> None:
    _, engine, run, _ = await changed(stage, "the code ends early")
    if is_over:
        await held_with(engine, run)
    with pytest.raises(ol.RunDiverged):
        await asyncio.wait_for(engine.result(run), PATIENCE)


async def test_changed_code_that_is_resumed_as_it_is_is_held_again(stage: Any) -> None:
    _, engine, run, _ = await changed(stage, "a node is added")
    first = await held_with(engine, run)
    last = [entry async for entry in engine.events(run)][-1].seq
    await engine.resume(run)
    await stage.until(engine, run, e.RunFailed, after=last)
    assert (await held_with(engine, run)).partition(":")[0] == first.partition(":")[0]


async def test_a_run_held_over_changed_code_can_be_cancelled(stage: Any) -> None:
    _, engine, run, _ = await changed(stage, "a node is added")
    await held_with(engine, run)
    await engine.cancel(run)
    with pytest.raises(ol.RunCancelled):
        await engine.result(run)
    assert await stage.is_sound(engine, run)


async def test_nodes_do_not_run_while_changed_code_is_found_out(stage: Any) -> None:
    world, engine, run, _ = await changed(stage, "a node is added")
    await held_with(engine, run)
    assert world.calls == ["first", "second", "pending"]


async def test_other_runs_of_an_engine_go_on_beside_one_whose_code_changed(stage: Any) -> None:
    world, engine, _, _ = await changed(stage, "a node returns another type")

    @ol.workflow
    async def other(number: int) -> int:
        return await world.third(number)

    assert await (await engine.start(other, 43)).result() == 42


# --- where code and log agree ------------------------------------------------------------------------------------------


async def goes_on(stage: Any, old: Flow, new: Flow, expected: Any, *, at: str = "pending") -> list[Any]:
    """The run completes with the new code; returns its events."""
    world = World()
    run = await crashed(stage, world, workflow(old(world)), 1, at=at)
    stage.forget()
    workflow(new(world))
    engine = await stage.engine()
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == expected
    assert await stage.is_sound(engine, run)
    return await stage.events(engine, run)


async def test_a_node_added_after_all_that_happened_is_done(stage: Any) -> None:
    def new(world: World) -> Any:
        async def flow(number: int) -> int:
            number = await world.pending(await world.second(await world.first(number)))
            return await world.third(number)

        return flow

    await goes_on(stage, old_code, new, 1019)


async def test_going_on_with_new_code_is_said_in_the_log(stage: Any) -> None:
    def new(world: World) -> Any:
        async def flow(number: int) -> int:
            return -await world.pending(await world.second(await world.first(number)))

        return flow

    events = await goes_on(stage, old_code, new, -1020)
    assert [type(event) for event in events].count(e.VersionChanged) == 1


async def test_code_that_only_computes_otherwise_goes_on(stage: Any) -> None:
    def new(world: World) -> Any:
        async def flow(number: int) -> int:
            ol.now(), ol.random(), ol.uuid()
            return await world.pending(await world.second(await world.first(number)))

        return flow

    await goes_on(stage, old_code, new, 1020)


async def test_a_parameter_with_a_default_may_be_added(stage: Any) -> None:
    def new(world: World) -> Any:
        async def flow(number: int, factor: int = 2) -> int:
            return factor * await world.pending(await world.second(await world.first(number)))

        return flow

    await goes_on(stage, old_code, new, 2040)


async def test_the_code_of_a_node_may_change(stage: Any) -> None:
    def new(world: World) -> Any:
        @ol.node(name="pending")
        async def better(number: int) -> int:
            return -number

        async def flow(number: int) -> int:
            return await better(await world.second(await world.first(number)))

        return flow

    await goes_on(stage, old_code, new, -20)


async def test_the_return_type_of_the_workflow_may_change(stage: Any) -> None:
    def new(world: World) -> Any:
        async def flow(number: int) -> str:
            return str(await world.pending(await world.second(await world.first(number))))

        return flow

    await goes_on(stage, old_code, new, "1020")


def gathering(*names: str) -> Flow:
    def made(world: World) -> Any:
        async def flow(number: int) -> list[int]:
            return list(await ol.gather(*(getattr(world, name)(number) for name in names), return_exceptions=False))

        return flow

    return made


async def test_a_node_added_at_the_end_of_a_gather_of_which_nothing_ended_is_done(stage: Any) -> None:
    def old(world: World) -> Any:
        async def flow(number: int) -> list[int]:
            return list(await ol.gather(world.pending(number), world.pending(number)))

        return flow

    def new(world: World) -> Any:
        async def flow(number: int) -> list[int]:
            return list(await ol.gather(world.pending(number), world.pending(number), world.third(number)))

        return flow

    await goes_on(stage, old, new, [1001, 1001, 0])


@pytest.mark.parametrize(
    "names", [("first", "pending", "third"), ("third", "first", "pending"), ("first", "third", "pending")]
)
async def test_a_node_added_to_a_gather_of_which_something_ended_is_held(stage: Any, names: tuple[str, ...]) -> None:
    world = World()
    engine = await stage.engine()
    handle = await engine.start(workflow(gathering("first", "pending")(world)), 1)
    await stage.until(engine, handle.run, e.NodeCompleted)
    await stage.crash(engine)
    world.gate.set()
    known = stage.forget()
    workflow(gathering(*names)(world))
    engine = await stage.engine()
    said = await held_with(engine, handle.run)
    assert "'third'" in said
    assert "'first'" in said
    stage.know(known)
    await engine.resume(handle.run)
    assert await asyncio.wait_for(engine.result(handle.run), PATIENCE) == [2, 1001]


@pytest.mark.parametrize("order", [("pending", "first"), ("first", "pending")])
async def test_a_gather_in_another_order_goes_on_because_names_are_the_same(stage: Any, order: tuple[str, ...]) -> None:
    await goes_on(
        stage, gathering("first", "pending"), gathering(*order), [{"first": 2, "pending": 1001}[n] for n in order]
    )


# --- timers ------------------------------------------------------------------------------------------------------------


async def sleeping(stage: Any, seconds: float) -> str:
    @ol.workflow
    async def flow() -> str:
        await ol.sleep(seconds)
        return "old"

    engine = await stage.engine()
    handle = await engine.start(flow)
    await stage.until(engine, handle.run, e.TimerSet)
    await stage.crash(engine)
    stage.forget()
    return handle.run


async def test_a_timer_that_runs_keeps_its_time_when_the_code_says_longer(stage: Any) -> None:
    run = await sleeping(stage, 0.05)

    @ol.workflow
    async def flow() -> str:
        await ol.sleep(3600)
        return "new"

    engine = await stage.engine()
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == "new"
    assert await stage.is_sound(engine, run)


async def test_a_timer_that_runs_keeps_its_time_when_the_code_says_shorter(stage: Any) -> None:
    run = await sleeping(stage, 3600)

    @ol.workflow
    async def flow() -> str:
        await ol.sleep(0)
        return "new"

    engine = await stage.engine()
    await stage.until(engine, run, e.RunTakenOver)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(engine.result(run), 0.3)
    assert await stage.is_sound(engine, run)


async def test_a_timer_that_fired_may_have_another_length_in_the_code(stage: Any) -> None:
    def with_sleep(seconds: float) -> Flow:
        def made(world: World) -> Any:
            async def flow(number: int) -> int:
                await ol.sleep(seconds)
                return await world.pending(number)

            return flow

        return made

    await goes_on(stage, with_sleep(0.01), with_sleep(3600), 1001)


# --- questions ---------------------------------------------------------------------------------------------------------


def asking(prompt: str, kind: Any = int) -> Flow:
    def made(world: World) -> Any:
        async def flow(number: int) -> str:
            answer = await ol.ask(prompt, kind)
            await world.pending(number)
            return f"{answer!r}"

        return flow

    return made


async def asked(stage: Any, old: Flow, new: Flow) -> tuple[ol.Engine, str]:
    world = World()
    engine = await stage.engine()
    handle = await engine.start(workflow(old(world)), 1)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.crash(engine)
    world.gate.set()
    stage.forget()
    workflow(new(world))
    return await stage.engine(), handle.run


async def test_a_question_keeps_its_id_through_a_crash(stage: Any) -> None:
    engine, run = await asked(stage, asking("How many?"), asking("How many?"))
    await stage.until(engine, run, e.RunTakenOver)
    await engine.answer(run, 7, interaction="ask")
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == "7"


@pytest.mark.parametrize("new", [asking("How much?"), asking("How many?", str)], ids=["reworded", "of another type"])
async def test_an_open_question_that_is_asked_differently_is_withdrawn_and_asked_anew(stage: Any, new: Flow) -> None:
    engine, run = await asked(stage, asking("How many?"), new)
    await stage.until(engine, run, e.InteractionWithdrawn)
    await stage.until(engine, run, lambda event: isinstance(event, e.InteractionRequested) and "~" in event.interaction)
    (wait,) = await engine.questions(run)
    assert wait.id == "ask~2"
    assert await stage.is_sound(engine, run)


async def test_an_answer_to_a_withdrawn_question_is_refused(stage: Any) -> None:
    engine, run = await asked(stage, asking("How many?"), asking("How much?"))
    await stage.until(engine, run, e.InteractionWithdrawn)
    with pytest.raises(ol.RunGone):
        await engine.answer(run, 7, interaction="ask")


async def test_a_question_that_was_asked_anew_is_answered_and_the_run_completes(stage: Any) -> None:
    engine, run = await asked(stage, asking("How many?"), asking("How much?", str))
    await stage.until(engine, run, lambda event: isinstance(event, e.InteractionRequested) and "~" in event.interaction)
    await engine.answer(run, "seven")
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == "'seven'"
    assert await stage.is_sound(engine, run)


async def test_a_question_reworded_twice_is_asked_a_third_time_and_answered(stage: Any) -> None:
    engine, run = await asked(stage, asking("How many?"), asking("How much?"))
    await stage.until(
        engine, run, lambda event: isinstance(event, e.InteractionRequested) and "~2" in event.interaction
    )
    await stage.crash(engine)
    stage.forget()
    world = World()
    world.gate.set()
    workflow(asking("Which number?")(world))
    engine = await stage.engine()
    await stage.until(
        engine, run, lambda event: isinstance(event, e.InteractionRequested) and "~3" in event.interaction
    )
    await engine.answer(run, 3)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == "3"
    assert await stage.is_sound(engine, run)


async def test_a_question_reworded_and_worded_back_is_answered_as_it_stands(stage: Any) -> None:
    engine, run = await asked(stage, asking("How many?"), asking("How much?"))
    await stage.until(
        engine, run, lambda event: isinstance(event, e.InteractionRequested) and "~2" in event.interaction
    )
    await stage.crash(engine)
    stage.forget()
    world = World()
    world.gate.set()
    workflow(asking("How many?")(world))
    engine = await stage.engine()
    await stage.until(
        engine, run, lambda event: isinstance(event, e.InteractionRequested) and "~3" in event.interaction
    )
    await engine.answer(run, 3)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == "3"


async def answered(stage: Any, new: Flow) -> tuple[ol.Engine, str, dict[str, Any], World]:
    world = World()
    engine = await stage.engine()
    handle = await engine.start(workflow(asking("How many?")(world)), 1)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await handle.answer(7)
    await stage.until(engine, handle.run, lambda event: isinstance(event, e.NodeStarted))
    await stage.crash(engine)
    world.gate.set()
    known = stage.forget()
    workflow(new(world))
    return await stage.engine(), handle.run, known, world


@pytest.mark.parametrize("new", [asking("How much?"), asking("How many?", str)], ids=["reworded", "of another type"])
async def test_an_answered_question_that_is_asked_differently_holds_the_run(stage: Any, new: Flow) -> None:
    engine, run, known, _ = await answered(stage, new)
    said = await held_with(engine, run)
    assert "'How many?'" in said
    stage.know(known)
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == "7"
    assert await stage.is_sound(engine, run)


async def test_an_answered_question_that_is_gone_from_the_code_holds_the_run(stage: Any) -> None:
    def new(world: World) -> Any:
        async def flow(number: int) -> str:
            return f"{await world.pending(number)}"

        return flow

    engine, run, _, _ = await answered(stage, new)
    said = await held_with(engine, run)
    assert "'How many?'" in said
    assert "'pending'" in said


async def test_an_answer_that_came_while_nobody_worked_is_not_given_to_a_question_of_another_type(stage: Any) -> None:
    world = World()
    engine = await stage.engine()
    handle = await engine.start(workflow(asking("How many?")(world)), 1)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.crash(engine)
    desk = await stage.engine(worker=False)
    await desk.answer(handle.run, 7)
    world.gate.set()
    known = stage.forget()
    workflow(asking("How many?", list[str])(world))
    engine = await stage.engine()
    await held_with(engine, handle.run)
    stage.know(known)
    await engine.resume(handle.run)
    assert await asyncio.wait_for(engine.result(handle.run), PATIENCE) == "7"


# --- children, races, and code that is gone ----------------------------------------------------------------------------


async def test_a_child_run_with_other_parameters_holds_its_parent(stage: Any) -> None:
    world = World()

    @ol.workflow
    async def child(number: int) -> int:
        return await world.pending(number)

    def parent_of(number: int) -> Any:
        async def flow() -> int:
            return await child(number)

        return flow

    engine = await stage.engine()
    handle = await engine.start(workflow(parent_of(1)))
    await stage.until(engine, handle.run, e.ChildStarted)
    await stage.crash(engine)
    world.gate.set()
    known = stage.forget("flow")
    workflow(parent_of(2))
    engine = await stage.engine()
    said = await held_with(engine, handle.run)
    assert "child run 'child'" in said
    stage.know(known)
    await engine.resume(handle.run)
    assert await asyncio.wait_for(engine.result(handle.run), PATIENCE) == 1001


async def test_a_child_of_another_workflow_under_the_same_name_is_not_taken_for_the_first(stage: Any) -> None:
    world = World()

    def parent_of(returned: int) -> Any:
        @ol.workflow
        async def child(number: int) -> int:
            return returned

        async def flow() -> int:
            number = await child(1)
            return number + await world.pending(number)

        return flow

    run = await crashed(stage, world, workflow(parent_of(1)))
    stage.forget()
    workflow(parent_of(2))
    engine = await stage.engine()
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1002


@pytest.mark.parametrize("names", [("third", "pending"), ("pending", "first")])
async def test_a_race_that_was_decided_between_others_is_held(stage: Any, names: tuple[str, ...]) -> None:
    world = World()
    never = asyncio.Event()

    @ol.node
    async def loser(number: int) -> int:
        await never.wait()
        return number

    def racing(*nodes: Any) -> Any:
        async def flow(number: int) -> int:
            won = await ol.race(*(node(number) for node in nodes))
            return await world.pending(won.value)

        return flow

    run = await crashed(stage, world, workflow(racing(world.first, loser)), 1)
    known = stage.forget()
    workflow(racing(*(getattr(world, name) for name in names)))
    engine = await stage.engine()
    await held_with(engine, run)
    assert await stage.is_sound(engine, run)
    stage.know(known)
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1002


async def test_a_race_whose_sides_were_exchanged_is_held_because_another_would_have_won(stage: Any) -> None:
    world = World()
    never = asyncio.Event()

    @ol.node
    async def loser(number: int) -> int:
        await never.wait()
        return number

    def racing(*nodes: Any) -> Any:
        async def flow(number: int) -> int:
            won = await ol.race(*(node(number) for node in nodes))
            return await world.pending(won.value) + won.index

        return flow

    run = await crashed(stage, world, workflow(racing(world.first, loser)), 1)
    known = stage.forget()
    workflow(racing(loser, world.first))
    engine = await stage.engine()
    assert "decision 'race' with 0; the code decides 1" in await held_with(engine, run)
    stage.know(known)
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1002


async def test_a_parameter_without_default_added_to_code_that_had_none_holds_the_run(stage: Any) -> None:
    world = World()

    def with_none() -> Any:
        async def flow() -> int:
            return await world.pending(await world.first(1))

        return flow

    def with_one() -> Any:
        async def flow(factor: int) -> int:
            return factor * await world.pending(await world.first(1))

        return flow

    run = await crashed(stage, world, workflow(with_none()))
    known = stage.forget()
    workflow(with_one())
    engine = await stage.engine()
    said = await held_with(engine, run)
    assert "the code does not accept the parameters" in said
    assert "'factor'" in said
    stage.know(known)
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1002


async def test_a_run_whose_replay_fails_as_nobody_foresaw_is_tried_again_and_then_held(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: its claim is held by a worker that is alive, so nobody else would look at it."""
    world = World()
    run = await crashed(stage, world, workflow(old_code(world)), 1)
    replayed: list[str] = []

    async def surprised(replay: Any) -> None:
        replayed.append(replay._code.run)
        raise ZeroDivisionError

    monkeypatch.setattr("outlast.engine.takeover.Replay.run", surprised)
    monkeypatch.setattr("outlast.engine.takeover.FAILURES_BEFORE_HOLD", 1)
    engine = await stage.engine()
    assert "advancing the run failed 1 times in a row" in await held_with(engine, run)
    assert replayed == [run]
    monkeypatch.undo()
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1020


async def test_a_step_that_was_renamed_holds_the_run(stage: Any) -> None:
    world = World()

    def stepping(name: str) -> Any:
        async def flow(number: int) -> int:
            async with ol.step(name):
                return await world.pending(number)

        return flow

    run = await crashed(stage, world, workflow(stepping("publish")), 1, at="publish/pending")
    stage.forget()
    workflow(stepping("release"))
    engine = await stage.engine()
    said = await held_with(engine, run)
    assert "'publish'" in said
    assert "'release'" in said


async def test_a_run_whose_workflow_is_gone_is_untouched(stage: Any) -> None:
    world = World()
    run = await crashed(stage, world, workflow(old_code(world)), 1)
    stage.forget()

    @ol.workflow
    async def other() -> None: ...

    engine = await stage.engine()
    before = [entry async for entry in engine.events(run)]
    await (await engine.start(other)).result()
    assert [entry async for entry in engine.events(run)] == before


async def test_a_run_whose_workflow_comes_back_goes_on(stage: Any) -> None:
    world = World()
    run = await crashed(stage, world, workflow(old_code(world)), 1)
    known = stage.forget()
    engine = await stage.engine()
    stage.know(known)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1020


async def test_to_resume_a_run_whose_workflow_is_gone_is_refused(stage: Any) -> None:
    _, engine, run, _ = await changed(stage, "a node is added")
    await held_with(engine, run)
    stage.forget()
    with pytest.raises(ol.NotImportable):
        await engine.resume(run)


async def test_a_map_over_other_items_is_held(stage: Any) -> None:
    world = World()

    def mapping(*items: int) -> Any:
        async def flow(number: int) -> int:
            results = await ol.map(world.first, items)
            return await world.pending(sum(results))

        return flow

    run = await crashed(stage, world, workflow(mapping(1, 2, 3)), 1)
    known = stage.forget()
    workflow(mapping(1, 5, 3))
    engine = await stage.engine()
    assert "'first/1'" in await held_with(engine, run)
    stage.know(known)
    await engine.resume(run)
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1009


async def test_a_caught_failure_that_the_code_no_longer_catches_fails_the_run_as_the_code_says(stage: Any) -> None:
    world = World()

    @ol.node
    async def broken() -> None:
        raise ValueError("broken")

    def catching(kind: type[Exception]) -> Any:
        async def flow(number: int) -> int:
            with suppress(kind):
                await broken()
            return await world.pending(number)

        return flow

    run = await crashed(stage, world, workflow(catching(ValueError)), 1)
    stage.forget()
    workflow(catching(KeyError))
    engine = await stage.engine()
    assert "'pending'" in await held_with(engine, run)


# --- an error of ours whose class moves -------------------------------------------------------------------------------


async def test_a_run_that_caught_an_error_of_outlast_goes_on_although_its_class_was_moved(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()

    @ol.node
    async def refuses() -> None:
        raise ol.InvalidInput("no")

    @workflow
    async def flow(number: int) -> int:
        try:
            await refuses()
        except ol.InvalidInput:
            number = await world.first(number)
        return await world.pending(number)

    with monkeypatch.context() as before:
        before.setattr(ol.InvalidInput, "__module__", "outlast.where_it_was")
        run = await crashed(stage, world, flow, 1)
    engine = await stage.engine()
    assert await asyncio.wait_for(engine.result(run), PATIENCE) == 1002
    failed = [entry.event async for entry in engine.events(run) if isinstance(entry.event, e.NodeFailed)]
    assert [each.error.kind for each in failed] == ["outlast.invalid_input"]
