"""What is easily got wrong is said where it went wrong, and by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast as ol


@ol.node
async def plus_one(number: int) -> int:
    return number + 1


async def came_to(stage: Any, workflow: Any) -> Any:
    engine = await stage.engine()
    return await asyncio.wait_for((await engine.start(workflow)).result(), 8)


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
