"""A glance that tells values which are JSON as they are, without a walk through them.

A walk in Python takes longer than writing and reading together, and most values of some size hold nothing but lists, dicts,
texts and numbers. Such a value is written as it stands and read back, which is due anyway; that it was right to do so is
found out at the speed of C. Whoever is not recognised is walked through, which refuses and describes as it always did, so a
glance may overlook any value that is plain, and never takes one for plain that is not:

1. Every part is exactly of a builtin class (`exact`), not of a subclass, nor a member of an enum or a secret that was
   revealed.
2. What is read back is equal to it. No tuple, set or bytes is, nor a dict whose keys are no texts, nor what is not a number.
3. Its ints have 64 bits and it is not nested deeply, for it is read as a type that says so.
4. No object in it has the key "$".
5. The value of a secret that was revealed is not found in its JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from outlast.values import secret_patterns
from outlast.values.containers import Listing, Mapped
from outlast.values.scalars import BOOL, INT, LEAST, NULL, TEXT
from outlast.values.type_codec import MARK, TypeCodec
from outlast.values.untyped import ANYTHING

Look: TypeAlias = tuple[Callable[[Any], None], Callable[[bytes], Any]]
"""What raises if a value is not exact, and what reads one."""
SHORTEST: Final = 1000
"""The bytes of JSON from which on a glance is quicker than a walk."""
LEVELS: Final = 6
"""How many containers may lie in one another: each level doubles the size of the type."""

_DOLLAR = ord(MARK)
_MARKED = f'"{MARK}"'.encode()
_encode = msgspec.json.Encoder().encode
_INT: Any = Annotated[int, msgspec.Meta(ge=LEAST, le=-LEAST - 1)]  # as far as msgspec lets one say it
_LEAVES: dict[TypeCodec, Any] = {NULL: type(None), BOOL: bool, INT: _INT, TEXT: str}
"""Floats are not among them: an int where the annotation says float is stored as a float."""


class JsonFastPath:
    """Recognises the values of one shape that are JSON as they are."""

    __slots__ = ("_is_open", "_look", "_shape")

    def __init__(self, shape: TypeCodec) -> None:
        self._shape = shape
        self._is_open = _is_open(shape, LEVELS)
        self._look: Look | None = None

    def told(self, value: Any, begin: Callable[[bytes], None] | None = None) -> tuple[bytes, Any] | None:
        """The JSON of a list or a dict and what is read from it, or None if the value is not recognised. `begin` is called
        with what is the JSON if nothing is found against it."""
        if not self._is_open:
            return None
        try:
            body = _encode(value)
            if len(body) < SHORTEST or (_DOLLAR in body and _MARKED in body):
                return None
            require_builtin, read = self._look or self._made()
            require_builtin(value)  # before anybody is given the bytes: they might hold a secret
            if secret_patterns.known and secret_patterns.refused_in(body):
                return None
            if begin is not None:
                begin(body)
            copy = read(body)
            return (body, copy) if copy == value else None
        except Exception:  # whatever it is, the walk says it better
            return None

    def _made(self) -> Look:
        """What is looked through, made at first use: that takes milliseconds, and many programs never need it."""
        from outlast.values.builtin_check import require_builtin

        self._look = look = require_builtin, msgspec.json.Decoder(_type_of(self._shape, LEVELS)).decode
        return look


def _is_open(shape: TypeCodec, levels: int) -> bool:
    """Whether values of that shape may be plain: it is made of lists, dicts and what has a type below."""
    if shape is ANYTHING or shape in _LEAVES:
        return True
    if type(shape) is Listing and shape.classes == (list,):
        return levels > 0 and _is_open(shape.item, levels - 1)
    if type(shape) is Mapped and (shape.key is TEXT or shape.key is ANYTHING):
        return levels > 0 and _is_open(shape.item, levels - 1)
    return False


def _type_of(shape: TypeCodec, levels: int) -> Any:
    """The type of the JSON of such values."""
    if isinstance(shape, Listing):
        return _list_of(_type_of(shape.item, levels - 1))
    if isinstance(shape, Mapped):
        return _dict_of(_type_of(shape.item, levels - 1))
    return _anything(levels) if shape is ANYTHING else _LEAVES[shape]


@cache
def _anything(levels: int) -> Any:
    """The type of plain JSON in which no more than so many containers lie in one another."""
    if not levels:
        return None | bool | _INT | float | str
    part = _anything(levels - 1)
    return _anything(0) | _list_of(part) | _dict_of(part)


def _list_of(part: Any) -> Any:
    return list[part]


def _dict_of(part: Any) -> Any:
    return dict[str, part]
