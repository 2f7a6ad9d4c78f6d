"""The engine dies at every call to its store and goes on in a new process: P1, P2, P3 and all invariants hold.

Every example and some workflows that are nastier run once undisturbed. Then, for every call that run made to its
store, it runs again and dies there, before the call has its effect and after it. A new process goes on. Whatever
happened, the outcome is that of the undisturbed run, no node that had completed was done again, every log is sound.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import outlast as ol
from outlast.engine import driver, worker
from outlast.errors import AlreadyExists, NotAsked, NotFound, OutlastError, RunGone
from outlast.functions.workflow_import import load
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.store import Append, Outcome, Store
from outlast.stores.memory import MemoryStore
from outlast.testing.crashes import RUN, Round, Story, crash_loop
from outlast.testing.faults import WAYS, Fault, Way
from outlast.testing.plugin import SURVIVED
from outlast.testing.store_factory import MemoryStoreFactory, StoreFactory
from outlast.testing.world import Attempted, compare
from support.sampling import sample, seed, share, spot_check
from support.store_factories import ObjectStoreFactory, PostgresStoreFactory, S3StoreFactory, SqliteStoreFactory

ROOT = Path(__file__).parents[2]
SAMPLE = {"memory": 8, "sqlite": 6, "postgres": 1, "objects": 1, "s3": 1}
"""Points of a story that are tried where not all of them are."""
ENDLESS = 3000.0
"""Seconds of a node that nobody waits for to its end: more than any story takes without it."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


# --- stories -----------------------------------------------------------------------------------------------------------


PARAMETERS: dict[str, tuple[str, tuple[Any, ...], Any, dict[str, Any]]] = {
    "first_workflow": ("weather", ("Bergen",), "Bergen: 10.2 degrees", {}),
    "parallel": ("buy", ("lamp", ["Alder", "Birch & Sons", "Cedar"]), "lamp from Cedar for 5", {}),
    "many_items": ("album", (12,), 1231, {}),
    "retries": ("print_page", ("a page",), "no cellar, but a page lies in the hall", {}),
    "race": ("download", ({"Oslo": 3.0, "Lisbon": 0.1},), "mirror 1: a file from Lisbon, unpacked", {}),
    "reminder": ("remind", ("Ada", 2.5), ["to Ada: your trial begins", "to Ada: your trial is over"], {}),
    "approval": ("invite", ("tea",), "3 times: Dear all, tea is on Friday.", {"approve": True, "ask": 3}),
    "child_runs": (
        "shipment",
        ([["a lamp", "a rug"], ["a chair"]],),
        "2 parcels: a parcel with a lamp from the shelf and a rug from the shelf; a parcel with a chair from the shelf",
        {},
    ),
    "steps": ("build", (["oak", "ox", "elm"],), "oak-elm: 7 long", {}),
    "long_node": ("survey", ("Book", ["a b", "c", "d e f", "g", "h i"]), "Book: 9 words", {}),
    "plain_functions": ("juice", (["apple", "fig"],), "a bottle of 80 ml", {}),
    "typed_values": ("stay", ("Grace", date(2030, 5, 1)), None, {}),
    "long_living": ("garden", ("basil", 3), ["basil, day 1", "basil, day 2", "basil, day 3"], {}),
    "caught_errors": ("trip", ("Rome",), "no room in Rome: seat 12A to Rome given back", {}),
    "plain_asyncio": (
        "breakfast",
        (0.3,),
        ["tea", "porridge with honey", "no egg, it took too long", "a pear", "a plum"],
        {},
    ),
}
"""Workflow, parameters, result and answers for every example."""


def example(name: str) -> Story:
    module = vars(load(str(ROOT / "examples" / f"{name}.py")))
    workflow, args, expected, answers = PARAMETERS[name]
    return Story(module[workflow], args, expected=expected, answers=answers)


class Refusal(Exception):
    pass


@ol.node
async def work(name: str, seconds: float = 0.01) -> str:
    await asyncio.sleep(seconds)
    return name


@ol.node(retry=ol.Retry(max_attempts=3, delay=0.02))
async def shaky(name: str) -> str:
    if ol.context().attempt < 2:
        raise ConnectionError(name)
    return name


@ol.node(retry=ol.Retry(max_attempts=2, delay=0.02))
async def hopeless(name: str) -> str:
    raise Refusal(name)


@ol.node(timeout=0.05, retry=2)
async def slow(name: str) -> str:
    await asyncio.sleep(1)
    return name


@ol.node(retry=ol.Retry(max_attempts=3, delay=300))
async def flaky(name: str) -> str:
    raise ConnectionError(name)


@ol.node
async def good_at_last(name: str) -> str:
    if ol.context().attempt < 3:
        raise Refusal(name)
    return name


@ol.node(repeatable=False)
async def delicate(name: str) -> str:
    await asyncio.sleep(0.05)
    return name


@ol.node
async def enlarged(text: str) -> str:
    return text + "x" * 1_100_000


