"""Small named values of services, as objects.

A bucket has no conditional delete, so a document that is removed is replaced by an empty object. A write whose answer was
lost finds its own version when it reads back.
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


class _Kept(Struct, frozen=True):
    version: str
    body: bytes | None


_decode = msgspec.json.Decoder(_Kept).decode


class DocumentObjects(ObjectStoreBase):
    """The documents' part of the store."""

    async def document(self, name: str) -> Document | None:
        found = await self._found(name)
        return found[0] if found else None

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        return await self._replace(document.name, _Kept(document.version, document.body), replaces)

    async def remove_document(self, name: str, version: str) -> bool:
        there = await self.document(name)
        return there is None or await self._replace(name, _Kept("", None), version)

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

    async def _replace(self, name: str, kept: _Kept, replaces: str) -> bool:
        """Write it if the version is `replaces`; whether it is there then, also if it was there before."""
        self._require_writable()
        there = await self._found(checked_document(name))
        version = there[0].version if there and there[0] else ""
        if version != replaces:
            return version == kept.version
        path, body = f"{FOLDER}/{name}", msgspec.json.encode(kept)
        try:
            if there is None:
                await self._bucket.create(path, body)
            else:
                await self._bucket.update(path, body, there[1])
        except Taken:
            found = await self._bucket.get(path)
            return found is not None and found.body == body
        return True

    async def _found(self, name: str) -> tuple[Document | None, Tag] | None:
        """The document, None where one was removed, and the version of its object."""
        found = await self._bucket.get(f"{FOLDER}/{name}")
        if found is None:
            return None
        try:
            kept = _decode(found.body)
        except msgspec.DecodeError as error:
            raise Damaged(f"the document {name} does not read: {error}") from error
        return (None if kept.body is None else Document(name, kept.version, kept.body)), found.tag
