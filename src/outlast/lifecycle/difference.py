"""The differences between two JSON values, path by path."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

MAX_CHANGES = 1000
"""At most this many differences of one value are listed; the last one counts the rest."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSENT = object()


class Change(Struct, frozen=True, gc=False):
    """At this path (`output.pages[3].words`) `old` was replaced by `new`; None means absent."""

    path: str
    old: Raw | None
    new: Raw | None
    more: int = 0
    """Differences after this one that are not listed."""


def changes_between(old: Raw, new: Raw, path: str = "$", most: int = MAX_CHANGES) -> list[Change]:
    """The differences of two JSON texts, in the order of the old one. White space and the order of keys do not count."""
    if bytes(old) == bytes(new):
        return []
    try:
        one, other = msgspec.json.decode(old), msgspec.json.decode(new)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return [Change(path, old, new)]
    found: list[Change] = []
    beyond = 0
    pending: list[tuple[str, Any, Any]] = [(path, one, other)]
    while pending:
        place, one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict) and not _is_blob(one, other):
            pending += reversed([(_member(place, name), *sides) for name, sides in _members(one, other)])
        elif isinstance(one, list) and isinstance(other, list):
            pending += reversed([(f"{place}[{at}]", *sides) for at, sides in _items(one, other)])
        elif not _is_equal(one, other):
            if len(found) < most:
                found.append(Change(place, _raw(one), _raw(other)))
            else:
                beyond += 1
    if beyond:
        found[-1] = msgspec.structs.replace(found[-1], more=beyond)
    return found


def _members(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, tuple[Any, Any]]]:
    names = [*one, *(name for name in other if name not in one)]
    return [(name, (one.get(name, _ABSENT), other.get(name, _ABSENT))) for name in names]


def _items(one: list[Any], other: list[Any]) -> list[tuple[int, tuple[Any, Any]]]:
    both = range(max(len(one), len(other)))
    return [
        (at, (one[at] if at < len(one) else _ABSENT, other[at] if at < len(other) else _ABSENT))
        for at in both
        if at >= len(one) or at >= len(other) or one[at] is not other[at]
    ]


def _member(place: str, name: str) -> str:
    return f"{place}.{name}" if _PLAIN.fullmatch(name) else f"{place}[{msgspec.json.encode(name).decode()}]"


def _is_blob(*values: dict[str, Any]) -> bool:
    """A reference to a blob is compared as a whole."""
    return any(value.get("$") == "blob" for value in values)


def _is_equal(one: Any, other: Any) -> bool:
    """Unlike Python, True differs from 1; 1 and 1.0 are the same number."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _raw(value: Any) -> Raw | None:
    return None if value is _ABSENT else Raw(msgspec.json.encode(value))
