"""Export of runs as text for a repository: one line of JSON for each append record and each blob.

    {"run":…,"first":1,"count":4,"branch":0,"epoch":1,"kind":1,"id":"…","time":…,"body":"[…]","digest":"…"}
    {"blob":"…","size":1100002,"text":"…"}

The body of a record is its stored text, so that its digest can be checked; ids and digests are in hex. A blob
precedes the record that names it, as text, or in base64 if it is not UTF-8.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from outlast.errors import InvalidInput, NotFound
from outlast.history.ids import RunId
from outlast.history.record import Kind, Record
from outlast.ledger.blob_names import is_elsewhere
from outlast.ledger.reading import head_of, records
from outlast.store import Store
from outlast.values.codec import fetched

_encode = msgspec.json.Encoder().encode


class Blob(Struct, frozen=True):
    """A blob by its hash; `data` is None if the store did not have it."""

    hash: str
    data: bytes | None


async def exported(store: Store, run: RunId) -> AsyncIterator[bytes]:
    """The whole log of a run with all its branches, line by line, without line ends."""
    head, named = await head_of(store, run), set[str]()
    async for record in records(store, run, 1, head.version):
        for reference in _references(record):
            blob = msgspec.json.decode(reference)
            if blob["hash"] not in named:
                named.add(blob["hash"])
                yield await _blob_line(store, reference, blob)
        yield _record_line(record)


def _references(record: Record) -> Iterator[Raw]:
    for event in record.events():
        for value in astuple(event):
            if isinstance(value, Raw) and is_elsewhere(value):
                yield value


async def _blob_line(store: Store, reference: Raw, blob: dict[str, Any]) -> bytes:
    line: dict[str, Any] = {"blob": blob["hash"], "size": blob["size"]}
    try:
        data = bytes(await fetched(reference, store.blobs))
    except NotFound:
        return _encode({**line, "missing": True})
    try:
        return _encode({**line, "text": data.decode()})
    except UnicodeDecodeError:
        return _encode({**line, "base64": b64encode(data).decode()})


def _record_line(record: Record) -> bytes:
    fields = {name: getattr(record, name) for name in ("run", "first", "count", "branch", "epoch", "kind")}
    texts = {"id": record.id.hex(), "time": record.time, "body": record.body.decode(), "digest": record.digest.hex()}
    return _encode({**fields, **texts})


def read_line(line: bytes | str) -> Record | Blob:
    """The record or blob in one line of an export; `InvalidInput` if the line is neither."""
    try:
        fields = msgspec.json.decode(line)
        if "blob" in fields:
            data = b64decode(fields["base64"]) if "base64" in fields else fields.get("text")
            return Blob(fields["blob"], data.encode() if isinstance(data, str) else data)
        id, kind, digest = bytes.fromhex(fields["id"]), Kind(fields["kind"]), bytes.fromhex(fields["digest"])
        decoded = {"id": id, "kind": kind, "digest": digest, "body": fields["body"].encode()}
        return Record(**{name: decoded.get(name, fields[name]) for name in Record.__struct_fields__})
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"not a line of an exported run: {error!r}") from error
