"""Events to bytes and back.

The body of an append is a JSON array of events. A field this version does not know is kept in `Event.more` and written
again beside the others; an event type it does not know is an `UnknownEvent` that names it. The quick path knows every
field; only when it refuses does the slow path look at each event by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.errors import Damaged, UnknownEvent
from outlast.history.events import EVENT_TYPES, AnyEvent, Event

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[list[AnyEvent]] = msgspec.json.Decoder(list[AnyEvent])
_split: msgspec.json.Decoder[list[dict[str, msgspec.Raw]]] = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_known: dict[str, frozenset[str]] = {
    name: frozenset((*kind.__struct_encode_fields__, "type")) for name, kind in EVENT_TYPES.items()
}


def encode(events: Sequence[AnyEvent]) -> bytes:
    """The body of an append that says `events`, in order."""
    for event in events:
        if event.more:
            return _encoder.encode([_with_more(each) for each in events])
    return _encoder.encode(events)


def decode(body: bytes, *, run: str = "", first: int = 1) -> list[AnyEvent]:
    """The events of a body. `run` and `first` only say where, in an error."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return [_decode_one(parts, run, first + place) for place, parts in enumerate(_parts(body, run, first))]


def _parts(body: bytes, run: str, first: int) -> list[dict[str, msgspec.Raw]]:
    try:
        return _split.decode(body)
    except msgspec.DecodeError as error:
        raise Damaged(f"the stored bytes are not a list of events: {error}", run=run, seq=first) from error


def _decode_one(parts: dict[str, msgspec.Raw], run: str, seq: int) -> AnyEvent:
    name = _type_of(parts, run, seq)
    if name not in EVENT_TYPES:
        raise UnknownEvent(name, run=run, seq=seq)
    known = {key: part for key, part in parts.items() if key in _known[name]}
    more = {key: part for key, part in parts.items() if key not in _known[name]}
    if more:
        known["+"] = msgspec.Raw(_encoder.encode(more))
    try:
        return _decoder.decode(_encoder.encode([known]))[0]
    except msgspec.DecodeError as error:
        raise Damaged(f"{name} does not read: {error}", run=run, seq=seq) from error


def _type_of(parts: dict[str, msgspec.Raw], run: str, seq: int) -> str:
    try:
        return msgspec.json.decode(parts["type"], type=str)
    except (KeyError, msgspec.DecodeError) as error:
        raise Damaged("an event without a type", run=run, seq=seq) from error


def _with_more(event: Event) -> dict[str, Any]:
    parts: dict[str, Any] = _split.decode(_encoder.encode([event]))[0]
    parts.pop("+", None)
    return {**parts, **(event.more or {})}
