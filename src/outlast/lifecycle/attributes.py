"""Search attributes as text: on the command line, in queries and in lists.

`parse_attribute` reads what `attribute_text` writes: true and false, numbers, and times with a zone are what they look like;
everything else is text. A text that looks like one of those is written in double quotes, as in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from outlast.errors import InvalidInput
from outlast.history.events import AttributeValue, Moment

NAME = r"[a-z][a-z0-9_]{0,62}"
"""The pattern of a name."""
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(time: datetime) -> Moment:
    """A time with a zone as the value of an attribute."""
    return Moment((time - _EPOCH) // timedelta(microseconds=1))


def too_large(where: str) -> InvalidInput:
    """The error for a number that no store can compare. It does not show the number, which may have any length."""
    return InvalidInput(f"{where} does not fit into 64 bits: give it as text")


def parse_attribute(where: str, text: str) -> AttributeValue:
    """The value that a text stands for. `where` describes it in an error."""
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        try:
            return float(text) if set(".eE") & set(text) else int(text)
        except ValueError as error:  # Python reads no more than 4300 digits
            raise too_large(where) from error
    if text.startswith('"'):
        try:
            return msgspec.json.decode(text, type=str)
        except (msgspec.DecodeError, UnicodeError):
            return text
    return _parse_time(where, text) if _TIME.fullmatch(text) else text


def _parse_time(where: str, text: str) -> AttributeValue:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    if time.tzinfo is None:
        raise InvalidInput(
            f"{where}: {text!r} is a time without a zone: write for example {time.isoformat(timespec='minutes')}Z, or "
            f"put double quotes around it if it is text"
        )
    return moment_of(time)


def attribute_text(value: AttributeValue) -> str:
    """A value as text."""
    if isinstance(value, Moment):
        return _time_text(value.time)
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if value.startswith('"') or _looks_typed(value):
        return msgspec.json.encode(value).decode()
    return value


def _looks_typed(text: str) -> bool:
    return text in ("true", "false") or bool(_NUMBER.fullmatch(text) or _TIME.fullmatch(text))


def _time_text(time: int) -> str:
    """2026-11-30T12:00:00Z; a time that datetime cannot represent as its number of microseconds."""
    try:
        return f"{(_EPOCH + timedelta(microseconds=time)).replace(tzinfo=None).isoformat()}Z"
    except OverflowError:
        return str(time)


def attributes_text(attributes: Mapping[str, AttributeValue | None]) -> str:
    """`customer=acme, total=12.5`; an attribute that is removed is `customer removed`."""
    return ", ".join(
        f"{name} removed" if value is None else f"{name}={attribute_text(value)}" for name, value in attributes.items()
    )
