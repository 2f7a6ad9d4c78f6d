"""The user's own crash test: every example survives it, and broken workflows are caught and told in words (P1, P2)."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast import testing
from outlast.engine.driver import MAX_SLEEP_S
from outlast.functions.workflow_import import load
from outlast.testing.time_skipping import TimeSkippingClock

ROOT = Path(__file__).parents[2]

EXAMPLES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "first_workflow": ("weather", ("Bergen",), {}),
    "parallel": ("buy", ("lamp", ["Alder", "Birch & Sons", "Cedar"]), {}),
    "many_items": ("album", (6,), {"points": 60}),
    "retries": ("print_page", ("a page",), {}),
    "race": ("download", ({"Oslo": 3.0, "Lisbon": 0.1},), {}),
    "reminder": ("remind", ("Ada", 14 * 86_400), {}),
    "approval": ("invite", ("tea",), {"answers": {"approve": True, "To how many people?": 3}}),
    "child_runs": ("shipment", ([["a lamp", "a rug"], ["a chair"]],), {}),
    "steps": ("build", (["oak", "ox", "elm"],), {}),
    "long_node": ("survey", ("Book", ["a b", "c", "d e f", "g", "h i"]), {"points": 60}),
    "plain_functions": ("juice", (["apple", "fig"],), {"points": 60}),
    "typed_values": ("stay", ("Grace", date(2030, 5, 1)), {}),
    "long_living": ("garden", ("basil", 3), {}),
    "caught_errors": ("trip", ("Rome",), {}),
    "plain_asyncio": ("breakfast", (0.3,), {}),
}
"""Workflow, parameters and how it is tested."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_survives(name: str, survives_crashes: Any) -> None:
    workflow, args, how = EXAMPLES[name]
    module = vars(load(str(ROOT / "examples" / f"{name}.py")))
    survival = survives_crashes(module[workflow], *args, in_another_python=name == "parallel", **how)
    assert survival.points == min(survival.possible, how.get("points", survival.possible))
    assert survival.result


def test_no_example_is_left_out() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} - {"one_run"} == set(EXAMPLES)


@ol.workflow
async def waits_for_a_month() -> str:
    await ol.sleep(days=30)
    return "over"