async def helper(name: str, seconds: float) -> str:
    first = await work(f"{name}1", seconds)
    if name == "b":
        first += await shaky("!")
    second, third = await ol.gather(work(f"{name}2", seconds / 2), work(f"{name}3", seconds / 3))
    return f"{first}{second}{third}"


@ol.workflow
async def crash_helpers() -> list[str]:
    """Helpers that each call several nodes, all at once."""
    return await ol.gather(helper("a", 0.05), helper("b", 0.02), helper("c", 0.03))


@ol.workflow
async def crash_race() -> list[Any]:
    """Races of helpers, of a node with a timer, of nodes that fail."""
    first = await ol.race(helper("a", 0.5), helper("b", 0.02))
    second = await ol.race(work("late", 2.0), ol.sleep(0.1))
    try:
        await ol.race(work("slow", 1.0), hopeless("lost"))
    except Refusal as error:
        return [first.index, first.value, second.index, str(error), await work("end")]
    return []


@ol.workflow
async def crash_first() -> list[Any]:
    """Calls in the order in which they end, two with names; the others continue. Progress is said between them."""
    pending = {name: work(name, seconds) for name, seconds in (("a", 0.5), ("b", 0.02), ("c", 0.2))}
    seen: list[Any] = []
    while pending:
        won = await ol.first(**pending)
        seen.append(f"{won.name}={won.value}")
        del pending[won.name]
        ol.progress(len(seen), 3)
    late = work("late", 100_000)
    won = await ol.race(late=late, shaky=shaky("s"))
    return [*seen, won.name, won.index]


@ol.workflow
async def crash_map_of_failures() -> list[str]:
    """A map whose failures are among its results."""
    found = [each async for each in ol.map(_half, range(6), concurrency=2, return_exceptions=True)]
    return [repr(each) for each in found]


async def _half(number: int) -> str:
    return await (hopeless if number % 2 else work)(f"n{number}")


@ol.workflow
async def crash_timeout() -> list[str]:
    """Timeouts around a node, around a helper, and of a node."""
    seen = []
    try:
        async with asyncio.timeout(0.2):
            await work("never", 5.0)
    except TimeoutError:
        seen.append("node")
    try:
        await asyncio.wait_for(helper("b", 0.3), 0.4)
    except TimeoutError:
        seen.append("helper")
    async with asyncio.timeout(500):
        seen.append(await work("in time"))
    try:
        await slow("never")
    except TimeoutError:
        seen.append("attempt")
    return seen


@ol.workflow
async def crash_child(name: str) -> str:
    got = await work(name)
    if name == "bad":
        await hopeless(name)
    return got


@ol.workflow
async def crash_children() -> list[str]:
    """A child that fails and is caught beside one that does not, and a child of a child."""
    good, bad = await ol.gather(crash_child("good"), crash_child("bad"), return_exceptions=True)
    again = await crash_child.options(idempotency_key="again")("again")
    return [str(good), type(bad).__name__, str(bad), again]


@ol.workflow
async def crash_left_child() -> list[Any]:
    """Children that lose a race are cancelled: one before it can have begun, one in the midst of its work."""
    first = await ol.race(crash_endless_child("first"), work("quick", 0))
    later = crash_endless_child.options(idempotency_key="later")("later")
    second = await ol.race(later, work("slower", 0.1))
    return [first.value, second.value]


@ol.workflow
async def crash_endless_child(name: str) -> str:
    return await work(await work(name), ENDLESS)


@ol.workflow
async def crash_left_successors() -> list[Any]:
    """Children that continue again and again lose a race: one as it continues, one when it has come to its last run."""
    first = await ol.race(crash_restless_child(12), work("quick", 0.02))
    later = crash_restless_child.options(idempotency_key="later")(2)
    second = await ol.race(later, work("slower", 0.5))
    return [first.value, second.value]


@ol.workflow
async def crash_restless_child(left: int) -> str:
    await work(f"{left} left")
    if left:
        await ol.continue_as_new(left - 1)
    return await work("endless", ENDLESS)


@ol.workflow
async def crash_question() -> list[Any]:
    """A guest answers while nodes run; two questions are open at once."""
    nodes = [work(f"n{number}", 0.03 * number) for number in range(1, 4)]
    *done, yes, many = await ol.gather(*nodes, ol.approve("Go on?"), ol.ask("How many?", int))
    return [*done, yes, many, await work("end")]


@ol.workflow
async def crash_failure() -> None:
    """A run that fails, with a node, a timer, a question and a child still open."""
    async with asyncio.TaskGroup() as group:
        group.create_task(work("long", 3.0))
        group.create_task(ol.sleep(5))
        group.create_task(ol.ask("Is anybody there?"))
        group.create_task(crash_endless_child("child"))
        group.create_task(hopeless("lost"))


@ol.workflow
async def crash_map() -> list[str]:
    """A map over a helper of several nodes, inside a step."""
    async with ol.step("each"):
        return [found async for found in ol.map(_mapped, "abcde", concurrency=2)]


