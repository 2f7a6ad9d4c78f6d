"""Search attributes, given at the start and set by workflow code, live and after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from outlast.values.secrets import Revealed
from support.workflow_tools import Gated, crashed_at, echo, plain_echo, run_of, soon

DUE = datetime(2026, 11, 30, 13, tzinfo=timezone(timedelta(hours=1)))
MOMENT = e.Moment(1_796_040_000_000_000)


async def log_of(engine: ol.Engine, run: str) -> list[Any]:
    return [entry.event async for entry in engine.events(run)]


def set_in(log: list[Any]) -> list[Any]:
    return [event.attributes for event in log if isinstance(event, e.AttributesSet)]


async def test_attributes_of_each_type_are_in_the_summary_and_in_the_append_of_what_follows(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        ol.set_attributes({"customer": "acme", "total": 12.5, "items": 3, "due": DUE, "paid": True})
        await echo(1)

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    assert (await handle.get()).attributes == {
        "customer": "acme",
        "total": 12.5,
        "items": 3,
        "due": MOMENT,
        "paid": True,
    }
    kinds = [type(event) for event in await log_of(engine, handle.run)]
    assert kinds[:4] == [e.RunCreated, e.RunStarted, e.AttributesSet, e.NodeScheduled]
    assert await stage.is_sound(engine, handle.run)


async def test_attributes_of_the_start_are_kept_changed_and_removed(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        ol.set_attributes({"total": 1, "lot": None})
        await echo(1)
        ol.set_attributes({"paid": True})

    engine = await stage.engine()
    handle = await engine.start(flow.options(attributes={"customer": "acme", "lot": "L7", "total": True}))
    await soon(handle.result())
    summary = await handle.get()
    assert summary.attributes == {"customer": "acme", "total": 1, "paid": True}
    assert summary.attributes["total"] is not True
    assert set_in(await log_of(engine, handle.run)) == [{"total": 1, "lot": None}, {"paid": True}]


async def test_changes_without_a_wait_between_are_one_event_and_no_change_is_none(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        ol.set_attributes({"stage": "read"})
        ol.set_attributes({"stage": "write", "customer": "acme"})
        await echo(1)
        ol.set_attributes({"stage": "write", "missing": None})
        ol.set_attributes({})

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    assert set_in(await log_of(engine, handle.run)) == [{"stage": "write", "customer": "acme"}]


async def test_a_plain_workflow_and_a_helper_set_attributes_too(stage: Any) -> None:
    @ol.workflow
    def flow() -> None:
        ol.set_attributes({"stage": "read"})
        plain_echo(1).wait()
        ol.set_attributes({"stage": "done"})

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    assert (await handle.get()).attributes == {"stage": "done"}


@pytest.mark.parametrize("at", [e.AttributesSet, e.NodeStarted, e.RunStarted])
async def test_after_a_crash_they_are_recognised_and_set_once(stage: Any, at: Any) -> None:
    gated = Gated()

    @ol.workflow
    async def flow() -> None:
        ol.set_attributes({"customer": "acme", "due": DUE})
        await gated.node(1)
        ol.set_attributes({"customer": None})

    run = await crashed_at(stage, flow.options(attributes={"paid": False}), at=at)
    gated.gate.set()
    engine = await stage.engine()
    await soon(engine.result(run))
    assert set_in(await log_of(engine, run)) == [{"customer": "acme", "due": MOMENT}, {"customer": None}]
    assert (await engine.get(run)).attributes == {"paid": False, "due": MOMENT}
    assert await stage.is_sound(engine, run)


def setting(gated: Gated, attributes: Mapping[str, Any] | None) -> Any:
    @ol.workflow(name="flow")
    async def flow() -> None:
        if attributes is not None:
            ol.set_attributes(attributes)
        await gated.node(1)
        await ol.sleep(3600)

    return flow


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            {"total": 1},
            {"total": 2},
            "at event 3 the log has the search attributes total=1; the code sets total=2 (",
        ),
        ({"paid": True}, {"paid": 1}, "the log has the search attributes paid=true; the code sets paid=1 ("),
        ({"a": 1}, {"b": 1}, "the log has the search attributes a=1; the code sets b=1 ("),
        ({"a": 1}, None, "at event 3 the log has the search attributes a=1; the code asked for node 'gated'"),
        (None, {"a": 1}, "before that the code asked for search attributes 'a' ("),
    ],
    ids=["value", "type", "name", "left out", "added"],
)
async def test_a_changed_call_is_a_divergence(stage: Any, old: Any, new: Any, message: str) -> None:
    gated = Gated()
    if old is None:
        gated.gate.set()  # a call that the log does not have shows at the next outcome
    run = await crashed_at(stage, setting(gated, old), at=e.NodeStarted if old is not None else e.TimerSet)
    setting(gated, new)
    engine = await stage.engine()
    with pytest.raises(ol.RunHeld) as held:
        await soon(engine.result(run))
    assert message in str(held.value)
    assert "test_attributes.py:" in str(held.value)


async def test_a_successor_has_the_attributes_that_its_predecessor_had_in_the_end(stage: Any) -> None:
    @ol.workflow
    async def flow(number: int = 0) -> None:
        ol.set_attributes({"turn": number, "first": None})
        if number < 2:
            await ol.continue_as_new(number + 1)

    engine = await stage.engine()
    handle = await engine.start(flow.options(attributes={"customer": "acme", "first": True}))
    await soon(handle.result())
    last = await engine.diagnostics.continued_as(handle.run)
    assert (await engine.get(last)).attributes == {"customer": "acme", "turn": 2}
    assert set_in(await log_of(engine, last)) == [{"turn": 2}]


async def test_a_child_has_the_attributes_of_its_own_call(stage: Any) -> None:
    @ol.workflow
    async def child() -> None:
        await echo(1)

    @ol.workflow
    async def parent() -> None:
        await ol.gather(child(), child.options(attributes={"lot": 7})())

    engine = await stage.engine()
    handle = await engine.start(parent.options(attributes={"customer": "acme"}))
    await soon(handle.result())
    children = [run async for run in engine.iter_runs(ol.RunFilter(parent=handle.run))]
    assert sorted(run.attributes.get("lot", 0) for run in children) == [0, 7]
    assert not any("customer" in run.attributes for run in children)


async def test_a_jump_goes_back_to_the_attributes_of_that_event(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        ol.set_attributes({"stage": "read"})
        await echo(1)
        ol.set_attributes({"stage": "done"})

    engine = await stage.engine()
    handle = await engine.start(flow)
    await soon(handle.result())
    await engine.jump(handle.run, "echo")
    await soon(handle.result())
    log = await log_of(engine, handle.run)
    assert set_in(log) == [{"stage": "read"}, {"stage": "done"}]
    assert (await handle.get()).attributes == {"stage": "done"}
    assert await stage.is_sound(engine, handle.run)


BAD: list[tuple[Any, str]] = [
    ({"Customer": "x"}, ": 'Customer' is not a name of an attribute: use up to 63 lower-case letters, digits and _"),
    ({"a" * 64: 1}, ": 'aaaaa"),
    ({1: 1}, ": '1' is not a name of an attribute"),
    ({"note": "x" * 501}, ".note has 501 characters; an attribute can have 500"),
    ({"n": 2**63}, ".n does not fit into 64 bits: give it as text"),
    ({"n": float("nan")}, ".n: nan is not a finite number"),
    ({"due": datetime(2026, 11, 30)}, ".due: 2026-11-30T00:00:00 has no time zone"),
    ({"a": [1]}, ".a must be a text, a number, true or false, or a datetime, not list"),
    ({"a": "\ud800"}, ".a: text with a lone surrogate"),
    ({"a": Revealed("hunter2-hunter2")}, ".a: the value of a secret must not be stored"),
    ({f"a{n}": n for n in range(33)}, ": a run can have 32 attributes, and these are 33"),
    ([("a", 1)], " must be a mapping of names to values, not list"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
async def test_what_cannot_be_an_attribute_is_refused_by_its_name(stage: Any, given: Any, message: str) -> None:
    @ol.workflow
    async def flow() -> None:
        ol.set_attributes(given)

    with pytest.raises((ol.InvalidInput, ol.NotStorable)) as refused:
        flow.options(attributes=given)
    assert str(refused.value).startswith(f"attributes{message}")
    with pytest.raises((ol.InvalidInput, ol.NotStorable)) as in_code:
        await run_of(stage, flow)
    assert "test_attributes.py:" in str(in_code.value)
    assert message in str(in_code.value)


async def test_the_number_of_attributes_is_limited_in_all(stage: Any) -> None:
    @ol.workflow
    async def flow() -> None:
        ol.set_attributes({"a0": None, "b": 1})
        ol.set_attributes({"c": 1})

    many = {f"a{n}": n for n in range(32)}
    with pytest.raises(ol.InvalidInput, match=r"set_attributes\(\): a run can have 32 attributes, and these are 33"):
        await run_of(stage, flow.options(attributes=many))


async def test_only_workflow_code_sets_attributes(stage: Any) -> None:
    @ol.node
    async def setting_them() -> None:
        ol.set_attributes({"a": 1})

    @ol.workflow
    async def flow() -> None:
        await setting_them()

    with pytest.raises(ol.NotDurable, match=r"set_attributes\(\) is called in node setting_them: call it in workflow"):
        await run_of(stage, flow)
    with pytest.raises(ol.NotDurable, match="outside a workflow"):
        ol.set_attributes({"a": 1})


async def test_a_date_with_a_zone_is_its_moment_in_utc() -> None:
    assert ol.workflow(name="timed")(_nothing).options(attributes={"due": DUE})._start_options["attributes"] == {
        "due": MOMENT
    }
    assert datetime.fromtimestamp(MOMENT.time / 1e6, UTC) == DUE


async def _nothing() -> None: ...
