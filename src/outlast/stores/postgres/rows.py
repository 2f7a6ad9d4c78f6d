"""The base class of the parts of a PostgreSQL store, and the encoding of text."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.history.ids import RunId
from outlast.store import Append
from outlast.stores.postgres.database import Database

_ESCAPED = {"\x00": "\x01\x30", "\x01": "\x01\x31"}
_PLAIN = {value: key for key, value in _ESCAPED.items()}


def escape(text: str) -> str:
    """Encode text without the character 0, which the server cannot store. Distinct texts and substrings stay distinct."""
    if "\x00" not in text and "\x01" not in text:
        return text
    return "".join(_ESCAPED.get(character, character) for character in text)


def unescape(text: str) -> str:
    """Decode text that was encoded by `escape`."""
    if "\x01" not in text:
        return text
    first, *others = text.split("\x01")
    return first + "".join(_PLAIN["\x01" + other[0]] + other[1:] for other in others)


class Rows:
    """The base class of the parts of a store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def skew(self) -> int:
        return self._db.skew

    @skew.setter
    def skew(self, skew: int) -> None:
        self._db.skew = skew

    def _announce(self, runs: frozenset[RunId]) -> None:
        """Called when the death of a worker with these runs is certain: the wake-ups notify the subscribers."""

    def _announce_own(self, landed: Sequence[Append]) -> None:
        """Called after each batch of appends: the wake-ups notify other processes."""
