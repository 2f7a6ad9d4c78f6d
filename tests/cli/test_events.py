"""`outlast events` shows what happened, one line per event."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from outlast.cli.events import EventLines
from outlast.client import Reader
from outlast.history import events as e
from outlast.history.codec import decode
from outlast.history.record import Entry
from outlast.lifecycle.timeline import text_of
from outlast.stores.sqlite import SqliteStore
from outlast.views.build import TIMES, event_view

TIME = 1_793_523_600_000_000


def lines(shell: Any, *arguments: str, **environment: str) -> list[str]:
    answer = shell("events", *arguments, **environment)
    assert answer.exit_code == 0, answer.stderr
    assert answer.stderr == ""
    out: list[str] = answer.stdout.splitlines()
    return out


def test_each_event_is_one_line_with_its_text(shell: Any) -> None:
    told = lines(shell, shell.runs["digest"])
    assert len(told) == 12
    assert [line.split()[0] for line in told] == [str(seq) for seq in range(1, 13)]
    assert "Run of digest created by anna, titled “Monday’s digest”, tags nightly and news" in told[0]
    assert told[4].endswith(
        "NodeFailed     fetch failed after 812 ms: ConnectionError: no route to host; next attempt in 29.8 s"
    )
    assert told[7].endswith('NodeCompleted  fetch completed in 95 ms (attempt 2): {"pages": 2}')


def test_the_events_of_one_node_are_shown_alone(shell: Any) -> None:
    told = lines(shell, shell.runs["digest"], "--node", "publish")
    assert [line.split()[0] for line in told] == ["9", "10", "11"]
    assert lines(shell, shell.runs["digest"], "--node", "fetch", "--after", "5", "-o", "ids") == ["6", "7", "8"]
    assert lines(shell, shell.runs["digest"], "--node", "fetc") == []


def test_times_are_local(shell: Any) -> None:
    local = datetime.fromisoformat("2026-11-01T09:00:00.500Z").astimezone()
    assert f"{local:%Y-%m-%d %H:%M:%S}" in lines(shell, shell.runs["digest"])[0]
    assert f"{local:%m-%d %H:%M:%S}" in lines(shell, shell.runs["digest"], COLUMNS="80")[0]


@pytest.mark.parametrize("width", [40, 80, 140])
def test_lines_fit_the_screen(width: int, shell: Any) -> None:
    for run in shell.runs.values():
        assert max(map(len, lines(shell, run, COLUMNS=str(width)))) <= width


def test_the_branch_is_shown_only_if_there_are_several(shell: Any) -> None:
    report = lines(shell, shell.runs["report"])
    assert [line.split()[:2] for line in report[-3:]] == [["9", "1"], ["10", "1"], ["11", "1"]]
    assert len(report) == 10
    assert len(lines(shell, shell.runs["report"], "--branch", "0")) == 8
    assert len(lines(shell, shell.runs["report"], "--everything")) == 11
    assert lines(shell, shell.runs["import"])[0].split()[1].startswith("2026-")


def test_reading_goes_on_after_an_event(shell: Any) -> None:
    assert lines(shell, shell.runs["digest"], "--after", "11")[0].startswith("12  ")
    assert lines(shell, shell.runs["digest"], "--after", "12") == []


def test_numbers_alone_for_pipes(shell: Any) -> None:
    assert lines(shell, shell.runs["report"], "-o", "ids") == ["1", "2", "3", "4", "5", "6", "7", "9", "10", "11"]


def test_json_lines_give_back_the_very_events_of_the_log(shell: Any) -> None:
    for run in shell.runs.values():
        told = [json.loads(line) for line in lines(shell, run, "--everything", "-o", "json")]
        assert [_event(each) for each in told] == asyncio.run(_events(shell.store, run))
        assert all(set(each) == {"seq", "branch", "time", "type", "text", "fields"} for each in told)


def _event(shape: dict[str, Any]) -> e.AnyEvent:
    """From what a program read back to the event."""
    fields = {"type": shape["type"], **shape["fields"]}
    for name in TIMES & set(fields):
        if fields[name] is not None:
            fields[name] = _micros(fields[name])
    for value in fields.get("attributes", {}).values():
        if isinstance(value, dict):
            value["time"] = _micros(value["time"])
    return decode(msgspec.json.encode([fields]))[0]


def _micros(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1_000_000)


async def _events(path: Any, run: Any) -> list[e.AnyEvent]:
    store = SqliteStore(path, readonly=True)
    found = [entry.event async for entry in Reader(store).events(run, everything=True)]
    await store.close()
    return [_compact(event) for event in found]


def _compact(event: Any) -> Any:
    """With users' values written without white space, as JSON lines have them."""
    return decode(msgspec.json.format(msgspec.json.encode([event]), indent=-1))[0]


def test_a_value_over_several_lines_stays_on_one_json_line() -> None:
    entry = Entry(1, 0, TIME, e.RunCompleted(output=Raw(b'{\n  "a": [1,\r\n 2]\n}')))
    encoded = msgspec.json.format(msgspec.json.encode(event_view(entry)), indent=-1)
    assert b"\n" not in encoded
    assert json.loads(encoded)["fields"]["output"] == {"a": [1, 2]}


def test_fields_of_newer_versions_are_shown_to_programs() -> None:
    (event,) = decode(b'[{"type":"RunStarted","by":"x","later":{"a":1}}]')
    shape = json.loads(msgspec.json.encode(event_view(Entry(2, 0, TIME, event))))
    assert shape["fields"] == {"resumed": False, "by": "x", "later": {"a": 1}}


def test_dead_branches_are_dimmed() -> None:
    lines = EventLines(((1, 3), (5, 6)))
    for seq in range(1, 7):
        assert list(lines.add(Entry(seq, int(seq > 4), TIME, e.StepStarted(step=f"step{seq}")))) == []
    is_dim = [all(style == "dim" for _, style in line.spans) for line in lines.rest()]
    assert is_dim == [False, False, False, True, False, False]


def test_a_time_that_no_calendar_holds_is_no_reason_to_stop() -> None:
    shape = event_view(Entry(1, 0, 1 << 62, e.TimerSet(timer="t", due=-(1 << 62))))
    assert (shape.time, shape.fields["due"]) == (None, None)
    assert text_of(e.TimerSet(timer="t", due=-(1 << 62)), 1 << 62) == "Timer t set for 0 s"