def test_the_clock_jumps_to_the_time_that_a_run_waits_for(
    survives_crashes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not to each look of its driver at the clock."""
    skip, jumps = TimeSkippingClock.skip, list[float]()

    def noted(clock: TimeSkippingClock, seconds: float) -> None:
        jumps.append(seconds)
        skip(clock, seconds)

    monkeypatch.setattr(TimeSkippingClock, "skip", noted)
    survives_crashes(waits_for_a_month, points=1, in_another_python=False)
    assert max(jumps) > 29 * 86_400
    assert [each for each in jumps if abs(each - MAX_SLEEP_S) < 1] == []


# --- what is caught ----------------------------------------------------------------------------------------------------


@ol.node
async def keep(value: Any) -> Any:
    return value


@ol.node
async def tries() -> int:
    return ol.context().attempt


@ol.workflow
async def by_chance() -> Any:
    await keep(1)
    return await keep(random.random())


@ol.workflow
async def by_the_clock() -> Any:
    await keep(1)
    return await keep(time.time_ns())


@ol.workflow
async def by_a_fresh_id() -> Any:
    return await keep(str(uuid.uuid4()))


counter = 0


@ol.workflow
async def by_a_counter() -> Any:
    global counter
    counter += 1
    return await keep.options(id=f"call {counter}")(1)


@ol.workflow
async def by_the_order_of_a_set() -> str:
    for letter in {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}:
        await keep(letter)
    return "done"


@ol.workflow
async def by_attempts() -> int:
    await keep(1)
    return await tries()


def report(workflow: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(testing.DidNotSurvive) as caught:
        testing.survives_crashes(workflow, *args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("workflow", [by_chance, by_the_clock, by_a_fresh_id], ids=lambda flow: flow.name)
def test_workflow_code_that_asks_for_something_else_each_time_is_caught(workflow: Any) -> None:
    said = report(workflow)
    assert said.startswith(f"{workflow.name} does not survive a crash.\n\nthe process died at store call ")
    assert "with other inputs" in said
    assert "than the code passes now" in said
    assert "RunTakenOver" in said
    assert "held for a person" in said
    assert "ol.random()" in said
    assert "Traceback" not in said


def test_a_node_whose_name_depends_on_a_counter_outside_is_caught() -> None:
    said = report(by_a_counter)
    assert "the log has node 'keep[call " in said
    assert "the code asked for node 'keep[call " in said


def test_a_counter_that_is_put_back_before_each_round_is_still_caught() -> None:
    """It is the second process of a round that counts on."""

    def reset() -> None:
        global counter
        counter = 0

    assert "the log has node 'keep[call 1]'; the code asked for node" in report(by_a_counter, before_each=reset)


def test_the_order_of_a_set_is_caught_by_another_python() -> None:
    said = report(by_the_order_of_a_set, points=3)
    assert "another Python, with other hashes, does not replay the log of the undisturbed run" in said
    assert "with other inputs" in said
    assert "Sort it" in said


def test_a_result_that_depends_on_how_often_it_was_tried_is_caught() -> None:
    said = report(by_attempts)
    assert "run run-1 ended differently\nexpected: completed, 1\n     got: completed, 2" in said
    assert "same=lambda result" in said
    assert "tries started (attempt 2)" in said


def test_a_result_that_is_another_each_time_is_told_from_one_that_a_crash_changes() -> None:
    @ol.node
    async def moment() -> int:
        return time.time_ns()

    @ol.workflow
    async def dated() -> int:
        return await moment()

    said = report(dated)
    assert said.startswith("dated ends differently each time, even without a crash.\n\nrun run-1 ended differently")
    assert "same=lambda result" in said
    assert testing.survives_crashes(dated, same=lambda result: result > 0).result > 0


def test_what_has_to_be_the_same_can_be_said() -> None:
    assert testing.survives_crashes(by_attempts, same=lambda result: result > 0).result == 1


def test_state_outside_that_is_not_put_back_is_caught_and_put_back_it_is_not() -> None:
    shelf: list[int] = []

    @ol.node
    async def store() -> int:
        shelf.append(1)
        return len(set(shelf)) if len(shelf) < 3 else 0

    @ol.workflow
    async def shelve() -> int:
        return await store()

    assert "ended differently" in report(shelve)
    assert testing.survives_crashes(shelve, before_each=shelf.clear).result == 1


def test_a_question_that_nobody_answers_is_named() -> None:
    @ol.workflow
    async def asks() -> bool:
        return await ol.approve("Go on?")

    said = report(asks)
    assert said.startswith("asks does not end, even without a crash.")
    assert "waits for interaction approve “Go on?”" in said
    assert "answers=" in said


def test_an_answer_that_does_not_fit_is_named() -> None:
    @ol.workflow
    async def asks_for_a_number() -> int:
        return await ol.ask("How many?", int)

    assert "the answer to 'How many?' was refused" in report(asks_for_a_number, answers={"How many?": "lots"})


def test_a_child_that_diverges_is_told_and_not_its_parent() -> None:
    @ol.workflow
    async def careless() -> Any:
        return await keep(random.random())

    @ol.workflow
    async def parent() -> Any:
        return await careless()

    said = report(parent)
    assert "RunCreated" in said
    assert "created by its parent run run-1" in said
    assert "with other inputs" in said


# --- what is not -------------------------------------------------------------------------------------------------------


def test_answers_may_be_a_function_and_somebody_need_not_answer() -> None:
    @ol.workflow
    async def asks_twice() -> list[Any]:
        won = await ol.race(ol.ask("Is anybody there?"), ol.sleep(days=2))
        return [won.index, await ol.ask("How many?", int)]

    def answer(question: testing.Question) -> Any:
        return 7 if question.prompt == "How many?" else testing.UNANSWERED

    assert testing.survives_crashes(asks_twice, answers=answer).result == [1, 7]


def test_items_of_a_map_that_only_a_crash_leaves_time_for_are_no_repetition() -> None:
    """How many are begun before the code has seen enough is a matter of time; a crash interrupts some of them."""

    @ol.node
    async def slow(number: int) -> int:
        await asyncio.sleep(0.01 * (number % 3))
        return number

    async def helper(number: int) -> int:
        async with ol.step("look"):
            return (await ol.race(slow(number), ol.sleep(3))).value or 0

    @ol.workflow
    async def some_of_many() -> list[int]:
        found: list[int] = []
        async for number in ol.map(helper, range(10), concurrency=3):
            found.append(number)
            if len(found) == 4:
                break
        return found + await ol.map(slow, range(3)) + list(await ol.gather(slow(1), slow(2)))

    assert testing.survives_crashes(some_of_many, in_another_python=False).result == [0, 1, 2, 3, 0, 1, 2, 1, 2]


def test_a_failure_has_to_be_the_same_too() -> None:
    @ol.workflow
    async def fails() -> None:
        await keep(1)
        raise ValueError("no good")

    survival = testing.survives_crashes(fails)
    assert survival.result is None
    assert survival.points == survival.possible == 2 * survival.calls
    assert str(survival) == f"{survival.points} crash points survived, at {survival.calls} store calls"


def test_a_run_that_holds_after_a_crash_is_told_to_go_on() -> None:
    @ol.node(repeatable=False)
    async def pay() -> str:
        return "paid"

    @ol.workflow(on_restart="hold")
    async def buys() -> str:
        return await pay()

    assert testing.survives_crashes(buys).result == "paid"


def test_nodes_that_want_a_process_and_plain_workflows_survive() -> None:
    @ol.node(run_in="process")
    def compute(number: int) -> int:
        return number * 2

    @ol.workflow
    def plain(number: int) -> int:
        return compute(number).wait() + compute(number).wait()

    assert testing.survives_crashes(plain, number=4, points=20).result == 16


def test_points_are_a_sample_that_is_the_same_for_a_seed() -> None:
    survival = testing.survives_crashes(by_attempts, same=lambda _: None, points=5, seed=3)
    assert (survival.points, survival.possible > 5) == (5, True)
    assert str(survival).startswith(f"5 of {survival.possible} crash points survived")


def test_it_works_inside_a_loop_that_runs() -> None:
    async def inside() -> Any:
        return testing.survives_crashes(by_attempts, same=lambda _: None, points=3)

    assert asyncio.run(inside()).points == 3


def test_the_randomness_of_the_test_is_left_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    testing.survives_crashes(by_attempts, same=lambda _: None, points=2)
    assert random.random() == expected


@pytest.mark.parametrize("given", [42, keep, by_chance.fn])
def test_what_is_no_workflow_is_refused(given: Any) -> None:
    with pytest.raises(ol.InvalidInput, match="is not a workflow"):
        testing.survives_crashes(given)


# --- time that leaps ---------------------------------------------------------------------------------------------------


@ol.workflow
async def a_year() -> float:
    before = ol.now()
    for _ in range(12):
        await ol.sleep(days=30)
        await keep(1)
    return (ol.now() - before).total_seconds()


def test_a_year_takes_no_time(outlast_engine: Any) -> None:
    began = time.process_time()
    assert outlast_engine.start(a_year).result() == pytest.approx(12 * 30 * 86_400, abs=60)
    assert time.process_time() - began < 20


def test_the_clock_stands_still_while_nobody_waits(outlast_engine: Any) -> None:
    handle = outlast_engine.start(a_year)
    time.sleep(0.05)
    assert handle.get().status in ("running", "waiting")
    handle.cancel()


def test_an_engine_can_be_used_in_an_async_test() -> None:
    async def test() -> Any:
        with testing.engine() as engine:
            return await asyncio.to_thread(engine.start(a_year).result)

    assert asyncio.run(test()) == pytest.approx(12 * 30 * 86_400, abs=60)


def test_a_question_is_answered_in_a_world_that_leaps(outlast_engine: Any) -> None:
    @ol.workflow
    async def patient() -> list[Any]:
        await ol.sleep(days=3)
        return [await ol.approve("Go on?"), (await ol.race(ol.ask("Again?"), ol.sleep(days=1))).index]

    handle = outlast_engine.start(patient)
    for _ in handle.watch():
        if handle.get().waits and handle.get().waits[0].kind == "interaction":
            break
    handle.answer(True)
    assert handle.result() == [True, 1]


@pytest.fixture
def slow_server() -> Iterator[int]:
    """It answers each connection after a while; its port."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                time.sleep(0.1)
                connection.sendall(b"hello\n")
                connection.close()

    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


def test_time_does_not_leap_past_a_node_that_waits_for_a_connection(outlast_engine: Any, slow_server: int) -> None:
    @ol.node(timeout=3)
    async def greeted() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", slow_server)
        said = await reader.readline()
        writer.close()
        return said.decode().strip()

    @ol.workflow
    async def connects() -> str:
        await ol.sleep(days=1)
        return await greeted()

    assert outlast_engine.start(connects).result() == "hello"


@ol.workflow
async def of_one_number(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("args", "error"), [((), ol.InvalidInput), ((1, 2), ol.InvalidInput), (("four",), ol.NotStorable)]
)
def test_parameters_that_do_not_fit_are_said_to_be_that(args: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"of_one_number\("):
        testing.survives_crashes(of_one_number, *args)
