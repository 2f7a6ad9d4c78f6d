"""Checks an answer against the JSON schema of its question before anything is stored (P7)."""

from __future__ import annotations

import base64
import binascii
import datetime
import operator
import re
import uuid
from decimal import Decimal
from typing import Any

import msgspec

from outlast.errors import InvalidInput

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}

FORMATS: dict[str, tuple[Any, str]] = {
    "date-time": (datetime.datetime, "a date and time, such as 2027-05-01T12:00:00Z"),
    "date": (datetime.date, "a date, such as 2027-05-01"),
    "time": (datetime.time, "a time, such as 12:00:00"),
    "duration": (datetime.timedelta, "a duration, such as PT1H30M or P2D"),
    "uuid": (uuid.UUID, "a UUID"),
    "decimal": (Decimal, "a decimal number as a text, such as 1.50"),
}
"""The type and the description of each string format."""
_BOUNDS = (
    ("minimum", "at least", operator.ge),
    ("maximum", "at most", operator.le),
    ("exclusiveMinimum", "more than", operator.gt),
    ("exclusiveMaximum", "less than", operator.lt),
)


def check_answer(tree: Any, schema: Any, where: str = "the answer") -> None:
    """Raise `InvalidInput` for the part of an answer (plain JSON) that does not fit its JSON schema. Unknown keywords
    of a schema are ignored: the run decodes the answer by its own type."""
    _Fitting(schema if isinstance(schema, dict) else {}).check(tree, schema, where)


class _Fitting:
    def __init__(self, root: dict[str, Any]) -> None:
        self._definitions = root.get("$defs", {})

    def check(self, tree: Any, schema: Any, where: str) -> None:
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            self.check(tree, self._definitions.get(str(schema["$ref"]).rpartition("/")[2]), where)
        if "anyOf" in schema:
            self._check_any(tree, schema["anyOf"], where)
        if "oneOf" in schema:
            self._check_one(tree, schema, where)
        if "enum" in schema and tree not in schema["enum"]:
            raise InvalidInput(f"{where} must be one of {', '.join(map(repr, schema['enum']))}, not {_shown(tree)}")
        if "type" in schema:
            self._check_type(tree, schema["type"], where)
        self._check_parts(tree, schema, where)

    def _check_any(self, tree: Any, choices: list[Any], where: str) -> None:
        refusals = []
        for choice in choices:
            try:
                return self.check(tree, choice, where)
            except InvalidInput as refusal:
                refusals.append(str(refusal))
        raise InvalidInput("; or ".join(refusals))

    def _check_one(self, tree: Any, schema: dict[str, Any], where: str) -> None:
        self._check_any(tree, schema["oneOf"], where)
        fitting = [choice for choice in schema["oneOf"] if self._fits(tree, choice)]
        if len(fitting) > 1 and "discriminator" not in schema:
            named = " and ".join(str(choice.get("title", "another")) for choice in fitting)
            raise InvalidInput(f"{where} fits more than one type, {named}: give fields that only one of them has")

    def _fits(self, tree: Any, schema: Any) -> bool:
        try:
            self.check(tree, schema, "")
        except InvalidInput:
            return False
        return True

    def _check_type(self, tree: Any, name: Any, where: str) -> None:
        names = name if isinstance(name, list) else [name]
        kinds = tuple(kind for each in names for kind in _TYPES.get(each, (object,)))
        if not isinstance(tree, kinds) or (isinstance(tree, bool) and bool not in kinds and object not in kinds):
            raise InvalidInput(f"{where} must be of type {' or '.join(map(str, names))}, not {_shown(tree)}")

    def _check_parts(self, tree: Any, schema: dict[str, Any], where: str) -> None:
        if isinstance(tree, dict):
            self._check_object(tree, schema, where)
        elif isinstance(tree, list):
            self._check_array(tree, schema, where)
        elif isinstance(tree, str):
            _check_text(tree, schema, where)
        elif isinstance(tree, int | float) and not isinstance(tree, bool):
            _check_number(tree, schema, where)

    def _check_object(self, tree: dict[str, Any], schema: dict[str, Any], where: str) -> None:
        for name in schema.get("required", ()):
            if name not in tree:
                raise InvalidInput(f"{where} lacks {name!r}")
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        keys = schema.get("propertyNames")
        for name, part in tree.items():
            if name not in known and others is False:
                raise InvalidInput(f"{where} has an unknown field {name!r}")
            self.check(name, keys, f"{_within(where)} its key {name!r},")
            self.check(part, known.get(name, others), f"{_within(where)} {name!r},")

    def _check_array(self, tree: list[Any], schema: dict[str, Any], where: str) -> None:
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(tree))
        if not least <= len(tree) <= most:
            raise InvalidInput(f"{where} has {len(tree)} items and must have {_between(least, most, len(tree))}")
        first, others = schema.get("prefixItems", []), schema.get("items")
        for place, part in enumerate(tree):
            if place >= len(first) and others is False:
                raise InvalidInput(f"{where} has {len(tree)} items and must have {len(first)}")
            self.check(part, first[place] if place < len(first) else others, f"{_within(where)} item {place},")


def _check_text(text: str, schema: dict[str, Any], where: str) -> None:
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(text))
    if not least <= len(text) <= most:
        raise InvalidInput(f"{where} has {len(text)} characters and must have {_between(least, most, len(text))}")
    pattern = schema.get("pattern")
    if pattern is not None and not re.search(pattern, text):
        raise InvalidInput(f"{where} must match {pattern}, not {_shown(text)}")
    if schema.get("contentEncoding") == "base64":
        _check_base64(text, where)
    kind, called = FORMATS.get(schema.get("format", ""), (None, ""))
    if kind is not None:
        try:
            msgspec.convert(text, kind)
        except msgspec.ValidationError:
            raise InvalidInput(f"{where} must be {called}, not {_shown(text)}") from None


def _check_base64(text: str, where: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{where} must be bytes in base64, such as aGVsbG8=, not {_shown(text)}") from None


def _check_number(number: float, schema: dict[str, Any], where: str) -> None:
    for name, word, holds in _BOUNDS:
        if name in schema and not holds(number, schema[name]):
            raise InvalidInput(f"{where} must be {word} {schema[name]}, not {number}")


def _within(where: str) -> str:
    return where if where.endswith(",") else f"{where},"


def _between(least: int, most: int, found: int) -> str:
    return f"at least {least}" if found < least else f"at most {most}"


def _shown(tree: Any) -> str:
    text = repr(tree)
    return text if len(text) <= 80 else f"{text[:79]}…"
