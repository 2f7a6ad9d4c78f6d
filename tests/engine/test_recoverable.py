"""Which failures a run can be resumed from: one table, applied when the failure is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import outlast as ol
from outlast.errors import NodeFailure, NotAllowed
from outlast.history import events as e
from outlast.lifecycle.decide import RECOVERABLE
from outlast.values.failures import run_failure_of


class OutOfStock(Exception):
    recoverable = False


class Forbidden(PermissionError):
    recoverable = True


def given(error: Exception, **attributes: Any) -> Exception:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("error", "is_recoverable"),
    [
        (ValueError("a bug"), True),
        (ConnectionError("later"), True),
        (TimeoutError("too long"), True),
        (ol.NotDurable("a bug"), True),
        (ol.InvalidInput("a bug in workflow code"), True),
        (ol.Rejected("Ann said no"), False),
        (PermissionError("not yours"), False),
        (msgspec.ValidationError("not a number"), False),
        (OutOfStock("gone"), False),
        (Forbidden("ask the admin"), True),
        (given(ValueError("said otherwise"), recoverable=False), False),
        (given(ol.Rejected("not for good"), recoverable=True), True),
        (ExceptionGroup("two", [ValueError("a"), ol.Rejected("b")]), False),
        (ExceptionGroup("two", [ValueError("a"), ConnectionError("b")]), True),
        (NodeFailure("lost:Class", "no", category="rejected"), False),
        (NodeFailure("lost:Class", "no"), True),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_failure_is_recoverable_by_the_class_of_its_error(error: Exception, is_recoverable: bool) -> None:
    assert RECOVERABLE[run_failure_of(error).category] is is_recoverable


def test_every_category_is_in_the_table() -> None:
    hints: Any = msgspec.structs.fields(e.Failure)
    category = next(field.type for field in hints if field.name == "category")
    assert set(RECOVERABLE) == set(category.__value__.__args__ if hasattr(category, "__value__") else category.__args__)


async def test_a_run_that_a_person_rejected_does_not_take_resume(stage: Any) -> None:
    @ol.workflow
    async def expense() -> str:
        if not await ol.approve("Pay it?"):
            raise ol.Rejected("Ann does not pay for this")
        return "paid"

    engine = await stage.engine()
    handle = await engine.start(expense)
    await stage.until(engine, handle.run, e.InteractionRequested)
    await handle.answer(False, by="ann")
    with pytest.raises(ol.Rejected, match="Ann does not pay"):
        await handle.result()
    summary = await engine.get(handle.run)
    assert (summary.status, summary.recoverable) == (ol.RunStatus.FAILED, False)
    with pytest.raises(NotAllowed, match="failed for good"):
        await engine.resume(handle.run)
    told = await engine.explain(handle.run)
    assert any(sentence.startswith("Failed for good") for sentence in told.state)
    assert [(each.verb, each.arguments) for each in told.actions][:1] == [("jump", ("--to", "approve"))]
    await engine.jump(handle.run, "approve")
    await stage.until(engine, handle.run, lambda event: getattr(event, "interaction", "") == "approve~b1")
    await handle.answer(True)
    assert await handle.result() == "paid"


async def test_a_node_that_rejects_is_not_tried_again_and_its_run_fails_for_good(stage: Any) -> None:
    class Local(Exception):
        """Cannot be found again by its name."""

        recoverable = False

    attempts = []

    @ol.node(retry=ol.Retry(max_attempts=3, delay=0))
    async def check(kind: str) -> None:
        attempts.append(kind)
        raise ol.Rejected("no") if kind == "known" else Local("no")

    @ol.workflow
    async def checked(kind: str) -> None:
        await check(kind)

    engine = await stage.engine()
    for kind in ("known", "local"):
        handle = await engine.start(checked, kind)
        with pytest.raises(ol.OutlastError):
            await handle.result()
        assert not (await engine.get(handle.run)).recoverable
    assert attempts == ["known", "local"]


async def test_a_parent_fails_for_good_of_a_child_that_was_rejected(stage: Any) -> None:
    @ol.workflow
    async def rejected_child() -> None:
        raise ol.Rejected("no")

    @ol.workflow
    async def parent_of_rejected() -> None:
        await rejected_child()

    engine = await stage.engine()
    handle = await engine.start(parent_of_rejected)
    with pytest.raises(ol.Rejected):
        await handle.result()
    assert not (await engine.get(handle.run)).recoverable
