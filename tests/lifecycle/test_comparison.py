"""Two lineages are matched by what their events are about; chance and bookkeeping are no difference."""

from __future__ import annotations

import random
import time

import msgspec
import pytest
from msgspec import Raw

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.comparison import ABOUT, VOLATILE, Row, compare, counted, ending_of, length_of, shared_upto
from outlast.lifecycle.difference import Change, changes_between


def log(*events: e.AnyEvent, first: int = 1, branch: int = 0) -> list[Entry]:
    return [Entry(seq, branch, seq * 1000, event) for seq, event in enumerate(events, first)]


def rows(left: list[Entry], right: list[Entry]) -> list[Row]:
    return compare(left, right)[0]


def verdicts(left: list[Entry], right: list[Entry]) -> list[str]:
    return [row.verdict for row in rows(left, right)]


def done(node: str, output: bytes = b"null", **more: object) -> e.NodeCompleted:
    return e.NodeCompleted(node=node, output=Raw(output), **more)  # type: ignore[arg-type]


def test_every_type_of_event_says_what_it_is_about() -> None:
    assert set(ABOUT) == set(e.EVENT_TYPES.values()), "say in ABOUT by which fields a new event is matched"
    for kind, names in ABOUT.items():
        assert set(names) <= set(kind.__struct_fields__)


def test_every_field_that_is_chance_is_a_field_of_some_event() -> None:
    fields = {name for kind in e.EVENT_TYPES.values() for name in kind.__struct_fields__}
    assert fields >= VOLATILE


def test_a_log_is_the_same_as_itself() -> None:
    told = log(e.RunCreated(workflow="w"), e.NodeScheduled(node="a"), e.NodeStarted(node="a"), done("a"))
    assert verdicts(told, told) == ["same"] * 4


def test_durations_epochs_and_workers_are_no_difference() -> None:
    left = log(e.RunTakenOver(epoch=2, worker="x", cause="dead"), done("a", ms=3.0), e.TimerSet(timer="t", due=5))
    right = log(e.RunTakenOver(epoch=9, worker="y", cause="dead"), done("a", ms=4.0), e.TimerSet(timer="t", due=6))
    assert verdicts(left, right) == ["same"] * 3


def test_the_owner_that_opens_the_next_branch_is_not_part_of_the_branch_it_leaves() -> None:
    left = log(done("a"), e.RunTakenOver(epoch=2, cause="dead"))
    assert verdicts(left, log(done("a"), e.BranchOpened(branch=1, parent=0, cutoff=0, cause="jump"))) == [
        "same",
        "right",
    ]
    assert verdicts([*left, *log(done("b"), first=3)], log(done("a"))) == ["same", "left", "left"]


def test_being_claimed_again_hearing_news_and_retiring_nodes_are_not_compared() -> None:
    noise = (e.RunTakenOver(epoch=2), e.GuestEventsRead(upto=3), e.NodesRetired(nodes=("a",)))
    assert compare(log(done("a"), *noise), log(done("a")))[::2] == (rows(log(done("a")), log(done("a"))), 3)


def test_an_output_is_told_by_its_path() -> None:
    left = log(done("a", b'{"pages": [{"words": 206}, {"words": 1}], "by": "x"}'))
    right = log(done("a", b'{"by":"x","pages":[{"words":207},{"words":1}]}'))
    (row,) = rows(left, right)
    assert row.verdict == "differs"
    assert row.changes == (Change("output.pages[0].words", Raw(b"206"), Raw(b"207")),)


def test_a_node_that_completed_at_another_attempt_is_still_the_same_completion() -> None:
    (row,) = rows(log(done("a", b"1")), log(done("a", b"2", attempt=2)))
    assert [(change.path, bytes(change.new or b"")) for change in row.changes] == [("attempt", b"2"), ("output", b"2")]


def test_what_only_one_side_has_stands_where_it_happened() -> None:
    left = log(done("a"), e.NodeSkipped(node="x"), done("b"), done("c"))
    right = log(done("a"), done("b"), e.NodeFailed(node="y", error=e.Failure("E")), done("c"), e.RunCompleted())
    assert verdicts(left, right) == ["same", "left", "same", "right", "same", "right"]
    assert counted(rows(left, right)) == {"same": 3, "differs": 0, "left": 1, "right": 2}


def test_the_order_of_parallel_work_is_no_difference_but_is_counted() -> None:
    left, right = log(done("a"), done("b"), done("c")), log(done("b"), done("c"), done("a"))
    found, moved, _ = compare(left, right)
    assert [row.verdict for row in found] == ["same"] * 3
    assert moved == 1


def test_children_of_different_runs_are_matched_by_their_nodes() -> None:
    left = log(e.ChildStarted(child="r1-c", node="post"), e.ChildEnded(child="r1-c", output=Raw(b"1")))
    right = log(e.ChildStarted(child="r2-c", node="post"), e.ChildEnded(child="r2-c", output=Raw(b"2")))
    assert verdicts(left, right) == ["same", "differs"]


