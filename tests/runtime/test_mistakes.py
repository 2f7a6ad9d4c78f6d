"""What is easily got wrong is said where it went wrong, and by name."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import outlast as ol


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


async def test_arguments_that_do_not_fit_are_said_with_the_name_of_the_node(stage: Any) -> None:
    @ol.workflow
    async def calling(wrong: int = 0) -> int:
        return await plus_one(1, more=2)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"plus_one\(\) got an unexpected keyword argument 'more'"):
        await came_to(stage, calling)


async def test_an_argument_of_another_type_is_said_with_the_name_of_the_node(stage: Any) -> None:
    @ol.workflow
    async def mistyping() -> int:
        return await plus_one("one")  # type: ignore[arg-type]

    with pytest.raises(ol.NotStorable, match=r"plus_one\(number\): str cannot be stored where the annotation says int"):
        await came_to(stage, mistyping)


async def test_retries_of_one_call_may_be_a_number_as_those_of_a_node(stage: Any) -> None:
    @ol.node
    async def second_time() -> int:
        if ol.attempt() < 2:
            raise ConnectionError
        return ol.attempt()

    @ol.workflow
    async def trying() -> int:
        return await second_time.options(retry=2)()

    assert await came_to(stage, trying) == 2


@pytest.mark.parametrize("retry", ["often", 2.5, True, ol.Retry])
def test_retries_that_are_no_policy_are_refused_where_they_are_written(retry: Any) -> None:
    """They came up only when a node failed, and then its run hung."""
    with pytest.raises(ol.BadInput, match="a number of attempts or a Retry"):
        plus_one.options(retry=retry)
    with pytest.raises(ol.BadInput, match="a number of attempts or a Retry"):
        ol.node(retry=retry)(plus_one.fn)


def test_what_may_be_used_instead_of_an_annotation_is_named() -> None:
    from outlast.runtime.values import encode

    with pytest.raises(ol.NotStorable, match=r"Counter.* use a dataclass.* dicts"):
        encode(Counter("aab"), Counter[str])
