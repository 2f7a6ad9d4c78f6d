"""Going back opens a branch: what is done again is done, what has nothing to do with it is taken over, nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

import outlast as ol
from outlast.compose import open_desk
from outlast.history import events as e
from outlast.settings import Settings

done: Counter[str] = Counter()
gates: dict[str, asyncio.Event] = {}
tokens: dict[str, list[str]] = {}


@pytest.fixture(autouse=True)
def _anew() -> None:
    done.clear()
    gates.clear()
    tokens.clear()


def gate(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


@ol.node
async def work(name: str) -> str:
    done[name] += 1
    tokens.setdefault(name, []).append(ol.idempotency_key())
    said = ol.feedback()
    return f"{name}{done[name]}" + (f"({said})" if said else "")


@ol.node(name="work")
def plain(name: str) -> str:
    done[name] += 1
    return f"{name}{done[name]}"


@ol.node
async def slow(name: str) -> str:
    done[name] += 1
    await gate(name).wait()
    return name


@ol.node
def threaded(name: str) -> str:
    done[name] += 1
    while not gate(name).is_set():
        time.sleep(0.005)
    return name


@ol.node(repeatable=False)
async def delicate(name: str) -> str:
    done[name] += 1
    return f"{name}{done[name]}"


@ol.node
async def shaky(name: str) -> str:
    done[name] += 1
    if ol.feedback() != "please":
        raise ValueError(name)
    return f"{name} {ol.feedback()}"


@ol.workflow
async def chain() -> list[str]:
    return [await work("a"), await work("b"), await work("c")]


@ol.workflow
async def beside() -> list[str]:
    async def line(name: str) -> str:
        return await work(f"{name}1") + await work(f"{name}2")

    return await ol.gather(line("x"), line("y"))


@ol.workflow
async def asking_on_a_branch() -> list[Any]:
    first = await work("a")
    number = await ol.ask("How many?", int)
    return [first, number, await work("b")]


@ol.workflow
def plainly() -> list[str]:
    return [plain("a").wait(), plain("b").wait(), plain("c").wait()]


async def node_at(client: ol.Engine, run: str, node: str, kind: type = e.NodeCompleted) -> int:
    """Where the newest event of this kind about a node stands."""
    return [x.seq async for x in client.events(run) if isinstance(x.event, kind) and x.event.node == node][-1]


# --- places ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [chain, plainly])
async def test_a_jump_to_a_node_does_it_and_what_follows_again(stage: Any, witness: Any, flow: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain, "plainly": plainly})
    handle = await engine.start(flow)
    assert await handle.result() == ["a1", "b1", "c1"]
    seen = witness(engine, handle.run)
    await seen.look()
    again = await engine.jump(handle.run, "work#2", by="ann", reason="why not")
    assert await again.result() == ["a1", "b2", "c2"]
    log = await seen.look()
    (opened,) = [entry.event for entry in log if isinstance(entry.event, e.BranchOpened)]
    assert (opened.by, opened.reason, opened.redo, opened.cause) == ("ann", "why not", ("work#2",), "jump")


async def test_jumps_past_earlier_forks_to_events_nodes_the_start_and_back_keep_every_lineage(
    stage: Any, witness: Any
) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain})
    handle = await engine.start(chain)
    assert await handle.result() == ["a1", "b1", "c1"]
    run, seen = handle.run, witness(engine, handle.run)
    await seen.look()
    assert await (await engine.jump(run, "work#3")).result() == ["a1", "b1", "c2"]
    await seen.look()
    assert await (await engine.jump(run, "work#2")).result() == ["a1", "b2", "c3"]
    await seen.look()
    assert await (await engine.jump(run, await node_at(engine, run, "work#2"))).result() == ["a1", "b2", "c4"]
    await seen.look()
    assert await (await engine.jump(run, "start")).result() == ["a2", "b3", "c5"]
    await seen.look()
    assert await (await engine.rewind(run, 2)).result() == ["a2", "b4", "c6"]
    await seen.look()
    assert await (await engine.retry(run, "work#3")).result() == ["a2", "b4", "c7"]
    await seen.look()
    assert await (await engine.retry(run, "work#3", feedback="more")).result() == ["a2", "b4", "c8(more)"]
    await seen.look()
    assert await (await engine.activate(run, 0)).result() == ["a1", "b1", "c1"]
    assert await (await engine.activate(run, 4)).result() == ["a2", "b3", "c5"]
    await seen.look()
    await stage.crash(engine)
    engine = await stage.engine()
    assert await (await engine.rewind(run)).result() == ["a2", "b3", "c9"]
    await seen.look(engine)
    assert await engine.diagnostics.current_branch(run) == 10
    assert done == {"a": 2, "b": 4, "c": 9}


async def test_every_event_of_a_run_is_a_place_to_go_back_to(stage: Any, witness: Any) -> None:
    """Also those in the midst of an append. Only where the run was over there is nothing to go on from."""
    engine = await stage.engine()
    stage.know({"beside": beside})
    handle = await engine.start(beside)
    await handle.result()
    run, seen = handle.run, witness(engine, handle.run)
    log = await seen.look()
    for place in range(len(log)):
        done.clear()
        result = await (await engine.jump(run, place)).result()
        there = {x.event.node for x in log[:place] if isinstance(x.event, e.NodeCompleted)}
        asked = {x.event.node for x in log[:place] if isinstance(x.event, e.NodeScheduled)}
        lost = {"1/work": "x1", "2/work": "y1", "1/work#2": "x2", "2/work#2": "y2"}
        assert not [name for node, name in lost.items() if node in asked and done[name]], f"jump to {place}"
        assert all(done[name] == 1 for node, name in lost.items() if node not in asked | there)
        assert len(result) == 2
        await seen.look()
    with pytest.raises(ol.NotAllowed, match="the run is over at event"):
        await engine.jump(run, len(log))


@pytest.mark.parametrize(
    "place", ["nothing", "", "-1", "1.5", "work#9", "999999", "9" * 5000, "²", "start ", "work/", "\x00", 10**30]
)
async def test_a_jump_to_nonsense_is_refused_and_changes_nothing(stage: Any, place: Any, witness: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain, "asking_on_a_branch": asking_on_a_branch})
    over = await engine.start(chain)
    await over.result()
    live = await engine.start(asking_on_a_branch)
    await stage.until(engine, live.run, e.InteractionRequested)
    for handle in (over, live):
        version = (await engine._reader.head(handle.run)).version
        with pytest.raises(ol.OutlastError):
            await engine.jump(handle.run, place)
        assert await engine.diagnostics.current_branch(handle.run) == 0
        with pytest.raises(ol.OutlastError):
            await engine.fork(handle.run, place)
        log = [entry.event async for entry in engine.events(handle.run, everything=True)]
        assert all(isinstance(event, e.RunTakenOver) for event in log[version:])
    assert len((await engine.list_runs(ol.RunFilter())).items) == 2
    await live.answer(3)
    assert await live.result() == ["a2", 3, "b2"]


async def test_hostile_numbers_are_refused(stage: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain})
    handle = await engine.start(chain)
    await handle.result()
    for nodes in (0, -1, 4, 10**20):
        with pytest.raises(ol.OutlastError):
            await engine.rewind(handle.run, nodes)
    for branch in (0, 1, -1, 10**20):
        with pytest.raises(ol.OutlastError):
            await engine.activate(handle.run, branch)
    with pytest.raises(ol.OutlastError):
        await engine.jump(handle.run, "work", output=object())
    with pytest.raises(ol.InvalidInput):
        await engine.jump(handle.run, "work", output=1, inputs={"name": "z"})
    with pytest.raises(ol.OutlastError):
        await engine.jump(handle.run, "start", output=1)
    assert await engine.diagnostics.current_branch(handle.run) == 0


# --- questions ---------------------------------------------------------------------------------------------------------


async def test_a_question_is_asked_again_and_an_answer_to_the_dead_branch_is_refused(stage: Any, witness: Any) -> None:
    engine = await stage.engine()
    stage.know({"asking_on_a_branch": asking_on_a_branch})
    handle = await engine.start(asking_on_a_branch)
    asked = await stage.until(engine, handle.run, e.InteractionRequested)
    seen = witness(engine, handle.run)
    await seen.look()
    await engine.jump(handle.run, "work")
    with pytest.raises(ol.RunGone):
        await engine.answer(handle.run, 1, interaction=asked.event.interaction)
    again = await stage.until(engine, handle.run, e.InteractionRequested, after=asked.seq)
    assert again.event.interaction != asked.event.interaction
    with pytest.raises(ol.RunGone):
        await engine.answer(handle.run, 1, interaction=asked.event.interaction)
    with pytest.raises(ol.RunGone):
        await engine._ledger.deliver(handle.run, [e.InteractionAnswered(interaction=again.event.interaction)], branch=0)
    await handle.answer(2)
    assert await handle.result() == ["a2", 2, "b1"]
    # once more, by the question's name, from the end
    await seen.look()
    await engine.jump(handle.run, "ask")
    with pytest.raises(ol.RunGone):
        await engine.answer(handle.run, 1, interaction=again.event.interaction)
    third = await stage.until(engine, handle.run, e.InteractionRequested, after=again.seq)
    await handle.answer(7)
    assert await handle.result() == ["a2", 7, "b2"]
    assert len({asked.event.interaction, again.event.interaction, third.event.interaction}) == 3
    await seen.look()


async def test_an_open_question_of_a_reactivated_branch_keeps_its_id(stage: Any, witness: Any) -> None:
    engine = await stage.engine()
    stage.know({"asking_on_a_branch": asking_on_a_branch})
    handle = await engine.start(asking_on_a_branch)
    asked = await stage.until(engine, handle.run, e.InteractionRequested)
    await engine.jump(handle.run, "work")
    await stage.until(engine, handle.run, e.InteractionRequested, after=asked.seq)
    await engine.activate(handle.run, 0)
    await engine.answer(handle.run, 4, interaction=asked.event.interaction)
    assert await handle.result() == ["a1", 4, "b1"]
    await witness(engine, handle.run).look()


# --- adoption ----------------------------------------------------------------------------------------------------------


async def test_work_beside_what_is_redone_is_taken_over(stage: Any, witness: Any) -> None:
    engine = await stage.engine()
    stage.know({"beside": beside})
    handle = await engine.start(beside)
    assert await handle.result() == ["x11x21", "y11y21"]
    seen = witness(engine, handle.run)
    await seen.look()
    assert await (await engine.retry(handle.run, "1/work")).result() == ["x12x22", "y11y21"]
    await seen.look()
    assert await (await engine.retry(handle.run, "1/work")).result() == ["x13x23", "y11y21"]
    log = await seen.look()
    adopted = [x.event.node for x in log if isinstance(x.event, e.NodeCompleted) and x.event.adopted]
    assert set(adopted) == {"2/work", "2/work#2"}


async def test_work_beside_is_taken_over_through_two_turns_in_a_row(stage: Any, witness: Any) -> None:
    """Nobody advances the run between them."""
    engine = await stage.engine()
    stage.know({"beside": beside})
    handle = await engine.start(beside)
    assert await handle.result() == ["x11x21", "y11y21"]
    await stage.close(engine)
    async with open_desk(Settings(store=str(stage.file))) as desk:
        await desk.retry(handle.run, "1/work#2")
        await desk.retry(handle.run, "1/work", feedback="!")
    engine = await stage.engine()
    assert await (await engine.handle(handle.run)).result() == ["x12(!)x22", "y11y21"]
    await witness(engine, handle.run).look()


async def test_a_node_with_other_inputs_or_other_code_is_done(stage: Any) -> None:
    inputs = ["u", "v"]

    @ol.node
    async def first(name: str) -> str:
        done["first"] += 1
        return inputs[done["first"] - 1]

    @ol.workflow
    async def flow() -> list[str]:
        async def other() -> str:
            return await work("other")

        async def line() -> str:
            return await work(await first("x"))

        return await ol.gather(line(), other())

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await handle.result() == ["u1", "other1"]
    assert await (await engine.retry(handle.run, "1/first")).result() == ["v1", "other1"]
    assert done["other"] == 1


async def test_a_result_of_inputs_that_a_person_gave_is_not_taken_for_that_of_the_code(
    stage: Any, witness: Any
) -> None:
    engine = await stage.engine()
    stage.know({"beside": beside})
    handle = await engine.start(beside)
    await handle.result()
    edited = await engine.jump(handle.run, "2/work#2", inputs={"name": "edited"})
    assert await edited.result() == ["x11x21", "y11edited1"]
    # `2/work#2` had not been asked for when `1/work` completed; as it was edited, it is not what the code wants there
    assert await (await engine.retry(handle.run, "1/work")).result() == ["x12x22", "y11y22"]
    await witness(engine, handle.run).look()


# --- what a person gives -----------------------------------------------------------------------------------------------


async def test_an_edited_output_is_what_the_node_returned(stage: Any, witness: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain})
    handle = await engine.start(chain)
    await handle.result()
    assert await (await engine.jump(handle.run, "work#2", output="mine", by="ann")).result() == ["a1", "mine", "c2"]
    assert done == {"a": 1, "b": 1, "c": 2}
    await witness(engine, handle.run).look()


async def test_an_output_of_the_wrong_kind_is_refused_or_holds_the_run_and_can_be_corrected(stage: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain})
    handle = await engine.start(chain)
    await handle.result()
    try:
        bad = await engine.jump(handle.run, "work#2", output=[1, 2])
    except ol.OutlastError:
        assert await engine.diagnostics.current_branch(handle.run) == 0
    else:
        with pytest.raises(ol.OutlastError):
            await bad.result()
    assert await (await engine.jump(handle.run, "work#2", output="mine")).result() == ["a1", "mine", "c2"]


async def test_edited_inputs_are_what_the_node_is_called_with(stage: Any, witness: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain})
    handle = await engine.start(chain)
    await handle.result()
    assert await (await engine.jump(handle.run, "work#2", inputs={"name": "z"})).result() == ["a1", "z1", "c2"]
    with pytest.raises(ol.OutlastError):
        await (await engine.jump(handle.run, "work#2", inputs={"nobody": 1})).result()
    with pytest.raises(ol.OutlastError):
        await (await engine.jump(handle.run, "work#2", inputs={"name": 5})).result()
    assert await (await engine.jump(handle.run, "work#2", inputs={"name": "y"})).result() == ["a1", "y1", "c3"]
    await witness(engine, handle.run).look()


WRONG_EDITS = {
    "unknown parameter": ({"inputs": {"nobody": 1}}, r"no parameter 'nobody'.*work\(name: str\) -> str"),
    "wrong type": ({"inputs": {"name": 5}}, r"work\(name\).*work\(name: str\) -> str"),
    "wrong output": ({"output": 5}, r"output of node work#2.*work\(name: str\) -> str"),
}


@pytest.mark.parametrize("edit", list(WRONG_EDITS))
@pytest.mark.parametrize("is_live", [False, True], ids=["completed", "live"])
async def test_an_edit_that_does_not_fit_the_node_is_refused_and_nothing_is_appended(
    stage: Any, edit: str, is_live: bool
) -> None:
    @ol.workflow
    async def asking_on_a_branch(is_live: bool) -> list[str]:
        results = [await work("a"), await work("b")]
        return [*results, str(await ol.ask("More?"))] if is_live else results

    engine = await stage.engine()
    handle = await engine.start(asking_on_a_branch, is_live)
    if is_live:
        await stage.until(engine, handle.run, e.InteractionRequested)
    else:
        await handle.result()
    before = await stage.events(engine, handle.run)
    given, told = WRONG_EDITS[edit]
    with pytest.raises(ol.InvalidInput, match=told):
        await engine.jump(handle.run, "work#2", **given)
    assert await stage.events(engine, handle.run) == before
    assert await engine.diagnostics.current_branch(handle.run) == 0


async def test_to_edit_one_of_large_inputs_keeps_the_others(stage: Any) -> None:
    @ol.node
    async def measure(text: str, more: str = "", unit: str = "m") -> str:
        return f"{len(text)}{len(more)}{unit}"

    @ol.workflow
    async def flow() -> str:
        return await measure("x" * 5000, "y" * 7)

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await handle.result() == "50007m"
    assert await (await engine.jump(handle.run, "measure", inputs={"unit": "km"})).result() == "50007km"
    assert await (await engine.jump(handle.run, "measure", inputs={"text": "z"})).result() == "17m"


async def test_feedback_reaches_a_failed_node_on_its_branch_and_survives_a_crash(stage: Any, witness: Any) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await work("a"), await shaky("s")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    with pytest.raises(ValueError, match="s"):
        await handle.result()
    await stage.close(engine)
    async with open_desk(Settings(store=str(stage.file))) as desk:
        await desk.retry(handle.run, "shaky", feedback="please")
    engine = await stage.engine()
    assert await (await engine.handle(handle.run)).result() == ["a1", "s please"]
    assert await engine.diagnostics.current_branch(handle.run) == 0
    await witness(engine, handle.run).look()


async def test_feedback_survives_a_crash_inside_the_attempt_that_has_it(stage: Any) -> None:
    @ol.node
    async def stuck() -> str:
        done["stuck"] += 1
        if done["stuck"] == 2:
            await gate("never").wait()
        return f"{ol.feedback('none')} {ol.context().attempt}"

    @ol.workflow
    async def flow() -> str:
        return await stuck()

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await handle.result() == "none 1"
    await engine.retry(handle.run, "stuck", feedback={"tone": ["dry"]})
    while done["stuck"] < 2:
        await asyncio.sleep(0.01)
    await stage.crash(engine)
    engine = await stage.engine()
    assert await (await engine.handle(handle.run)).result() == "{'tone': ['dry']} 3"


async def test_a_token_changes_only_by_the_branch_of_a_person(stage: Any) -> None:
    engine = await stage.engine()
    stage.know({"chain": chain})
    handle = await engine.start(chain)
    await handle.result()
    await (await engine.jump(handle.run, "work#2")).result()
    assert len(set(tokens["a"])) == 1
    assert len(set(tokens["b"])) == len(set(tokens["c"])) == 2


async def test_a_node_that_is_not_to_be_repeated_is_done_again_when_a_person_goes_back_over_it(
    stage: Any, witness: Any
) -> None:
    @ol.workflow
    async def flow() -> list[str]:
        return [await delicate("d"), await work("a")]

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await handle.result() == ["d1", "a1"]
    assert await (await engine.rewind(handle.run, 2)).result() == ["d2", "a2"]
    assert await (await engine.jump(handle.run, "delicate")).result() == ["d3", "a3"]
    assert await (await engine.retry(handle.run, "delicate")).result() == ["d4", "a4"]
    await witness(engine, handle.run).look()


@dataclass
class Parcel:
    weight: float


async def test_an_input_may_be_an_object_of_the_class_of_its_parameter(stage: Any) -> None:
    @ol.node
    async def send(parcel: Parcel) -> Parcel:
        return Parcel(parcel.weight + 1)

    @ol.workflow
    async def flow() -> float:
        return (await send(Parcel(1.0))).weight

    engine = await stage.engine()
    handle = await engine.start(flow)
    assert await handle.result() == 2.0
    assert await (await engine.jump(handle.run, "send", inputs={"parcel": Parcel(5.0)})).result() == 6.0
    assert await (await engine.jump(handle.run, "send", output=Parcel(9.0))).result() == 9.0
    with pytest.raises(ol.NotStorable, match=r"inputs\.parcel"):
        await engine.jump(handle.run, "send", inputs={"parcel": object()})
