"""Codecs of values without parts: the plain types of JSON, and references to secrets.

A value may be of a subclass of its annotation (a numpy float, an IntEnum, a bool for an int). It is stored and restored as
the annotated type, if its value is not changed by that.
"""

from __future__ import annotations

from collections.abc import Collection
from math import isfinite
from operator import index
from typing import Any, Final

from outlast.values.not_storable import SECRET, SURROGATE, advice_on, not_a
from outlast.values.secrets import Revealed, Secret
from outlast.values.type_codec import MARK, CodecError, TypeCodec, misfit

LEAST: Final = -(1 << 63)
GREATEST: Final = (1 << 64) - 1
"""An int in this range is read as the same number by every JSON reader; other ints are stored as hexadecimal text."""


class Null(TypeCodec):
    kind = "null"
    classes = (type(None),)

    def encode(self, value: Any, _: int, /) -> None:
        if value is not None:
            raise not_a(value, "None")

    def decode(self, tree: Any, /) -> None:
        if tree is not None:
            misfit("None", tree)


class Bool(TypeCodec):
    kind = "bool"
    classes = (bool,)

    def encode(self, value: Any, _: int, /) -> Any:
        if value is True or value is False:
            return value
        raise not_a(value, "bool")

    def decode(self, tree: Any, /) -> Any:
        return tree if tree is True or tree is False else misfit("bool", tree)

    def passes(self, values: Collection[Any], /) -> bool:
        return set(map(type, values)) == {bool}


class Int(TypeCodec):
    kind = "int"
    classes = (int,)
    tags = frozenset(("int",))

    def encode(self, value: Any, _: int, /) -> Any:
        if type(value) is not int:
            if not hasattr(value, "__index__") or advice_on(value) is not None:
                raise not_a(value, "int")
            value = index(value)
        if LEAST <= value <= GREATEST:
            return value
        return {MARK: "int", "v": hex(value)}  # hexadecimal has no limit of digits, and takes linear time

    def decode(self, tree: Any, /) -> Any:
        if type(tree) is int:
            return tree
        if isinstance(tree, dict) and tree.get(MARK) == "int":
            return int(tree["v"], 16)
        return misfit("int", tree)

    def passes(self, values: Collection[Any], /) -> bool:
        return set(map(type, values)) == {int} and min(values) >= LEAST and max(values) <= GREATEST


class Float(TypeCodec):
    """NaN and the infinities, which JSON does not have, are stored as {"$": "float", "v": "nan"}, "inf" or "-inf"."""

    kind = "float"
    classes = (float,)
    tags = frozenset(("float",))

    def encode(self, value: Any, _: int, /) -> Any:
        if type(value) is not float:
            value = self._exactly(value)
        if isfinite(value):
            return value
        return {MARK: "float", "v": repr(value)}

    def decode(self, tree: Any, /) -> Any:
        if type(tree) is float:
            return tree
        if type(tree) is int:
            return float(tree)
        if isinstance(tree, dict) and tree.get(MARK) == "float":
            return float(tree["v"])
        return misfit("float", tree)

    def passes(self, values: Collection[Any], /) -> bool:
        # The sum is not finite if an item is not. If only the sum overflows, the items are checked one by one.
        return set(map(type, values)) == {float} and isfinite(sum(values))

    def _exactly(self, value: Any) -> float:
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, int):
            try:
                number = float(value)
            except OverflowError:
                number = 0.5
            if number == value:
                return number
            raise CodecError(
                "an int that has no equal float cannot be stored where the annotation says float; annotate it as int"
            )
        raise not_a(value, "float")


class Text(TypeCodec):
    kind = "text"
    classes = (str,)
    textual = True

    def encode(self, value: Any, _: int, /) -> Any:
        if type(value) is not str:
            if not isinstance(value, str) or isinstance(value, Revealed):
                raise not_a(value, "str")
            value = str.__str__(value)
        if not value.isascii():
            check_unicode(value)
        return value

    def decode(self, tree: Any, /) -> Any:
        return tree if type(tree) is str else misfit("str", tree)

    def passes(self, values: Collection[Any], /) -> bool:
        return set(map(type, values)) == {str} and all(map(str.isascii, values))


NULL, BOOL, INT, FLOAT, TEXT = Null(), Bool(), Int(), Float(), Text()
PLAIN = (NULL, BOOL, INT, FLOAT, TEXT)


def check_unicode(text: str) -> None:
    """Refuse text that has no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CodecError(SURROGATE) from None


def is_unicode(text: str) -> bool:
    """Whether text has a UTF-8 form."""
    try:
        check_unicode(text)
    except CodecError:
        return False
    return True


class Reference(TypeCodec):
    """A secret, stored as its name and source."""

    kind = "dict"
    classes = (Secret,)
    tags = frozenset(("secret",))

    def encode(self, value: Any, depth: int, /) -> Any:
        if type(value) is not Secret:
            raise CodecError(SECRET) if isinstance(value, str) else not_a(value, "Secret")
        return {MARK: "secret", "name": TEXT.encode(value.name, depth), "source": TEXT.encode(value.source, depth)}

    def decode(self, tree: Any, /) -> Any:
        if isinstance(tree, dict) and tree.get(MARK) == "secret":
            return Secret(TEXT.decode(tree.get("name")), TEXT.decode(tree.get("source")))
        return misfit("a reference to a secret", tree)


class Unstorable(TypeCodec):
    """An annotation under which nothing can be stored, and the reason."""

    native = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def encode(self, value: Any, _: int, /) -> Any:
        raise advice_on(value) or CodecError(self._reason)

    def decode(self, _: Any, /) -> Any:
        raise CodecError(self._reason)
