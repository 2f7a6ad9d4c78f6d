"""Values come back as they went (R1), in the same bytes every time (R2), or are refused before anything is written."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import enum
import itertools
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, Union
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from outlast.errors import InvalidInput, NotFound, NotStorable
from outlast.history.ids import input_hash
from outlast.stores.blob_folder import FolderBlobs
from outlast.stores.memory import MemoryStore
from outlast.values.annotations import type_codec_of
from outlast.values.codec import INLINE_LIMIT, codec_for, decode, encode, fetched, hints_of, stored
from outlast.values.secrets import Secret
from outlast.values.type_codec import DEEPEST
from support.sampling import examples

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Odd(enum.Enum):
    PAIR = (1, 2)
    HALF = 0.5


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    url: str
    at: dt.datetime
    where: Path
    points: list[Point] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class IntBox(Box[int], Generic[T]):
    label: T


@dataclasses.dataclass
class Stamped:
    """Its `__post_init__` makes a field anew, and something besides the fields."""

    name: str
    number: int = dataclasses.field(init=False)
    _counter = itertools.count()

    def __post_init__(self) -> None:
        self.number = next(self._counter)
        self.loud = self.name.upper()


class Shelf(msgspec.Struct, rename="camel", tag="shelf"):
    top_row: list[Point]
    is_full: bool = False


class Quick(msgspec.Struct, array_like=True, frozen=True):
    a: int
    b: str | None = None


class Options(TypedDict):
    url: str
    retries: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: Decimal = Decimal("1.0")


class Model(pydantic.BaseModel):
    name: str
    at: dt.datetime
    tags: set[int] = set()
    score: float = 0.0
    via: str = pydantic.Field(default="", validation_alias="viaAlias", serialization_alias="other")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, frozen=True)
    at: dt.date
    data: tuple[int, ...] = ()


class Root(pydantic.RootModel[list[int]]):
    pass


class Lossy(pydantic.BaseModel):
    kept: int
    lost: int = pydantic.Field(default=0, exclude=True)


class Plain:
    """A class of the user's that says nothing about its parts."""


# --- the law -----------------------------------------------------------------------------------------------------------

ZONES = st.sampled_from(
    [
        None,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=5, minutes=30)),
        dt.timezone(-dt.timedelta(hours=1, seconds=7)),
        ZoneInfo("Europe/Berlin"),
        ZoneInfo("America/St_Johns"),
    ]
)
TEXT = st.text(max_size=8) | st.sampled_from(["$", "v", "a\0b", "é", "\U0001f600", '"$"'])
MOMENTS = st.builds(
    lambda value, zone, fold: value.replace(tzinfo=zone, fold=fold), st.datetimes(), ZONES, st.integers(0, 1)
)
TIMES = st.builds(lambda value, zone, fold: value.replace(tzinfo=zone, fold=fold), st.times(), ZONES, st.integers(0, 1))
WHOLE = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**63, 2**64, -(2**63) - 1])
FINITE = st.floats(allow_nan=False)

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    type(None): st.none(),
    bool: st.booleans(),
    int: WHOLE,
    float: FINITE,
    str: TEXT,
    bytes: st.binary(max_size=8),
    dt.datetime: MOMENTS,
    dt.date: st.dates(),
    dt.time: TIMES,
    dt.timedelta: st.timedeltas(),
    Decimal: st.decimals(allow_nan=False),
    UUID: st.uuids(),
    complex: st.complex_numbers(allow_nan=False),
    Path: TEXT.filter(lambda text: "\0" not in text).map(Path),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Word: st.sampled_from(Word),
    Odd: st.sampled_from(Odd),
    Right: st.sampled_from([Right.READ, Right.WRITE, Right.READ | Right.WRITE, Right(0)]),
    Literal["a", 1, None]: st.sampled_from(["a", 1, None]),
    Literal[b"x", Colour.RED, True]: st.sampled_from([b"x", Colour.RED, True]),
    Secret: st.builds(Secret, TEXT, source=TEXT),
}
UNHASHED = {bytearray: st.binary(max_size=8).map(bytearray), Point: st.builds(Point, st.integers(), st.integers())}

