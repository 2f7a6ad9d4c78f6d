"""What is easily got wrong is said where it went wrong, and by name."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

import outlast as ol
from outlast.functions.dry_replay import dry_run
from outlast.history import events as e
from outlast.values.source_location import shown
from outlast.values.tracebacks import REMOTE

fetching: Any = None
"""A library that connects; a fixture installs it."""


def line_of(fn: Callable[..., Any], text: str) -> str:
    """`/path/file.py:12` of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(fn)
    return f"{__file__}:{first + next(at for at, line in enumerate(lines) if text in line)}"


@ol.node
async def plus_one(number: int) -> int:
    return number + 1


async def came_to(stage: Any, workflow: Any) -> Any:
    engine = await stage.engine()
    return await asyncio.wait_for((await engine.start(workflow)).result(), 8)


async def test_a_call_that_was_given_up_on_purpose_is_no_mistake(stage: Any) -> None:
    @ol.workflow
    async def careful() -> int:
        plus_one(1).close()
        ol.gather(plus_one(1)).close()
        ol.map(plus_one, [1]).close()
        task = asyncio.create_task(plus_one(1))  # type: ignore[arg-type]
        task.cancel()
        await asyncio.wait([task])
        won = await ol.race(plus_one(2), plus_one(2))
        return sum(await ol.gather(plus_one(3), plus_one(4))) + won.value

    assert await came_to(stage, careful) == 12


async def test_a_call_that_is_returned_wants_to_be_awaited(stage: Any) -> None:
    @ol.workflow
    async def returning() -> int:
        return plus_one(1)  # type: ignore[return-value]

    with pytest.raises(ol.Unawaited, match=r"returned the call of plus_one \(.*test_mistakes.py:\d+\).*`return await`"):
        await came_to(stage, returning)


@ol.workflow
async def tiny_child(number: int) -> int:
    return number


MISFITS: dict[str, tuple[type[Exception], Callable[[], Any], str]] = {
    "unknown": (TypeError, lambda: plus_one(1, more=2), r"plus_one\(\) got an unexpected keyword argument 'more'"),  # type: ignore[call-arg]
    "missing": (TypeError, lambda: plus_one(), r"plus_one\(\) missing a required argument: 'number'"),  # type: ignore[call-arg]
    "too many": (TypeError, lambda: plus_one(1, 2), r"plus_one\(\) too many positional arguments"),  # type: ignore[call-arg]
    "mistyped": (ol.NotStorable, lambda: plus_one("one"), r"plus_one\(number\): str cannot be stored"),  # type: ignore[arg-type]
    "mistyped by name": (ol.NotStorable, lambda: plus_one(number="one"), r"plus_one\(number\): str cannot be stored"),  # type: ignore[arg-type]
    "mapped": (ol.NotStorable, lambda: ol.map(plus_one, ["one"]), r"plus_one\(number\): str cannot be stored"),  # type: ignore[list-item]
    "child": (TypeError, lambda: tiny_child(), r"tiny_child\(\) missing a required argument: 'number'"),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("misfit", list(MISFITS))
async def test_arguments_that_do_not_fit_are_named_with_the_signature_and_the_line(stage: Any, misfit: str) -> None:
    kind, call, told = MISFITS[misfit]

    @ol.workflow
    async def calling() -> Any:
        return await call()

    with pytest.raises(kind, match=told) as caught:
        await came_to(stage, calling)
    name = "tiny_child" if misfit == "child" else "plus_one"
    line = line_of(calling.fn, "await call()") if misfit == "mapped" else shown((call.__code__, 0))
    assert str(caught.value).startswith(f"{line}: ")
    assert str(caught.value).endswith(f"; the signature is {name}(number: int) -> int")


# --- what is called where it cannot be -----------------------------------------------------------------------------------


@ol.node(retry=3)
async def calling_a_node() -> int:
    calls.append("async")
    return await plus_one(1)


@ol.node(retry=3)
def calling_a_node_in_a_thread() -> int:
    calls.append("plain")
    return plus_one(1).wait()


@ol.node(retry=3)
async def calling_a_workflow() -> int:
    calls.append("child")
    return await tiny_child(1)


@ol.node(retry=3)
async def sleeping() -> None:
    calls.append("sleep")
    await ol.sleep(1)


calls: list[str] = []


@pytest.mark.parametrize(
    ("node", "line", "told"),
    [
        (calling_a_node, "plus_one(1)", "node calling_a_node calls node plus_one"),
        (calling_a_node_in_a_thread, "plus_one(1)", "node calling_a_node_in_a_thread calls node plus_one"),
        (calling_a_workflow, "tiny_child(1)", "node calling_a_workflow calls workflow tiny_child"),
        (sleeping, "ol.sleep(1)", r"sleep\(\) is called in node sleeping"),
    ],
    ids=["node", "node in a thread", "workflow", "verb"],
)
async def test_what_belongs_in_a_workflow_is_refused_in_a_node_at_once_with_the_line(
    stage: Any, node: Any, line: str, told: str
) -> None:
    calls.clear()

    @ol.workflow
    async def nesting() -> Any:
        return await node()

    with pytest.raises(ol.NotDurable, match=told) as caught:
        await came_to(stage, nesting)
    assert str(caught.value).startswith(f"{line_of(node.fn, line)}: ")
    assert len(calls) == 1, "another attempt cannot cure it"


def test_what_is_called_outside_a_workflow_is_refused_with_the_line() -> None:
    for call in (lambda: plus_one(1), lambda: tiny_child(1), lambda: ol.sleep(1), lambda: ol.checkpoint(1)):
        with pytest.raises(ol.NotDurable, match="outside a") as caught:
            call()
        assert str(caught.value).startswith(f"{shown((call.__code__, 0))}: ")


@pytest.mark.parametrize("decorate", [ol.node, ol.workflow], ids=["node", "workflow"])
def test_a_method_is_refused_where_it_is_decorated(decorate: Callable[[Any], Any]) -> None:
    with pytest.raises(ol.InvalidInput, match=r"test_mistakes.py:\d+: .*Shop.order is a method") as caught:

        class Shop:
            @decorate
            async def order(self, number: int) -> int:
                return number

    assert "parameters" in str(caught.value)


def test_a_function_within_a_method_and_a_static_one_may_be_decorated() -> None:
    class Shop:
        @staticmethod
        @ol.node
        async def order(number: int) -> int:
            return number

        def made(self) -> Any:
            @ol.node
            async def inner(self: int) -> int:
                return self

            return inner

    assert Shop().made().name == "inner"
    assert Shop.order.name == "order"  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["retry_on", "give_up_on"])
