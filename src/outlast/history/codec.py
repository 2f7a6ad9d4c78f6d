"""The encoding of events as JSON.

The body of an append is a JSON array of events. A field that this version does not know stays in `Event.more` and is written
again beside the others; an unknown event type raises `UnknownEvent`. The fast path decodes a body in which every field is
known; otherwise the slow path decodes the events one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isfinite
from typing import TypeAlias

import msgspec

from outlast.errors import Damaged, InvalidInput, StoreUnusable, UnknownEvent
from outlast.history.events import EVENT_TYPES, NULL, AnyEvent, Event, Failure

Parts: TypeAlias = dict[str, msgspec.Raw]

_encoder = msgspec.json.Encoder()
_one: msgspec.json.Decoder[Parts] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_split: msgspec.json.Decoder[list[Parts]] = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_known: dict[str, frozenset[str]] = {
    name: frozenset((*kind.__struct_encode_fields__, "type")) - {"+"} for name, kind in EVENT_TYPES.items()
}
_known_of_failure = frozenset(Failure.__struct_encode_fields__) - {"+"}
_FAILING = frozenset(name for name, kind in EVENT_TYPES.items() if "error" in kind.__struct_fields__)
_LONG = 500
"""From this many bytes per event, checking the events is faster than searching the body."""
_PLUS = ord("+")
"""Searching bytes for one byte is much faster than for several."""
ENCRYPTED = b"\x00OE1"
"""The first bytes of content that a store with keys has encrypted."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding bytes that are not events: no JSON, wrong fields, no text, or too deeply nested."""


@cache
def _decoder() -> msgspec.json.Decoder[list[AnyEvent]]:
    """Created on the first read: it inspects all event types, which takes time, and many processes only write."""
    return msgspec.json.Decoder(list[AnyEvent])


def encode(events: Sequence[AnyEvent]) -> bytes:
    """The body of an append of these events, in order; `InvalidInput` for a number that JSON cannot represent."""
    body = _encoder.encode(events)
    is_long = len(body) > _LONG * len(events)
    # Fields of a newer version; in a short body a user's value may have such a key, and the slow way is correct too.
    if any(map(_has_more, events)) if is_long else _PLUS in body and b'"+":' in body:
        body = _encoder.encode([_with_more(event) for event in events])
    if is_long or body.find(b'"ms":null') >= 0:
        _check_durations(events)
    return body


def decode(body: bytes, *, run: str = "", first: int = 1) -> list[AnyEvent]:
    """The events of a body. `run` and `first` are for error messages only."""
    try:
        return _decoder().decode(body)
    except _UNREADABLE:
        return [_decode_one(parts, run, first + place) for place, parts in enumerate(_parts(body, run, first))]


def _has_more(event: AnyEvent) -> bool:
    error: Failure | None = getattr(event, "error", None)
    return event.more is not None or (error is not None and error.more is not None)


def _check_durations(events: Sequence[AnyEvent]) -> None:
    for event in events:
        ms = getattr(event, "ms", 0.0)
        if not isfinite(ms):
            raise InvalidInput(f"the duration of {type(event).__name__} must be finite, not {ms} ms")


def _parts(body: bytes, run: str, first: int) -> list[Parts]:
    try:
        return _split.decode(body)
    except _UNREADABLE as error:
        if body.startswith(ENCRYPTED):
            raise StoreUnusable(f"run {run} is encrypted: set OUTLAST_ENCRYPTION_KEYS") from None
        raise Damaged(f"the stored bytes are not a list of events: {error}", run=run, seq=first) from error


def _decode_one(parts: Parts, run: str, seq: int) -> AnyEvent:
    try:
        name = msgspec.json.decode(parts["type"], type=str)
        if name not in EVENT_TYPES:
            raise UnknownEvent(name, run=run, seq=seq)
        known = _set_apart(parts, _known[name])
        if name in _FAILING and known.get("error", NULL) != NULL:
            error = _set_apart(_one.decode(known["error"]), _known_of_failure)
            known["error"] = msgspec.Raw(_encoder.encode(error))
        return _decoder().decode(_encoder.encode([known]))[0]
    except KeyError:
        raise Damaged("the event has no type", run=run, seq=seq) from None
    except _UNREADABLE as error:
        raise Damaged(f"the event cannot be decoded: {error}", run=run, seq=seq) from error


def _set_apart(parts: Parts, known: frozenset[str]) -> Parts:
    """The known parts, with all others under the key of `Event.more`."""
    more = {key: part for key, part in parts.items() if key not in known}
    kept = {key: part for key, part in parts.items() if key in known}
    return {**kept, "+": msgspec.Raw(_encoder.encode(more))} if more else kept


def _with_more(event: Event) -> Parts:
    parts = _together(_encoder.encode(event))
    if type(event).__name__ in _FAILING and parts.get("error", NULL) != NULL:
        parts["error"] = msgspec.Raw(_encoder.encode(_together(parts["error"])))
    return parts


def _together(body: bytes | msgspec.Raw) -> Parts:
    parts = _one.decode(body)
    more = parts.pop("+", None)
    return parts if more is None else {**parts, **_one.decode(more)}
