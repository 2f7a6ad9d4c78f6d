"""Encryption at rest: a store whose content only processes with the keys can read.

Encrypted are the events, blobs, log lines, progress, documents, and of the rows beside the log the reasons and the prompts
and schemas of questions. Not encrypted is what stores search and order by: run ids, workflow names, titles, tags, exclusive
keys, statuses and times. AES-GCM binds each value to its place (run and event, or name), so that it cannot be moved.

The digests of the log are made before the encryption: `verify` proves the same with and without it. The first key
encrypts, all keys decrypt. Content that was stored before encryption was turned on stays readable.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from outlast.errors import Damaged, InvalidInput, NotFound, StoreUnusable
from outlast.history.codec import ENCRYPTED
from outlast.history.events import NULL
from outlast.history.ids import RunId
from outlast.history.record import Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import (
    Append,
    BlobRef,
    Blobs,
    Derived,
    Document,
    Due,
    Line,
    Listed,
    Lost,
    Outcome,
    Page,
    RunFilter,
    Store,
    Tombstone,
)

KEYS = "OUTLAST_ENCRYPTION_KEYS"
COMMAND = "OUTLAST_ENCRYPTION_COMMAND"
COMMAND_TIMEOUT_S = 30.0
_ID_SIZE, _NONCE_SIZE = 8, 12
_TEXT = "encrypted:"
FRAME = 64 * 1024
"""Bytes of a blob that are encrypted together."""
MARK = "encryption"
"""The document of a store that is encrypted. A process without keys is refused."""
_BLOBS = "blobs/"
"""Names of the documents that find a blob: its content has another hash once it is encrypted."""


class Keys:
    """The keys of a store: text of the form `BASE64[,BASE64…]`, each of 32 bytes. The first one encrypts."""

    def __init__(self, text: str) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise StoreUnusable(f"{KEYS} needs more packages: pip install 'outlast[encryption]'") from None
        keys = [_key(part.strip(), number) for number, part in enumerate(text.split(","), 1)]
        self._ciphers = {_id_of(key): AESGCM(key) for key in keys}
        self._names = [hashlib.sha256(b"outlast blob names" + key).digest() for key in keys]
        self._first = _id_of(keys[0])

    def encrypt(self, content: bytes, place: str, *, is_repeatable: bool = False) -> bytes:
        """The encrypted content. If it is repeatable, equal content at an equal place is encrypted equally."""
        if is_repeatable:
            nonce = hmac.digest(self._names[0], place.encode() + b"\0" + content, "sha256")[:_NONCE_SIZE]
        else:
            nonce = os.urandom(_NONCE_SIZE)
        return ENCRYPTED + self._first + nonce + self._ciphers[self._first].encrypt(nonce, content, place.encode())

    def decrypt(self, content: bytes, place: str) -> bytes:
        """The content; as it is, if it was stored without encryption."""
        if not content.startswith(ENCRYPTED):
            return content
        at = len(ENCRYPTED)
        id, nonce = content[at : at + _ID_SIZE], content[at + _ID_SIZE : at + _ID_SIZE + _NONCE_SIZE]
        cipher = self._ciphers.get(id)
        if cipher is None:
            raise StoreUnusable(f"{place} is encrypted with the key {id.hex()}, which is not in {KEYS}: add that key")
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(cipher.decrypt(nonce, content[at + _ID_SIZE + _NONCE_SIZE :], place.encode()))
        except (InvalidTag, ValueError):
            raise Damaged(f"{place} cannot be decrypted: its bytes were changed or moved") from None

    def encrypt_text(self, text: str, place: str, *, is_repeatable: bool = False) -> str:
        if not text:
            return ""
        return _TEXT + base64.b64encode(self.encrypt(text.encode(), place, is_repeatable=is_repeatable)).decode()

    def decrypt_text(self, text: str, place: str) -> str:
        if not text.startswith(_TEXT):
            return text
        try:
            content = base64.b64decode(text[len(_TEXT) :], validate=True)
        except binascii.Error:
            raise Damaged(f"{place} cannot be decrypted: its bytes were changed") from None
        return self.decrypt(content, place).decode()

    def blob_names(self, hash: str) -> list[str]:
        """The documents that may find a blob, under each key. They do not show the hash of the content."""
        return [_BLOBS + hmac.digest(name, hash.encode(), "sha256").hex() for name in self._names]


def _key(text: str, number: int) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise InvalidInput(f"{KEYS}: key {number} must be 32 bytes in base64; `openssl rand -base64 32` makes one")
    return key


def _id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"outlast key id" + key).digest()[:_ID_SIZE]


def configured_keys(environment: Mapping[str, str] | None = None) -> Keys | None:
    """The keys from the environment, or from the output of the command that it names; None without either."""
    variables = os.environ if environment is None else environment
    if text := variables.get(KEYS, ""):
        return Keys(text)
    if not (command := variables.get(COMMAND, "")):
        return None
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, timeout=COMMAND_TIMEOUT_S, check=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise StoreUnusable(f"{COMMAND} failed: {type(error).__name__}") from None  # its output may hold keys
    return Keys(done.stdout.decode(errors="replace").strip())


async def check_keys(store: Store, *, readonly: bool = False) -> None:
    """Refuse to use an encrypted store without its keys: the process could take runs over and read none of them. A store
    that is opened with keys for the first time is marked, unless it is only read."""
    mark = await store.document(MARK)
    if mark is None and isinstance(store, EncryptedStore) and not readonly:
        await store.put_document(Document(MARK, "1", b"encrypted"))
    elif mark is not None and mark.body.startswith(ENCRYPTED):
        raise StoreUnusable(f"the store is encrypted: set {KEYS} or {COMMAND}")


class EncryptedStore:
    """A store that encrypts what it gives to another store, and decrypts what that returns. What carries no content passes
    through unchanged."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys
        self._blobs = EncryptedBlobs(store, keys)

    @property
    def blobs(self) -> Blobs:
        return self._blobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def skew(self) -> int:
        return self._store.skew

    @skew.setter
    def skew(self, skew: int) -> None:
        self._store.skew = skew

    def reopen(self) -> Store:
        return cast("Store", EncryptedStore(self._store.reopen(), self._keys))

    # --- the journal

    async def append(self, batch: Sequence[Append]) -> list[Outcome]:
        outcomes = await self._store.append([await self._encrypted(each) for each in batch])
        return [
            replace(outcome, tail=tuple(map(self._record, outcome.tail))) if isinstance(outcome, Lost) else outcome
            for outcome in outcomes
        ]

    async def read(self, run: RunId, first: int = 1, last: int | None = None, limit: int = 1000) -> list[Record]:
        return [self._record(record) for record in await self._store.read(run, first, last, limit)]

    async def _encrypted(self, append: Append) -> Append:
        record, summary = append.record, append.summary
        body = self._keys.encrypt(record.body, _place(record))
        return replace(
            append,
            record=replace(record, body=body),
            summary=self._encrypted_summary(summary) if summary is not None else None,
            opens=tuple(self._encrypted_wait(wait, record.run) for wait in append.opens),
            blobs=tuple([stored for hash in append.blobs for stored in await self._blobs.stored(hash)]),
        )

    def _record(self, record: Record) -> Record:
        return replace(record, body=self._keys.decrypt(record.body, _place(record)))

    # --- the rows beside the log

    async def derived(self, run: RunId) -> Derived:
        found = await self._store.derived(run)
        return replace(
            found,
            summary=self._summary(found.summary) if found.summary is not None else None,
            waits={name: self._wait(wait, run) for name, wait in found.waits.items()},
        )

    async def rewrite(self, summary: RunSummary, waits: Sequence[Wait], *, closed: bool) -> bool:
        encrypted = [self._encrypted_wait(wait, summary.run) for wait in waits]
        return await self._store.rewrite(self._encrypted_summary(summary), encrypted, closed=closed)

    async def summary(self, run: RunId) -> RunSummary | None:
        found = await self._store.summary(run)
        return self._summary(found) if found is not None else None

    async def search(self, query: RunFilter) -> Page:
        page = await self._store.search(query)
        items = [
            Listed(self._summary(each.summary), self._keys.decrypt(each.scratch, f"the progress of {each.summary.run}"))
            for each in page.items
        ]
        return replace(page, items=tuple(items))

    async def correct(self, summary: RunSummary, seen: int) -> bool:
        return await self._store.correct(self._encrypted_summary(summary), seen)

    async def note(self, scratch: Mapping[RunId, bytes]) -> None:
        encrypted = {
            run: self._keys.encrypt(content, f"the progress of {run}") if content else content
            for run, content in scratch.items()
        }
        await self._store.note(encrypted)

    async def wait(self, run: RunId, name: str) -> Wait | None:
        found = await self._store.wait(run, name)
        return self._wait(found, run) if found is not None else None

    async def waits(self, *, kind: str = "", after: str = "", limit: int = 100) -> tuple[list[Due], str]:
        found, following = await self._store.waits(kind=kind, after=after, limit=limit)
        return [self._due(due) for due in found], following

    async def due(self, limit: int = 100, *, after: Due | None = None) -> list[Due]:
        return [self._due(due) for due in await self._store.due(limit, after=after)]

    def _due(self, due: Due) -> Due:
        return replace(due, wait=self._wait(due.wait, due.run))

    def _encrypted_summary(self, summary: RunSummary) -> RunSummary:
        waits = tuple(self._encrypted_wait(wait, summary.run) for wait in summary.waits)
        reason = self._keys.encrypt_text(summary.reason, f"the reason of {summary.run}")
        return replace(summary, reason=reason, waits=waits)

    def _summary(self, summary: RunSummary) -> RunSummary:
        waits = tuple(self._wait(wait, summary.run) for wait in summary.waits)
        reason = self._keys.decrypt_text(summary.reason, f"the reason of {summary.run}")
        return replace(summary, reason=reason, waits=waits)

    def _encrypted_wait(self, wait: Wait, run: RunId) -> Wait:
        place, detail = f"{wait.name} of {run}", wait.detail
        if detail != NULL:
            detail = msgspec.Raw(msgspec.json.encode(self._keys.encrypt_text(bytes(detail).decode(), place)))
        return replace(wait, text=self._keys.encrypt_text(wait.text, place), detail=detail)

    def _wait(self, wait: Wait, run: RunId) -> Wait:
        place, detail = f"{wait.name} of {run}", wait.detail
        if bytes(detail).startswith(b'"' + _TEXT.encode()):
            detail = msgspec.Raw(self._keys.decrypt_text(msgspec.json.decode(detail, type=str), place).encode())
        return replace(wait, text=self._keys.decrypt_text(wait.text, place), detail=detail)

    # --- deletion

    async def delete(self, tombstone: Tombstone, version: int) -> bool:
        encrypted = {
            field: self._keys.encrypt_text(getattr(tombstone, field), place, is_repeatable=True)
            for field, place in _tombstone_places(tombstone.run).items()
        }
        return await self._store.delete(replace(tombstone, **encrypted), version)

    async def tombstone(self, run: RunId) -> Tombstone | None:
        found = await self._store.tombstone(run)
        return self._tombstone(found) if found is not None else None

    async def tombstones(self, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
        return [self._tombstone(each) for each in await self._store.tombstones(after=after, limit=limit)]

    def _tombstone(self, tombstone: Tombstone) -> Tombstone:
        places = _tombstone_places(tombstone.run)
        return replace(
            tombstone,
            **{field: self._keys.decrypt_text(getattr(tombstone, field), place) for field, place in places.items()},
        )

    async def collect(self, put_before: int, limit: int = 1000) -> list[str]:
        return await self._blobs.forget(await self._store.collect(put_before, limit))

    # --- lines and documents

    async def keep(self, lines: Sequence[Line]) -> None:
        await self._store.keep([replace(line, text=self._keys.encrypt_text(line.text, _where(line))) for line in lines])

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        found = await self._store.lines(run, node=node, attempt=attempt, after=after, limit=limit)
        return [replace(line, text=self._keys.decrypt_text(line.text, _where(line))) for line in found]

    async def document(self, name: str) -> Document | None:
        found = await self._store.document(name)
        return self._document(found) if found is not None else None

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        body = self._keys.encrypt(document.body, f"document {document.name}")
        return await self._store.put_document(replace(document, body=body), replaces=replaces)

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        return [self._document(each) for each in await self._store.documents(prefix, after=after, limit=limit)]

    def _document(self, document: Document) -> Document:
        return replace(document, body=self._keys.decrypt(document.body, f"document {document.name}"))


def _tombstone_places(run: RunId) -> dict[str, str]:
    """The encrypted fields of a tombstone, with their places."""
    return {
        "key": f"the key in the tombstone of {run}",
        "by": f"the author of the tombstone of {run}",
        "reason": f"the tombstone of {run}",
    }


def _place(record: Record) -> str:
    return f"the events of {record.run} from {record.first}"


def _where(line: Line) -> str:
    return f"a line of {line.run}, {line.node}, attempt {line.attempt}"


class _Found(msgspec.Struct):
    """A blob as it is stored, and the hash of its content."""

    hash: str
    size: int
    content: str = ""


class EncryptedBlobs:
    """Blobs in frames that are encrypted one by one. Equal content has equal frames, so that it is stored once."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        digest, size = hashlib.blake2b(digest_size=32), 0

        async def frames() -> AsyncIterator[bytes]:
            nonlocal size
            number, held = 0, b""
            async for chunk in _each(chunks):
                digest.update(chunk)
                size += len(chunk)
                held += chunk
                while len(held) > FRAME:
                    yield self._frame(held[:FRAME], number, is_last=False)
                    number, held = number + 1, held[FRAME:]
            yield self._frame(held, number, is_last=True)

        stored = await self._store.blobs.put(frames())
        found = BlobRef(digest.hexdigest(), size)
        name, *_ = self._keys.blob_names(found.hash)
        body = self._keys.encrypt(msgspec.json.encode(_Found(stored.hash, stored.size, found.hash)), name)
        document, old = Document(name, os.urandom(16).hex(), body), ""
        # Each put writes a new version, so that `forget` cannot remove the document of a blob that is stored again.
        while not await self._store.put_document(document, replaces=old):
            old = there.version if (there := await self._store.document(name)) is not None else ""
        return found

    def _frame(self, content: bytes, number: int, *, is_last: bool) -> bytes:
        frame = self._keys.encrypt(content, _frame_place(number, is_last=is_last), is_repeatable=True)
        return len(frame).to_bytes(4, "big") + frame

    async def open(self, ref: BlobRef) -> AsyncIterator[bytes]:
        for _, found in await self._every(ref.hash):
            chunks = self._store.blobs.open(BlobRef(found.hash, found.size))
            try:
                first = await anext(chunks, b"")
            except NotFound:  # it was collected; it may be stored under another key or without encryption
                continue
            async for chunk in self._decrypted(first, chunks):
                yield chunk
            return
        async for chunk in self._store.blobs.open(ref):
            yield chunk

    async def _decrypted(self, held: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        number, more = 0, cast("bytes | None", b"")
        while more is not None:
            while len(held) >= 4 and len(held) > (size := 4 + int.from_bytes(held[:4], "big")):
                yield self._keys.decrypt(held[4:size], _frame_place(number, is_last=False))
                held, number = held[size:], number + 1
            more = await anext(chunks, None)
            held += more or b""
        if last := self._keys.decrypt(held[4:], _frame_place(number, is_last=True)):
            yield last

    async def has(self, hash: str) -> bool:
        for each in (*(found.hash for _, found in await self._every(hash)), hash):
            if await self._store.blobs.has(each):
                return True
        return False

    async def remove(self, hash: str) -> None:
        await self._store.blobs.remove(hash)
        for document, found in await self._every(hash):
            await self._store.blobs.remove(found.hash)
            await self._store.remove_document(document.name, document.version)

    async def stored(self, hash: str) -> list[str]:
        """The hashes under which a blob is stored: one for each key that encrypted it, or its own."""
        return [found.hash for _, found in await self._every(hash)] or [hash]

    async def forget(self, collected: Collection[str]) -> list[str]:
        """Remove the documents of stored blobs that were collected. Return the hashes of the blobs."""
        names, after = {hash: hash for hash in collected}, ""
        while collected and (page := await self._store.documents(_BLOBS, after=after)):
            for document in page:
                found = self._read(document)
                if found.hash in names and not await self._store.blobs.has(found.hash):
                    names[found.hash] = found.content
                    await self._store.remove_document(document.name, document.version)
            after = page[-1].name
        return list(names.values())

    async def _every(self, hash: str) -> list[tuple[Document, _Found]]:
        """What is stored of a blob under each key."""
        documents = [await self._store.document(name) for name in self._keys.blob_names(hash)]
        return [(each, self._read(each)) for each in documents if each is not None]

    def _read(self, document: Document) -> _Found:
        return msgspec.json.decode(self._keys.decrypt(document.body, document.name), type=_Found)


def _frame_place(number: int, *, is_last: bool) -> str:
    return f"frame {number} of a blob" + (", the last" if is_last else "")


async def _each(chunks: AsyncIterator[bytes] | bytes) -> AsyncIterator[bytes]:
    if isinstance(chunks, bytes):
        yield chunks
        return
    async for chunk in chunks:
        yield chunk
