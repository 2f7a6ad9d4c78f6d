"""A forgotten `await` is an error with a file and a line, and never silence."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.errors import InvalidInput, NotStorable
from outlast.settings import read_settings


@ol.node
async def plus_one(number: int) -> int:
    return number + 1


@ol.workflow
async def small_child(number: int = 0) -> int:
    return await plus_one(number)


async def came_to(stage: Any, workflow: Any, *args: Any, **options: Any) -> Any:
    engine = await stage.engine(**options)
    return await asyncio.wait_for((await engine.start(workflow, *args)).result(), 8)


def line_of(fn: Callable[..., Any], text: str) -> str:
    """`/path/file.py:12` of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(fn)
    return f"{__file__}:{first + next(at for at, line in enumerate(lines) if text in line)}"


CALLS: dict[str, Callable[[], Any]] = {
    "node": lambda: plus_one(1),
    "child": lambda: small_child(1),
    "sleep": lambda: ol.sleep(1),
    "ask": lambda: ol.ask("Who?"),
    "approve": lambda: ol.approve("Pay?"),
    "gather": lambda: ol.gather(plus_one(1)),
    "race": lambda: ol.race(plus_one(1)),
    "map": lambda: ol.map(plus_one, [1]),
}
USES: dict[str, Callable[[Any], Any]] = {
    "truth": lambda call: "yes" if call else "no",
    "not": lambda call: not call,
    "==": lambda call: call == 1,
    "!=": lambda call: call != 1,
    "<": lambda call: call < 1,
    ">=": lambda call: call >= 1,
    "in": lambda call: 1 in call,
    "len": len,
    "index": lambda call: call[0],
    "str": str,
    "f-string": lambda call: f"{call}",
    "int": int,
    "float": float,
    "+": lambda call: call + 1,
    "+ reversed": lambda call: 1 + call,
    "for": list,
}


@pytest.mark.parametrize("use", list(USES))
@pytest.mark.parametrize("kind", list(CALLS))
async def test_a_call_used_as_if_it_were_its_result_is_refused_where_that_is_written(
    stage: Any, kind: str, use: str
) -> None:
    if (kind, use) == ("map", "for"):
        pytest.skip("a plain workflow iterates over a map")

    @ol.workflow
    async def hasty() -> str:
        call = CALLS[kind]()
        return str(USES[use](call))

    with pytest.raises(ol.Unawaited, match="await") as caught:
        await came_to(stage, hasty)
    assert f"{__file__}:" in str(caught.value)


async def test_a_question_that_nobody_awaited_pays_nothing(stage: Any) -> None:
    paid = []

    @ol.node
    async def pay() -> None:
        paid.append(1)

    @ol.workflow
    async def paying() -> None:
        if ol.approve("Pay?"):
            await pay()

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, paying)
    assert line_of(paying.fn, "if ol.approve") in str(caught.value)
    assert not paid


async def test_calls_keep_their_place_in_sets_and_dicts(stage: Any) -> None:
    @ol.workflow
    async def keeping() -> list[int]:
        first, second = plus_one(1), plus_one(2)
        of = {first: 1, second: 2}
        assert of[first] == 1
        assert second in {first, second}
        return [await first, await second]

    assert await came_to(stage, keeping) == [2, 3]


async def test_a_run_that_ends_with_calls_never_awaited_fails_and_names_each(stage: Any) -> None:
    @ol.workflow
    async def hasty() -> int:
        plus_one(1)
        kept = plus_one(3)
        ol.gather(plus_one(4))
        ol.map(plus_one, [5])
        small_child(6)
        assert kept is not None
        return await plus_one(2)

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, hasty)
    said = str(caught.value)
    for name, text in {
        "plus_one": "plus_one(1)",
        "plus_one#2": "kept = ",
        "gather": "ol.gather",
        "plus_one#3": "ol.gather",
        "map of plus_one#4": "ol.map",
        "child": "small_child(6)",
    }.items():
        assert f"{name} ({line_of(hasty.fn, text)})" in said, (name, said)


@pytest.mark.parametrize("is_annotated", [True, False])
@pytest.mark.parametrize("kind", list(CALLS))
async def test_a_call_within_a_returned_value_is_named_with_its_place(
    stage: Any, kind: str, is_annotated: bool
) -> None:
    async def hasty() -> Any:
        call = CALLS[kind]()
        return {"of": [1, (2, call)]}

    if is_annotated:
        hasty.__annotations__["return"] = dict[str, list[Any]]
    with pytest.raises(NotStorable, match="await it, and store its result") as caught:
        await came_to(stage, ol.workflow(hasty))
    said = str(caught.value)
    assert 'result["of"][1][1]: the call of ' in said
    assert f"({__file__}:{CALLS[kind].__code__.co_firstlineno})" in said


