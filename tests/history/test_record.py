"""Append records and the chain over them (H2, H3, H4): a digest covers every stored field, and a key proves tampering."""

from __future__ import annotations

import pytest
from msgspec import Raw
from msgspec.structs import replace

from outlast.errors import Damaged
from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId
from outlast.history.record import DIGEST_SIZE, Kind, Record, entries, follows, genesis
from outlast.lifecycle.invariants import violations
from support.histories import History, rechained

KEY = b"only the operator knows"

OTHER: dict[str, object] = {
    "first": 4,
    "count": 2,
    "branch": 1,
    "epoch": 2,
    "kind": Kind.TAKEOVER,
    "id": AppendId(b"another append !"),
    "time": 5,
    "body": b'[{"type":"RunPaused"}]',
    "digest": b"\0" * DIGEST_SIZE,
}


def told(key: bytes = b"") -> History:
    history = History("the-run", key=key)
    history.write([e.RunCreated(workflow="flow", params=Raw(b'{"amount":10}')), e.RunStarted()], epoch=1)
    history.write([e.RunPaused(reason="lunch")])
    return history


@pytest.mark.parametrize("field", OTHER)
def test_a_digest_covers_every_stored_field(field: str) -> None:
    before, record = told().records
    assert follows(record, before.digest)
    assert not follows(replace(record, **{field: OTHER[field]}), before.digest)


def test_every_stored_field_but_the_run_is_tried_here() -> None:
    assert {*OTHER, "run"} == set(Record.__struct_fields__)


def test_the_first_digest_is_chained_to_the_runs_own_id() -> None:
    record = told().records[0]
    assert follows(record, genesis(RunId("the-run")))
    assert not follows(record, genesis(RunId("another")))


def test_a_digest_covers_the_one_before_it() -> None:
    record = told().records[1]
    assert not follows(record, genesis(RunId("the-run")))


def test_the_digests_are_what_they_were_when_they_were_first_written() -> None:
    """The chain is stored: it may never be computed otherwise."""
    assert [record.digest.hex() for record in told().records] == [
        "b16e2e68aaed57ab5a5f7b1653afa08c",
        "3fedd9e592501b9be696746681e81998",
    ]


def test_a_key_proves_what_a_forger_without_it_has_changed() -> None:
    honest = told(KEY)
    assert violations(honest.run, honest.records, key=KEY) == []
    body = honest.records[0].body.replace(b"10", b"99")
    edited = [replace(honest.records[0], body=body), honest.records[1]]
    for forged in (edited, rechained(edited, honest.run), rechained(edited, honest.run, key=b"a guess")):
        found = violations(honest.run, forged, key=KEY)
        assert [(each.invariant, each.seq) for each in found][:1] == [("V1", 1)]


def test_without_a_key_a_forger_who_chains_anew_is_not_noticed() -> None:
    """Said plainly in the module: an unkeyed digest proves damage, not tampering."""
    honest = told()
    edited = [replace(honest.records[0], body=honest.records[0].body.replace(b"10", b"99")), honest.records[1]]
    assert violations(honest.run, edited) != []
    assert violations(honest.run, rechained(edited, honest.run)) == []


def test_a_key_changes_every_digest() -> None:
    plain, keyed = told().records, told(KEY).records
    assert all(one.digest != other.digest for one, other in zip(plain, keyed, strict=True))
    assert genesis(RunId("the-run")) != genesis(RunId("the-run"), KEY)


def test_the_events_of_a_record_stand_at_its_places_in_order() -> None:
    told_by = entries(told().records[0])
    assert [(entry.seq, type(entry.event)) for entry in told_by] == [(1, e.RunCreated), (2, e.RunStarted)]
    assert told().records[1].first == told().records[1].last == 3


def test_a_record_that_does_not_read_says_which_run_and_event() -> None:
    record = replace(told().records[1], body=encode([e.RunPaused()])[:-1])
    with pytest.raises(Damaged, match="run the-run, event 3") as damage:
        record.events()
    assert (damage.value.run, damage.value.seq) == ("the-run", 3)


def test_an_event_cannot_be_changed() -> None:
    """H1."""
    event = e.RunPaused(reason="lunch")
    with pytest.raises(AttributeError):
        event.reason = "dinner"  # type: ignore[misc]


def test_fields_at_their_defaults_are_not_written() -> None:
    """A trivial node costs few bytes."""
    assert encode([e.NodeScheduled(node="a"), e.NodeCompleted(node="a")]) == (
        b'[{"type":"NodeScheduled","node":"a"},{"type":"NodeCompleted","node":"a"}]'
    )


def test_a_value_is_written_in_the_bytes_it_was_given_in() -> None:
    """H2: the kernel never looks inside."""
    odd = b'{ "b":1.0,  "a":[1e2 , "\\u00e9"] }'
    body = encode([e.NodeCompleted(node="n", output=Raw(odd))])
    assert odd in body
    assert encode(told_back(body)) == body


def told_back(body: bytes) -> list[e.AnyEvent]:
    return replace(told().records[0], body=body).events()
