"""Choose the codec of an annotation."""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import enum
import types
import typing
from pathlib import PurePath
from typing import Any

import msgspec

from outlast.values.containers import Distinct, Listing, Mapped, Row
from outlast.values.enums import Member, OneOf
from outlast.values.not_storable import name_of
from outlast.values.pydantic_models import Model
from outlast.values.records import DataclassRecord, Hints, Named, StructRecord, Typed
from outlast.values.scalars import BOOL, FLOAT, INT, NULL, PLAIN, TEXT, Unstorable
from outlast.values.secrets import Secret
from outlast.values.stdlib_types import STANDARD, FilePath
from outlast.values.type_codec import CodecError, TypeCodec
from outlast.values.type_hints import class_hints, required_keys
from outlast.values.unions import Choice
from outlast.values.untyped import ANYTHING, SECRET_REFERENCE

_LEAVES: dict[Any, TypeCodec] = {
    None: NULL,
    type(None): NULL,
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: TEXT,
    Secret: SECRET_REFERENCE,
    **{shape.cls: shape for shape in STANDARD},
}
_LISTS = {abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Reversible}
_DICTS = {dict, abc.Mapping, abc.MutableMapping}
_SETS = {abc.Set, abc.MutableSet}
_WRAPPERS = {typing.Annotated, typing.Final, typing.Required, typing.NotRequired, typing.ClassVar}

_shapes: dict[Any, TypeCodec] = {}


def type_codec_of(annotation: Any) -> TypeCodec:
    """The codec of an annotation, the same object every time. An annotation under which nothing can be stored has a codec
    that refuses every value."""
    try:
        known = _shapes.get(annotation)
    except TypeError:  # an Annotated may hold what cannot be hashed
        return _build(annotation)
    if known is None:
        known = _shapes[annotation] = _build(annotation)
    return known


def _build(annotation: Any) -> TypeCodec:
    try:
        return _shape(annotation)
    except CodecError as error:
        return Unstorable(error.reason)


def _shape(annotation: Any) -> TypeCodec:
    if annotation is Any or annotation is object or isinstance(annotation, (str, typing.ForwardRef)):
        return ANYTHING
    if annotation is None or (isinstance(annotation, type) and annotation in _LEAVES):
        return _LEAVES[annotation]
    if isinstance(annotation, typing.TypeVar):
        return _variable(annotation)
    inner = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if inner is not None and not isinstance(annotation, type):  # a NewType, or an alias of a later Python
        return type_codec_of(inner)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _WRAPPERS:
        return type_codec_of(args[0])
    if origin is typing.Literal:
        return OneOf(args, tuple(type_codec_of(type(value)) for value in args))
    if origin is typing.Union or origin is types.UnionType:
        return _choice(args)
    cls = origin or annotation
    if isinstance(cls, type):
        return _container(annotation, cls, args) or _record(annotation, cls)
    return _unstorable(annotation)


def _variable(variable: typing.TypeVar) -> TypeCodec:
    if variable.__constraints__:
        return _choice(variable.__constraints__)
    return type_codec_of(Any if variable.__bound__ is None else variable.__bound__)


def _choice(args: tuple[Any, ...]) -> TypeCodec:
    members = tuple(arg for arg in args if arg is not msgspec.UnsetType)
    if len(members) == 1:
        return type_codec_of(members[0])
    shapes = [type_codec_of(member) for member in members]
    if all(shape is ANYTHING or shape in PLAIN for shape in shapes) and ANYTHING in shapes:
        return ANYTHING
    labels = [_label(member) for member in members]
    if len(set(labels)) < len(labels):
        labels = [name_of(member) for member in members]
    # Unions are equal in any order, and share a codec: stored values must not depend on which order comes first.
    return Choice(dict(sorted(zip(labels, shapes, strict=True), key=lambda pair: pair[0])))


def _label(annotation: Any) -> str:
    """The label of a union member in stored values: short, and the same in every process."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return " | ".join(sorted(map(_label, args)))
    if origin is typing.Literal:
        return f"Literal[{', '.join(sorted(map(repr, args)))}]"
    if annotation is None or annotation is type(None):
        return "None"
    if args and isinstance(origin, type):
        return f"{origin.__qualname__}[{', '.join(map(_label, args))}]"
    return annotation.__qualname__ if isinstance(annotation, type) else name_of(annotation)


def _container(annotation: Any, cls: type, args: tuple[Any, ...]) -> TypeCodec | None:
    if cls is tuple:
        return _tuple(annotation, args)
    first = type_codec_of(args[0]) if args else ANYTHING
    if cls is list or cls in _LISTS:
        return Listing(first, list, abstract=cls is not list)
    if cls in (set, frozenset) or cls in _SETS:
        return Distinct(first, set if cls in _SETS else cls, abstract=cls in _SETS)
    if cls in _DICTS:
        return Mapped(first, type_codec_of(args[1]) if args else ANYTHING)
    return None


def _tuple(annotation: Any, args: tuple[Any, ...]) -> TypeCodec:
    if annotation in (tuple, typing.Tuple):  # noqa: UP006 - users may write the old spelling
        return Listing(ANYTHING, tuple)
    if len(args) == 2 and args[1] is Ellipsis:
        return Listing(type_codec_of(args[0]), tuple)
    return Row(tuple(type_codec_of(arg) for arg in args))


def _record(annotation: Any, cls: Any) -> TypeCodec:
    def hints() -> dict[str, TypeCodec]:
        return {name: type_codec_of(hint) for name, hint in class_hints(annotation).items()}

    late: Hints = hints
    if typing.is_typeddict(cls):
        return Typed(cls, late, lambda: required_keys(annotation))
    if dataclasses.is_dataclass(cls):
        return DataclassRecord(cls, late)
    if issubclass(cls, msgspec.Struct):
        return StructRecord(cls, late)
    if issubclass(cls, enum.Enum):
        return Member(cls)
    if issubclass(cls, PurePath):
        return FilePath(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return Named(cls, late)
    if hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_dump"):
        return Model(cls)
    return _unstorable(annotation)


def _unstorable(annotation: Any) -> TypeCodec:
    raise CodecError(
        f"values annotated as {name_of(annotation)} cannot be stored; "
        "use a dataclass, a Struct, a pydantic model, or numbers, text, bytes, lists, tuples, sets, dicts, dates or paths"
    )