async def _mapped(name: str) -> str:
    return await work(name, 0.02) + await shaky(name)


@ol.workflow
async def crash_dice() -> list[str]:
    """What is random or has a date is the same again."""
    before = ol.now()
    first = await work(f"{ol.random():.6f}")
    await ol.sleep(0.1)
    second = await work(str(ol.uuid()))
    return [first, second, str((ol.now() - before).total_seconds() >= 0.1)]


@ol.workflow
async def crash_attributes(left: int) -> str:
    """Search attributes are set by helpers, between nodes and just before a successor begins, and removed again."""
    ol.set_attributes({"left": left, "stage": "begun"})
    await ol.gather(_attributed("a", 0.02), _attributed("b", 0.01))
    await work(
        "together"
    )  # which helper ends last is chance, and its last change would share an event with the next one
    ol.set_attributes({"stage": None, "paid": True})
    if left:
        await ol.continue_as_new(left - 1)
    return await work("done")


async def _attributed(name: str, seconds: float) -> None:
    ol.set_attributes({name: await work(name, seconds)})
    await work(f"after {name}")
    ol.set_attributes({name: None})


@ol.workflow
async def crash_large(text: str) -> list[int]:
    """Values that lie beside the log."""
    first = await enlarged(text)
    both = await ol.gather(enlarged(first), enlarged(text))
    return [len(first), *map(len, both)]


@ol.workflow
async def crash_generations(left: int, seen: list[str]) -> list[str]:
    """Successors that each have a child."""
    seen = [*seen, await crash_child(f"g{left}")]
    if left:
        await ol.continue_as_new(left - 1, seen)
    return seen


@ol.workflow
async def crash_cancelled() -> None:
    """Somebody cancels it while nodes run, one waits for its next attempt, a child works and a question is open."""
    await work("first")
    await ol.gather(work("long", 500.0), flaky("again"), crash_endless_child("child"), ol.ask("Is anybody there?"))


async def cancel(client: ol.Engine) -> None:
    await cancel_once(client, lambda event: isinstance(event, e.NodeCompleted))


async def cancel_once(client: ol.Engine, is_time: Callable[[Any], bool]) -> None:
    """Cancel the run after such an event, unless somebody has: a second cancellation would stop its clean-up."""
    if any([isinstance(entry.event, e.CancelRequested) async for entry in client.events(RUN)]):
        return
    async for entry in client.watch(RUN):
        if is_time(entry.event):
            with suppress(ol.RunGone):
                await client.cancel(RUN, by="ann", reason="enough")
            return


async def cancel_by_force(client: ol.Engine) -> None:
    """Cancel the run again and again until it is over; it does not clean up."""
    async for entry in client.watch(RUN):
        if is_at_work(entry.event):
            with suppress(ol.RunGone):
                await client.cancel(RUN, by="ann", force=True)


@ol.workflow(cleanup=3600)
async def crash_cleaning_child(name: str) -> str:
    try:
        return await work(await work(name), ENDLESS)
    finally:
        await work(f"undo {name}")


@ol.workflow(cleanup=3600)
async def crash_cleaned_up() -> None:
    """Somebody cancels it at work; it and its child clean up: nodes, one that is tried again, a timer and a helper."""
    booked = await work("booked")
    try:
        await ol.gather(work("long", 500.0), flaky("again"), crash_cleaning_child("child"), ol.ask("Is anybody there?"))
    finally:
        await ol.gather(work(f"undo {booked}"), shaky("told"))
        await ol.sleep(0.05)
        await helper("c", 0.01)


@ol.workflow(cleanup=timedelta(hours=1))
def crash_cleaned_up_plainly() -> None:
    """The same in a plain workflow, which returns a value instead of the cancellation."""
    booked = work("booked").wait()
    try:
        work("long", 500.0).wait()
    except asyncio.CancelledError:
        work(f"undo {booked}").wait()


async def cancel_at_work(client: ol.Engine) -> None:
    await cancel_once(client, is_at_work)


def is_at_work(event: Any) -> bool:
    return isinstance(event, e.NodeStarted) and event.node == "work#2"


@ol.workflow
async def crash_retried() -> list[str]:
    """It fails, and somebody has the node done again until it succeeds; what was done stays done."""
    first, second = await ol.gather(work("first"), work("second", 0.05))
    return [first, second, await good_at_last("third"), await work("fourth")]


async def retry(client: ol.Engine) -> None:
    if (await client.get(RUN)).status == "failed":
        await client.retry(RUN, by="ann")


@ol.workflow
async def crash_held() -> list[str]:
    """After an interruption inside a node that is not to be repeated, somebody has to say that it goes on."""
    return [await work("before"), *await ol.gather(delicate("once"), work("beside", 0.1)), await work("after")]


@ol.workflow
async def crash_deferred() -> list[str]:
    """It is created, and begins when somebody starts it."""
    return [await work("first"), await work("second")]


