"""Codecs of dicts and tuples whose parts are declared by name: TypedDicts and NamedTuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from outlast.values.containers import decode_row, encode_row
from outlast.values.not_storable import name_of, not_a
from outlast.values.records import Hints, check_names
from outlast.values.type_codec import CodecError, TypeCodec, check_depth, key_step, misfit
from outlast.values.untyped import ANYTHING


class Typed(TypeCodec):
    """A TypedDict: a dict with these keys and no others."""

    kind = "dict"
    classes = (dict,)

    def __init__(self, cls: Any, hints: Hints, required: Callable[[], frozenset[str]]) -> None:
        self.cls = cls
        self._hints = hints
        self._required_keys = required
        check_names(cls, cls.__annotations__)

    @cached_property
    def _keys(self) -> Mapping[str, TypeCodec]:
        return self._hints()

    @cached_property
    def _required(self) -> list[str]:
        return sorted(self._required_keys())

    def parts(self) -> Iterable[TypeCodec]:
        return self._keys.values()

    def encode(self, value: Any, depth: int, /) -> Any:
        if not isinstance(value, dict):
            raise not_a(value, name_of(self.cls))
        check_depth(depth, value)
        self._check_keys(value)
        tree = {}
        for key, part in value.items():
            try:
                if key not in self._keys:
                    raise CodecError(f"{name_of(self.cls)} has no such key; remove it, or declare it in the class")
                tree[str.__str__(key)] = self._keys[key].encode(part, depth + 1)
            except CodecError as error:
                raise error.within(key_step(key), value) from None
        return tree

    def decode(self, tree: Any, /) -> Any:
        if not isinstance(tree, dict):
            misfit(name_of(self.cls), tree)
        self._check_keys(tree)
        value = {}
        for key, part in tree.items():
            if key in self._keys:
                try:
                    value[key] = self._keys[key].decode(part)
                except CodecError as error:
                    raise error.within(key_step(key)) from None
        return value

    def _check_keys(self, value: Mapping[str, Any]) -> None:
        for key in self._required:
            if key not in value:
                raise CodecError(f"{name_of(self.cls)} requires the key {key!r}, which is missing")


class Named(TypeCodec):
    """A NamedTuple, stored as an array of its fields."""

    kind = "list"

    def __init__(self, cls: Any, hints: Hints) -> None:
        self.cls = cls
        self.classes = (cls,)
        self._hints = hints

    @cached_property
    def _items(self) -> tuple[TypeCodec, ...]:
        hints = self._hints()
        return tuple(hints.get(field, ANYTHING) for field in self.cls._fields)

    def parts(self) -> Iterable[TypeCodec]:
        return self._items

    def encode(self, value: Any, depth: int, /) -> Any:
        if type(value) is not self.cls:
            raise not_a(value, name_of(self.cls))
        check_depth(depth, value)
        return encode_row(self._items, value, depth + 1)

    def decode(self, tree: Any, /) -> Any:
        defaults = self.cls._field_defaults
        fields = self.cls._fields
        if not isinstance(tree, list) or any(field not in defaults for field in fields[len(tree) :]):
            misfit(name_of(self.cls), tree)
        values = decode_row(self._items, tree)
        return tuple.__new__(self.cls, [*values, *(defaults[field] for field in fields[len(values) :])])
