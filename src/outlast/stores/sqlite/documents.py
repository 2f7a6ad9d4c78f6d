"""The documents of a SQLite store."""

from __future__ import annotations

from typing import Any

import apsw

from outlast.store import Document
from outlast.stores.shared import bounded, check_limit, checked_document
from outlast.stores.sqlite.rows import Rows

_ONE = "select name, version, body from document where name = ?"
_PUT = "insert into document (name, version, body) values (?, ?, ?) on conflict do update set version = ?2, body = ?3"
_REMOVE = "delete from document where name = ?"
_SOME = """
select name, version, body from document
where name > ? and name >= ? and substr(name, 1, length(?2)) = ?2 order by name limit ?"""


class DocumentRows(Rows):
    """Implements the documents."""

    async def document(self, name: str) -> Document | None:
        with self._db.reading() as db:
            row: Any = db.execute(_ONE, (name,)).get
        return Document(*row) if row else None

    async def put_document(self, document: Document, *, replaces: str = "") -> bool:
        values = (checked_document(document.name), document.version, document.body)

        def put(db: apsw.Connection) -> bool:
            row: Any = db.execute(_ONE, (document.name,)).get
            stored = row[1] if row else ""
            if stored == replaces:
                db.execute(_PUT, values)
            return stored in (replaces, document.version)

        return await self._db.transact(put)

    async def remove_document(self, name: str, version: str) -> bool:
        def remove(db: apsw.Connection) -> bool:
            row: Any = db.execute(_ONE, (name,)).get
            if row and row[1] == version:
                db.execute(_REMOVE, (name,))
            return not row or row[1] == version

        return await self._db.transact(remove)

    async def documents(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Document]:
        check_limit(limit)
        with self._db.reading() as db:
            rows: list[Any] = db.execute(_SOME, (after, prefix, bounded(limit))).fetchall()
        return [Document(*row) for row in rows]
