"""The blobs that events name: large values, and the definitions of workflows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from outlast.history import events as e
from outlast.store import BlobRef

Kinds: TypeAlias = frozenset[type[e.Event]]
"""The types of the events of an append."""

REFERENCE = b'{"$":"blob",'
"""How the value begins that stands for a blob in the log."""
_DOLLAR = ord("$")
"""Searching bytes for one byte is much faster than for several."""
_WITH_VERSION = (e.RunCreated, e.VersionChanged)
"""Events that name the definition of a workflow."""
_VERSIONED: Kinds = frozenset(_WITH_VERSION)


def is_elsewhere(raw: e.Value) -> bool:
    """Whether the log holds a reference instead of the value."""
    return len(raw) > len(REFERENCE) and bytes(memoryview(raw)[: len(REFERENCE)]) == REFERENCE


def blob_of(raw: e.Value) -> BlobRef:
    """The blob that a reference names."""
    reference = msgspec.json.decode(raw)
    return BlobRef(reference["hash"], reference["size"])


def values_in(part: Any) -> Iterator[Raw]:
    """All values in an event, at any depth, those of its errors included."""
    if isinstance(part, Raw):
        yield part
    elif isinstance(part, Struct):
        for inner in astuple(part):
            yield from values_in(inner)
    elif isinstance(part, dict | tuple | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from values_in(inner)


def blobs_of(event: e.AnyEvent) -> list[BlobRef]:
    """The blobs that an event names. The size of a definition is not known."""
    found = [blob_of(value) for value in values_in(event) if is_elsewhere(value)]
    version = event.version if isinstance(event, _WITH_VERSION) else ""
    return [*found, BlobRef(version, 0)] if version else found


def hashes_in(events: Sequence[e.AnyEvent], body: bytes, kinds: Kinds) -> tuple[str, ...]:
    """The hashes of all blobs that these events name; `body` are the events encoded, `kinds` their types. Nearly all
    appends name none, which shows without a look at the events."""
    if _DOLLAR in body and REFERENCE in body:
        return tuple(dict.fromkeys(ref.hash for event in events for ref in blobs_of(event)))
    if _VERSIONED.isdisjoint(kinds):
        return ()
    versions = [event.version for event in events if isinstance(event, _WITH_VERSION)]
    return tuple(dict.fromkeys(filter(None, versions)))
