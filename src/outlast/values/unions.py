"""The codec of a union: which member a value is, and how that is found again.

If no two members look alike in JSON, each is stored as it would be alone. Otherwise every part that is not null, a bool, a
number or a text names its member: {"$": "one", "of": "Circle", "v": …}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from outlast.values.not_storable import not_a
from outlast.values.scalars import PLAIN
from outlast.values.type_codec import MARK, CodecError, TypeCodec, misfit

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "text",
    list: "list",
    dict: "dict",
}


class Choice(TypeCodec):
    """One of several codecs, by label. Stored values can be read only while the labels stay the same."""

    def __init__(self, members: Mapping[str, TypeCodec]) -> None:
        self._members = dict(members)
        self._labels = {id(shape): label for label, shape in members.items()}
        kinds = [shape.kind for shape in members.values()]
        self._tells = "any" in kinds or len(set(kinds)) < len(kinds)
        self.native = not self._tells
        self.classes = tuple(dict.fromkeys(cls for shape in members.values() for cls in shape.classes))
        self.tags = frozenset(("one",)).union(*(shape.tags for shape in members.values()))
        self._by_class = {cls: self._ordered(cls) for cls in self.classes}
        self._by_kind = {shape.kind: shape for shape in self._plain()}
        self._by_tag = {tag: shape for shape in self._plain() for tag in shape.tags}

    def encode(self, value: Any, depth: int, /) -> Any:
        first: CodecError | None = None
        for shape in self._by_class.get(type(value)) or self._members.values():
            try:
                tree = shape.encode(value, depth)
            except CodecError as error:
                first = first or error
            else:
                return self._told(shape, tree) if self._tells else tree
        raise first if first and type(value) in self._by_class else not_a(value, str(self))

    def decode(self, tree: Any, /) -> Any:
        kind = _KINDS.get(type(tree), "any")
        if kind == "dict" and MARK in tree:
            if tree[MARK] == "one":
                return self._named(tree)
            if tree[MARK] in self._by_tag:
                return self._by_tag[tree[MARK]].decode(tree)
        shape = self._by_kind.get(kind)
        if shape is None and kind == "int":
            shape = self._by_kind.get("float")  # an answer may contain 3 for 3.0
        return shape.decode(tree) if shape else self._guessed(tree)

    def parts(self) -> Iterable[TypeCodec]:
        return self._members.values()

    def _guessed(self, tree: Any) -> Any:
        """A tree that does not name its member, such as a person's answer: the only member that it fits."""
        fitting = []
        for shape in self._members.values() if self._tells else ():
            with suppress(CodecError, LookupError, TypeError, ValueError, ArithmeticError):
                if shape.may_be(tree):
                    fitting.append(shape.decode(tree))
        return fitting[0] if len(fitting) == 1 else misfit(str(self), tree)

    def _ordered(self, cls: type) -> list[TypeCodec]:
        """The members in the order in which a value of this class tries them: those of its class first."""
        return sorted(self._members.values(), key=lambda shape: cls not in shape.classes)

    def _plain(self) -> Iterable[TypeCodec]:
        """The members that are stored as they would be alone."""
        return (shape for shape in self._members.values() if not self._tells or shape in PLAIN)

    def _told(self, shape: TypeCodec, tree: Any) -> Any:
        if shape in PLAIN:
            return tree
        return {MARK: "one", "of": self._labels[id(shape)], "v": tree}

    def _named(self, tree: dict[str, Any]) -> Any:
        shape = self._members.get(tree["of"])
        return shape.decode(tree["v"]) if shape else misfit(str(self), tree)

    def __str__(self) -> str:
        return " | ".join(self._members)
