"""Search attributes as keys: the name, the type and the value in one text, in the order in which values are listed.

So one index serves equality, ranges and order, and the server's statistics know how often each value occurs.
"""

from __future__ import annotations

from decimal import Decimal

from outlast.lifecycle.summary import RunSummary
from outlast.stores.postgres.rows import escape
from outlast.stores.shared import comparable

END = "\x01\x02"
"""Ends a name. It is in no escaped text."""
LONGEST = 600
"""Characters of a key; the server indexes at most 2,700 bytes."""
_EXPONENT = 50_000
"""Greater than any exponent of a number, with sign."""
_NINES = str.maketrans("0123456789", "9876543210")


def attribute_keys(summary: RunSummary) -> list[str]:
    """Return the keys of a run's attributes."""
    return [attribute_key(name, *comparable(value)) for name, value in summary.attributes.items()]


def attribute_key(name: str, kind: int, value: int | float | str) -> str:
    """Return the key of an attribute, from what `comparable` returns of its value."""
    key = name_key(name, kind) + (escape(value) if isinstance(value, str) else _sortable(value))
    return key[:LONGEST]


def name_key(name: str, kind: int) -> str:
    """Return the beginning of the keys of an attribute with values of a type; greater than those of lower types."""
    return f"{escape(name)}{END}{kind}"


def _sortable(number: float) -> str:
    """Return a text that sorts like the number: sign, exponent and digits, for a negative number their complements."""
    value = Decimal(repr(number + 0))
    if not value or not value.is_finite():
        return "1"
    size = f"{value.adjusted() + _EXPONENT:06}" + "".join(map(str, value.as_tuple().digits)).rstrip("0")
    return f"0{size.translate(_NINES)}~" if value < 0 else f"2{size}"