def test_a_function_in_the_place_of_classes_of_errors_is_refused_with_what_to_give(option: str) -> None:
    given: dict[str, Any] = {option: str.isalpha}
    with pytest.raises(
        ol.InvalidInput, match=rf"{option} takes exception classes, not a function: for example {option}=\(Conn"
    ):
        ol.Retry(**given)
    for odd in ("ConnectionError", 5, None, [ValueError, "x"]):
        with pytest.raises(ol.InvalidInput, match=f"{option} takes exception classes"):
            ol.Retry(**{option: odd})  # type: ignore[arg-type]


# --- what never ends ----------------------------------------------------------------------------------------------------


async def test_a_workflow_that_waits_for_what_nothing_sets_fails_with_the_line(stage: Any) -> None:
    @ol.workflow
    async def waiting() -> int:
        queue: asyncio.Queue[int] = asyncio.Queue()
        await plus_one(1)
        return await queue.get()

    with pytest.raises(ol.NotDurable, match="nothing will set") as caught:
        await came_to(stage, waiting)
    assert f"waits at {line_of(waiting.fn, 'queue.get()')} for" in str(caught.value)


async def test_a_workflow_that_waits_for_a_thread_fails_with_the_line_and_the_thread_without_a_word(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cried: list[Any] = []
    others = set(threading.enumerate())
    monkeypatch.setattr(threading, "excepthook", cried.append)

    @ol.workflow
    async def waiting_for_a_thread() -> int:
        return await anyio.to_thread.run_sync(int)

    with pytest.raises(ol.NotDurable, match="nothing will set") as caught:
        await came_to(stage, waiting_for_a_thread)
    assert line_of(waiting_for_a_thread.fn, "run_sync") in str(caught.value)
    for thread in set(threading.enumerate()) - others:
        if thread.name == "AnyIO worker thread":
            await asyncio.to_thread(thread.queue.put, None)  # type: ignore[attr-defined]
            await asyncio.to_thread(thread.join)
    assert not cried


async def test_every_task_that_waits_for_what_nothing_sets_is_named(stage: Any) -> None:
    @ol.workflow
    def waiting() -> None:
        event = asyncio.Event()

        async def helper() -> None:
            await event.wait()

        ol.gather(helper(), plus_one(1)).wait()

    with pytest.raises(ol.NotDurable, match="nothing will set") as caught:
        await came_to(stage, waiting)
    assert line_of(waiting.fn, "event.wait()") in str(caught.value)


async def test_a_workflow_that_loops_without_waiting_is_named_with_the_line(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.functions.loop._QUIET_AFTER", 1000)

    @ol.workflow
    async def looping() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(ol.NotDurable, match="without awaiting a node") as caught:
        await came_to(stage, looping)
    assert f"loops at {line_of(looping.fn, 'asyncio.sleep')} without" in str(caught.value)


# --- what a workflow cannot use -----------------------------------------------------------------------------------------


async def get_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(get())


async def get() -> None:
    await fetching.get_by_name()


async def fetch_in_a_group() -> None:
    await fetching.get_by_address()


@pytest.fixture
def _a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client library, installed: it connects in tasks of an anyio group, as httpx does."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "fetching.py").write_text(
        "import anyio, asyncio\n"
        "async def get_by_name():\n"
        "    await asyncio.get_running_loop().getaddrinfo('localhost', 9)\n"
        "async def get_by_address():\n"
        "    async with anyio.create_task_group() as group:\n"
        "        group.start_soon(connect)\n"
        "async def connect():\n"
        "    await asyncio.open_connection('127.0.0.1', 9)\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(globals(), "fetching", importlib.import_module("fetching"))


@pytest.mark.parametrize(
    ("body", "line"),
    [(get, "get_by_name"), (get_in_a_group, ""), (fetch_in_a_group, "get_by_address")],
    ids=["at once", "in a group", "in a group of the library"],
)
@pytest.mark.usefixtures("_a_library")
async def test_a_library_that_a_workflow_cannot_use_is_named_with_the_line_and_in_no_group(
    stage: Any, body: Any, line: str
) -> None:
    @ol.workflow
    async def using() -> None:
        await body()

    engine = await stage.engine()
    handle = await engine.start(using)
    with pytest.raises(ol.NotDurable) as caught:
        await handle.result()
    place = line_of(body, line) if line else line_of(get, "get_by_name")
    assert str(caught.value).startswith(f"{place}: a workflow cannot use fetching (")
    assert (await dry_run(engine._store, handle.run, using)).agrees


async def test_tasks_timeouts_and_events_of_anyio_work_in_a_workflow(stage: Any) -> None:
    @ol.workflow
    async def grouped() -> list[int]:
        results: list[int] = []
        is_second = anyio.Event()

        async def each(number: int) -> None:
            if number == 1:
                await is_second.wait()
            await anyio.sleep(0.01)
            results.append(await plus_one(number))
            is_second.set()

        async with anyio.create_task_group() as group:
            group.start_soon(each, 1)
            group.start_soon(each, 2)
        with anyio.move_on_after(0.01):
            await ol.ask("Never?")
        return results

    engine = await stage.engine()
    handle = await engine.start(grouped)
    assert await handle.result() == [3, 2]
    assert (await dry_run(engine._store, handle.run, grouped)).agrees


# --- tracebacks ---------------------------------------------------------------------------------------------------------


@ol.node
async def broken() -> None:
    try:
        deep()
    except KeyError as error:
        raise ValueError("shallow") from error


@ol.node
def broken_in_a_thread() -> None:
    try:
        deep()
    except KeyError as error:
        raise ValueError("shallow") from error


def deep() -> None:
    raise KeyError("deep")


@ol.workflow
async def breaking_child() -> None:
    await broken()


@pytest.mark.parametrize("call", [broken, broken_in_a_thread, breaking_child], ids=["loop", "thread", "child"])
async def test_the_traceback_of_a_run_has_the_users_frames_once_from_the_workflow_into_the_node(
    stage: Any, call: Any
) -> None:
    stage.know({"breaking_child": breaking_child})

    @ol.workflow
    async def outer() -> None:
        await helper()

    async def helper() -> None:
        await call()

    engine = await stage.engine()
    handle = await engine.start(outer)
    with pytest.raises(ValueError, match="shallow") as caught:
        await handle.result()
    (failed,) = [event for event in await stage.events(engine, handle.run) if isinstance(event, e.RunFailed)]
    trace = failed.error.trace
    frames = re.findall(r", in (\w+)\n", trace)
    node = "broken" if call is breaking_child else call.name
    through = ["breaking_child"] if call is breaking_child else []
    assert frames == [node, "deep", "outer", "helper", *through, node]
    assert trace.count("KeyError: 'deep'") == trace.count("ValueError: shallow") == trace.count("direct cause") == 1
    assert "src/outlast" not in trace
    assert REMOTE not in trace
    assert caught.value.__notes__ == [f"{REMOTE}\n{trace}"]
    own = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "/outlast/" in frame.filename]
    assert len(own) == 1


async def test_a_cause_comes_back_to_workflow_code_live_and_in_a_replay(stage: Any) -> None:
    @ol.workflow
    async def looking() -> str:
        try:
            await broken()
        except ValueError as error:
            return f"{error!r} from {error.__cause__!r} {await ol.ask('Go on?')}"
        return ""

    engine = await stage.engine()
    handle = await engine.start(looking)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await stage.crash(engine)
    engine = await stage.engine()
    await engine.answer(handle.run, "yes")
    assert await (await engine.handle(handle.run)).result() == "ValueError('shallow') from KeyError('deep') yes"


# --- what changed -------------------------------------------------------------------------------------------------------


async def test_a_divergence_names_the_line_of_what_the_code_asks_for(stage: Any) -> None:
    @ol.workflow
    async def before() -> str:
        await plus_one(1)
        return await ol.ask("Go on?")

    @ol.workflow
    async def after() -> str:
        await plus_one(2)
        return await ol.ask("Go on?")

    @ol.workflow
    async def other() -> str:
        await ol.sleep(1)
        return await ol.ask("Go on?")

    engine = await stage.engine()
    handle = await engine.start(before)
    await stage.until(engine, handle.run, e.InteractionRequested)
    found = await dry_run(engine._store, handle.run, after)
    assert f"than the code passes now ({line_of(after.fn, 'plus_one(2)')})" in str(found.divergence)
    found = await dry_run(engine._store, handle.run, other)
    assert f"the code asked for timer 'sleep' ({line_of(other.fn, 'ol.sleep(1)')})" in str(found.divergence)


async def test_retries_of_one_call_may_be_a_number_as_those_of_a_node(stage: Any) -> None:
    @ol.node
    async def second_time() -> int:
        if ol.context().attempt < 2:
            raise ConnectionError
        return ol.context().attempt

    @ol.workflow
    async def trying() -> int:
        return await second_time.options(retry=2)()

    assert await came_to(stage, trying) == 2


async def test_a_duration_may_be_a_timedelta_wherever_seconds_are_given(stage: Any) -> None:
    @ol.node(timeout=timedelta(milliseconds=20), retry=ol.Retry(2, delay=timedelta(milliseconds=1)))
    async def slow() -> None:
        await asyncio.sleep(60)

    @ol.workflow
    async def waiting() -> str:
        await ol.sleep(timedelta(milliseconds=1))
        for node in (slow, slow.options(timeout=timedelta(milliseconds=10))):
            with pytest.raises(TimeoutError):
                await node()
        return await ol.ask("Go on?")

    engine = await stage.engine(claim=timedelta(seconds=30), grace=timedelta(seconds=5))
    handle = await engine.start(waiting)
    await stage.until(engine, handle.run, e.InteractionRequested)
    with pytest.raises(ol.StillRunning, match=r"within 0.01 s"):
        await handle.result(timeout=timedelta(milliseconds=10))
    for odd in ("5", True, [1]):
        with pytest.raises(ol.InvalidInput, match="timeout must be a number of seconds or a timedelta"):
            ol.node(timeout=odd)(plus_one.fn)  # type: ignore[call-overload]


@pytest.mark.parametrize("retry", ["often", 2.5, True, ol.Retry])
def test_retries_that_are_no_policy_are_refused_where_they_are_written(retry: Any) -> None:
    """They came up only when a node failed, and then its run hung."""
    with pytest.raises(ol.InvalidInput, match="a number of attempts or a Retry"):
        plus_one.options(retry=retry)
    with pytest.raises(ol.InvalidInput, match="a number of attempts or a Retry"):
        ol.node(retry=retry)(plus_one.fn)


def test_what_may_be_used_instead_of_an_annotation_is_named() -> None:
    from outlast.values.codec import encode

    with pytest.raises(ol.NotStorable, match=r"Counter.* use a dataclass.* dicts"):
        encode(Counter("aab"), Counter[str])