Typed = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and the values it takes."""

_number = itertools.count()


@st.composite
def hashed(draw: st.DrawFn) -> Typed:
    annotation = draw(st.sampled_from(list(LEAVES)))
    if draw(st.integers(0, 3)):
        return annotation, LEAVES[annotation]
    other = draw(st.sampled_from(list(LEAVES)))
    return draw(
        st.sampled_from(
            [
                (tuple[annotation, other], st.tuples(LEAVES[annotation], LEAVES[other])),
                (frozenset[annotation], st.frozensets(LEAVES[annotation], max_size=3)),
                (Union[annotation, other], LEAVES[annotation] | LEAVES[other]),  # noqa: UP007
            ]
        )
    )


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> Typed:
    """One of a family of annotations, nested, with records that are made for the occasion."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(hashed() | st.sampled_from(list(UNHASHED.items())))
    inner = typed(depth - 1)
    kind = draw(
        st.sampled_from(["list", "tuple", "row", "set", "dict", "union", "sequence", "mapping", "any", *RECORDS])
    )
    if kind in RECORDS:
        return draw(RECORDS[kind](inner))
    if kind == "any":
        return Any, ANYTHING
    if kind == "set":
        item, items = draw(hashed())
        return set[item], st.sets(items, max_size=3)
    if kind == "dict":
        (key, keys), (item, items) = draw(hashed()), draw(inner)
        return dict[key, item], st.dictionaries(keys, items, max_size=3)
    (first, firsts), (other, others) = draw(inner), draw(inner)
    lists = st.lists(firsts, max_size=3) | st.lists(firsts, min_size=9, max_size=9)
    return {
        "list": (list[first], lists),
        "tuple": (tuple[first, ...], lists.map(tuple)),
        "row": (tuple[first, other], st.tuples(firsts, others)),
        "sequence": (Sequence[first], lists | lists.map(tuple)),
        "mapping": (Mapping[str, first], st.dictionaries(TEXT, firsts, max_size=3)),
        "union": (Union[first, other], firsts | others),  # noqa: UP007
    }[kind]


