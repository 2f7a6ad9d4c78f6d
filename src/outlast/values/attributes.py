"""Search attributes from users: a flat map of names to text, numbers, true or false, and times; and conditions on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Any, TypeAlias, get_args, get_type_hints

from outlast.errors import InvalidInput
from outlast.history.events import AttributeValue, Moment
from outlast.lifecycle.attributes import NAME, attribute_text, moment_of, parse_attribute, too_large
from outlast.store import AttributeFilter
from outlast.values.checked_text import words
from outlast.values.not_storable import name_of

AttributeInput: TypeAlias = bool | int | float | str | datetime
"""A value as users give it."""
MAX_ATTRIBUTES = 32
MAX_TEXT = 500
"""Characters."""
_NAME = re.compile(NAME)


def checked_attributes(where: str, given: Any) -> dict[str, AttributeValue]:
    """The attributes of a new run. `where` describes them in an error."""
    attributes = {name: checked_attribute(f"{where}.{name}", value) for name, value in _named(where, given)}
    check_count(where, attributes)
    return attributes


def checked_changes(where: str, given: Any) -> dict[str, AttributeValue | None]:
    """Changes of attributes; None removes one."""
    return {
        name: None if value is None else checked_attribute(f"{where}.{name}", value)
        for name, value in _named(where, given)
    }


def check_count(where: str, attributes: Mapping[str, AttributeValue]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidInput(f"{where}: a run can have {MAX_ATTRIBUTES} attributes, and these are {len(attributes)}")


def _named(where: str, given: Any) -> list[tuple[str, Any]]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a mapping of names to values, not {name_of(type(given))}")
    return [(checked_name(where, name), value) for name, value in given.items()]


def checked_name(where: str, name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{where}: {str(name)[:80]!r} is not a name of an attribute: use up to 63 lower-case letters, digits and _, "
            "beginning with a letter"
        )
    return str(name)


def checked_attribute(where: str, value: Any) -> AttributeValue:
    """The value of one attribute, as events hold it."""
    if isinstance(value, bool | Moment):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise too_large(where)
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise InvalidInput(f"{where}: {value} is not a finite number")
        return float(value)
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise InvalidInput(f"{where} has {len(value):,} characters; an attribute can have {MAX_TEXT}")
        return words(where, value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInput(f"{where}: {value.isoformat()} has no time zone: write datetime(…, tzinfo=UTC)")
        return moment_of(value)
    raise InvalidInput(f"{where} must be a text, a number, true or false, or a datetime, not {name_of(type(value))}")


def is_same(one: AttributeValue | None, other: AttributeValue | None) -> bool:
    """Whether both are the same value of the same type: true is not 1, and 1 is not 1.0."""
    return type(one) is type(other) and one == other


# --- conditions of lists


_CONDITION = re.compile(f"({NAME})(=|<=|>=|<|>)(.*)", re.DOTALL)
_OPERATORS = get_args(get_type_hints(AttributeFilter)["operator"])


def parse_condition(where: str, text: str) -> AttributeFilter:
    """`customer=acme`, `total>=10`, `due<2026-12-01T00:00Z`, `code="12"`."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{where}: {text[:80]!r} is not a condition: write the name of an attribute, one of = < <= > >=, and a value"
        )
    name, operator, value = found.groups()
    chosen = next(each for each in _OPERATORS if each == operator)
    where = f"{where}: {name}"
    return AttributeFilter(name, chosen, checked_attribute(where, parse_attribute(where, value)))


def condition_text(condition: AttributeFilter) -> str:
    """The text that `parse_condition` reads as this condition."""
    return f"{condition.name}{condition.operator}{attribute_text(condition.value)}"


def checked_conditions(where: str, given: Any) -> tuple[AttributeFilter, ...]:
    """Conditions as users write them: names with the values they must have, or texts such as `total>=10`."""
    if isinstance(given, Mapping):
        return tuple(AttributeFilter(name, "=", value) for name, value in checked_attributes(where, given).items())
    return tuple(
        parse_condition(where, each) if isinstance(each, str) else _checked_condition(where, each)
        for each in ([given] if isinstance(given, str) else given)
    )


def _checked_condition(where: str, given: Any) -> AttributeFilter:
    if not isinstance(given, AttributeFilter) or given.operator not in _OPERATORS:
        raise InvalidInput(f"{where}: {given!r} is not a condition: write for example 'total>=10'")
    name = checked_name(where, given.name)
    return AttributeFilter(name, given.operator, checked_attribute(f"{where}: {name}", given.value))


def checked_order(where: str, order: Any) -> str:
    """The name of an attribute, or `-` and its name."""
    descending = isinstance(order, str) and order.startswith("-")
    return ("-" if descending else "") + checked_name(where, order.removeprefix("-") if descending else order)
