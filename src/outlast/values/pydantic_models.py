"""The codec of a pydantic model, recognized by its methods: pydantic is not imported and need not be installed.

A model is stored as its JSON dump, field by field, and restored through its own validation. The dump may lose data (excluded
fields, one-way serializers, a subclass in a field of its base), so the stored form is read back first, and refused if it
gives another model (R1).
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from outlast.values.not_storable import SECRET, name_of, not_a
from outlast.values.secrets import has_revealed
from outlast.values.type_codec import CodecError, TypeCodec, check_depth, misfit, shown
from outlast.values.untyped import ANYTHING

_encode = msgspec.json.Encoder().encode


class Model(TypeCodec):
    """A pydantic model of version 2. It is an object, unless it has its own serializer or is a root model."""

    tags = frozenset(("dict",))

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.classes = (cls,)
        decorators = getattr(cls, "__pydantic_decorators__", None)
        is_object = not getattr(decorators, "model_serializers", True) and not getattr(
            cls, "__pydantic_root_model__", True
        )
        self.kind = "dict" if is_object else "any"
        # Field names are read despite aliases where pydantic can (2.11); answers may still use aliases.
        self._by_name = "by_name" in inspect.signature(cls.model_validate).parameters
        self._reading = {"by_name": True, "by_alias": True} if self._by_name else {}

    def encode(self, value: Any, depth: int, /) -> Any:
        if type(value) is not self.cls:
            raise not_a(value, name_of(self.cls))
        check_depth(depth, value)
        try:
            dump = self._dump(value)
        except Exception as error:  # a serializer is user code
            raise CodecError(
                f"{name_of(self.cls)} cannot be stored, because it cannot be dumped to JSON: {error}"
            ) from error
        if has_revealed(dump):
            raise CodecError(SECRET)
        tree = ANYTHING.encode(dump, depth + 1)
        self._check(value, tree)
        return tree

    def decode(self, tree: Any, /) -> Any:
        plain = ANYTHING.decode(tree)
        try:
            if plain == tree:  # it is plain JSON, and a strict model accepts some types from JSON only
                return self.cls.model_validate_json(_encode(tree), **self._reading)
            return self.cls.model_validate(plain, **self._reading)
        except Exception as error:  # a validator is user code
            misfit(f"{name_of(self.cls)} ({error})", tree)

    def may_be(self, tree: Any, /) -> bool:
        if not isinstance(tree, dict) or self.kind != "dict" or self.cls.model_config.get("extra") == "allow":
            return True
        properties = self.cls.model_json_schema().get("properties", {})
        return tree.keys() <= {*properties, *self.cls.model_fields}

    def _dump(self, value: Any) -> Any:
        return value.model_dump(mode="json", round_trip=True, by_alias=not self._by_name)

    def _check(self, value: Any, tree: Any) -> None:
        stored = _encode(tree)
        name = name_of(self.cls)
        try:
            again = self.decode(msgspec.json.decode(stored))
        except CodecError as error:
            raise CodecError(
                f"{name} cannot be stored, because it cannot be read back from its own dump: {error.reason}"
            ) from None
        if again == value:
            return
        # A model that contains NaN equals no other model: compare the dumps.
        if ANYTHING.decode(tree) == tree or _encode(ANYTHING.encode(self._dump(again), 0)) != stored:
            raise CodecError(
                f"{name} cannot be stored, because its JSON dump is read back as another value: {shown(again)}"
            )