@st.composite
def dataclassed(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields = draw(st.lists(inner, min_size=1, max_size=3))
    cls = dataclasses.make_dataclass(
        f"D{next(_number)}",
        [(f"f{i}", annotation) for i, (annotation, _) in enumerate(fields)],
        frozen=draw(st.booleans()),
        slots=draw(st.booleans()),
    )
    return cls, st.builds(cls, *(values for _, values in fields))


@st.composite
def structed(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields = draw(st.lists(inner, min_size=1, max_size=3))
    cls = msgspec.defstruct(
        f"S{next(_number)}",
        [(f"f{i}", annotation) for i, (annotation, _) in enumerate(fields)],
        frozen=draw(st.booleans()),
        array_like=draw(st.booleans()),
        tag=draw(st.sampled_from([None, True])),
        rename=draw(st.sampled_from([None, "upper"])),
    )
    return cls, st.builds(cls, *(values for _, values in fields))


@st.composite
def named(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields = draw(st.lists(inner, min_size=1, max_size=3))
    cls = NamedTuple(f"N{next(_number)}", [(f"f{i}", annotation) for i, (annotation, _) in enumerate(fields)])  # type: ignore[misc]
    return cls, st.builds(cls, *(values for _, values in fields))


@st.composite
def keyed(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields = draw(st.lists(inner, min_size=1, max_size=3))
    total = draw(st.booleans())
    cls = TypedDict(f"K{next(_number)}", {f"f{i}": each for i, (each, _) in enumerate(fields)}, total=total)  # type: ignore[misc]
    parts = {f"f{i}": values for i, (_, values) in enumerate(fields)}
    return cls, st.fixed_dictionaries(parts) if total else st.fixed_dictionaries({}, optional=parts)


RECORDS: dict[str, Callable[[st.SearchStrategy[Typed]], st.SearchStrategy[Typed]]] = {
    "dataclass": dataclassed,
    "struct": structed,
    "named": named,
    "keyed": keyed,
}

ATOMS = st.one_of(
    *(LEAVES[cls] for cls in LEAVES if cls not in (Colour, Level, Word, Odd, Right) and isinstance(cls, type))
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    ATOMS | st.binary(max_size=4).map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(ATOMS, inner, max_size=4)
        | st.dictionaries(TEXT, inner, max_size=4)
        | st.sets(ATOMS, max_size=4)
        | st.frozensets(ATOMS, max_size=4)
    ),
    max_leaves=8,
)


def told(value: Any) -> Any:
    """A value with its types, so that 1, 1.0 and True, or two zones of one offset, are told apart."""
    if isinstance(value, (list, tuple)):
        return type(value), [told(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(repr(told(item)) for item in value)
    if isinstance(value, dict):
        return type(value), [(told(key), told(item)) for key, item in value.items()]
    if dataclasses.is_dataclass(value):
        return type(value), [told(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return type(value), [told(getattr(value, field)) for field in value.__struct_fields__]
    if isinstance(value, (dt.datetime, dt.time)):
        return type(value), value.replace(tzinfo=None), value.fold, value.tzinfo
    return type(value), value if not isinstance(value, (float, complex, Decimal)) else repr(value)


def comes_back(value: Any, annotation: Any) -> Any:
    raw = encode(value, annotation)
    again = decode(raw, annotation)
    assert told(again) == told(value)
    return again


@settings(max_examples=examples(600))
@given(data=st.data())
def test_a_value_comes_back_equal_and_of_its_type(data: st.DataObject) -> None:
    annotation, values = data.draw(typed())
    value = data.draw(values)
    comes_back(value, annotation)
    raw = encode(value, annotation)
    assert encode(value, annotation) == raw
    assert encode(decode(raw, annotation), annotation) == raw
    assert told(type_codec_of(annotation).decode(msgspec.json.decode(raw))) == told(value), (
        "the longer way reads the same"
    )


@settings(max_examples=examples(400))
@given(value=ANYTHING)
def test_a_value_without_an_annotation_comes_back_equal_and_of_its_type(value: Any) -> None:
    comes_back(value, Any)
    assert encode(decode(encode(value))) == encode(value)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FINITE.filter(lambda x: abs(x) < 1e300) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT.filter(lambda key: key != "$"), inner, max_size=4),
)


@given(value=JSON)
def test_plain_json_is_stored_as_it_is(value: Any) -> None:
    assert encode(value) == Raw(msgspec.json.encode(value))


@settings(max_examples=examples(200))
@given(body=st.binary(max_size=40) | JSON.map(msgspec.json.encode), data=st.data())
def test_arbitrary_bytes_are_read_or_refused_and_nothing_else(body: bytes, data: st.DataObject) -> None:
    annotation, _ = data.draw(typed())
    try:
        decode(body, annotation)
    except InvalidInput:
        return


TAGS = st.sampled_from(
    ["int", "float", "dict", "tuple", "set", "datetime", "secret", "one", "blob", "bytes", "complex", "no"]
)


@settings(max_examples=examples(200))
@given(tag=TAGS | JSON, v=JSON, data=st.data())
def test_what_falsely_says_what_it_is_is_read_or_refused(tag: Any, v: Any, data: st.DataObject) -> None:
    annotation, _ = data.draw(typed())
    try:
        decode(msgspec.json.encode({"$": tag, "v": v}), annotation)
    except InvalidInput:
        return


# --- what restores to what ---------------------------------------------------------------------------------------------


NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Page, Page("u", NOW, Path("/a/b"), [Point(1), Point(2, 3)])),
        (list[Page], [Page("u", NOW.replace(tzinfo=ZoneInfo("Europe/Berlin")), Path("a"))]),
        (Tree, Tree("a", [Tree("b", [Tree("c")]), Tree("d")])),
        (Box[Point], Box(Point(1))),
        (Box[list[Box[dt.date]]], Box([Box(dt.date(2026, 1, 1))])),
        (IntBox[Colour], IntBox(1, Colour.RED)),
        (Shelf, Shelf([Point(1)], True)),
        (list[Quick], [Quick(1), Quick(2, "b")]),
        (Options, {"url": "u"}),
        (Options, {"retries": 2, "url": "u"}),
        (Pair, Pair(1)),
        (dict[UUID, Pair], {UUID(int=1): Pair(1, Decimal("NaN"))}),
        (dict[Colour, int], {Colour.BLUE: 1, Colour.RED: 2}),
        (dict[int, str], {1: "a", -2: "b", 2**90: "c"}),
        (dict[tuple[int, int], str], {(1, 2): "a"}),
        (dict[str, int], {"$": 1, "b": 2}),
        (dict[Literal["a", 1] | None, int], {"a": 1, None: 2}),
        (dict[Colour | str, int], {"red": 1, Colour.RED: 2}),
        (Page | None, None),
        (Point | Tree | None, Point(1)),
        (Point | Tree | None, Tree("a")),
        (str | dt.datetime | Path, NOW),
        (str | dt.datetime | Path, "2026-01-02T03:04:05Z"),
        (list[int] | list[str], ["a"]),
        (int | float | None, 1.0),
        (Sequence[int], (1, 2)),
        (typing.AbstractSet[int], frozenset((1, 2))),
        (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b")),
        (typing.NewType("Id", int), 3),
        (typing.Annotated[int, msgspec.Meta(gt=5)], 3),
        (tuple[()], ()),
        (object, {"a": (1,)}),
        (Model, Model.model_validate({"name": "a", "at": NOW, "tags": {2, 1}, "viaAlias": "x"})),
        (list[Strict], [Strict(at=dt.date(2026, 1, 1), data=(1,))]),
        (Box[Model | None], Box(Model(name="a", at=NOW))),
        (Model | Strict, Strict(at=dt.date(2026, 1, 1))),
        (Root | int, Root([1, 2])),
        (Any | None, (1, 2)),
        (list[Point | None] | list[str], [Point(1), None]),
    ],
)
def test_an_annotation_brings_its_value_back(annotation: Any, value: Any) -> None:
    comes_back(value, annotation)


def test_what_needs_no_name_is_stored_without_one() -> None:
    assert encode(Strict(at=dt.date(2026, 1, 1)), Strict | None) == Raw(b'{"at":"2026-01-01","data":[]}')
    assert encode({"a": 1}, Any | None) == Raw(b'{"a":1}')
    assert encode(Point(1), Point | int | None) == Raw(b'{"x":1,"y":0}')
    assert encode(NOW, dt.datetime | None) == Raw(b'"2026-01-02T03:04:05.000006Z"')
    named = encode([Point(1), None], list[Point | None] | list[str])
    assert named == Raw(b'{"$":"one","of":"list[None | Point]","v":[{"x":1,"y":0},null]}')


def test_a_model_with_a_nan_comes_back() -> None:
    again = decode(encode(Model(name="a", at=NOW, score=float("nan")), Model), Model)
    assert again.score != again.score


def test_a_number_beyond_every_limit_of_digits_comes_back() -> None:
    for number in (10**5000, -(10**5000) - 1):
        assert decode(encode(number)) == number
        assert decode(encode({"a": [number]}, dict[str, list[int]]), dict[str, list[int]]) == {"a": [number]}
        assert decode(encode({number: 1}, dict[int, int]), dict[int, int]) == {number: 1}


def test_not_a_number_and_the_infinities_come_back_and_say_what_they_are() -> None:
    assert encode(float("-inf")) == Raw(b'{"$":"float","v":"-inf"}')
    for annotation in (Any, float, float | None, float | dict[str, int]):
        number = decode(encode(float("nan"), annotation), annotation)
        assert type(number) is float
        assert number != number
    assert decode(encode([1.0] * 20 + [float("inf")], list[float]), list[float])[-1] == float("inf")


def test_a_post_init_does_not_change_what_was_stored_and_makes_what_was_not() -> None:
    stamped = Stamped("a")
    again = decode(encode(stamped, Stamped), Stamped)
    assert again == stamped
    assert again.loud == "A"


def test_a_set_has_one_order_and_a_dict_keeps_its_own() -> None:
    assert encode({"b", "a", "c"}, set[str]) == Raw(b'["a","b","c"]')
    assert encode({"b": 1, "a": 2}) == Raw(b'{"b":1,"a":2}')


def test_the_order_in_which_a_union_was_written_does_not_show() -> None:
    assert encode([], list[int] | list[str]) == encode([], list[str] | list[int])
    codes = [
        f"from outlast.values.codec import encode; print(bytes(encode([], {union})))"
        for union in ("list[int | None] | list[str]", "list[str] | list[None | int]")
    ]
    assert len({subprocess.check_output([sys.executable, "-c", code]) for code in codes}) == 1


def test_a_dict_with_the_mark_is_not_taken_for_what_it_says() -> None:
    trap = {"$": "secret", "name": "KEY", "source": "env"}
    assert comes_back(trap, Any) == trap
    assert comes_back({"$": "blob", "hash": "x", "size": 1}, dict[str, Any])
    assert not bytes(encode({"$": "blob", "hash": "x", "size": 1})).startswith(b'{"$":"blob"')


@pytest.mark.parametrize(
    ("given_", "annotation", "back"),
    [
        (True, int, 1),
        (Level.HIGH, int, 2),
        (3, float, 3.0),
        (Word.YES, str, "yes"),
        ((1, 2), list[int], [1, 2]),
        ([1, 2], tuple[int, ...], (1, 2)),
        (collections.OrderedDict(a=1), dict[str, int], {"a": 1}),
        (collections.Counter("aab"), dict[str, int], {"a": 2, "b": 1}),
        (3, complex | float, 3.0),
    ],
)
def test_what_converts_without_loss_comes_back_as_the_annotation_says(given_: Any, annotation: Any, back: Any) -> None:
    again = decode(encode(given_, annotation), annotation)
    assert told(again) == told(back)


def test_a_field_that_was_added_since_takes_its_default() -> None:
    assert decode(b'{"x":1}', Point) == Point(1, 0)
    assert decode(b'{"url":"u","at":"2026-01-02T03:04:05.000006Z","where":"a"}', Page) == Page("u", NOW, Path("a"))


# --- refusals ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Connection:
    socket: Any


@dataclasses.dataclass
class Crawl:
    pages: list[Connection]


def refusal(value: Any, annotation: Any = Any, where: str = "result") -> str:
    with pytest.raises(NotStorable) as error:
        encode(value, annotation, where=where)
    return str(error.value)


def test_a_refusal_names_the_path_to_the_part() -> None:
    with socket.socket() as one:
        crawl = Crawl([Connection(1), Connection(one)])
        assert refusal(crawl, Crawl).startswith("result.pages[1].socket: socket.socket cannot be stored; ")
        assert refusal({"pages": [1, {"a": (one,)}]}).startswith('result["pages"][1]["a"][0]: socket.socket')
        assert refusal({(1, 2): one}).startswith("result[(1, 2)]: ")


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (generator, "function cannot be stored; store its name"),
        (len, "store its name"),
        (generator(), "generator cannot be stored; store list(…) of it"),
        (threading.Lock(), "lock cannot be stored; it works only in this process"),
        (os, "module cannot be stored; store its name"),
        (range(3), "range cannot be stored; store list(…) of it"),
        (Plain(), "Plain cannot be stored; make it a dataclass"),
        (Point(1), "Point cannot be stored without an annotation; annotate the return type (or parameter) with it"),
        (Colour.RED, "Colour cannot be stored without an annotation; annotate"),
        (Level.LOW, "Level cannot be stored without an annotation; annotate"),
        (Pair(1), "Pair cannot be stored without an annotation"),
        (Model(name="a", at=NOW), "Model cannot be stored without an annotation"),
        (collections.OrderedDict(), "OrderedDict cannot be stored without an annotation; annotate"),
        ("a\ud800", "a lone surrogate"),
        ({"\ud800": 1}, "a lone surrogate"),
        (Path("\udcff"), "a lone surrogate"),
        (ValueError("x"), "raise it"),
    ],
    ids=lambda part: part if isinstance(part, str) and part.isascii() else type(part).__name__,
)
def test_what_cannot_be_stored_is_refused_with_advice(value: Any, advice: str) -> None:
    assert advice in refusal(value)
    assert advice in refusal([{"a": value}])


@pytest.mark.parametrize(
    ("value", "annotation", "says"),
    [
        ("5", int, "str cannot be stored where the annotation says int"),
        (5, str, "int cannot be stored where the annotation says str"),
        (None, int, "NoneType cannot be stored where the annotation says int"),
        (1, None, "int cannot be stored where the annotation says None"),
        (2**53 + 1, float, "that has no equal float"),
        (NOW, dt.date, "where the annotation says datetime.date"),
        ({"url": "u", "extra": 1}, Options, "has no such key"),
        ({"retries": 1}, Options, "requires the key 'url'"),
        ((1, 2, 3), tuple[int, int], "the annotation requires 2 items"),
        ("c", Literal["a", "b"], "Literal['a', 'b']"),
        (1.5, int | str, "int | str"),
        (Lossy(kept=1, lost=2), Lossy, "read back as another value"),
        (Plain(), Plain, "values annotated as tests.values.test_values.Plain cannot be stored"),
        (generator(), list[int], "store list(…) of it"),
        (["a", 1], list[str], "result[1]: int cannot be stored"),
    ],
)
def test_a_value_that_is_not_what_the_annotation_says_is_refused(value: Any, annotation: Any, says: str) -> None:
    assert says in refusal(value, annotation)


def test_a_subclass_of_a_record_is_refused_for_it_would_lose_what_it_adds() -> None:
    @dataclasses.dataclass
    class RemoteAttempt(Point):
        z: int = 0

    assert "where the annotation says" in refusal(RemoteAttempt(1), Point)
    comes_back(Point(1), Point | RemoteAttempt)
    comes_back(RemoteAttempt(1, 2, 3), Point | RemoteAttempt)


def test_what_contains_itself_is_refused_and_said_so() -> None:
    loop: list[Any] = [1]
    loop.append({"again": loop})
    assert refusal(loop).startswith('result[1]["again"]: it contains itself')
    tree = Tree("a")
    tree.children.append(tree)
    assert refusal(tree, Tree).startswith("result.children[0]: it contains itself")


@pytest.mark.parametrize("depth", [DEEPEST + 1, 100_000])
@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: (x,), lambda x: {1: x}])
def test_nesting_that_is_too_deep_is_refused_before_the_stack_overflows(depth: int, wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    assert f"nested more than {DEEPEST} levels deep" in refusal(value)
    while isinstance(value, (list, dict, tuple)):  # else freeing it may overflow the stack
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]


