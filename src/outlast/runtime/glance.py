"""A glance that tells values which are JSON as they are, without a walk through them.

A walk in Python takes longer than writing and reading together, and most values of some size hold nothing but lists, dicts,
texts and numbers. Such a value is written as it stands and read back, which is due anyway; that it was right to do so is
found out at the speed of C. Whoever is not recognised is walked through, which refuses and describes as it always did, so a
glance may overlook any value that is plain, and never takes one for plain that is not:

1. Every part is exactly of a builtin class: a pickler would ask about any other, be it of a subclass, a member of an enum or
   a secret that was revealed.
2. What is read back is equal to it. No tuple, set or bytes is, nor a dict whose keys are no texts, nor what is not a number.
3. Its ints have 64 bits and it is not nested deeply, for it is read as a type that says so.
4. No object in it has the key "$".
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final

import msgspec

from outlast.runtime.containers import Listing, Mapped
from outlast.runtime.leaves import BOOL, INT, LEAST, NULL, TEXT
from outlast.runtime.selfdescribing import ANYTHING
from outlast.runtime.shape import MARK, Shape

SHORTEST: Final = 1000
"""The bytes of JSON from which on a glance is quicker than a walk."""
LEVELS: Final = 6
"""How many containers may lie in one another: each level doubles the size of the type."""

_DOLLAR = ord(MARK)
_MARKED = f'"{MARK}"'.encode()
_encode = msgspec.json.Encoder().encode
_INT: Any = Annotated[int, msgspec.Meta(ge=LEAST, le=-LEAST - 1)]  # as far as msgspec lets one say it
_LEAF: Any = None | bool | _INT | float | str
_LEAVES: dict[Shape, Any] = {NULL: type(None), BOOL: bool, INT: _INT, TEXT: str}
"""Floats are not among them: an int where the annotation says float is stored as a float."""


class Glance:
    """Recognises the values of one shape that are JSON as they are."""

    __slots__ = ("_read", "_type")

    def __init__(self, shape: Shape) -> None:
        self._type = _type_of(shape, LEVELS)
        self._read: Callable[[bytes], Any] | None = None

    def told(self, value: Any, begin: Callable[[bytes], None] | None = None) -> tuple[bytes, Any] | None:
        """The JSON of a list or a dict and what is read from it, or None if the value is not recognised. `begin` is called
        with what is the JSON if nothing is found against it."""
        if self._type is None:
            return None
        try:
            body = _encode(value)
            if len(body) < SHORTEST or (_DOLLAR in body and _MARKED in body):
                return None
            _must_be_exact(value)  # before anything else sees the bytes: they may hold a secret
            if begin is not None:
                begin(body)
            copy = self._reader()(body)
            return (body, copy) if copy == value else None
        except Exception:  # whatever it is, the walk says it better
            return None

    def _reader(self) -> Callable[[bytes], Any]:
        """Made when it is first needed: it takes milliseconds, and many values are short."""
        if self._read is None:
            self._read = msgspec.json.Decoder(self._type).decode
        return self._read


class _Nowhere:
    """The file of a pickler whose bytes nobody wants."""

    write = staticmethod(len)


class _Exact(pickle.Pickler):
    """Refuses what is not exactly of a builtin class. Nothing is ever read from what it writes."""

    def reducer_override(self, part: Any) -> Any:
        """Asked about every object but None, True, False and exact instances of the builtin classes."""
        raise TypeError(f"a {type(part).__name__} is not plain")


_NOWHERE = _Nowhere()


def _must_be_exact(value: Any) -> None:
    """Raise something if a part of it is not exactly of a builtin class."""
    pickler = _Exact(_NOWHERE)
    pickler.fast = True  # it need not remember what it has seen
    pickler.dump(value)


def _type_of(shape: Shape, levels: int) -> Any:
    """The type of the JSON of such values, or None if they have to be walked through."""
    if shape in _LEAVES:
        return _LEAVES[shape]
    if shape is ANYTHING:
        return _anything(levels)
    if levels and type(shape) is Listing and shape.classes == (list,):
        item = _type_of(shape.item, levels - 1)
        return item and _list_of(item)
    if levels and type(shape) is Mapped and (shape.key is TEXT or shape.key is ANYTHING):
        item = _type_of(shape.item, levels - 1)
        return item and _dict_of(item)
    return None


@cache
def _anything(levels: int) -> Any:
    """The type of plain JSON in which no more than so many containers lie in one another."""
    if not levels:
        return _LEAF
    part = _anything(levels - 1)
    return _LEAF | _list_of(part) | _dict_of(part)


def _list_of(part: Any) -> Any:
    return list[part]


def _dict_of(part: Any) -> Any:
    return dict[str, part]
