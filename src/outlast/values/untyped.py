"""The codec of a value without an annotation: the value describes itself.

JSON types are stored as they are. Standard types are objects with a "$": {"$": "datetime", "v": "2026-01-01T00:00:00"},
{"$": "tuple", "v": [1, 2]}. A user's class is refused: its name in a log would have to stay valid for ever, and an
annotation describes it better.
"""

from __future__ import annotations

from collections.abc import Collection
from math import isfinite
from pathlib import Path
from typing import Any

from outlast.values.containers import Distinct, Listing, Mapped
from outlast.values.not_storable import not_storable
from outlast.values.scalars import FLOAT, GREATEST, INT, LEAST, Reference, check_unicode, is_unicode
from outlast.values.secrets import Secret
from outlast.values.stdlib_types import PATH, STANDARD
from outlast.values.type_codec import DEEPEST, MARK, TypeCodec, misfit

_ATOMS = frozenset((bool, type(None)))


class Described(TypeCodec):
    """A value described by its own class, part by part."""

    keeps_text = True

    def __init__(self) -> None:
        part = self if type(self) is Described else DESCRIBED  # a part is not checked a second time
        self._list = Listing(part)
        self._dict = Mapped(part, part)
        named: dict[str, tuple[type, TypeCodec]] = {
            "tuple": (tuple, Listing(part, tuple)),
            "set": (set, Distinct(part, set)),
            "frozenset": (frozenset, Distinct(part, frozenset)),
            "path": (type(Path()), PATH),
            **{shape.name: (shape.cls, shape) for shape in STANDARD},
        }
        self._by_name = {name: shape for name, (_, shape) in named.items()}
        self._by_class = {cls: (name, shape) for name, (cls, shape) in named.items()}
        self._whole: dict[str, TypeCodec] = {"int": INT, "float": FLOAT, "dict": self._dict, "secret": SECRET_REFERENCE}
        """Codecs that write their own "$"."""
        self.tags = frozenset((*self._by_name, *self._whole))

    def encode(self, value: Any, depth: int, /) -> Any:
        cls = type(value)
        if cls is str:
            if not value.isascii():
                check_unicode(value)
            return value
        if cls is int:
            return value if LEAST <= value <= GREATEST else INT.encode(value, depth)
        if cls is dict:
            return self._dict.encode(value, depth)
        if cls is list:
            return self._list.encode(value, depth)
        if cls is float:
            return value if isfinite(value) else FLOAT.encode(value, depth)
        if cls in _ATOMS:
            return value
        return self._described(cls, value, depth)

    def decode(self, tree: Any, /) -> Any:
        if type(tree) is list:
            return self._list.decode(tree)
        if type(tree) is not dict:
            return tree
        name = tree.get(MARK)
        if name is None and MARK not in tree:
            return self._dict.decode(tree)
        if name in self._whole:
            return self._whole[name].decode(tree)
        if name in self._by_name:
            return self._by_name[name].decode(tree["v"])
        return misfit("a value with a known type", tree)

    def _described(self, cls: type, value: Any, depth: int) -> Any:
        if cls is Secret:
            return SECRET_REFERENCE.encode(value, depth)
        if cls not in self._by_class:
            raise not_storable(value)
        name, shape = self._by_class[cls]
        return {MARK: name, "v": shape.encode(value, depth)}


class Anything(Described):
    """The same, but it first checks whether the whole value is plain JSON, which is usually so."""

    def encode(self, value: Any, depth: int, /) -> Any:
        cls = type(value)
        if cls is dict:
            return value if _is_plain(value.values(), value, depth) else self._dict.encode(value, depth)
        if cls is list:
            return value if _is_plain(value, (), depth) else self._list.encode(value, depth)
        return super().encode(value, depth)


def _is_plain(items: Collection[Any], keys: Collection[Any], depth: int) -> bool:
    """Whether a list, or a dict, is JSON as it is."""
    if depth >= DEEPEST:
        return False
    for key in keys:
        if type(key) is not str or key == MARK or not key.isascii():
            return False
    for item in items:
        cls = type(item)
        if cls is str:
            if not item.isascii() and not is_unicode(item):
                return False
        elif cls is int:
            if not LEAST <= item <= GREATEST:
                return False
        elif cls is dict:
            if not _is_plain(item.values(), item, depth + 1):
                return False
        elif cls is list:
            if not _is_plain(item, (), depth + 1):
                return False
        elif cls is float:
            if not isfinite(item):
                return False
        elif cls is not bool and item is not None:
            return False
    return True


SECRET_REFERENCE = Reference()
DESCRIBED = Described()
ANYTHING = Anything()
