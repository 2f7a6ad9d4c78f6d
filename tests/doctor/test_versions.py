"""Runs and the versions of their workflows (E1, E2, E3): what is unknown is said, recorded, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.history import events as e
from outlast.history.ids import RunId

LAMP = "lamp fetched packed shipped"
UNKNOWN = "0" * 64


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


def left(*more: e.AnyEvent, **created: Any) -> Any:
    last = completed("pack")
    return lambda ward: ward.do(ward.left_after(ward.flows.doctor_errand, last, *more, **created))


def changed_to_unknown(ward: Any) -> RunId:
    version = ward.flows.doctor_errand.version
    return ward.do(
        ward.left_after(
            ward.flows.doctor_errand, completed("pack"), e.VersionChanged(version=UNKNOWN, previous=version)
        )
    )


SAYS = ("VersionChanged", "RunRecovered")
STATES = {
    "E1: no version is recorded": (left(version=""), "E1", ["RunCreated"], SAYS, LAMP, ("ship",)),
    "E2: its version is not stored, the initial one is": (
        changed_to_unknown,
        "E2",
        ["VersionChanged"],
        SAYS,
        LAMP,
        ("ship",),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_run_of_no_known_version_goes_on_with_one_and_records_it(ward: Any, case: Any, name: str) -> None:
    treated = case(*STATES[name])
    run = treated.make(ward)
    ward.treat(run, treated)
    said = [entry.event for entry in ward.events(run) if isinstance(entry.event, e.VersionChanged)]
    assert said[-1].version == ward.flows.doctor_errand.version


def test_a_version_that_nobody_has_is_reported_and_nothing_is_changed(ward: Any) -> None:
    """E2 without the initial version."""
    run = left(version=UNKNOWN)(ward)
    before = ward.dump()
    (found, *_) = ward.diagnose(run)
    assert (found.code, found.standing, found.remedy) == ("E2", "reported", None)
    assert ward.names(run, found.events) == ["RunCreated"]
    assert ward.dump() == before


def test_of_a_run_that_records_no_version_and_whose_code_is_not_here_the_code_is_asked_for(
    ward: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1."""
    run = left(version="")(ward)
    monkeypatch.setattr("outlast.functions.registry._workflows", {})
    (found, *_) = ward.diagnose(run)
    assert (found.code, found.standing, found.remedy) == ("E1", "reported", None)
    assert "--app" in found.actions[0]


def test_code_that_has_changed_since_is_told_and_is_no_fault(ward: Any) -> None:
    """E3: for functions, replay decides."""

    async def stored() -> str:
        store = ward.open()
        reference = await store.blobs.put(b"another definition")
        await store.close()
        return reference.hash

    run = left(version=ward.do(stored()))(ward)
    found = {finding.code: finding for finding in ward.diagnose(run)}
    assert found["E3"].standing == "consistent"
    assert [finding.code for finding in ward.recover(run)] == ["C3"]
    assert ward.do(ward.complete(run)) == LAMP


@pytest.mark.parametrize("more", [[e.RunPaused()], []], ids=["paused", "over"])
def test_the_version_of_a_run_that_stands_still_is_recorded_without_setting_it_going(ward: Any, more: Any) -> None:
    """E1: a pause is a person's."""
    if more:
        run = left(*more, version="")(ward)
    else:
        run = ward.do(ward.left_after(ward.flows.doctor_errand, e.RunCompleted, version=""))
    before = ward.status(run)
    ward.recover(run)
    assert ward.status(run) == before
    assert ward.is_sound(run)
    healed = ward.dump()
    assert ward.recover(run) == []
    assert ward.dump() == healed