async def begin(client: ol.Engine) -> None:
    """Workers have had time to begin it; nothing but takeovers may have happened until it is started."""
    await asyncio.sleep(1)
    if (await client.get(RUN)).awaits_start:
        kinds = {type(entry.event) for entry in [entry async for entry in client.events(RUN)]}
        assert kinds <= {e.RunCreated, e.RunTakenOver, e.RunStarted}, kinds
        await client.begin(RUN, by="ann")


async def resume(client: ol.Engine) -> None:
    if (await client.get(RUN)).held:
        await client.resume(RUN, by="ann")


# --- stories in which somebody goes back -------------------------------------------------------------------------------


def generation() -> int:
    """The newest branch that a person has opened, as a node may know it."""
    return int(ol.idempotency_key().rpartition("/")[2])


@ol.node
async def good_on(branch: int) -> str:
    """Fails until somebody has gone back often enough."""
    if generation() < branch:
        raise Refusal(f"branch {generation()}")
    return "good"


@ol.node
async def unending_before(branch: int, name: str) -> str:
    await asyncio.sleep(0.05 if generation() >= branch else 5000.0)
    return name


@ol.node
async def heeding(name: str) -> str:
    return f"{name}{ol.feedback('')}"


@ol.workflow
async def crash_turned() -> list[Any]:
    """It fails, and somebody goes back again and again, in every way there is."""
    lines = await ol.gather(helper("a", 0.02), helper("c", 0.03))
    async with ol.step("ask"):
        many = await ol.ask("How many?", int)
    await ol.sleep(0.5)
    heard = await heeding("h")
    return [*lines, many, heard, await crash_child("child"), await work("last"), await good_on(7)]


async def turn(client: ol.Engine) -> None:
    if (await client.get(RUN)).status != "failed":
        return
    match await client.diagnostics.current_branch(RUN):
        case 0:
            await client.jump(RUN, "heeding", by="ann")
        case 1:
            await client.jump(RUN, "ask/ask", by="bob", reason="past the first fork")
        case 2:
            await client.retry(RUN, "1/work", by="ann")
        case 3:
            await client.rewind(RUN, 2)
        case 4:
            await client.activate(RUN, 1)
        case 5:
            await client.jump(RUN, "1/work", output="by hand ")
        case 6:
            await client.retry(RUN, "heeding", feedback="!")


@ol.workflow
async def crash_turned_at_work() -> list[Any]:
    """Somebody goes back twice while nodes run, one waits for its next attempt, a child works and a question is open."""
    first = await work("first")
    second, *_ = await ol.gather(
        heeding("second"), unending_before(1, "x"), crash_long_child("child"), ol.ask("How many?", int)
    )
    async with ol.step("more"):
        third = await ol.race(unending_before(2, "y"), ol.sleep(3000))
    return [first, second, third.value, await work("last")]


@ol.workflow
async def crash_long_child(name: str) -> str:
    return await work(name, 60.0)


async def turn_at_work(client: ol.Engine) -> None:
    newest = await client.diagnostics.current_branch(RUN)
    begun = {
        entry.event.node
        async for entry in client.events(RUN)
        if isinstance(entry.event, e.NodeStarted) and entry.branch == newest
    }
    if newest == 0 and "unending_before" in begun:
        await client.jump(RUN, "heeding", by="ann")
    elif newest == 1 and any(node.endswith("/unending_before") for node in begun):
        await client.retry(RUN, "work", by="bob")


@ol.node
async def number_of_branch() -> int:
    return generation()


@ol.workflow
async def crash_leaving_children() -> list[str]:
    """Somebody goes back to before two children, which end only if they are cancelled; one has a child, one continued. The
    run goes on when they have ended."""
    branch = await number_of_branch()
    if branch:
        await ol.approve("Have they ended?")
    return await ol.gather(crash_waiting_child(branch), crash_waiting_successor(branch, 1))


@ol.workflow
async def crash_waiting_child(branch: int) -> str:
    return await crash_waiting_successor(branch, 0)


@ol.workflow
async def crash_waiting_successor(branch: int, left: int) -> str:
    if left:
        await ol.continue_as_new(branch, left - 1)
    return await work("done") if branch else await ol.ask("Is anybody there?")


async def leave_children(client: ol.Engine) -> None:
    children = [each.summary for each in (await client.list_runs(ol.RunFilter())).items if each.summary.run != RUN]
    count = Counter(child.status for child in children)
    if await client.diagnostics.current_branch(RUN) == 0:
        if sum(child.waits[0].kind == "interaction" for child in children if child.waits) == 2:
            await client.jump(RUN, "number_of_branch", by="ann")
    elif count["cancelled"] == 3:
        await client.answer(RUN, True)


@ol.workflow
async def crash_forked() -> list[Any]:
    """Somebody forks it while it waits, and the fork of it."""
    lines = await ol.gather(helper("a", 0.02), helper("c", 0.03))
    many = await ol.ask("How many?", int)
    return [*lines, many, await crash_child("child"), await work("last", 100.0)]