@pytest.mark.parametrize(
    "wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: (x,), lambda x: {1: x}, lambda x: frozenset([x])]
)
def test_the_deepest_nesting_that_is_stored_is_read(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(DEEPEST):
        value = wrap(value)
    assert decode(encode(value)) == value


def test_deep_bytes_from_outside_are_refused() -> None:
    with pytest.raises(InvalidInput):
        decode(b"[" * 100_000 + b"]" * 100_000)


def test_keys_that_would_be_stored_as_the_same_text_are_refused() -> None:
    class Twin(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

    assert "two of its keys" in refusal({Twin("a"): 1, Twin("a"): 2}, dict[str, int])


def test_a_record_that_is_more_than_its_fields_is_refused() -> None:
    @dataclasses.dataclass
    class Both(dict[str, int]):
        x: int = 0

    assert "cannot be built from its fields" in refusal(Both(), Both)
    other = pathlib.PosixPath if os.name == "nt" else pathlib.WindowsPath
    assert "cannot be stored on this system" in refusal(Path("a"), other)


def test_a_name_that_is_the_mark_is_refused() -> None:
    marked = msgspec.defstruct("Marked", [("a", int)], rename={"a": "$"})
    assert "a field has the name '$' in JSON" in refusal(marked(1), marked)


@pytest.mark.parametrize(
    ("body", "annotation", "says"),
    [
        (b'{"pages":[{"x":1},{"x":"a"}]}', Box[int], "needs a field 'content'"),
        (b'[{"x":1},{"x":"a"}]', list[Point], "value[1].x: expected int, but 'a' is stored"),
        (b'{"$":"blob","hash":"a","size":1}', Any, "it is stored as a blob"),
        (b'{"$":"blob","hash":"a","size":1}', Point, "it is stored as a blob"),
        (b'{"$":"shoe"}', Any, "a value with a known type"),
        (b"nonsense", int, "cannot be read"),
        (b'"x"', Model, "Model"),
    ],
)
def test_what_does_not_fit_its_annotation_says_where(body: bytes, annotation: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=None) as error:
        decode(body, annotation)
    assert says in str(error.value)


# --- hints -------------------------------------------------------------------------------------------------------------


def test_hints_are_resolved_and_what_cannot_be_is_any() -> None:
    def node(a, page: Page, gone: Nowhere, count: int = None, *rest: str) -> list[Point]:  # type: ignore[no-untyped-def]  # noqa: F821, RUF013
        raise NotImplementedError

    params, returns = hints_of(node)
    assert params == {"a": Any, "page": Page, "gone": Any, "count": int | None, "rest": str}
    assert returns == list[Point]


def test_hints_never_fail() -> None:
    class Callee:
        def __call__(self, x: int) -> str:
            return ""

    assert hints_of(Callee()) == ({"x": int}, str)
    assert hints_of(Callee().__call__) == ({"x": int}, str)
    assert hints_of(print)[1] is Any
    assert hints_of(dict) == ({}, Any)
    assert hints_of(5) == ({}, Any)  # type: ignore[arg-type]


def test_a_local_class_is_found_in_the_annotations_of_its_own_fields() -> None:
    @dataclasses.dataclass
    class Local:
        other: Local | None = None
        unknown: Nowhere = None  # type: ignore[name-defined]  # noqa: F821

    comes_back(Local(Local(), unknown=(1,)), Local)


# --- hashes and large values -------------------------------------------------------------------------------------------


def test_the_hash_of_inputs_is_stable_across_processes() -> None:
    code = (
        "from outlast.history.ids import input_hash;from outlast.values.codec import encode;"
        "print(input_hash(encode([{'a', 'b', 'c', 'd'}, {'x': {1, 2.5, 'y'}}])))"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert hashes == {"Nma7UA"}


def test_the_hash_of_inputs_is_six_characters_that_tell_them_apart() -> None:
    hashes = {input_hash(Raw(b"%d" % number)) for number in range(10_000)} | {input_hash(b"")}
    assert len(hashes) == 10_001
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{6}", each) for each in hashes)


def test_a_large_value_lies_in_the_blob_store_and_a_small_one_in_the_log(tmp_path: Path) -> None:
    async def scene() -> None:
        for blobs in (MemoryStore().blobs, FolderBlobs(tmp_path)):
            small, large = encode("a" * (INLINE_LIMIT - 2)), encode("a" * (INLINE_LIMIT - 1))
            assert await stored(small, blobs) is small
            assert await fetched(small, blobs) is small
            reference = await stored(large, blobs)
            assert len(reference) < 200
            assert await fetched(reference, blobs) == large
            assert await blobs.has(msgspec.json.decode(reference)["hash"])

    asyncio.run(scene())


def test_a_blob_that_is_missing_is_named(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(NotFound, match="blob abc"):
            await fetched(Raw(b'{"$":"blob","hash":"abc","size":5}'), FolderBlobs(tmp_path))

    asyncio.run(scene())


def test_a_codec_is_made_once() -> None:
    assert codec_for(dict[str, Point]) is codec_for(dict[str, Point])
    assert codec_for(typing.Annotated[int, []]).decode(b"1") == 1


@pytest.mark.parametrize(("kind", "known"), [(Colour, "'red', 'blue'"), (Level, "1, 2"), (Odd, "'PAIR', 'HALF'")])
def test_what_is_no_member_of_an_enum_is_told_which_there_are(kind: type, known: str) -> None:
    with pytest.raises(
        InvalidInput, match=rf"expected {kind.__module__}.{kind.__name__} \({known}\), but 'green' is stored"
    ):
        decode(b'"green"', kind)
