"""Codecs of values that hold other values: lists, tuples, sets and dicts.

A list is a JSON array, and so are tuples and sets; a set is ordered by the bytes of its members (R2). A dict is a JSON
object if its keys are stored as distinct texts other than "$", and otherwise {"$": "dict", "v": [[key, value], …]}; it keeps
its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from outlast.values.not_storable import not_a
from outlast.values.scalars import GREATEST, INT, LEAST, TEXT
from outlast.values.type_codec import MARK, CodecError, TypeCodec, check_depth, key_step, misfit

_encode = msgspec.json.Encoder().encode
_MANY = 8
"""The number of items from which checking them all at once is faster."""


class Listing(TypeCodec):
    """A list, or a tuple of any length. It accepts either and returns `cls`.

    An abstract one (a Sequence) returns the class it was given: a tuple is stored with a mark."""

    kind = "list"

    def __init__(self, item: TypeCodec, cls: type = list, *, abstract: bool = False) -> None:
        self.item = item
        self.cls = cls
        self._abstract = abstract
        self.classes = (list, tuple) if abstract else (cls,)
        self.tags = frozenset(("tuple",)) if abstract else frozenset()

    def encode(self, value: Any, depth: int, /) -> Any:
        cls = type(value)
        if cls is not list and not isinstance(value, (list, tuple)):
            raise not_a(value, self.cls.__name__)
        check_depth(depth, value)
        is_plain = cls is list and len(value) >= _MANY and self.item.passes(value)
        tree = value if is_plain else _encode_items(self.item.encode, value, depth + 1)
        return {MARK: "tuple", "v": tree} if self._abstract and isinstance(value, tuple) else tree

    def decode(self, tree: Any, /) -> Any:
        if self._abstract and isinstance(tree, dict) and tree.get(MARK) == "tuple":
            return tuple(_decode_items(self.item.decode, tree["v"]))
        items = _decode_items(self.item.decode, tree)
        return items if self.cls is list else self.cls(items)

    def parts(self) -> Iterable[TypeCodec]:
        return (self.item,)


class Row(TypeCodec):
    """A tuple of fixed length, with a codec for each position."""

    kind = "list"

    def __init__(self, items: tuple[TypeCodec, ...]) -> None:
        self.items = items
        self.classes = (tuple,)

    def encode(self, value: Any, depth: int, /) -> Any:
        if not isinstance(value, (tuple, list)):
            raise not_a(value, "tuple")
        if len(value) != len(self.items):
            raise CodecError(
                f"a tuple of {len(value)} items cannot be stored: the annotation requires {len(self.items)} items"
            )
        check_depth(depth, value)
        return encode_row(self.items, value, depth + 1)

    def decode(self, tree: Any, /) -> Any:
        if not isinstance(tree, list) or len(tree) != len(self.items):
            misfit(f"a tuple of {len(self.items)}", tree)
        return tuple(decode_row(self.items, tree))

    def parts(self) -> Iterable[TypeCodec]:
        return self.items


class Distinct(TypeCodec):
    """A set or a frozenset; an abstract one returns the class it was given."""

    kind = "list"

    def __init__(self, item: TypeCodec, cls: type = set, *, abstract: bool = False) -> None:
        self.item = item
        self.cls = cls
        self._abstract = abstract
        self.classes = (set, frozenset) if abstract else (cls,)
        self.tags = frozenset(("frozenset",)) if abstract else frozenset()

    def encode(self, value: Any, depth: int, /) -> Any:
        if not isinstance(value, (set, frozenset)):
            raise not_a(value, self.cls.__name__)
        check_depth(depth, value)
        encode = self.item.encode
        encoded: list[bytes] = []
        for item in value:
            try:
                encoded.append(_encode(encode(item, depth + 1)))
            except CodecError as error:
                raise error.within("{…}", value) from None
        tree = [msgspec.Raw(each) for each in sorted(encoded)]
        return {MARK: "frozenset", "v": tree} if self._abstract and isinstance(value, frozenset) else tree

    def decode(self, tree: Any, /) -> Any:
        if self._abstract and isinstance(tree, dict) and tree.get(MARK) == "frozenset":
            return frozenset(_decode_items(self.item.decode, tree["v"]))
        return self.cls(_decode_items(self.item.decode, tree))

    def parts(self) -> Iterable[TypeCodec]:
        return (self.item,)


class Mapped(TypeCodec):
    """A dict. Int keys become their digits; other keys that are not texts make it a list of pairs."""

    kind = "dict"
    classes = (dict,)
    tags = frozenset(("dict",))

    def __init__(self, key: TypeCodec, item: TypeCodec) -> None:
        self.key = key
        self.item = item

    def encode(self, value: Any, depth: int, /) -> Any:
        if not isinstance(value, dict):
            raise not_a(value, "dict")
        check_depth(depth, value)
        as_key = self._key_for(value)
        if as_key is None:
            return {MARK: "dict", "v": self._pairs(value, depth + 1)}
        tree = self._object(value, as_key, depth + 1)
        if len(tree) != len(value):
            raise CodecError("two of its keys would be stored as the same text; annotate the keys with their own type")
        return {MARK: "dict", "v": list(tree.items())} if MARK in tree else tree

    def _key_for(self, value: dict[Any, Any]) -> Callable[[Any, int], Any] | None:
        """The function that makes object keys from these keys, or None if the dict is stored as pairs."""
        if self.key.textual:
            return self.key.encode
        if self.key is INT and all(type(key) is int and LEAST <= key <= GREATEST for key in value):
            return _digits
        return TEXT.encode if self.key.keeps_text and all(type(key) is str for key in value) else None

    def _object(self, value: dict[Any, Any], as_key: Callable[[Any, int], Any], depth: int) -> dict[Any, Any]:
        encode = self.item.encode
        is_text = as_key == TEXT.encode
        tree = {}
        for key, item in value.items():
            try:
                name = key if is_text and type(key) is str and key.isascii() else as_key(key, depth)
                tree[name] = encode(item, depth)
            except CodecError as error:
                raise error.within(key_step(key), value) from None
        return tree

    def _pairs(self, value: dict[Any, Any], depth: int) -> list[list[Any]]:
        pairs = []
        for key, item in value.items():
            try:
                pairs.append([self.key.encode(key, depth), self.item.encode(item, depth)])
            except CodecError as error:
                raise error.within(key_step(key), value) from None
        return pairs

    def decode(self, tree: Any, /) -> Any:
        if not isinstance(tree, dict):
            misfit("dict", tree)
        is_pairs = tree.get(MARK) == "dict"
        pairs = tree["v"] if is_pairs else tree.items()
        decode, decode_key = self.item.decode, _number if self.key is INT and not is_pairs else self.key.decode
        value = {}
        for key, item in pairs:
            try:
                value[decode_key(key)] = decode(item)
            except CodecError as error:
                raise error.within(key_step(key)) from None
        return value

    def parts(self) -> Iterable[TypeCodec]:
        return (self.key, self.item)


def _digits(key: int, _: int) -> str:
    return str(key)


def _number(key: str) -> int:
    try:
        return int(key)
    except ValueError:
        return misfit("int", key)


def encode_row(shapes: Iterable[TypeCodec], values: Any, depth: int) -> list[Any]:
    """Encode each value with the codec of its position."""
    trees: list[Any] = []
    try:
        for shape, value in zip(shapes, values, strict=True):
            trees.append(shape.encode(value, depth))
    except CodecError as error:
        raise error.within(f"[{len(trees)}]", values) from None
    return trees


def decode_row(shapes: Iterable[TypeCodec], trees: list[Any]) -> list[Any]:
    """Decode each tree with the codec of its position."""
    values: list[Any] = []
    try:
        for shape, tree in zip(shapes, trees, strict=False):
            values.append(shape.decode(tree))
    except CodecError as error:
        raise error.within(f"[{len(values)}]") from None
    return values


def _encode_items(encode: Callable[[Any, int], Any], value: Any, depth: int) -> list[Any]:
    trees: list[Any] = []
    try:
        for item in value:
            trees.append(encode(item, depth))  # noqa: PERF401 - the length is the position of a failure
    except CodecError as error:
        raise error.within(f"[{len(trees)}]", value) from None
    return trees


def _decode_items(decode: Callable[[Any], Any], tree: Any) -> list[Any]:
    if not isinstance(tree, list):
        misfit("a list", tree)
    values: list[Any] = []
    try:
        for item in tree:
            values.append(decode(item))  # noqa: PERF401
    except CodecError as error:
        raise error.within(f"[{len(values)}]") from None
    return values
