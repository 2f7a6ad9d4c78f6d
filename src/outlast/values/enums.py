"""Codecs of values from a fixed list: enums and literals."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from outlast.values.not_storable import name_of, not_a
from outlast.values.scalars import GREATEST, LEAST, PLAIN, TEXT, is_unicode
from outlast.values.type_codec import CodecError, TypeCodec, misfit

_MOST = 12
"""How many members an error lists."""


class Member(TypeCodec):
    """A member of an enum: by value if all values are texts or all are numbers, otherwise by name."""

    def __init__(self, cls: type[enum.Enum]) -> None:
        self.cls = cls
        self.classes = (cls,)
        values = [member.value for member in cls.__members__.values()]
        self._is_flag = issubclass(cls, enum.Flag)
        has_texts = all(type(value) is str and is_unicode(value) for value in values)
        has_numbers = all(type(value) is int and LEAST <= value <= GREATEST for value in values)
        self._by_value = bool(values) and (has_texts or has_numbers)
        self.kind = "int" if self._by_value and has_numbers else "text"
        self.native = self._by_value and not self._is_flag
        self.textual = self.kind == "text"

    def encode(self, value: Any, _: int, /) -> Any:
        if type(value) is not self.cls:
            raise not_a(value, name_of(self.cls))
        return value.value if self._by_value else value.name

    def decode(self, tree: Any, /) -> Any:
        try:
            if not self._by_value:
                return self.cls[tree]
            return self.cls(tree) if type(tree) in (int, str) else misfit(self._expected(), tree)
        except (KeyError, ValueError):
            return misfit(self._expected(), tree)

    def _expected(self) -> str:
        members = self.cls.__members__
        known = [repr(each.value) for each in members.values()] if self._by_value else [*map(repr, members)]
        return f"{name_of(self.cls)} ({', '.join(known[:_MOST])}{', …' if len(known) > _MOST else ''})"


class OneOf(TypeCodec):
    """A literal: the value itself, looked up among those of the annotation. `shapes` are the codecs of the values."""

    def __init__(self, values: tuple[Any, ...], shapes: tuple[TypeCodec, ...]) -> None:
        self._values = values
        self._trees = {
            (type(value), value): shape.encode(value, 0) for value, shape in zip(values, shapes, strict=True)
        }
        self._known = {msgspec.json.encode(tree): key[1] for key, tree in self._trees.items()}
        if len(self._known) != len(self._trees):
            raise CodecError(f"{self} has two values with the same stored form; annotate it with their types instead")
        self.classes = tuple({type(value) for value in values})
        kinds = {shape.kind for shape in shapes}
        self.kind = kinds.pop() if len(kinds) == 1 else "any"
        self.native = all(shape in PLAIN for shape in shapes)
        self.textual = all(shape is TEXT for shape in shapes)

    def encode(self, value: Any, _: int, /) -> Any:
        try:
            return self._trees[type(value), value]
        except (KeyError, TypeError):
            raise not_a(value, str(self)) from None

    def decode(self, tree: Any, /) -> Any:
        try:
            return self._known[msgspec.json.encode(tree)]
        except KeyError:
            return misfit(str(self), tree)

    def __str__(self) -> str:
        return f"Literal{list(self._values)}"