async def fork(client: ol.Engine) -> None:
    with suppress(AlreadyExists):
        await client.fork(RUN, "1/work", id="fork-1")
    with suppress(AlreadyExists):
        await client.fork("fork-1", "2/work", id="fork-2")
    await client.fork(RUN, "work", id="fork-3")


@ol.workflow(queue="limited")
async def crash_queued_child(name: str) -> str:
    ol.set_attributes({"name": name})
    first = await work(name)
    await ol.sleep(0.2)
    ol.set_attributes({"name": None, "done": True})
    return await work(first + "!")


@ol.workflow(exclusive="the only one", queue="limited", priority=5)
async def crash_queued() -> list[str]:
    """Its children share two slots of their queue. It is itself in that queue, so one slot is left while it works."""
    ol.set_attributes({"begun": True, "count": 0})
    names = ["a", "b", "c"]
    keyed = [crash_queued_child.options(fairness_key=f"key-{name}", priority=ord(name) - 98) for name in names]
    found = await ol.gather(*(child(name) for child, name in zip(keyed, names, strict=True)))
    ol.set_attributes({"count": len(found), "begun": None})
    return found


@ol.workflow
async def crash_deletion() -> str:
    """Somebody starts another run and deletes it when it has ended; then it goes on."""
    return await work(await ol.ask("Is it deleted?"))


@ol.workflow
async def crash_victim(text: str) -> str:
    """It has no nodes: no log is left that could show their attempts."""
    ol.set_attributes({"victim": True})
    await ol.sleep(0.01)
    return text * 1_100_000


async def delete_victim(client: ol.Engine) -> None:
    victim = RunId("victim")
    with suppress(AlreadyExists):  # it was deleted
        await client.start(crash_victim.options(id=victim, exclusive="victim"), "y")
    with suppress(NotFound):  # a deleted run is not found
        if (await client.get(victim)).status != "completed":
            return
        await client.delete(victim, by="ann")
    with suppress(NotAsked, RunGone):
        await client.answer(RUN, "deleted")


NASTY: dict[str, Story] = {
    "queues": Story(crash_queued, expected=["a!", "b!", "c!"], queue_limits={"limited": 2}),
    "deletion": Story(crash_deletion, expected="deleted", guest=delete_victim),
    "helpers": Story(crash_helpers, expected=["a1a2a3", "b1!b2b3", "c1c2c3"]),
    "calls as they end": Story(crash_first, expected=["b=b", "c=c", "a=a", "shaky", 1]),
    "failures of a map": Story(
        crash_map_of_failures,
        expected=[f"Refusal('n{number}')" if number % 2 else f"'n{number}'" for number in range(6)],
    ),
    "races": Story(crash_race, expected=[1, "b1!b2b3", 1, "lost", "end"]),
    "timeouts": Story(crash_timeout, expected=["node", "helper", "in time", "attempt"]),
    "children": Story(crash_children, expected=["good", "Refusal", "bad", "again"]),
    "a child left behind": Story(crash_left_child, expected=["quick", "slower"], first_run_only=True),
    "successors left behind": Story(crash_left_successors, expected=["quick", "slower"], first_run_only=True),
    "questions": Story(
        crash_question, expected=["n1", "n2", "n3", True, 7, "end"], answers={"approve": True, "ask": 7}
    ),
    "failure": Story(crash_failure, first_run_only=True),
    "a map of helpers": Story(crash_map, expected=["aa", "bb", "cc", "dd", "ee"]),
    "dice": Story(crash_dice),
    "attributes": Story(crash_attributes, (1,), expected="done"),
    "generations": Story(crash_generations, (2, []), expected=["g2", "g1", "g0"]),
    "large values": Story(crash_large, ("y" * 1_100_000,), expected=[2_200_000, 3_300_000, 2_200_000]),
    "cancelled": Story(crash_cancelled, guest=cancel, first_run_only=True),
    "ended by force": Story(crash_cleaned_up, guest=cancel_by_force, first_run_only=True),
    "cleaned up": Story(crash_cleaned_up, guest=cancel_at_work, first_run_only=True),
    "cleaned up plainly": Story(crash_cleaned_up_plainly, guest=cancel_at_work),
    "retried": Story(
        crash_retried,
        expected=["first", "second", "third", "fourth"],
        guest=retry,
        over=("completed",),
        repeats=2,
    ),
    "deferred": Story(crash_deferred.options(start=False), expected=["first", "second"], guest=begin),
    "held": Story(
        crash_held, expected=["before", "once", "beside", "after"], guest=resume, over=("completed",), repeats=1
    ),
}
TURNS: dict[str, Story] = {
    "turned": Story(
        crash_turned,
        expected=["by hand a2a3", "c1c2c3", 7, "h!", "child", "last", "good"],
        answers={"ask/ask": 7},
        guest=turn,
        over=("completed",),
        repeats=2,
    ),
    "turned at work": Story(
        crash_turned_at_work,
        expected=["first", "second", "y", "last"],
        answers={"ask": 7},
        guest=turn_at_work,
        first_run_only=True,
        repeats=2,
    ),
    "children of a part that was left": Story(
        crash_leaving_children,
        expected=["done", "done"],
        guest=leave_children,
        over=("completed", "cancelled"),
        first_run_only=True,
        repeats=2,
    ),
    "forked": Story(
        crash_forked,
        expected=["a1a2a3", "c1c2c3", 7, "child", "last"],
        answers={"ask": 7},
        guest=fork,
        repeats=1,
    ),
}
"""They make more calls than the others: all points are tried by `make faults`."""
STORIES = [*PARAMETERS, *NASTY]


