"""The JSON schema of the answers to a question. It is shown to the person who answers, and answers are checked against it
(P7).

msgspec writes the schema. This module adds what msgspec leaves out, because an answer that passes the schema is stored and
must be readable as its type: the format of times, the keys of objects, and pydantic models.
"""

from __future__ import annotations

import types
import typing
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import inspect as mi

from outlast.errors import InvalidInput, NotStorable
from outlast.history import events as e
from outlast.values import secret_patterns
from outlast.values.find_secret import find_secret
from outlast.values.not_storable import SECRET, name_of

_KEYS: dict[type, dict[str, Any]] = {
    mi.IntType: {"pattern": "^-?[0-9]+$"},
    mi.DateTimeType: {"format": "date-time"},
    mi.DateType: {"format": "date"},
    mi.TimeType: {"format": "time"},
    mi.UUIDType: {"format": "uuid"},
    mi.DecimalType: {"format": "decimal"},
}
"""The schemas of object keys, which are always texts in JSON."""
_RECORDS = (mi.StructType, mi.DataclassType, mi.TypedDictType, mi.NamedTupleType)
_MANY = (mi.ListType, mi.SetType, mi.FrozenSetType, mi.VarTupleType, mi.CollectionType)


def schema_of(kind: Any) -> e.Value:
    """The schema of answers of a type; null if any answer is allowed. `InvalidInput` if the type has no schema."""
    if kind is Any:
        return e.NULL
    try:
        tree = _schema(_with_choices(kind))
    except TypeError as error:
        reason = str(error).rpartition("\n")[2]
        raise InvalidInput(f"an answer cannot have type {name_of(kind)}, which has no JSON schema: {reason}") from error
    schema = msgspec.json.encode(tree)
    if secret_patterns.known and find_secret(schema) is not None:
        raise NotStorable(f"the type of an answer: {SECRET}")
    return msgspec.Raw(schema)


def _schema(kind: Any) -> dict[str, Any]:
    tree = msgspec.json.schema(kind, schema_hook=_foreign)
    _Completer(tree).complete(mi.type_info(kind), tree)
    return tree


def _with_choices(kind: Any) -> Any:
    """The same type with a class in place of each union that msgspec has no schema for, such as a union of dataclasses."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union or origin is types.UnionType:
        try:
            mi.type_info(kind)
        except TypeError:
            return type("Choice", (), {"model_json_schema": staticmethod(lambda: _choice(args))})
        return kind
    if not args or origin is typing.Literal:
        return kind
    inner = tuple(_with_choices(arg) for arg in args)
    return kind if inner == args else kind.copy_with(inner) if hasattr(kind, "copy_with") else origin[inner]


def _choice(members: tuple[Any, ...]) -> dict[str, Any]:
    """Exactly one of the members. Objects have no additional fields, because otherwise they could match several members."""
    choices: list[Any] = []
    definitions: dict[str, Any] = {}
    for member in members:
        schema = _schema(_with_choices(member))
        definitions |= schema.pop("$defs", {})
        named = definitions.get(str(schema.get("$ref")).rpartition("/")[2], schema)
        choices.append({"additionalProperties": False, **named} if "properties" in named else named)
    return {"oneOf": choices, "$defs": definitions}


def _foreign(cls: type) -> dict[str, Any]:
    """The schema of a class that msgspec does not know."""
    if issubclass(cls, PurePath):
        return {"type": "string"}
    written = getattr(cls, "model_json_schema", None)  # pydantic is not imported, and need not be installed
    if written is None:
        raise NotImplementedError
    schema: dict[str, Any] = written()
    return schema


class _Completer:
    """Adds to a schema what msgspec left out."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._completed: set[str] = set()

    def complete(self, info: mi.Type, schema: Any) -> None:
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in self._completed:
                return
            self._completed.add(name)
            schema = self._root["$defs"][name]
        if isinstance(info, mi.DateTimeType):
            schema["format"] = "date-time"
        elif isinstance(info, mi.CustomType):
            self._hoist(schema)
        else:
            self._complete_parts(info, schema)

    def _complete_parts(self, info: mi.Type, schema: dict[str, Any]) -> None:
        if isinstance(info, mi.Metadata):
            self.complete(info.type, schema)
        elif isinstance(info, mi.DictType):
            if key_schema := _KEYS.get(type(info.key_type)):
                schema["propertyNames"] = dict(key_schema)
            self.complete(info.value_type, schema.get("additionalProperties"))
        elif isinstance(info, _MANY):
            self.complete(info.item_type, schema.get("items"))
        elif isinstance(info, mi.TupleType):
            for part, of in zip(info.item_types, schema.get("prefixItems", ()), strict=False):
                self.complete(part, of)
        elif isinstance(info, mi.UnionType):
            for part, of in zip(info.types, schema.get("anyOf", ()), strict=False):
                self.complete(part, of)
        elif isinstance(info, _RECORDS):
            self._complete_fields(info, schema)

    def _complete_fields(self, info: Any, schema: dict[str, Any]) -> None:
        named = schema.get("properties", {})
        listed = schema.get("prefixItems", ())
        for place, field in enumerate(info.fields):
            known = listed[place] if place < len(listed) else named.get(field.encode_name)
            self.complete(field.type, known)

    def _hoist(self, schema: dict[str, Any]) -> None:
        """Move definitions of a model to the top level, where references look for them."""
        if schema is not self._root and "$defs" in schema:
            self._root.setdefault("$defs", {}).update(schema.pop("$defs"))
