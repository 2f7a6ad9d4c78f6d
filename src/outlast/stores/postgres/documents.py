"""The documents of a PostgreSQL store."""

from __future__ import annotations

from outlast.store import Document
from outlast.stores.postgres.rows import Rows, escape
from outlast.stores.shared import bounded, check_limit, checked_document

_ONE = "select name, version, body from {s}.document where name = $1"
_CREATE = "insert into {s}.document (name, version, body) values ($1, $2, $3) on conflict do nothing returning 1"
_REPLACE = "update {s}.document set version = $2, body = $3 where name = $1 and version = $4 returning 1"
_REMOVE = "delete from {s}.document where name = $1 and version = $2 returning 1"
_SOME = """
select name, version, body from {s}.document
where name > $1 and starts_with(name, $2) order by name limit $3"""


class DocumentRows(Rows):
    """Implements the documents."""

    async def document(self, name: str) -> Document | None:
        rows = await self._db.read(_ONE, escape(name))
        return Document(*rows[0]) if rows else None

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        values = (checked_document(document.name), document.version, document.body)
        if replaces:
            landed = await self._db.write(_REPLACE, *values, replaces)
        else:
            landed = await self._db.write(_CREATE, *values)
        stored = None if landed else await self.document(document.name)
        return bool(landed) or (stored is not None and stored.version == document.version)

    async def remove_document(self, name: str, version: str) -> bool:
        removed = await self._db.write(_REMOVE, escape(name), version)
        return bool(removed) or await self.document(name) is None

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        check_limit(limit)
        rows = await self._db.read(_SOME, escape(after), escape(prefix), bounded(limit))
        return [Document(*row) for row in rows]