def story_of(name: str) -> Story:
    return (NASTY | TURNS)[name] if name in NASTY | TURNS else example(name)


# --- the tests ---------------------------------------------------------------------------------------------------------

FACTORIES = {"memory": MemoryStoreFactory, "sqlite": SqliteStoreFactory}
OBJECTS = {"objects": ObjectStoreFactory, "s3": S3StoreFactory}
PARTS = {"memory": 1, "sqlite": 3, "objects": 2, "s3": 6, "postgres": 3}
"""On each kind of store, one of so many parts of the stories is played, chosen by the seed; in `make faults` all of them."""
DEATHS: tuple[Way, ...] = ("die_before", "die_after")
RARER: tuple[Way, ...] = tuple(way for way in WAYS if way not in DEATHS)
WAITING = (
    *("reminder", "approval", "child_runs", "long_living", "retries", "children", "questions", "timeouts", "held"),
    *("cleaned up", "cleaned up plainly"),
)
FAMILIES = (
    "child_runs",
    "children",
    "a child left behind",
    "long_living",
    "generations",
    "cancelled",
    "cleaned up",
    "failure",
)

Faults = Iterator[tuple[Fault, ...]]


def cross(kind: str, name: str, folder: Path, faults: Callable[[int], Faults], concurrency: int = 2000) -> int:
    """Play a story with each of these faults; how many are possible depends on the calls it makes."""
    return cross_at(f"{kind}, {name}", story_of(name), (FACTORIES | OBJECTS)[kind](folder), faults, concurrency)


def cross_at(
    title: str, story: Story, factory: StoreFactory, faults: Callable[[int], Faults], concurrency: int = 2000
) -> int:
    began, points = time.perf_counter(), 0
    with crash_loop(story, factory, concurrency=concurrency) as loop:
        for each in faults(len(loop.whole.calls)):
            points += loop.strike(*each)
    print(f"\n{title}: {points} crash points, {time.perf_counter() - began:.1f} s")
    return points


def on_a_server(name: str, url: str, faults: Callable[[int], Faults]) -> int:
    """On a server, how far the runs come that nobody waits for is by chance, also if nothing happens."""
    story = story_of(name)
    story = replace(story, repeats=story.repeats + story.first_run_only)
    return cross_at(f"postgres, {name}", story, PostgresStoreFactory(url), faults)


def deaths(calls: int) -> Faults:
    return ((Fault(way, call),) for way, call in itertools.product(DEATHS, range(1, calls + 1)))


def others(calls: int) -> Faults:
    return ((Fault(way, call),) for way, call in itertools.product(RARER, range(1, calls + 1)))


def anything(calls: int) -> Faults:
    return itertools.chain(deaths(calls), others(calls))


def some(faults: Callable[[int], Faults], kind: str, name: str, size: int = 0) -> Callable[[int], Faults]:
    """A sample of the points."""
    return lambda calls: iter(sample(list(faults(calls)), size or SAMPLE[kind], f"{kind}, {name}"))


def spots(faults: Callable[[int], Faults], name: str, size: int = 16) -> Callable[[int], Faults]:
    """A sample of the points in memory; all of them in `make faults`."""
    return lambda calls: iter(spot_check(list(faults(calls)), size, name))


def deaths_in_a_row(calls: int, times: int = SAMPLE["memory"]) -> Faults:
    chance = random.Random(f"{seed()} {calls}")
    for _ in range(times):
        yield tuple(Fault(chance.choice(DEATHS), chance.randint(1, calls)) for _ in range(chance.randint(2, 3)))


def played(test: str, *kinds: str) -> list[tuple[str, str]]:
    """The stories that are played on each kind of store."""
    return [(kind, name) for kind in kinds for name in share(STORIES, PARTS[kind], f"{test} on {kind}")]


