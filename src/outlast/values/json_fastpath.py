"""A fast path for values that are plain JSON, without walking them in Python.

A walk in Python takes longer than encoding and decoding together, and most large values hold only lists, dicts, texts and
numbers. The fast path encodes such a value as it is and decodes it, which is needed anyway, and compares the two at the
speed of C. Any other value is walked, and the walk refuses it with the right message. So the fast path may miss a plain
value, but it never accepts one that is not plain:

1. Every part is exactly of a builtin class (`builtin_check`): not of a subclass, a member of an enum or a revealed secret.
2. The decoded value is equal to it. No tuple, set, bytes or NaN is, nor a dict with keys that are not texts.
3. Its ints have 64 bits and it is not nested deeply, because the type that decodes it says so.
4. No object in it has the key "$".
5. The value of a revealed secret is not found in its JSON.
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
"""A function that raises if a value has a part of another class, and a decoder."""
SHORTEST: Final = 1000
"""The size of the JSON from which the fast path is faster than a walk."""
LEVELS: Final = 6
"""How many containers may be nested: each level doubles the size of the type."""

_DOLLAR = ord(MARK)
_MARKED = f'"{MARK}"'.encode()
_encode = msgspec.json.Encoder().encode
_INT: Any = Annotated[int, msgspec.Meta(ge=LEAST, le=-LEAST - 1)]  # msgspec allows no larger bound
_LEAVES: dict[TypeCodec, Any] = {NULL: type(None), BOOL: bool, INT: _INT, TEXT: str}
"""Floats are missing: an int with the annotation float is stored as a float."""


class JsonFastPath:
    """Recognizes the values of one codec that are plain JSON."""

    __slots__ = ("_is_open", "_look", "_shape")

    def __init__(self, shape: TypeCodec) -> None:
        self._shape = shape
        self._is_open = _is_open(shape, LEVELS)
        self._look: Look | None = None

    def encode_and_copy(self, value: Any, begin: Callable[[bytes], None] | None = None) -> tuple[bytes, Any] | None:
        """The JSON of a list or a dict and a copy decoded from it, or None if the value is not recognized. `begin` is
        called with the JSON before the copy is compared."""
        if not self._is_open:
            return None
        try:
            body = _encode(value)
            if len(body) < SHORTEST or (_DOLLAR in body and _MARKED in body):
                return None
            require_builtin, read = self._look or self._made()
            require_builtin(value)  # before `begin` receives the bytes: they may hold a secret
            if secret_patterns.known and secret_patterns.refused_in(body):
                return None
            if begin is not None:
                begin(body)
            copy = read(body)
            return (body, copy) if copy == value else None
        except Exception:  # the walk raises the error with the path
            return None

    def _made(self) -> Look:
        """The check and the decoder, made at first use: that takes milliseconds, and many programs never need it."""
        from outlast.values.builtin_check import require_builtin

        self._look = look = require_builtin, msgspec.json.Decoder(_type_of(self._shape, LEVELS)).decode
        return look


def _is_open(shape: TypeCodec, levels: int) -> bool:
    """Whether values of that codec may be plain: it consists of lists, dicts and the types in `_LEAVES`."""
    if shape is ANYTHING or shape in _LEAVES:
        return True
    if type(shape) is Listing and shape.classes == (list,):
        return levels > 0 and _is_open(shape.item, levels - 1)
    if type(shape) is Mapped and (shape.key is TEXT or shape.key is ANYTHING):
        return levels > 0 and _is_open(shape.item, levels - 1)
    return False


def _type_of(shape: TypeCodec, levels: int) -> Any:
    """The type that decodes the JSON of such values."""
    if isinstance(shape, Listing):
        return _list_of(_type_of(shape.item, levels - 1))
    if isinstance(shape, Mapped):
        return _dict_of(_type_of(shape.item, levels - 1))
    return _anything(levels) if shape is ANYTHING else _LEAVES[shape]


@cache
def _anything(levels: int) -> Any:
    """The type of plain JSON with at most so many nested containers."""
    if not levels:
        return None | bool | _INT | float | str
    part = _anything(levels - 1)
    return _anything(0) | _list_of(part) | _dict_of(part)


def _list_of(part: Any) -> Any:
    return list[part]


def _dict_of(part: Any) -> Any:
    return dict[str, part]
