"""Every golden log can be explained, compared with itself, and its branches be shown, for ever."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from outlast.history.ids import RunId
from outlast.history.record import Entry, entries
from outlast.lifecycle.branching import branches_in
from outlast.lifecycle.comparison import compare
from outlast.lifecycle.explanation import Explanation, explain
from outlast.lifecycle.timeline import TimelineBuilder

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


def explained(name: str, *, full: bool = False) -> Explanation:
    timeline, told = TimelineBuilder(golden.intervals(name)), log(name)
    for entry in told:
        timeline.add(entry)
    return explain(RunId(name), timeline, told[-1].time, full=full)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_log_is_explained(name: str) -> None:
    told = explained(name)
    assert told.status == golden.expected(name)["status"]
    assert len(explained(name, full=True).timeline.entries) >= len(told.timeline.entries) > 1


@pytest.mark.parametrize("name", NAMES)
def test_an_old_log_is_the_same_as_itself(name: str) -> None:
    assert {row.verdict for row in compare(golden.seen(name), golden.seen(name))[0]} == {"same"}


@pytest.mark.parametrize("name", NAMES)
def test_the_last_branch_of_an_old_log_is_the_current_one(name: str) -> None:
    assert [each.is_current for each in branches_in(log(name))][-1]


def test_a_hold_a_recovery_and_what_people_did_are_told_in_order() -> None:
    told = explained("held-and-resumed")
    assert [entry.text for entry in told.timeline.entries] == [
        'Run of orders created by ada: {"order":17}',
        "Claim of worker-1 expired; run taken over by worker-2 (epoch 2)",
        "Run held for a person's decision: Server restarted while workflow was running",
        "Run resumed by ada",
        "pay scheduled again on resume (attempt 2)",
        "pay failed (attempt 2): ConnectionError: reset by peer",
        "Run failed in pay and can be resumed: ConnectionError: reset by peer",
        "Run recovered from state A4: a person asked (events 9 and 10)",
        "Run resumed by ada",
        "pay scheduled again (attempt 3)",
        "Run held for a person's decision: RunDiverged: the code changed",
    ]
    assert told.state == ("Held: a person must decide: RunDiverged: the code changed.",)


def test_attributes_are_told_as_they_are_written_on_the_command_line() -> None:
    told = [entry.text for entry in explained("attributes-set", full=True).timeline.entries]
    assert told[0] == (
        "Run of orders created by ada, attributes customer=acme, total=12.5, items=3, due=2023-11-14T22:23:20Z, "
        'paid=false: {"order":17}'
    )
    assert told[-2] == "Search attributes set: total=0.0, note=sent twice"