@pytest.mark.parametrize(("kind", "name"), played("deaths", *FACTORIES))
def test_a_workflow_ends_the_same_wherever_its_process_dies(
    kind: str, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Every point of the examples in memory; a sample of the others, and of the stories and points on SQLite. `make faults`
    tries them all."""
    in_memory = deaths if name in PARAMETERS else spots(deaths, name, 24)
    faults = some(deaths, kind, name) if kind == "sqlite" else in_memory
    record_property(SURVIVED, cross(kind, name, tmp_path, faults))


@pytest.mark.soak
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_on_a_disk_ends_the_same_wherever_its_process_dies(name: str, tmp_path: Path) -> None:
    cross("sqlite", name, tmp_path, deaths)


@pytest.mark.parametrize(("kind", "name"), played("others", *FACTORIES))
def test_a_workflow_ends_the_same_though_answers_are_lost_and_calls_come_twice_or_late(
    kind: str, name: str, tmp_path: Path
) -> None:
    """A sample of the points, and of the stories on SQLite; `make faults` tries them all."""
    cross(kind, name, tmp_path, some(others, kind, name))


@pytest.mark.soak
@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_ends_the_same_whatever_happens_to_any_of_its_calls(kind: str, name: str, tmp_path: Path) -> None:
    cross(kind, name, tmp_path, others)


@pytest.mark.parametrize(("kind", "name"), played("anything", *OBJECTS))
def test_a_workflow_on_objects_ends_the_same_whatever_happens_to_some_of_its_calls(
    kind: str, name: str, tmp_path: Path
) -> None:
    """A sample of the points and of the stories; `make faults` tries them all."""
    cross(kind, name, tmp_path, some(anything, kind, name))


@pytest.mark.soak
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_on_objects_ends_the_same_whatever_happens_to_any_of_its_calls(
    kind: str, name: str, tmp_path: Path
) -> None:
    cross(kind, name, tmp_path, anything)


@pytest.mark.parametrize(("kind", "name"), played("anything", "postgres"))
def test_a_workflow_on_a_server_ends_the_same_whatever_happens_to_some_of_its_calls(
    kind: str, name: str, empty_postgres_url: str
) -> None:
    on_a_server(name, empty_postgres_url, some(anything, kind, name))


@pytest.mark.soak
@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_on_a_server_ends_the_same_whatever_happens_to_any_of_its_calls(
    name: str, empty_postgres_url: str
) -> None:
    on_a_server(name, empty_postgres_url, anything)


@pytest.mark.parametrize("name", STORIES)
def test_a_workflow_ends_the_same_though_several_processes_die_one_after_the_other(name: str, tmp_path: Path) -> None:
    cross("memory", name, tmp_path, deaths_in_a_row)


@pytest.mark.soak
@pytest.mark.parametrize("name", [*STORIES, *TURNS])
def test_a_workflow_ends_the_same_though_processes_die_again_and_again(name: str, tmp_path: Path) -> None:
    cross("memory", name, tmp_path, lambda calls: deaths_in_a_row(calls, 100))


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("name", WAITING)
def test_a_workflow_that_is_given_back_whenever_it_waits_ends_the_same_wherever_its_process_dies(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a worker that has too many runs to keep those that only wait in memory."""
    monkeypatch.setattr(worker, "MAX_IDLE_RUNS", 0)
    monkeypatch.setattr(driver, "SOON_US", 0)
    cross(kind, name, tmp_path, spots(deaths, name) if kind == "memory" else some(deaths, kind, name))


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("name", TURNS)
def test_a_run_in_which_somebody_goes_back_ends_the_same_wherever_its_process_dies(
    kind: str, name: str, tmp_path: Path
) -> None:
    """A sample of the points."""
    cross(kind, name, tmp_path, some(deaths, kind, name))


@pytest.mark.soak
@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("name", TURNS)
def test_a_run_in_which_somebody_goes_back_ends_the_same_at_every_point(kind: str, name: str, tmp_path: Path) -> None:
    cross(kind, name, tmp_path, deaths)


@pytest.mark.parametrize("name", TURNS)
def test_a_run_in_which_somebody_goes_back_ends_the_same_whatever_happens(name: str, tmp_path: Path) -> None:
    """Answers are lost, calls come twice or late, or several processes die one after the other."""
    cross("memory", name, tmp_path, some(others, "memory", name))
    cross("memory", name, tmp_path, lambda calls: deaths_in_a_row(calls, 10))


@pytest.mark.soak
@pytest.mark.parametrize("name", TURNS)
def test_a_run_in_which_somebody_goes_back_ends_the_same_whatever_happens_to_any_call(
    name: str, tmp_path: Path
) -> None:
    cross("memory", name, tmp_path, others)


@pytest.mark.parametrize("kind", FACTORIES)
def test_children_of_a_part_that_was_left_are_cancelled_wherever_the_process_dies(kind: str, tmp_path: Path) -> None:
    """P1: BranchOpened names them, and whoever owns the run next cancels them."""
    story = story_of("children of a part that was left")
    with crash_loop(story, FACTORIES[kind](tmp_path)) as loop:
        name = "children of a part that was left"
        faults = spots(deaths, name) if kind == "memory" else some(deaths, kind, name)
        for each in faults(len(loop.whole.calls)):
            seen = loop.play(*each)
            loop.judge(seen, *each)
            ended = Counter(log.status for run, log in seen.runs.items() if run != RUN)
            assert ended["cancelled"] == 3, (each, ended)


@pytest.mark.parametrize("name", FAMILIES)
def test_runs_of_a_worker_that_has_room_for_two_end_the_same_wherever_its_process_dies(
    name: str, tmp_path: Path
) -> None:
    """Children and successors then wait for their turn in the store."""
    cross("memory", name, tmp_path, spots(deaths, name), concurrency=2)


def test_every_example_has_its_crash_points() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"one_run"}
    assert names == set(PARAMETERS)


