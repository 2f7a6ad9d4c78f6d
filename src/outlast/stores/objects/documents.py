"""The documents of an object store.

A bucket has no conditional delete, so an empty object replaces a removed document. A write whose answer was lost finds its
own version when it reads the object.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from outlast.errors import Damaged
from outlast.store import Document
from outlast.stores.objects.bucket import Tag, Taken
from outlast.stores.objects.shared import ObjectStoreBase
from outlast.stores.shared import check_limit, checked_document

FOLDER = "documents"


class _Stored(Struct, frozen=True):
    version: str
    body: bytes | None


_decode = msgspec.json.Decoder(_Stored).decode


class DocumentObjects(ObjectStoreBase):
    """Implements the documents."""

    async def document(self, name: str) -> Document | None:
        found = await self._found(name)
        return found[0] if found else None

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        return await self._replace(document.name, _Stored(document.version, document.body), replaces)

    async def remove_document(self, name: str, version: str) -> bool:
        stored = await self.document(name)
        return stored is None or await self._replace(name, _Stored("", None), version)

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        check_limit(limit)
        folder = f"{FOLDER}/{prefix}".rpartition("/")[0]
        found: list[Document] = []
        names: list[str] = []
        async for listed in self._bucket.listing(folder):
            name = listed.name.removeprefix(f"{FOLDER}/")
            if name.startswith(prefix) and name > after:
                names.append(name)
        names.sort()
        while names and len(found) < limit:
            batch, names = names[:limit], names[limit:]
            found += [each for each in await self._each(self.document, batch) if each is not None]
        return found[:limit]

    async def _replace(self, name: str, new: _Stored, replaces: str) -> bool:
        """Write the document if its version is `replaces`. True also if the new version is stored already."""
        self._require_writable()
        found = await self._found(checked_document(name))
        version = found[0].version if found and found[0] else ""
        if version != replaces:
            return version == new.version
        path, body = f"{FOLDER}/{name}", msgspec.json.encode(new)
        try:
            if found is None:
                await self._bucket.create(path, body)
            else:
                await self._bucket.update(path, body, found[1])
        except Taken:
            read = await self._bucket.get(path)
            return read is not None and read.body == body
        return True

    async def _found(self, name: str) -> tuple[Document | None, Tag] | None:
        """Return the document, None if it was removed, and the version of its object."""
        found = await self._bucket.get(f"{FOLDER}/{name}")
        if found is None:
            return None
        try:
            stored = _decode(found.body)
        except msgspec.DecodeError as error:
            raise Damaged(f"the document {name} cannot be decoded: {error}") from error
        return (None if stored.body is None else Document(name, stored.version, stored.body)), found.tag
