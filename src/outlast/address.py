"""What the address of a store means: memory, a file and the blobs beside it, or a schema of a server's database.

An address is a path, `sqlite:///path` (three slashes and a relative path, four and an absolute one), `postgresql://…` or
`memory:`. Nothing here looks at a disk or a network: whether there is a store at an address, whoever opens it finds out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from outlast.errors import BadInput

__all__ = ["DEFAULT", "Server", "blobs_beside", "file_at", "server_at"]

DEFAULT = Path(".outlast", "runs.db")
"""Where a project's runs are if nobody says otherwise."""
KINDS = "a path, sqlite:///path, postgresql://user@host/database or memory:"
COMING = ("s3",)
SERVERS = ("postgresql", "postgres")
SCHEMA = "outlast"
"""Where the tables are if the address names no schema: beside those of others, and out of their way."""
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class Server(Struct, frozen=True):
    """A server's database, and the schema in it. `dsn` is for the driver; `shown` is for people and holds no password.

    Behind a `pgbouncer` in transaction mode nothing may outlive a transaction: no prepared statement and no LISTEN."""

    dsn: str
    schema: str
    pgbouncer: bool
    shown: str


def file_at(address: str | Path) -> Path | None:
    """The file that an address names, None if it is in no file; `BadInput` if it is of no kind that this version opens."""
    scheme, rest = _parted(address) if isinstance(address, str) else ("", str(address))
    if scheme in SERVERS:
        server_at(address)
        return None
    if scheme == "memory":
        return None
    if scheme == "sqlite":
        if not rest.startswith("///") or "?" in rest:
            raise BadInput(
                f"{address!r} is not an SQLite address; write sqlite:///runs.db or sqlite:////folder/runs.db"
            )
        rest = rest[3:]
    if not rest:
        raise BadInput("the address of the store is empty; name a file, for instance .outlast/runs.db")
    return Path(os.path.expanduser(rest))


def server_at(address: str | Path) -> Server | None:
    """The server that an address names, None if it names none: `postgresql://me@host:5432/db?schema=outlast&pgbouncer=1`.
    What else stands behind the question mark (`sslmode`, `application_name` …) is the driver's."""
    if isinstance(address, Path) or _parted(address)[0] not in SERVERS:
        return None
    try:
        parts = urlsplit(address)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        where = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError as error:
        raise BadInput(f"the address of the PostgreSQL store does not read: {error}") from None
    if not parts.netloc and not parts.path.startswith("/"):
        raise BadInput("this is not a PostgreSQL address; write postgresql://user@host:5432/database")
    schema = asked.pop("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema):
        raise BadInput(
            f"{schema[:60]!r} cannot be the schema of a store: write up to 48 small letters, digits and _, not pg_ first"
        )
    pgbouncer = _switch("pgbouncer", asked.pop("pgbouncer", ""))
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(asked), ""))
    return Server(dsn, schema, pgbouncer, f"postgresql://{where} (schema {schema})")


def _switch(name: str, value: str) -> bool:
    if value.lower() not in _YES + _NO:
        raise BadInput(f"{name}={value[:40]} in the address of the store: write {name}=1 or leave it out")
    return value.lower() in _YES


def _parted(address: str) -> tuple[str, str]:
    """Scheme and rest; no scheme means a path. A single letter is a drive."""
    scheme, colon, rest = address.partition(":")
    if not colon or len(scheme) < 2 or not scheme.replace("+", "").isalnum():
        return "", address
    if scheme in ("sqlite", *SERVERS) or address == "memory:":
        return scheme, rest
    known = "a path, sqlite:///path, postgresql://… and memory:"
    if scheme in COMING:
        raise BadInput(f"stores of the kind {scheme} are coming; this version opens {known}")
    raise BadInput(
        f"there is no kind of store called {scheme[:40]!r}: this version opens {known}; {' and '.join(COMING)} is coming. "
        "A file with a colon in its name is written ./name"
    )


def blobs_beside(path: Path) -> Path:
    """Where a file's blobs are: by its own name, so that the same file has the same blobs however it was named."""
    if path.parts[-2:] == DEFAULT.parts:
        return path.with_name("blobs")
    return path.with_name(path.name + ".blobs")
