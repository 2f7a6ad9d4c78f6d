"""Python values to JSON bytes and back, by their annotation (R1 to R4).

A value is stored as plain JSON wherever its annotation is enough to restore it; a value without an annotation describes
itself (`untyped`). A value larger than `INLINE_LIMIT` is stored as a blob, and the log refers to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from outlast.errors import Damaged, InvalidInput, NotFound, NotStorable, StoreError
from outlast.history.events import Value
from outlast.history.record import Entry
from outlast.ledger.blob_names import REFERENCE, blob_of, is_elsewhere, values_in
from outlast.store import BeginsEarly, BlobRef, Blobs, PendingBlob
from outlast.values import secret_patterns
from outlast.values.annotations import type_codec_of
from outlast.values.find_secret import find_secret
from outlast.values.json_fastpath import JsonFastPath
from outlast.values.not_storable import SECRET, name_of
from outlast.values.scalars import GREATEST, LEAST
from outlast.values.type_codec import MARK, CodecError, is_native
from outlast.values.type_hints import hints_of as hints_of

INLINE_LIMIT = 1_000_000
"""The size in bytes up to which a value is stored in the log itself."""

_DOLLAR = ord(MARK)
_MARKED = f'"{MARK}"'.encode()
_encode = msgspec.json.Encoder().encode
_decode_any = msgspec.json.Decoder().decode
_NEARLY_ALWAYS_PLAIN: frozenset[type] = frozenset((int, str, bool, type(None)))
"""Classes whose values are JSON as they are, except numbers of more than 64 bits and text without a UTF-8 form, which
msgspec refuses. Floats are missing: msgspec writes NaN as null.
"""
_SCALARS: frozenset[type] = frozenset((*_NEARLY_ALWAYS_PLAIN, float, bytes))
"""Classes of immutable values."""
_codecs: dict[Any, Codec] = {}


class Codec:
    """Encodes and decodes the values of one annotation. Get it from `codec_for`, once, where speed matters."""

    __slots__ = ("_fast_path", "_from_tree", "_plain", "_read", "_to_tree", "annotation", "unchanged")

    def __init__(self, annotation: Any) -> None:
        shape = type_codec_of(annotation)
        self.annotation = annotation
        self._to_tree = shape.encode
        self._from_tree = shape.decode
        self._fast_path = JsonFastPath(shape).encode_and_copy
        self._read = _native_reader(annotation) if is_native(shape) else None
        classes = _NEARLY_ALWAYS_PLAIN if annotation is Any else [each for each in shape.classes if each is annotation]
        self._plain = _NEARLY_ALWAYS_PLAIN.intersection(classes)
        own = (annotation, type(None))
        self.unchanged = _SCALARS if annotation is Any else frozenset(each for each in _SCALARS if each in own)
        """Classes of values that are read as they were written and need no copy. An int is not among them where the
        annotation is float: it is read as a float."""

    def encode(self, value: Any, where: str = "") -> Value:
        """The JSON of a value. `NotStorable` names the part that cannot be stored by its path from `where`."""
        return Raw(self.written(value, where))

    def written(self, value: Any, where: str = "") -> bytes:
        """The same as bytes."""
        kind = type(value)
        if kind in self._plain and (kind is not int or LEAST <= value <= GREATEST):
            try:
                body = _encode(value)
            except UnicodeEncodeError:
                body = self._walked(value, where)  # which names the part
        else:
            body = self._walked(value, where)
        if secret_patterns.known and (path := find_secret(body)) is not None:
            raise NotStorable(f"{where or 'value'}{path}: {SECRET}")
        return body

    def _walked(self, value: Any, where: str) -> bytes:
        try:
            return _encode(self._to_tree(value, 0))
        except CodecError as error:
            raise NotStorable(error.message_from(where or "value")) from None
        except RecursionError:
            raise NotStorable(
                f"{where or 'value'}: the stack is too deep here to store it; store a less nested value"
            ) from None

    def encode_and_copy(
        self, value: Any, where: str = "", begin: Callable[[bytes], None] | None = None
    ) -> tuple[bytes, Any]:
        """The bytes, and the value that `decode` reads from them: a copy that no other code can change. `begin` is called
        with the bytes as soon as they exist; if it is called twice, the first bytes were wrong."""
        kind = type(value)
        found = self._fast_path(value, begin) if kind is dict or kind is list else None
        if found is not None:
            return found
        body = self.written(value, where)
        if begin is not None:
            begin(body)
        return body, self.decode(body)

    def decode(self, raw: Value | bytes) -> Any:
        """The value of its JSON. `InvalidInput` names the part that does not fit the annotation."""
        body = bytes(raw)
        # On large values, searching for a single byte first is much faster.
        if self._read is not None and (_DOLLAR not in body or _MARKED not in body):
            try:
                return self._read(body)
            except (msgspec.DecodeError, RecursionError):
                pass  # a time with a zone, for example; or it does not fit, and the slow way names the part
        return self._decode_slowly(body)

    def _decode_slowly(self, body: bytes) -> Any:
        if body.startswith(REFERENCE):
            raise InvalidInput("value: it is stored as a blob; fetch it before decoding")
        try:
            return self._from_tree(_decode_any(body))
        except CodecError as error:
            raise InvalidInput(error.message_from("value")) from error
        except (msgspec.DecodeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InvalidInput(
                f"value: {name_of(self.annotation)} cannot be read from the stored value: {error}"
            ) from error


def codec_for(annotation: Any = Any) -> Codec:
    """The codec of an annotation whose names are resolved (`hints_of`)."""
    try:
        codec = _codecs.get(annotation)
    except TypeError:  # an Annotated may hold what cannot be hashed
        return Codec(annotation)
    if codec is None:
        codec = _codecs[annotation] = Codec(annotation)
    return codec


def encode(value: Any, annotation: Any = Any, *, where: str = "") -> Value:
    """The JSON of a value; `where` describes the value in an error: `result`, `argument 'url'`."""
    return codec_for(annotation).encode(value, where)


def decode(raw: Value | bytes, annotation: Any = Any) -> Any:
    """The value that was encoded under the same annotation."""
    return codec_for(annotation).decode(raw)


async def stored(raw: Value | bytes, blobs: Blobs) -> Value:
    """The value as the log stores it: the value itself, or a reference to a blob that now holds it durably. The bytes are
    not copied."""
    if len(raw) <= INLINE_LIMIT:
        return raw if isinstance(raw, Raw) else Raw(raw)
    return reference_to(await blobs.put(bytes(raw)))


def reference_to(ref: BlobRef) -> Value:
    """The value in the log that stands for a blob."""
    return Raw(_encode({MARK: "blob", "hash": ref.hash, "size": ref.size}))


async def damaged_blobs(
    blobs: Blobs, log: Iterable[Entry], *, content: bool = True
) -> AsyncIterator[tuple[Entry, BlobRef, str]]:
    """The events that refer to a blob that is missing or, if `content` is set, does not have the content that was
    written; with the blob and its fault."""
    known: dict[str, str] = {}
    for entry in log:
        for ref in [blob_of(value) for value in values_in(entry.event) if is_elsewhere(value)]:
            if ref.hash not in known:
                known[ref.hash] = await _fault_of(blobs, ref, content)
            if known[ref.hash]:
                yield entry, ref, known[ref.hash]


async def _fault_of(blobs: Blobs, ref: BlobRef, content: bool) -> str:
    try:
        if content and await blobs.has(ref.hash):
            size = sum([len(chunk) async for chunk in blobs.open(ref)])
            return "" if size == ref.size else "is damaged"
        return "" if await blobs.has(ref.hash) else "is not there"
    except NotFound:
        return "is not there"
    except Damaged:
        return "is damaged"


async def fetched(raw: Value, blobs: Blobs) -> Value:
    """The value that the log holds or refers to; `NotFound` names a missing blob."""
    if not is_elsewhere(raw):
        return raw
    ref = blob_of(raw)
    try:
        return Raw(b"".join([chunk async for chunk in blobs.open(ref)]))
    except NotFound as error:
        raise NotFound(f"blob {ref.hash} of a value of {ref.size} bytes is missing: {error}") from error


def _native_reader(annotation: Any) -> Any:
    """msgspec's own decoder for the annotation, or None if it has none."""
    try:
        return msgspec.json.Decoder(annotation, dec_hook=_decode_foreign).decode
    except (TypeError, NameError, AttributeError):
        return None