async def test_a_call_within_a_list_of_another_type_or_the_parameters_of_a_node_is_named_too(stage: Any) -> None:
    @ol.node
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @ol.workflow
    async def hasty(is_given: bool) -> list[int]:
        call = plus_one(1)
        return [await total([call])] if is_given else [call]  # type: ignore[list-item]

    for is_given in (True, False):
        with pytest.raises(NotStorable) as caught:
            await came_to(stage, hasty, is_given)
        assert f"the call of plus_one ({line_of(hasty.fn, 'call = plus_one')})" in str(caught.value)


async def test_a_plain_workflow_that_never_waited_for_a_call_fails(stage: Any) -> None:
    @ol.workflow
    def hasty() -> int:
        plus_one(1)
        return plus_one(2).wait()

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, hasty)
    assert f"plus_one ({line_of(hasty.fn, 'plus_one(1)')})" in str(caught.value)


async def test_a_call_that_an_exception_keeps_alive_is_found_too(stage: Any) -> None:
    @ol.workflow
    async def hasty() -> int:
        kept = plus_one(1)
        try:
            raise ValueError
        except ValueError as error:
            ring = [error, kept]
            ring.append(ring)  # type: ignore[arg-type]
        return await plus_one(2)

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, hasty)
    assert line_of(hasty.fn, "kept = ") in str(caught.value)


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_task_that_nobody_awaited_fails_the_run(stage: Any, is_over: bool) -> None:
    async def helper() -> int:
        return await plus_one(1)

    @ol.workflow
    async def hasty() -> int:
        task = asyncio.create_task(helper())
        while is_over and not task.done():
            await plus_one(3)
        return await plus_one(2)

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, hasty)
    assert line_of(hasty.fn, "create_task") in str(caught.value)
    assert "helper" in str(caught.value)


def joined_by_gather(*calls: Any) -> Any:
    return asyncio.gather(*calls)


def joined_by_a_gather_of_a_gather(*calls: Any) -> Any:
    return asyncio.gather(asyncio.gather(*calls), plus_one(7))


def joined_by_a_gather_of_tasks(*calls: Any) -> Any:
    return asyncio.gather(*[asyncio.create_task(each) for each in calls], return_exceptions=True)


def joined_by_shields(*calls: Any) -> Any:
    return asyncio.gather(*[asyncio.shield(each) for each in calls])


JOINTS = [joined_by_gather, joined_by_a_gather_of_a_gather, joined_by_a_gather_of_tasks, joined_by_shields]


@pytest.mark.parametrize("waits", [0, 1, 4])
@pytest.mark.parametrize("joined", JOINTS)
async def test_what_asyncio_joins_fails_the_run_if_nobody_awaits_it(stage: Any, joined: Any, waits: int) -> None:
    """Whether it is over by the end of the run or not."""

    @ol.workflow
    async def hasty() -> None:
        joined(plus_one(1), plus_one(2))
        for number in range(waits):
            await plus_one(number)

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, hasty)
    said = str(caught.value)
    place = line_of(joined, "return")
    assert f"plus_one ({place})" in said
    assert f"plus_one#2 ({place})" in said


@pytest.mark.parametrize("joined", JOINTS)
async def test_what_asyncio_joins_is_no_mistake_if_it_is_awaited_at_once_or_later_or_watched(
    stage: Any, joined: Any
) -> None:
    @ol.workflow
    async def careful() -> int:
        await joined(plus_one(1), plus_one(2))
        later = joined(plus_one(1), plus_one(2))
        over = joined(plus_one(1), plus_one(2))
        while not over.done():
            await plus_one(0)
        await later
        over.result()
        joined(plus_one(1), plus_one(2)).add_done_callback(lambda _: None)
        joined(plus_one(1), plus_one(2)).cancel()
        await asyncio.wait_for(joined(plus_one(1), plus_one(2)), 60)
        await asyncio.wait([joined(plus_one(1), plus_one(2))])
        done = [asyncio.create_task(plus_one(1)), asyncio.create_task(plus_one(2))]
        while not all(each.done() for each in done):
            await plus_one(0)
        return sum(await asyncio.gather(*done))

    assert await came_to(stage, careful) == 5


async def test_a_shield_that_nobody_awaits_fails_the_run(stage: Any) -> None:
    @ol.workflow
    async def hasty() -> int:
        asyncio.shield(plus_one(1))
        return await plus_one(2)

    with pytest.raises(ol.Unawaited) as caught:
        await came_to(stage, hasty)
    assert f"plus_one ({line_of(hasty.fn, 'shield')})" in str(caught.value)


async def test_thousands_of_gathers_are_not_kept_in_memory(stage: Any) -> None:
    from outlast.functions.scope import require_scope

    @ol.workflow
    async def many() -> int:
        for number in range(200):
            await asyncio.gather(plus_one(number), plus_one(number))
        return len(require_scope("this").code._loop._tasks)

    assert await came_to(stage, many) < 100


