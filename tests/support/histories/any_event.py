"""Any event, with any fields."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from outlast.history import events as e

LETTERS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1)

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=6,
)
_odd = st.sampled_from(
    [b"[1, 2]", b'{ "a" : 1e400 }', b'"\\u00e9\\n"', b"-0", b"1E+5", b'{"a":1,"a":2}', b'""', b"[ ]"]
)


def values() -> st.SearchStrategy[Raw]:
    """JSON in its exact bytes, also in forms that other programs write."""
    return (_json.map(msgspec.json.encode) | _odd).map(Raw)


def events(
    *kinds: type[e.Event],
    text: st.SearchStrategy[str] = LETTERS,
    numbers: st.SearchStrategy[int] = NUMBERS,
    newer: bool = True,
) -> st.SearchStrategy[e.AnyEvent]:
    """Any event, or one of these types, with any fields. Texts and numbers may be narrowed so that events refer to
    each other; `newer` adds fields unknown to this version."""
    return st.sampled_from(kinds or tuple(e.EVENT_TYPES.values())).flatmap(
        lambda kind: _event_of(kind, text, numbers, newer)
    )


@cache
def _event_of(
    kind: type[e.Event], text: st.SearchStrategy[str], numbers: st.SearchStrategy[int], newer: bool
) -> st.SearchStrategy[Any]:
    shape = msgspec.inspect.type_info(kind)
    assert isinstance(shape, msgspec.inspect.StructType)
    taken = {"type", *(each.encode_name for each in shape.fields)}
    fields = {each.name: _any(each.type, text, numbers) for each in shape.fields if each.encode_name != "+"}
    unknown = st.dictionaries(LETTERS.filter(lambda name: name not in taken), values(), min_size=1, max_size=3)
    return st.builds(kind, more=st.none() | unknown if newer else st.none(), **fields)


def _any(shape: msgspec.inspect.Type, text: st.SearchStrategy[str], numbers: st.SearchStrategy[int]) -> Any:
    """A strategy for a field by its msgspec type. An unknown type raises."""
    match shape:
        case msgspec.inspect.StrType():
            return text
        case msgspec.inspect.IntType():
            return numbers
        case msgspec.inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.RawType():
            return values()
        case msgspec.inspect.LiteralType():
            return st.sampled_from(shape.values)
        case msgspec.inspect.VarTupleType():
            return st.lists(_any(shape.item_type, text, numbers), max_size=3).map(tuple)
        case msgspec.inspect.UnionType():
            return st.one_of(*(_any(each, text, numbers) for each in shape.types))
        case msgspec.inspect.DictType(value_type=msgspec.inspect.RawType()):
            return st.nothing()  # fields of a newer version: `_event_of` adds them
        case msgspec.inspect.DictType():
            return st.dictionaries(text, _any(shape.value_type, text, numbers), max_size=3)
        case msgspec.inspect.StructType():
            return st.builds(shape.cls, **{each.name: _any(each.type, text, numbers) for each in shape.fields})
        case _:
            raise NotImplementedError(f"no strategy for {shape}")