def _decode_foreign(cls: type, tree: Any) -> Any:
    """The types that msgspec does not know: paths, complex numbers, models."""
    try:
        return type_codec_of(cls).decode(tree)
    except CodecError as error:
        raise ValueError(error.reason) from error


class EagerUpload:
    """The upload of one large value, which begins while the value is still being checked. `stored` or `drop` ends it.

    Writing and hashing release the interpreter lock, so they run in parallel with the decoding that checks the value. A
    value that fails the check is dropped before it becomes a blob, and no event refers to a blob before it is durable."""

    __slots__ = ("_begun", "_blobs", "_body")

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._body = b""
        self._begun: PendingBlob | None = None

    def begin(self, body: bytes) -> None:
        """Start with these bytes, which are probably final. They replace those of an earlier call."""
        self.drop()
        if len(body) > INLINE_LIMIT and isinstance(self._blobs, BeginsEarly):
            with suppress(StoreError):  # `stored` writes them again and raises the error
                self._begun, self._body = self._blobs.begin(body), body

    async def stored(self, body: bytes | Value) -> Value:
        """The value as the log stores it."""
        begun, self._begun = self._begun, None
        if begun is None or body is not self._body:
            return await stored(body, self._blobs)
        return reference_to(await begun.keep())

    def drop(self) -> None:
        """Discard the upload."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.drop()