async def test_tasks_that_somebody_looks_after_are_no_mistake(stage: Any) -> None:
    async def helper(number: int = 1) -> int:
        return await plus_one(number)

    @ol.workflow
    async def careful() -> int:
        awaited = asyncio.create_task(helper())
        over = asyncio.create_task(helper())
        watched: set[asyncio.Task[int]] = set()
        watched.add(asyncio.create_task(helper()))
        for each in watched:
            each.add_done_callback(lambda _: None)
        given_up = asyncio.create_task(helper())
        given_up.cancel()
        async with asyncio.TaskGroup() as group:
            group.create_task(helper())
        await asyncio.wait([asyncio.create_task(helper())])
        await ol.race(helper(), helper())
        await ol.map(helper, [1, 2])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ol.sleep(60)
        await asyncio.wait_for(helper(), 60)
        while not over.done():
            await plus_one(0)
        return over.result() + await awaited

    assert await came_to(stage, careful) == 4


async def test_what_a_cancelled_side_of_a_race_had_not_come_to_await_is_no_mistake(stage: Any) -> None:
    async def slow() -> int:
        later = plus_one(1)
        await ol.sleep(60)
        return await later

    @ol.workflow
    async def racing() -> int:
        return (await ol.race(slow(), plus_one(2))).value

    assert await came_to(stage, racing) == 3


async def test_code_that_raised_reports_its_own_error(stage: Any) -> None:
    @ol.workflow
    async def failing() -> int:
        later = plus_one(1)
        raise LookupError("no such thing")
        return await later

    with pytest.raises(LookupError, match="no such thing"):
        await came_to(stage, failing)


async def test_a_run_that_continues_with_calls_never_awaited_warns_and_continues(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Once continue_as_new was called, the successor is the outcome."""

    @ol.workflow
    async def chain(left: int = 1) -> int:
        if left:
            plus_one(left)
            await ol.continue_as_new(left - 1)
        return left

    assert await came_to(stage, chain) == 0
    assert line_of(chain.fn, "plus_one(left)") in caplog.text


async def test_the_run_may_be_warned_of_instead_and_completes(stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    @ol.workflow
    async def hasty() -> int:
        plus_one(1)
        return await plus_one(2)

    assert await came_to(stage, hasty.options(id="it"), unawaited="warn") == 3
    warned = [record.getMessage() for record in caplog.records if "never awaited" in record.getMessage()]
    assert len(warned) == 1
    assert "run it" in warned[0]
    assert f"plus_one ({line_of(hasty.fn, 'plus_one(1)')})" in warned[0]


async def test_a_run_that_failed_over_it_completes_when_it_is_resumed_with_a_warning(stage: Any) -> None:
    @ol.workflow
    async def hasty() -> int:
        plus_one(1)
        return await plus_one(2)

    engine = await stage.engine()
    handle = await engine.start(hasty)
    with pytest.raises(ol.Unawaited):
        await handle.result()
    from outlast.functions.dry_replay import dry_run

    assert (await dry_run(engine._store, handle.run, hasty)).agrees
    await stage.close(engine)
    engine = await stage.engine(unawaited="warn")
    await engine.resume(handle.run)
    assert await (await engine.handle(handle.run)).result() == 3


def test_the_setting_is_fail_unless_somebody_says_warn(tmp_path: Path) -> None:
    assert read_settings(environment={}, start=tmp_path).unawaited == "fail"
    (tmp_path / "outlast.toml").write_text('unawaited = "warn"\n')
    assert read_settings(environment={}, start=tmp_path).unawaited == "warn"
    with pytest.raises(InvalidInput, match="fail or warn"):
        read_settings({"unawaited": "shout"}, environment={}, start=tmp_path)


FLOWS = """
    import outlast as ol

    @ol.node
    async def plus_one(number: int) -> int:
        return number + 1

    @ol.workflow
    async def hasty() -> int:
        plus_one(1)
        return await plus_one(2)

    if __name__ == "__main__":
        print(ol.run(hasty))
"""


@pytest.mark.parametrize("setting", ["fail", "warn"])
@pytest.mark.parametrize("how", [["-m", "outlast", "run", "flows.py:hasty"], ["flows.py"]], ids=["cli", "script"])
def test_it_is_seen_on_stderr_of_a_command_and_of_a_plain_script(tmp_path: Path, how: list[str], setting: str) -> None:
    (tmp_path / "flows.py").write_text(textwrap.dedent(FLOWS))
    (tmp_path / "outlast.toml").write_text(f'unawaited = "{setting}"\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    done = subprocess.run(
        [sys.executable, *how], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "never awaited" in done.stderr
    assert "plus_one (flows.py:10)" in " ".join(done.stderr.split())
    assert (done.returncode == 0) == (setting == "warn")
