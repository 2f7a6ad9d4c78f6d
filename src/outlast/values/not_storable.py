"""Error texts for values that cannot be stored: what the value is, why it is refused, and what to do instead."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import io
import socket
import threading
import types
from collections.abc import Coroutine
from typing import Any

import msgspec

from outlast.values.secrets import Revealed
from outlast.values.type_codec import CodecError

SECRET = "the value of a secret must not be stored; pass the Secret, and reveal it in the node that uses it"
SURROGATE = (
    "text with a lone surrogate cannot be stored, it is not Unicode; encode it to bytes, or replace the character"
)

_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event, threading.Semaphore)
_ADVICE: tuple[tuple[tuple[type, ...], str], ...] = (
    (
        (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.BuiltinMethodType),
        "store its name, and look the function up where it is called",
    ),
    ((types.GeneratorType, types.AsyncGeneratorType), "store list(…) of it"),
    ((Coroutine, asyncio.Future), "await it, and store its result"),
    ((types.ModuleType, type), "store its name"),
    ((socket.socket, io.IOBase), "open it in the node that uses it, and store its address or path"),
    ((*_LOCKS, asyncio.Lock, asyncio.Event), "it works only in this process; make it where it is used"),
    ((range, map, filter, zip, enumerate), "store list(…) of it"),
    ((memoryview,), "store bytes(…) of it"),
    ((BaseException,), "raise it, or store its text"),
)


def name_of(cls: Any) -> str:
    """The name of a class, with its module unless that is obvious. Other annotations as they are written."""
    if not isinstance(cls, type):
        return str(cls).replace("typing.", "")
    if cls.__module__ in ("builtins", "__main__"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def advice_on(value: Any) -> CodecError | None:
    """The error for a value that no annotation makes storable; None if one may."""
    if type(value) is Revealed:
        return CodecError(SECRET)
    if (name_and_place := getattr(type(value), "name_and_place", None)) is not None:  # a call in a workflow
        return CodecError(f"{name_and_place(value)} cannot be stored; await it, and store its result")
    for kinds, advice in _ADVICE:
        if isinstance(value, kinds):
            return CodecError(f"{name_of(type(value))} cannot be stored; {advice}")
    return None


def not_storable(value: Any) -> CodecError:
    """The error for a value that cannot be stored without an annotation, or not at all."""
    if (error := advice_on(value)) is not None:
        return error
    cls = type(value)
    if is_annotatable(cls):
        return CodecError(
            f"{name_of(cls)} cannot be stored without an annotation; annotate the return type (or parameter) with it, "
            "so that it is restored as its own class"
        )
    near = next((each for each in (str, int, float, dict, list, bytes) if isinstance(value, each)), None)
    if near is not None:
        return CodecError(
            f"{name_of(cls)} cannot be stored without an annotation; annotate the return type (or parameter) "
            f"with {near.__name__}, or convert it"
        )
    return CodecError(
        f"{name_of(cls)} cannot be stored; make it a dataclass, and annotate the return type (or parameter) with it"
    )


def not_a(value: Any, expected: str) -> CodecError:
    """The error for a value that does not match its annotation."""
    return advice_on(value) or CodecError(
        f"{name_of(type(value))} cannot be stored where the annotation says {expected}; change one of them"
    )


def is_annotatable(cls: type) -> bool:
    """Whether values of this class can be stored once an annotation names it."""
    return (
        dataclasses.is_dataclass(cls)
        or issubclass(cls, (enum.Enum, msgspec.Struct))
        or hasattr(cls, "__pydantic_validator__")
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )
