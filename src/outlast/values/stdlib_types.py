"""Codecs of standard library types: bytes, times, decimals, ids, paths, complex numbers.

Each is a text in JSON (a complex number is two floats), in the form that msgspec writes. Times keep more than that form can
hold: a time zone by name and the second occurrence of an hour follow in brackets, as in RFC 9557:
`2026-10-25T02:30:00+01:00[Europe/Berlin][_fold=1]`. A zone of another library is stored as its offset.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec

from outlast.values.not_storable import name_of, not_a
from outlast.values.scalars import FLOAT, check_unicode
from outlast.values.type_codec import CodecError, TypeCodec, misfit

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Moment = TypeVar("Moment", dt.datetime, dt.time)

_SUFFIXES = re.compile(r"(?P<plain>[^\[]*)(?:\[(?P<zone>[^_\]][^\]]*)\])?(?P<fold>\[_fold=1\])?")


class Standard(TypeCodec):
    """Values of one class of the standard library; `name` marks them where there is no annotation."""

    def __init__(
        self,
        name: str,
        cls: type,
        write: Callable[[Any], Any] | None,
        read: Callable[[Any], Any],
        *,
        kind: str = "text",
        textual: bool = False,
    ) -> None:
        self.name = name
        self.cls = cls
        self.classes = (cls,)
        self.kind = kind
        self.textual = textual
        self._write = write
        self._read = read

    def encode(self, value: Any, _: int, /) -> Any:
        if type(value) is not self.cls:
            raise not_a(value, name_of(self.cls))
        return value if self._write is None else self._write(value)

    def decode(self, tree: Any, /) -> Any:
        if self.kind == "text" and type(tree) is not str:
            misfit(name_of(self.cls), tree)
        try:
            return self._read(tree)
        except (ValueError, TypeError, LookupError, ArithmeticError, msgspec.ValidationError):
            return misfit(name_of(self.cls), tree)


class FilePath(TypeCodec):
    """A path, stored as text. It is restored as the annotated class, with the path flavor of this system."""

    kind = "text"

    def __init__(self, cls: type[PurePath]) -> None:
        self.cls = cls
        try:
            self.classes = (type(cls()),)
        except NotImplementedError as error:
            raise CodecError(f"{name_of(cls)} cannot be stored on this system: {error}") from error

    def encode(self, value: Any, _: int, /) -> Any:
        if not isinstance(value, self.cls) or type(value).__module__.partition(".")[0] != "pathlib":
            raise not_a(value, name_of(self.cls))
        text = str(value)
        check_unicode(text)
        return text

    def decode(self, tree: Any, /) -> Any:
        return self.cls(tree) if type(tree) is str else misfit(name_of(self.cls), tree)


def _write_moment(value: Moment) -> Moment | str:
    zone = value.tzinfo
    if not value.fold and (zone is None or zone is dt.UTC):
        return value  # msgspec writes it
    text = value.isoformat()
    if zone is not None and type(zone) is _zone_info() and zone.key:
        text += f"[{zone.key}]"
    return f"{text}[_fold=1]" if value.fold else text


def _zone_info() -> type[ZoneInfo]:
    """Imported at first use: the import takes a tenth of the time of this whole package."""
    from zoneinfo import ZoneInfo

    return ZoneInfo


def _read_moment(cls: type[Moment], text: str) -> Moment:
    match = _SUFFIXES.fullmatch(text)
    if match is None:
        raise CodecError(f"expected {cls.__name__}, but {text!r} is stored")
    value = cls.fromisoformat(match["plain"])
    if match["zone"]:
        value = value.replace(tzinfo=_zone_info()(match["zone"]))
    return value.replace(fold=1) if match["fold"] else value


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _write_complex(value: complex) -> list[Any]:
    return [FLOAT.encode(value.real, 0), FLOAT.encode(value.imag, 0)]


def _read_complex(tree: Any) -> complex:
    real, imag = tree
    return complex(FLOAT.decode(real), FLOAT.decode(imag))


STANDARD: tuple[Standard, ...] = (
    Standard("bytes", bytes, None, _read_bytes),
    Standard("bytearray", bytearray, None, lambda text: bytearray(_read_bytes(text))),
    Standard("datetime", dt.datetime, _write_moment, lambda text: _read_moment(dt.datetime, text)),
    Standard("date", dt.date, None, dt.date.fromisoformat, textual=True),
    Standard("time", dt.time, _write_moment, lambda text: _read_moment(dt.time, text)),
    Standard("timedelta", dt.timedelta, None, lambda text: msgspec.convert(text, dt.timedelta)),
    Standard("decimal", Decimal, None, Decimal),
    Standard("uuid", UUID, None, UUID, textual=True),
    Standard("complex", complex, _write_complex, _read_complex, kind="list"),
)
PATH = FilePath(Path)
