"""Events to bytes and back (H1): nothing is lost, and what cannot be read is said to be damaged."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from outlast.errors import Damaged, InvalidInput, UnknownEvent
from outlast.history import events as e
from outlast.history.codec import decode, encode
from support.histories import LETTERS, events, values
from support.sampling import examples

DRAWN = (Phase.explicit, Phase.generate)
"""Noise is not easier to read when it is small."""
KINDS = [pytest.param(kind, id=name) for name, kind in e.EVENT_TYPES.items()]
JSON = {name: frozenset(("type", "+", *kind.__struct_encode_fields__)) for name, kind in e.EVENT_TYPES.items()}


def plain(body: bytes) -> Any:
    """What any reader of JSON makes of it; numbers stay the text they are."""
    return json.loads(body, parse_float=str, parse_int=str)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_an_event_of_every_type_is_read_back_as_it_was_written(kind: type[e.Event], data: st.DataObject) -> None:
    event = data.draw(events(kind))
    assert decode(encode([event])) == [event]


@settings(max_examples=examples(100))
@given(told=st.lists(events(), max_size=6))
def test_a_list_of_events_is_read_back_as_it_was_written(told: list[e.AnyEvent]) -> None:
    assert decode(encode(told)) == told


@settings(max_examples=examples(100))
@given(told=st.lists(events(), max_size=6))
def test_what_was_read_is_written_again_byte_for_byte(told: list[e.AnyEvent]) -> None:
    """H2 for the way back: a log that is copied event by event is the same log."""
    body = encode(told)
    again = encode(decode(body))
    assert plain(again) == plain(body)
    assert encode(decode(again)) == again


@settings(max_examples=examples(100))
@given(event=events(newer=False), extra=st.dictionaries(LETTERS, values(), min_size=1, max_size=3))
def test_fields_of_a_newer_version_are_kept_and_disturb_no_other(event: e.AnyEvent, extra: dict[str, Raw]) -> None:
    extra = {name: value for name, value in extra.items() if name not in JSON[type(event).__name__]}
    known = msgspec.json.decode(encode([event]), type=list[dict[str, Raw]])[0]
    newer = msgspec.json.encode([{**known, **extra}])
    (read,) = decode(newer)
    assert msgspec.structs.replace(read, more=None) == event
    assert (read.more or {}) == extra
    assert plain(encode([read])) == plain(newer)


@settings(max_examples=examples(50))
@given(error=st.builds(e.Failure, kind=LETTERS, message=LETTERS), extra=values())
def test_a_newer_field_inside_an_error_is_kept_too(error: e.Failure, extra: Raw) -> None:
    """H1 says fields of newer versions included; an error is part of three events."""
    known = msgspec.json.decode(msgspec.json.encode(error), type=dict[str, Raw])
    newer = msgspec.json.encode([{"type": "RunFailed", "error": {**known, "later": extra}}])
    assert plain(encode(decode(newer))) == plain(newer)


LARGE = e.NodeCompleted(node="n", attempt=1, output=Raw(b'"' + b"x" * 5000 + b'"'))


@settings(max_examples=examples(100))
@given(event=events())
def test_what_stands_beside_a_large_value_is_written_as_it_is_alone(event: e.AnyEvent) -> None:
    """Bodies with large values are looked at in another way: newer fields, in errors too, are kept all the same."""
    alone = encode([event])[1:-1]
    assert encode([LARGE, event]) == encode([LARGE])[:-1] + b"," + alone + b"]"


@settings(max_examples=examples(50))
@given(error=st.builds(e.Failure, kind=LETTERS, message=LETTERS), extra=values())
def test_a_newer_field_inside_an_error_beside_a_large_value_is_kept_too(error: e.Failure, extra: Raw) -> None:
    failed = e.RunFailed(error=msgspec.structs.replace(error, more={"later": extra}))
    assert encode([LARGE, failed]) == encode([LARGE])[:-1] + b"," + encode([failed])[1:]


@settings(max_examples=examples(50))
@given(
    before=st.lists(events(), max_size=3),
    name=LETTERS.filter(lambda name: name not in e.EVENT_TYPES),
    first=st.integers(1, 2**40),
)
def test_an_unknown_event_type_is_named_with_its_run_and_place(before: list[e.AnyEvent], name: str, first: int) -> None:
    known = msgspec.json.decode(encode(before), type=list[Raw])
    body = msgspec.json.encode([*known, {"type": name, "field": 1}])
    with pytest.raises(UnknownEvent) as refusal:
        decode(body, run="the-run", first=first)
    assert (refusal.value.kind, refusal.value.run, refusal.value.seq) == (name, "the-run", first + len(before))
    assert repr(name) in str(refusal.value)
    assert "the-run" in str(refusal.value)


def read_or_damaged(body: bytes) -> None:
    place = ("the-run", 7)
    try:
        decode(body, run="the-run", first=7)
    except Damaged as damage:
        place = (damage.run, damage.seq)
    assert place[0] == "the-run"
    assert place[1] >= 7


@settings(max_examples=examples(300), phases=DRAWN)
@given(body=st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
@example(b"")
@example(b"null")
@example(b"[null]")
@example(b"[{}]")
@example(b'[{"type":null}]')
@example(b'[{"type":"\\ud800"}]')
@example(b'[{"type":"TimerSet","timer":"t","due":1e3}]')
def test_arbitrary_bytes_are_read_or_damaged_and_nothing_else(body: bytes) -> None:
    read_or_damaged(body)


@settings(max_examples=examples(300), phases=DRAWN)
@given(told=st.lists(events(), min_size=1, max_size=3), data=st.data())
def test_mutated_bodies_are_read_or_damaged_and_nothing_else(told: list[e.AnyEvent], data: st.DataObject) -> None:
    body = bytearray(encode(told))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                body[at] = data.draw(st.sampled_from(b'\x00"{}[],:\\0a-'))
            case 1:
                body[at] ^= 1 << data.draw(st.integers(0, 7))
            case _:
                del body[at:]
        if not body:
            break
    read_or_damaged(bytes(body))


@pytest.mark.parametrize(
    "body",
    [b'[{"type":"RunPaused","reason":"\xff"}]', b'[{"type":"RunPaused","\xff":1}]', b'[{"type":"\xff"}]'],
    ids=["a value", "a name", "a type"],
)
def test_bytes_that_are_no_text_are_damaged(body: bytes) -> None:
    with pytest.raises(Damaged):
        decode(body, run="the-run")


@pytest.mark.parametrize("field", ["output", "unknown"])
@pytest.mark.parametrize("closed", [True, False], ids=["well-formed", "cut off"])
def test_nesting_that_is_too_deep_to_read_is_damaged(field: str, closed: bool) -> None:
    deep = 100_000
    body = b'[{"type":"RunCompleted","' + field.encode() + b'":' + b"[" * deep + b"]" * (deep * closed) + b"}]"
    with pytest.raises(Damaged):
        decode(body, run="the-run")


@pytest.mark.parametrize("beside", [[], [LARGE]], ids=["alone", "beside a large value"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_json_cannot_say_is_refused_before_it_is_written(number: float, beside: list[e.AnyEvent]) -> None:
    """Else the append lands and can never be read again (W3)."""
    event = e.NodeCompleted(node="a", ms=number)
    with pytest.raises(InvalidInput, match="ms"):
        encode([*beside, event])
