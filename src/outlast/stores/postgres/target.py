"""What the URL of a PostgreSQL store says: which server, which schema, and how it is talked to."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from outlast.errors import BadInput

SCHEMA = "outlast"
"""Where the tables are if the URL names no schema: beside those of others, and out of their way."""
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class Target(Struct, frozen=True):
    """A server's database, and the schema in it. `dsn` is for the driver; `shown` is for people and holds no password.

    Behind a `pgbouncer` in transaction mode nothing may outlive a transaction: no prepared statement and no LISTEN."""

    dsn: str
    schema: str = SCHEMA
    pgbouncer: bool = False
    shown: str = ""


def target_of(url: str) -> Target:
    """What a URL names: `postgresql://user@host:5432/database?schema=outlast&pgbouncer=1`. What else stands behind the
    question mark (`sslmode`, `application_name` …) is the driver's."""
    parts = urlsplit(url)
    try:
        asked = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        host = parts.hostname or ""
        shown = f"postgresql://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError as error:
        raise BadInput(f"the URL of the PostgreSQL store does not read: {error}") from None
    schema = asked.pop("schema", SCHEMA)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise BadInput(
            f"{schema[:60]!r} cannot be the schema of a store: use up to 48 small letters, digits and _, not pg_ first"
        )
    pgbouncer = _switch("pgbouncer", asked.pop("pgbouncer", ""))
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(asked), ""))
    return Target(dsn, schema, pgbouncer, f"{shown} (schema {schema})")


def _switch(name: str, value: str) -> bool:
    if value.lower() not in _YES + _NO:
        raise BadInput(f"{name}={value[:40]} in the URL of the store: write {name}=1 or leave it out")
    return value.lower() in _YES
