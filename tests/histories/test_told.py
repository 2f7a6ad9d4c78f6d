"""Every golden log can be told, compared with itself, and its branches be shown, for ever."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from outlast.history.ids import RunId
from outlast.history.record import Entry, entries
from outlast.lifecycle.branching import branches_in
from outlast.lifecycle.comparison import compare
from outlast.lifecycle.narrative import Story, narrate

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.jsonl"))


def _golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("test_golden.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = _golden()


def log(name: str) -> list[Entry]:
    return [entry for record in golden.records(name) for entry in entries(record)]


def story(name: str, *, full: bool = False) -> Story:
    told = log(name)
    return narrate(RunId(name), told, told[-1].time, lineage=golden.intervals(name), full=full)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_log_is_told(name: str) -> None:
    assert story(name).status == golden.expected(name)["status"]
    assert len(story(name, full=True).sentences) >= len(story(name).sentences) > 1


@pytest.mark.parametrize("name", NAMES)
def test_an_old_log_is_the_same_as_itself(name: str) -> None:
    assert {row.verdict for row in compare(golden.seen(name), golden.seen(name))[0]} == {"same"}


@pytest.mark.parametrize("name", NAMES)
def test_the_last_branch_of_an_old_log_is_the_current_one(name: str) -> None:
    assert [each.is_current for each in branches_in(log(name))][-1]


def test_a_hold_a_recovery_and_what_people_did_are_told_in_order() -> None:
    assert [sentence.text for sentence in story("held-and-resumed").sentences] == [
        'ada started it with {"order":17}.',
        "pay was begun, and no result of it was recorded.",
        "Its worker went silent, and another one took it over.",
        "The run was held, for a person to decide: Server restarted while workflow was running.",
        "ada had it go on; done again: pay.",
        "pay failed, at its 2nd attempt: ConnectionError: reset by peer.",
        "The run failed because of pay.",
        "It was recovered, A4 (seen by events 9 and 10): a node had failed, and nothing was scheduled after it; "
        "a person asked.",
        "ada had it go on; done again: pay.",
        "pay was to be done again.",
        "The run was held, for a person to decide: RunDiverged: the code changed.",
    ]
