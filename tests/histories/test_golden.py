"""Golden logs: what was once written is read, folded and written again the same, for ever (H1, H2, L4).

A failure here means that logs people already have would be read differently. `make.py` wrote them, each of them once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from histories.served import SERVED, served
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId
from outlast.history.lineage import ROOT, Branch, lineage, opened
from outlast.history.record import Entry, Kind, Record, entries
from outlast.lifecycle.fold import fold
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.summary import RunSummary, summarise

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.jsonl"))


def records(name: str) -> list[Record]:
    lines = [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]
    return [record(**fields) for fields in lines]


def record(run: str, kind: int, id: str, body: str, digest: str, **numbers: int) -> Record:
    return Record(
        run=RunId(run),
        kind=Kind(kind),
        id=AppendId(bytes.fromhex(id)),
        body=body.encode(),
        digest=bytes.fromhex(digest),
        **numbers,
    )


def expected(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((HERE / f"{name}.expected.json").read_text())
    return told


def log_of(name: str) -> list[Entry]:
    """The entries of all branches."""
    return [entry for record in records(name) for entry in entries(record)]


def seen(name: str) -> list[Entry]:
    """The entries of the newest branch's lineage."""
    log = {entry.seq: entry for entry in log_of(name)}
    return [log[seq] for first, last in intervals(name) for seq in range(first, last + 1)]


def intervals(name: str) -> list[tuple[int, int]]:
    branches: dict[int, Branch] = {0: ROOT}
    for entry in log_of(name):
        if isinstance(entry.event, e.BranchOpened):
            branches[entry.event.branch] = opened(entry.event, entry.seq)
    return lineage(branches, max(branches), records(name)[-1].last)


def test_there_are_golden_logs_and_none_was_removed() -> None:
    assert set(NAMES) >= {
        "branch-and-adopt",
        "copied-to-another-store",
        "crash-and-takeover",
        "fields-of-a-newer-version",
        "held-and-resumed",
        "plain-success",
        "question-answered-by-a-guest",
        "retry-then-success",
        "saga-compensation",
        "trigger-outbox-children",
    }


def test_between_them_they_hold_every_event_type_there_was() -> None:
    held = {type(event).__name__ for name in NAMES for record in records(name) for event in record.events()}
    assert held == set(e.EVENT_TYPES), "tell a new story in make.py that holds the new type"


@pytest.mark.parametrize("name", NAMES)
def test_old_bytes_are_read_and_written_again_the_same(name: str) -> None:
    for each in records(name):
        assert encode(each.events()) == each.body
        assert len(each.events()) == each.count


@pytest.mark.parametrize("name", NAMES)
def test_an_old_log_amounts_to_what_it_amounted_to(name: str) -> None:
    state = fold(State(), seen(name))
    assert state.status == expected(name)["status"]
    assert summarise(RunId(name), state) == msgspec.convert(expected(name)["summary"], RunSummary)
    assert [list(interval) for interval in intervals(name)] == expected(name)["lineage"]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_tested_with_the_log_as_it_is_served(name: str) -> None:
    assert (SERVED / f"{name}.json").read_bytes() == served(log_of(name)), "run tests/histories/served.py"


@pytest.mark.parametrize("name", NAMES)
def test_an_old_log_has_no_violations(name: str) -> None:
    summary = msgspec.convert(expected(name)["summary"], RunSummary)
    assert violations(RunId(name), records(name), summary) == []


def node(name: str, node: str) -> tuple[NodeStatus, int, bytes]:
    found = fold(State(), seen(name)).nodes.get(node)
    assert found is not None
    return found.status, found.attempt, bytes(found.output)


def test_the_retried_node_completed_at_its_second_attempt() -> None:
    assert node("retry-then-success", "fetch") == (NodeStatus.COMPLETED, 2, b"[1,2]")


def test_the_crashed_node_was_tried_again_and_the_scheduled_one_was_not_counted() -> None:
    assert node("crash-and-takeover", "b") == (NodeStatus.COMPLETED, 2, b"2")
    assert node("crash-and-takeover", "c") == (NodeStatus.COMPLETED, 1, b"3")


def test_the_answer_is_remembered_and_the_run_waits_for_its_timer() -> None:
    state = fold(State(), seen("question-answered-by-a-guest"))
    asked = state.interactions.get("q-1")
    assert asked is not None
    assert asked.answer == msgspec.Raw(b"true")
    assert [wait.name for wait in state.waits.values()] == ["timer:cool-off"]


def test_the_newest_branch_sees_only_the_creation_and_itself() -> None:
    assert intervals("branch-and-adopt") == [(1, 1), (18, 21)]
    assert node("branch-and-adopt", "left") == (NodeStatus.STARTED, 1, b"null")


def test_what_was_booked_was_undone() -> None:
    assert node("saga-compensation", "hotel") == (NodeStatus.COMPENSATED, 2, b'"H1"')
    assert node("saga-compensation", "flight") == (NodeStatus.COMPENSATED, 1, b'"F1"')


def test_the_ended_trigger_run_owes_nothing_but_its_trigger() -> None:
    state = fold(State(), seen("trigger-outbox-children"))
    assert [wait.name for wait in state.loose.values()] == ["trigger:inbox"]
    source = state.triggers.get("inbox")
    assert source is not None
    assert (source.cursor, source.received) == (8, 2)


def test_a_field_of_a_newer_version_is_still_there() -> None:
    taken = records("fields-of-a-newer-version")[1].events()[0]
    assert taken.more == {"host": msgspec.Raw(b'{ "name": "n1" }')}