# --- the judge can say no ----------------------------------------------------------------------------------------------


class Forgetful(MemoryStore):
    """Answers without keeping the third append."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        log = self.memory.logs.get(RUN, [])
        outcomes = await super().append(batch)
        if len(log) == 3:
            self.memory.logs[RUN] = log[:2]
        return outcomes


class ForgetfulStoreFactory(MemoryStoreFactory):
    def open(self) -> Store:
        return Forgetful(self.memory)


def test_the_loop_notices_a_store_that_answers_without_keeping(tmp_path: Path) -> None:
    """P1."""

    def any_point() -> None:
        with crash_loop(example("first_workflow"), ForgetfulStoreFactory(tmp_path)) as loop:
            for call in range(1, 10):
                loop.strike(Fault("die_after", call))

    with pytest.raises((AssertionError, OutlastError)):
        any_point()


class Unfenced(MemoryStore):
    """Accepts the append of an owner whose run was taken over."""

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        moved = []
        for each in batch:
            head, record = self.memory.heads.get(each.record.run), each.record
            if head is not None and record.kind is Kind.OWNER and head.version >= record.first:
                first = head.version + 1
                each = replace(
                    each,
                    record=replace(record, first=first),
                    head=replace(each.head, version=first + record.count - 1),
                )
                self.memory.heads[record.run] = replace(head, epoch=record.epoch)
            moved.append(each)
        return await super().append(moved)


class UnfencedStoreFactory(MemoryStoreFactory):
    def open(self) -> Store:
        return Unfenced(self.memory)


def test_the_loop_notices_a_store_that_forgets_the_epoch(tmp_path: Path) -> None:
    """P3."""

    def any_point() -> None:
        with crash_loop(example("first_workflow"), UnfencedStoreFactory(tmp_path)) as loop:
            for call in range(1, len(loop.whole.calls) + 1):
                loop.strike(Fault("late", call))

    with pytest.raises((AssertionError, OutlastError)):
        any_point()


def test_the_loop_notices_a_node_that_is_done_again(tmp_path: Path) -> None:
    with crash_loop(example("first_workflow"), MemoryStoreFactory(tmp_path)) as loop:
        seen = loop.play()
    made = next(iter(seen.world.attempts))
    seen.world.attempts[made._replace(attempt=2)] = 1
    with pytest.raises(AssertionError, match="is not in the log"):
        compare(seen.world, seen.runs)
    seen.runs[RUN].started.add((made.node, 2, 0))
    with pytest.raises(AssertionError, match="though it completed"):
        compare(seen.world, seen.runs)


def begun_again(seen: Round, made: Attempted, attempts: int) -> None:
    """As if the engine had given up and begun the node so often, and its log told of it."""
    log, key = seen.runs[RUN], (made.node, made.generation)
    for attempt in range(1, attempts + 1):
        seen.world.attempts[made._replace(attempt=attempt)] = 1
        log.started.add((made.node, attempt, made.generation))
    log.completed[key] = attempts, 99


def test_the_loop_notices_a_node_that_is_interrupted_though_no_process_died(tmp_path: Path) -> None:
    with crash_loop(example("first_workflow"), MemoryStoreFactory(tmp_path)) as loop:
        seen = loop.play()
        begun_again(seen, next(iter(seen.world.attempts)), 2)
        with pytest.raises(AssertionError, match="was executed too often: 1 beyond"):
            loop.judge(seen)


def test_the_loop_notices_that_of_a_node_which_the_undisturbed_round_did_not_begin(tmp_path: Path) -> None:
    with crash_loop(example("first_workflow"), MemoryStoreFactory(tmp_path)) as loop:
        seen = loop.play()
        begun_again(seen, Attempted(RUN, "another", 1), 2)
        with pytest.raises(AssertionError, match="was executed too often: 1 beyond"):
            loop.judge(seen)


def test_the_loop_does_not_take_attempts_after_failures_for_interruptions(tmp_path: Path) -> None:
    """Where the undisturbed round does not tell how often the node has to be executed."""
    with crash_loop(example("first_workflow"), MemoryStoreFactory(tmp_path)) as loop:
        seen = loop.play()
        begun_again(seen, Attempted(RUN, "another", 1), 3)
        seen.runs[RUN].retried["another"] = 2
        loop.judge(seen)
