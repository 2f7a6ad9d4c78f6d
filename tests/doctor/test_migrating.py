"""Versions of workflows: which there are, how they differ, and moving a run to another one (settled 15, E3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import outlast as ol
from outlast.errors import NotAllowed, NotFound
from outlast.functions import registry
from outlast.history import events as e
from outlast.history.ids import RunId

RUN = RunId("moving")


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    known = dict(registry._workflows)
    yield
    registry._workflows.clear()
    registry._workflows.update(known)


def deploy(ward: Any, number: int) -> Any:
    """The code of the day."""
    registry._workflows.pop("doctor_moving", None)
    return ol.workflow(name="doctor_moving")(getattr(ward.flows, f"moving_{number}"))


async def _waiting(ward: Any, number: int = 1) -> None:
    workflow = deploy(ward, number)
    async with ward.engine() as engine:
        handle = await engine.start(workflow.options(id=RUN), "lamp")
        while not (await handle.get()).waits:
            await asyncio.sleep(0.002)


async def _diverged(ward: Any, number: int) -> None:
    """It waits, and then other code comes."""
    await _waiting(ward)
    deploy(ward, number)
    async with ward.engine() as engine:
        await engine.answer(RUN, True)
        while not (await engine.get(RUN)).held:
            await asyncio.sleep(0.002)
    ward.did.clear()


async def _migrated(ward: Any) -> Any:
    async with ward.desk() as desk:
        return await desk.migrate(RUN, by="ann")


async def _to_its_end(ward: Any) -> Any:
    async with ward.engine() as engine:
        ended = asyncio.create_task(engine.result(RUN))
        while not ended.done():
            if (await engine.get(RUN)).waits:
                await engine.answer(RUN, True)
            await asyncio.sleep(0.005)
        return await ended


def test_a_run_that_new_code_does_not_fit_is_moved_to_it_and_what_still_fits_is_not_done_again(ward: Any) -> None:
    """Settled 11 and 15: the branch is cut at the last event that agrees, and results are adopted."""
    ward.do(_diverged(ward, 2))
    old = ward.events(RUN)
    fetched = next(entry.seq for entry in old if isinstance(entry.event, e.NodeCompleted))
    rehearsal = ward.do(_migrated(ward))
    assert not rehearsal.agrees
    opened = next(entry.event for entry in ward.events(RUN) if isinstance(entry.event, e.BranchOpened))
    assert (opened.cause, opened.by, opened.cutoff, rehearsal.upto) == ("migrate", "ann", fetched, fetched)
    changed = [entry.event for entry in ward.events(RUN) if isinstance(entry.event, e.VersionChanged)]
    assert changed[-1].version == registry.known("doctor_moving").version  # type: ignore[union-attr]
    assert changed[-1].previous
    assert ward.do(_to_its_end(ward)) == "lamp fetched packed, lamp tagged (True) shipped"
    assert ward.did == ["tag", "ship"]
    assert ward.events(RUN)[: len(old)] == old
    assert ward.is_sound(RUN)


def test_a_run_that_has_nothing_in_common_with_new_code_begins_again(ward: Any) -> None:
    ward.do(_diverged(ward, 4))
    assert ward.do(_migrated(ward)).upto <= 2
    assert ward.do(_to_its_end(ward)) == "lamp shipped"
    assert ward.is_sound(RUN)


def test_a_run_that_new_code_fits_needs_no_branch(ward: Any) -> None:
    ward.do(_waiting(ward))
    deploy(ward, 3)
    version = ward.events(RUN)[-1].seq
    assert ward.do(_migrated(ward)).agrees
    assert ward.events(RUN)[-1].seq == version
    assert ward.do(_to_its_end(ward)) == "lamp fetched packed at last (True) shipped"
    assert ward.is_sound(RUN)


def test_a_held_run_goes_on_once_the_code_fits_again(ward: Any) -> None:
    ward.do(_diverged(ward, 2))
    deploy(ward, 1)
    assert ward.do(_migrated(ward)).agrees
    assert ward.do(_to_its_end(ward)) == "lamp fetched packed (True) shipped"
    assert ward.did == ["ship"]
    assert ward.is_sound(RUN)


def test_a_run_is_migrated_once_though_it_is_asked_for_twice(ward: Any) -> None:
    ward.do(_diverged(ward, 2))
    ward.do(_migrated(ward))
    version = ward.events(RUN)[-1].seq
    assert ward.do(_migrated(ward)).agrees
    assert ward.events(RUN)[-1].seq == version


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_run_that_is_over_is_not_moved(ward: Any, is_cancelled: bool) -> None:
    ward.do(_waiting(ward))

    async def end() -> None:
        async with ward.engine() as engine:
            if is_cancelled:
                await engine.cancel(RUN)
                while (await engine.get(RUN)).status != "cancelled":
                    await asyncio.sleep(0.002)
            else:
                await engine.answer(RUN, True)
                await engine.result(RUN)

    ward.do(end())
    deploy(ward, 2)
    before = ward.dump()
    with pytest.raises(NotAllowed, match="is over"):
        ward.do(_migrated(ward))
    assert ward.dump() == before


def test_a_run_that_is_not_there_or_whose_code_is_not_here_is_not_moved(ward: Any) -> None:
    with pytest.raises(NotFound):
        ward.do(_migrated(ward))
    ward.do(_diverged(ward, 2))
    registry._workflows.pop("doctor_moving")
    before = ward.dump()
    with pytest.raises((NotFound, ol.OutlastError)):
        ward.do(_migrated(ward))
    assert ward.dump() == before


def test_the_commands_list_compare_and_move(sqlite_ward: Any) -> None:
    ward = sqlite_ward
    ward.do(_diverged(ward, 2))
    old, new = (deploy(ward, number).version for number in (1, 2))
    listed = ward.shell("versions", "list", "doctor_moving")
    assert listed.exit_code == 0
    assert old[:12] in listed.stdout
    before = ward.dump()
    shown = ward.shell("versions", "diff", RUN)
    assert shown.exit_code == 1, (shown.stdout, shown.stderr)
    assert "+    label = await tag(item)" in shown.stdout
    assert ward.dump()["log"] == before["log"]
    moved = ward.shell("migrate", RUN, "--yes")
    assert moved.exit_code == 0, (moved.stdout, moved.stderr)
    assert "goes on from event" in moved.stderr
    listed = ward.shell("versions", "list", "doctor_moving")
    assert new[:12] in listed.stdout
    assert "current code" in listed.stdout
    same = ward.shell("versions", "diff", RUN)
    assert same.exit_code == 0, (same.stdout, same.stderr)
    assert ward.do(_to_its_end(ward)) == "lamp fetched packed, lamp tagged (True) shipped"


def test_versions_of_a_workflow_without_runs_and_texts_that_name_no_run_are_told_so(sqlite_ward: Any) -> None:
    ward = sqlite_ward
    ward.do(_waiting(ward))
    for arguments in (
        ("versions", "list", "nothing_of_the_kind"),
        ("versions", "diff", "zzz"),
        ("migrate", "zzz", "--yes"),
    ):
        result = ward.shell(*arguments)
        assert result.exit_code not in (0, 1), (arguments, result.exit_code, result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