def test_a_failure_differs_by_what_it_says_and_not_by_its_traceback() -> None:
    def failed(message: str, trace: str) -> list[Entry]:
        return log(e.NodeFailed(node="a", error=e.Failure("E", message, trace)))

    assert verdicts(failed("x", "line 1"), failed("x", "line 2")) == ["same"]
    (row,) = rows(failed("x", ""), failed("y", ""))
    assert [change.path for change in row.changes] == ["error.message"]


def test_a_hash_counts_only_where_nothing_else_shows_the_difference() -> None:
    one = e.NodeStarted(node="a", inputs=Raw(b"1"), hash="x")
    assert [each.path for each in rows(log(one), log(msgspec.structs.replace(one, hash="y")))[0].changes] == ["hash"]
    other = e.NodeStarted(node="a", inputs=Raw(b"2"), hash="y")
    assert [each.path for each in rows(log(one), log(other))[0].changes] == ["inputs"]


@pytest.mark.parametrize(
    ("left", "right", "upto"),
    [
        ([(1, 8)], [(1, 7), (9, 11)], 7),
        ([(1, 5), (9, 9)], [(1, 5), (10, 12)], 5),
        ([(1, 5), (9, 12)], [(1, 5), (9, 10), (13, 14)], 10),
        ([(1, 1), (7, 9)], [(1, 4)], 1),
        ([(1, 4)], [(1, 4)], 4),
    ],
)
def test_what_two_branches_share_is_known_from_their_intervals(
    left: list[tuple[int, int]], right: list[tuple[int, int]], upto: int
) -> None:
    assert shared_upto(left, right) == shared_upto(right, left) == upto


def test_lengths_are_counted_from_intervals() -> None:
    assert (length_of([(1, 5), (9, 12)], 12), length_of([(1, 5), (9, 12)], 10), length_of([(1, 5)], 0)) == (9, 7, 0)


def test_how_a_log_ends_is_told_by_its_last_word_about_it() -> None:
    failed = e.RunFailed(error=e.Failure("E"), held=True)
    assert ending_of(log(failed)) == "held"
    assert ending_of(log(failed, e.RunStarted(resumed=True))) == ""
    assert ending_of(log(failed, e.RunStarted(resumed=True), e.RunCompleted())) == "completed"


def test_a_hundred_thousand_events_on_each_side_take_seconds() -> None:
    """In whatever order they stand. Ten times the usual, so that a busy machine does not matter."""

    def big(seed: int) -> list[Entry]:
        chance, order = random.Random(seed), list(range(33_333))
        chance.shuffle(order)
        told: list[e.AnyEvent] = []
        for number in order:
            node = f"read/{number}"
            told += [e.NodeScheduled(node=node), e.NodeStarted(node=node), done(node, b"%d" % chance.randrange(2))]
        return log(*told)

    left, right = big(1), big(2)
    began = time.process_time()
    found = counted(rows(left, right))
    assert time.process_time() - began < 20
    assert found["same"] + found["differs"] == 99_999


# --- values


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', []),
        (b"1", b"1.0", []),
        (b"1", b"true", ["$"]),
        (b"0", b"false", ["$"]),
        (b"null", b"[]", ["$"]),
        (b"[1,2]", b"[1,3,4]", ["$[1]", "$[2]"]),
        (b'{"a b":1}', b'{"a b":2}', ['$["a b"]']),
        (b'{"a":{"b":[1]}}', b'{"a":{"b":[2]}}', ["$.a.b[0]"]),
        (b'{"a":1}', b'{"c":1}', ["$.a", "$.c"]),
        (b'{"$":"blob","hash":"x","size":1}', b'{"$":"blob","hash":"y","size":2}', ["$"]),
    ],
)
def test_values_differ_path_by_path(old: bytes, new: bytes, paths: list[str]) -> None:
    assert [change.path for change in changes_between(Raw(old), Raw(new))] == paths


def test_what_is_not_there_is_not_null() -> None:
    assert changes_between(Raw(b"{}"), Raw(b'{"a":null}')) == [Change("$.a", None, Raw(b"null"))]


def test_differences_beyond_a_limit_are_counted() -> None:
    found = changes_between(Raw(b"[0,0,0,0]"), Raw(b"[1,1,1,1]"), most=3)
    assert [(change.path, change.more) for change in found] == [("$[0]", 0), ("$[1]", 0), ("$[2]", 1)]


def test_values_that_nest_deeply_are_compared_without_end() -> None:
    deep = b"[" * 5000 + b"%d" + b"]" * 5000
    assert changes_between(Raw(deep % 1), Raw(deep % 2))
