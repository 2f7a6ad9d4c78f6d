"""Codecs of values with named parts: dataclasses and msgspec Structs.

A record accepts exactly its class: a subclass would lose the fields that it adds. It is restored with the fields it had,
without calling its `__init__`. A `__post_init__` is called, for what it sets besides the fields, and then the fields are set
again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

import msgspec

from outlast.values.containers import decode_row, encode_row
from outlast.values.not_storable import name_of, not_a
from outlast.values.type_codec import MARK, CodecError, TypeCodec, check_depth, key_step, misfit
from outlast.values.untyped import ANYTHING

Hints = Callable[[], Mapping[str, TypeCodec]]
"""The codecs of a class's fields, computed at first use, because a class may contain itself."""


def check_names(cls: Any, names: Iterable[str]) -> None:
    """Refuse a class whose JSON would have the key that marks a tagged value."""
    if MARK in names:
        raise CodecError(f"{name_of(cls)} cannot be stored, because a field has the name {MARK!r} in JSON; rename it")


def _getter(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns all fields of a record."""
    if len(fields) > 1:
        return attrgetter(*fields)
    return lambda value: tuple(getattr(value, field) for field in fields)


class Record(TypeCodec):
    """A class with fields, stored as an object. `names` maps each field to its name in JSON."""

    kind = "dict"

    def __init__(self, cls: Any, hints: Hints, names: Mapping[str, str]) -> None:
        self.cls = cls
        self.classes = (cls,)
        self._hints = hints
        self._names = names
        self._get: Callable[[Any], tuple[Any, ...]] = _getter(tuple(names))
        self._post_init = getattr(cls, "__post_init__", None)
        self.native = self._post_init is None
        check_names(cls, names.values())

    @cached_property
    def _fields(self) -> tuple[tuple[str, str, TypeCodec], ...]:
        hints = self._hints()
        return tuple((field, name, hints.get(field, ANYTHING)) for field, name in self._names.items())

    @cached_property
    def _encoders(self) -> tuple[tuple[str, str, Callable[[Any, int], Any]], ...]:
        return tuple((field, name, shape.encode) for field, name, shape in self._fields)

    def parts(self) -> Iterable[TypeCodec]:
        return [shape for _, _, shape in self._fields]

    def encode(self, value: Any, depth: int, /) -> Any:
        if type(value) is not self.cls:
            raise not_a(value, name_of(self.cls))
        check_depth(depth, value)
        try:
            parts = self._get(value)
        except AttributeError:  # a field that was never set stays unset
            parts = tuple(getattr(value, field, msgspec.UNSET) for field in self._names)
        tree = {}
        for (field, name, encode), part in zip(self._encoders, parts, strict=True):
            if part is not msgspec.UNSET:
                try:
                    tree[name] = encode(part, depth + 1)
                except CodecError as error:
                    raise error.within(f".{field}", value) from None
        return self._packed(tree)

    def decode(self, tree: Any, /) -> Any:
        if not isinstance(tree, dict):
            misfit(name_of(self.cls), tree)
        values = {}
        for field, name, shape in self._fields:
            if name in tree:
                try:
                    values[field] = shape.decode(tree[name])
                except CodecError as error:
                    raise error.within(f".{field}") from None
        try:
            return self._built(values)
        except CodecError:
            raise
        except Exception as error:  # a __post_init__ may raise anything
            raise CodecError(f"{name_of(self.cls)} does not accept the stored fields: {error!r}") from error

    def may_be(self, tree: Any, /) -> bool:
        return isinstance(tree, dict) and tree.keys() <= set(self._names.values())

    def _packed(self, tree: dict[str, Any]) -> Any:
        return tree

    def _built(self, values: dict[str, Any]) -> Any:
        raise NotImplementedError


class DataclassRecord(Record):
    """A dataclass. Fields that were not stored take their defaults."""

    def __init__(self, cls: Any, hints: Hints) -> None:
        fields = dataclasses.fields(cls)
        try:
            object.__new__(cls)
        except TypeError as error:  # it is abstract, or also a dict or an error, whose contents are not fields
            raise CodecError(
                f"{name_of(cls)} cannot be stored, because it cannot be built from its fields: {error}"
            ) from error
        super().__init__(cls, hints, {field.name: field.name for field in fields})
        self._defaults = {field.name: field for field in fields}
        has_initvars = any("InitVar" in str(field.type) for field in cls.__dataclass_fields__.values())
        if has_initvars:
            self._post_init = None  # its arguments were not stored
        self.native = self.native and not has_initvars and all(field.init for field in fields)

    def _built(self, values: dict[str, Any]) -> Any:
        for name, field in self._defaults.items():
            if name in values:
                continue
            if field.default is not dataclasses.MISSING:
                values[name] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                values[name] = field.default_factory()
            elif field.init:
                raise CodecError(f"{name_of(self.cls)} needs a field {name!r}, which is not stored")
        record = object.__new__(self.cls)
        self._set(record, values)
        if self._post_init is not None:
            record.__post_init__()
            self._set(record, values)
        return record

    def _set(self, record: Any, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(record, name, value)  # frozen ones too


class StructRecord(Record):
    """A msgspec Struct, in the layout of its options: renamed, tagged, or as an array."""

    def __init__(self, cls: type[msgspec.Struct], hints: Hints) -> None:
        super().__init__(cls, hints, dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)))
        config = cls.__struct_config__
        self._tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        self._is_array = config.array_like
        self.kind = "list" if self._is_array else "dict"
        check_names(cls, self._tag)

    def decode(self, tree: Any, /) -> Any:
        if self._is_array and isinstance(tree, list):
            tree = dict(zip(self._names.values(), tree[len(self._tag) :], strict=False))
        return super().decode(tree)

    def may_be(self, tree: Any, /) -> bool:
        if self._is_array:
            return not self._tag or (isinstance(tree, list) and tree[:1] == [*self._tag.values()])
        if not isinstance(tree, dict) or any(tree.get(name) != tag for name, tag in self._tag.items()):
            return False
        return tree.keys() <= {*self._tag, *self._names.values()}

    def _packed(self, tree: dict[str, Any]) -> Any:
        if not self._is_array:
            return {**self._tag, **tree}
        if len(tree) < len(self._names):
            raise CodecError(f"{name_of(self.cls)} is stored as an array, so each of its fields must be set")
        return [*self._tag.values(), *tree.values()]

    def _built(self, values: dict[str, Any]) -> Any:
        record = self.cls(**values)
        if self._post_init is not None:
            for name, value in values.items():
                msgspec.structs.force_setattr(record, name, value)
        return record


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
