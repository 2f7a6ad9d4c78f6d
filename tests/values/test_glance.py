"""A glance changes nothing but the time it takes: same bytes (R2), same values (R1), same refusals as the walk."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.errors import NotStorable
from outlast.values import json_fastpath
from outlast.values.annotations import type_codec_of
from outlast.values.codec import Codec, codec_for
from outlast.values.json_fastpath import LEVELS, JsonFastPath
from outlast.values.secrets import Revealed, Secret
from support.sampling import examples


@pytest.fixture(autouse=True, scope="module")
def _glance_at_everything() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_fastpath, "SHORTEST", 0)
        yield


class Word(enum.StrEnum):
    YES = "yes"


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    """Equal to a text, and none."""


class Number(int):
    """Equal to a number, and none."""


class Rows(list[Any]):
    """Equal to a list, and none."""


class Anybody(bytearray):
    """Bytes to whoever asks for a buffer, and equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(eq=False)
class Chameleon(Anybody):
    """What msgspec writes as an object."""


class Pair(NamedTuple):
    left: int
    right: int


class Point(msgspec.Struct):
    x: int = 1


NUMBERS = st.integers() | st.sampled_from(
    [0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30]
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
ODD = st.sampled_from(
    [
        *(float("nan"), float("inf"), "$", "\ud800", b"x", bytearray(b"x"), 1j, ..., object(), int),
        *(Word.YES, Level.LOW, Text("yes"), Number(1), Rows([1]), Pair(1, 2), Point(), msgspec.Raw(b"1")),
        *(Anybody(), Chameleon(), Revealed("hush"), Secret("KEY"), Decimal("1.5"), UUID(int=1), dt.date(2026, 1, 1)),
        *(collections.OrderedDict(a=1), collections.defaultdict(int, a=1), frozenset({1}), {1, "a"}, (), range(2)),
    ]
)
KEYS = st.text(max_size=3) | st.sampled_from(
    ["$", "yes", "1", "\ud800", 1, 1.5, True, None, b"yes", (1,), Word.YES, Text("1")]
)


def holders(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(parts, max_size=4)
        | st.dictionaries(st.text(max_size=3), parts, max_size=4)
        | st.dictionaries(KEYS, parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
    )


ANYTHING = st.recursive(PLAIN | NUMBERS | ODD, holders, max_leaves=8)
JSON = st.recursive(
    PLAIN,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=3), parts, max_size=4),
    max_leaves=12,
)
ANNOTATIONS = [
    *(Any, object, list, dict, list[Any], dict[str, Any], dict[Any, Any], Mapping[str, Any], Sequence[Any]),
    *(list[dict[str, Any]], dict[str, list[Any]], list[list[dict[str, int]]], dict[str, dict[str, str]], list[None]),
    *(list[int], list[float], list[str], list[bool], dict[str, int], dict[str, float], dict[int, Any], dict[bool, Any]),
    *(
        list[int | None],
        dict[str, Any] | None,
        list[Point],
        list[Word],
        list[tuple[int, ...]],
        set[int],
        tuple[Any, ...],
    ),
]


def told(codec: Codec, value: Any) -> tuple[bytes, str] | str:
    try:
        body, copy = codec.encode_and_copy(value, "it")
    except NotStorable as refusal:
        return str(refusal)
    return body, repr(copy)


def walked(codec: Codec, value: Any) -> tuple[bytes, str] | str:
    try:
        body = codec.written(value, "it")
    except NotStorable as refusal:
        return str(refusal)
    return body, repr(codec.decode(body))


@settings(max_examples=examples(1500))
@given(value=ANYTHING)
def test_whatever_a_value_is_a_glance_and_a_walk_say_the_same(value: Any) -> None:
    codec = codec_for(Any)
    assert told(codec, value) == walked(codec, value)


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
@settings(max_examples=examples(150))
@given(value=ANYTHING | JSON)
def test_whatever_the_annotation_is_a_glance_and_a_walk_say_the_same(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)
    assert told(codec, value) == walked(codec, value)


@pytest.mark.parametrize("depth", [LEVELS - 1, LEVELS, LEVELS + 1, 127, 128, 129, 100_000])
@pytest.mark.parametrize("annotation", [Any, list[Any], list[list[list[list[list[list[list[Any]]]]]]]], ids=str)
def test_however_deep_a_value_is_a_glance_and_a_walk_say_the_same(annotation: Any, depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    codec = codec_for(annotation)
    assert told(codec, value) == walked(codec, value)


def test_a_value_that_contains_itself_is_refused_as_by_the_walk() -> None:
    value: dict[str, Any] = {"a": 1}
    value["b"] = [value, value]
    assert told(codec_for(), value) == walked(codec_for(), value)


def depth_of(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, parts), default=0) if isinstance(value, list | dict) else 0


@settings(max_examples=examples(300))
@given(value=JSON.filter(lambda value: isinstance(value, list | dict)))
def test_a_value_that_is_plain_is_recognised(value: Any) -> None:
    """Or all the laws above would hold of a glance that sees nothing."""
    found = JsonFastPath(type_codec_of(Any)).encode_and_copy(value)
    if depth_of(value) > LEVELS or '"$"' in repr(value).replace("'", '"'):
        return
    assert found == (msgspec.json.encode(value), value)


def test_what_is_told_is_a_copy_through_and_through() -> None:
    value = {"rows": [{"a": [1]}]}
    found = JsonFastPath(type_codec_of(dict[str, Any])).encode_and_copy(value)
    assert found is not None
    found[1]["rows"][0]["a"].append(2)
    found[1]["rows"].append({})
    assert value == {"rows": [{"a": [1]}]}
