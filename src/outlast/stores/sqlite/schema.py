"""Checks and creates the schema of a database file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import apsw

from outlast.errors import StoreUnusable
from outlast.stores.shared import VERSION, check_schema, check_version

APPLICATION_ID = 0x4F75_744C  # "OutL"

_IDENTIFY = """
select (select user_version from pragma_user_version), (select application_id from pragma_application_id),
       (select count(*) from sqlite_schema)"""


def has_schema(connection: apsw.Connection) -> bool:
    """Return True for a store, False for an empty file. Raise `StoreUnusable` for any other file or version."""
    version, mark, tables = map(int, connection.execute(_IDENTIFY).get)
    if mark != APPLICATION_ID and (mark or version or tables):
        raise StoreUnusable(f"{connection.filename} is an SQLite file, but not one of Outlast's; nothing was changed")
    if version:
        check_version(connection.filename, version)
        present = {str(name) for (name,) in connection.execute("select name from sqlite_schema")}
        check_schema(connection.filename, _text(), present)
    return version != 0


def create(connection: apsw.Connection) -> None:
    """Create the schema in an empty file. The caller holds the write lock."""
    connection.execute(_text())
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)


@cache
def _text() -> str:
    return Path(__file__).with_name("schema.sql").read_text("utf-8")
