"""What the parts of the store share: the database, the clock, and how text and numbers are kept."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.store import Append
from outlast.stores.postgres.database import Database

LARGEST = 1 << 62
"""Larger than any seq, time or number of rows; the server's own numbers end at 2 to the 63rd."""
_ESCAPED = {"\x00": "\x01\x30", "\x01": "\x01\x31"}
_PLAIN = {value: key for key, value in _ESCAPED.items()}


def bounded(number: int) -> int:
    """The number, or the largest one that makes sense to ask the server for."""
    return max(-LARGEST, min(number, LARGEST))


def kept(text: str) -> str:
    """Text as the server can keep it: it has no character 0. Different texts stay different, and parts stay parts."""
    if "\x00" not in text and "\x01" not in text:
        return text
    return "".join(_ESCAPED.get(character, character) for character in text)


def told(text: str) -> str:
    """Text as it was before it was kept."""
    if "\x01" not in text:
        return text
    first, *others = text.split("\x01")
    return first + "".join(_PLAIN["\x01" + other[0]] + other[1:] for other in others)


class Rows:
    """The ground the journal, the catalog, the claims, the wake-ups and the lines stand on."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.skew = 0

    def _announce_own(self, landed: Sequence[Append]) -> None:
        """Told after each batch of appends of this process; the wake-ups tell the others."""
