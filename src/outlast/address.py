"""Addresses of stores: memory, a file with its blobs, a schema of a server's database, or a bucket.

An address is a path, `sqlite:///path` (three slashes for a relative path, four for an absolute one), `postgresql://…`,
`memory:`, or a bucket: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`. This module uses no network, and
the disk only to follow links and to find the blobs of a file. Opening a store finds out whether it exists.

The address of a bucket is shown in messages and settings, so it must not contain a secret. An address with one is refused,
and the error does not repeat it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from outlast.errors import InvalidInput

DEFAULT = Path(".outlast", "runs.db")
"""The default store of a project."""
_FIRST_HALF, _SECOND_HALF = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{62}")
"""The folder of a blob, and its file there."""
KINDS = "a path, sqlite:///path, postgresql://host/database, s3://bucket/prefix, gs://, az:// or memory:"
SERVERS = ("postgresql", "postgres")
BUCKETS = ("s3", "gs", "az")
SCHEMA = "outlast"
"""The default schema of the tables, apart from those of other programs."""
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_SERVER_OPTIONS = {
    "endpoint": "endpoint",
    "region": "region",
    "virtual_hosted_style_request": "virtual_hosted_style_request",
}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_PREFIX = re.compile(r"[A-Za-z0-9._=+@,/-]*")


class Server(Struct, frozen=True):
    """A database on a server, and a schema in it. `dsn` is for the driver; `shown` is for messages and contains no
    password.

    With `pgbouncer` in transaction mode nothing may outlive a transaction: no prepared statement and no LISTEN."""

    dsn: str
    schema: str
    pgbouncer: bool
    shown: str


class BucketAddress(NamedTuple):
    """A bucket and a folder in it. `config` holds the options for the server."""

    scheme: str
    bucket: str
    path: str
    config: Mapping[str, str] = MappingProxyType({})
    allow_http: bool = False
    timeout: float = 30.0

    @property
    def url(self) -> str:
        """The address without the options for the server."""
        return f"{self.scheme}://{self.bucket}/{self.path.lstrip('/')}"


def bucket_at(address: str | Path) -> BucketAddress | None:
    """The bucket of an address, None for another store; `InvalidInput` if the address is invalid."""
    scheme, separator, _ = str(address).partition("://")
    if isinstance(address, Path) or not separator or scheme not in BUCKETS:
        return None
    parts = urlsplit(address)
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            f"the address contains a password or key: pass the credentials of the {scheme} store by the environment"
        )
    if not _BUCKET.fullmatch(parts.netloc) or not _PREFIX.fullmatch(parts.path) or "//" in parts.path or parts.fragment:
        raise InvalidInput(f"invalid bucket address: write {scheme}://bucket/prefix, with letters, digits and ._-")
    return _with_options(BucketAddress(scheme, parts.netloc, parts.path.strip("/")), parts.query)


def _with_options(at: BucketAddress, query: str) -> BucketAddress:
    """Apply the options in the query of an address. The error does not repeat values of unknown options: they may be
    secrets."""
    config: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _SERVER_OPTIONS:
            config[_SERVER_OPTIONS[name]] = value
        elif name == "allow_http" and value in ("true", "false"):
            at = at._replace(allow_http=value == "true")
        elif name == "timeout" and re.fullmatch(r"[0-9]{1,4}(\.[0-9]+)?", value) and float(value) > 0:
            at = at._replace(timeout=float(value))
        else:
            raise InvalidInput(
                f"invalid option {name[:40]!r} in the address of a bucket: the options are "
                f"{', '.join(_SERVER_OPTIONS)}, allow_http=true and timeout=seconds; credentials come from the environment"
            )
    return at._replace(config=config)


def file_at(address: str | Path) -> Path | None:
    """The file of an address, None for other stores; `InvalidInput` for an unknown kind of address."""
    if bucket_at(address) is not None:
        return None
    scheme, rest = _parted(address) if isinstance(address, str) else ("", str(address))
    if scheme in SERVERS:
        server_at(address)
        return None
    if scheme == "memory":
        return None
    if scheme == "sqlite":
        if not rest.startswith("///") or "?" in rest:
            raise InvalidInput(
                f"{address!r} is not an SQLite address; write sqlite:///runs.db or sqlite:////folder/runs.db"
            )
        rest = rest[3:]
    if not rest:
        raise InvalidInput("the address of the store is empty: name a file, for example .outlast/runs.db")
    return Path(os.path.expanduser(rest))


def server_at(address: str | Path) -> Server | None:
    """The server of an address, None for other stores: `postgresql://me@host:5432/db?schema=outlast&pgbouncer=1`. Other
    options after the question mark (`sslmode`, `application_name` …) are passed to the driver."""
    if isinstance(address, Path) or address.partition(":")[0] not in SERVERS:
        return None
    try:
        parts = urlsplit(address)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        where = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError as error:
        raise InvalidInput(f"invalid address of a PostgreSQL store: {error}") from None
    if not parts.netloc and not parts.path.startswith("/"):
        raise InvalidInput("invalid PostgreSQL address: write postgresql://user@host:5432/database")
    schema = asked.pop("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema):
        raise InvalidInput(
            f"invalid schema {schema[:60]!r}: use up to 48 lower-case letters, digits and _, not starting with pg_"
        )
    pgbouncer = _switch("pgbouncer", asked.pop("pgbouncer", ""))
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(asked), ""))
    return Server(dsn, schema, pgbouncer, f"postgresql://{where} (schema {schema})")


def _switch(name: str, value: str) -> bool:
    if value.lower() not in _YES + _NO:
        raise InvalidInput(
            f"{name}={value[:40]} in the address of the store is not valid: write {name}=1 or leave it out"
        )
    return value.lower() in _YES


def _parted(address: str) -> tuple[str, str]:
    """Scheme and rest; no scheme means a path. A single letter is a drive."""
    scheme, colon, rest = address.partition(":")
    if not colon or len(scheme) < 2 or not scheme.replace("+", "").isalnum():
        return "", address
    if scheme in ("sqlite", *SERVERS) or address == "memory:":
        return scheme, rest
    known = KINDS.replace(" or ", " and ")
    if scheme == "file":
        raise InvalidInput(
            "a folder cannot be a store: use an SQLite file, for example runs.db or sqlite:////folder/runs.db"
        )
    if scheme in BUCKETS:
        raise InvalidInput(f"write {scheme}:// with two slashes; this version opens {known}")
    raise InvalidInput(
        f"unknown kind of store {scheme[:40]!r}: this version opens {known}. "
        "For a file with a colon in its name, write ./name"
    )


def real_file(path: Path) -> Path:
    """The file itself, without links, so that the files beside it are the same however it was opened."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # not a valid path; opening it fails with the error
        return path.absolute()


def place_of(address: str) -> str:
    """The place of the store: the same text for every spelling of its address, without a user or a password."""
    if (server := server_at(address)) is not None:
        return server.shown
    if (bucket := bucket_at(address)) is not None:
        endpoint = bucket.config.get("endpoint", "").rpartition("@")[2]
        return f"{bucket.url.rstrip('/')}{f' at {endpoint}' if endpoint else ''}"
    file = file_at(address)
    return address if file is None else str(real_file(file))


def blobs_beside(path: Path) -> Path:
    """The folder of a file's blobs. It follows from the name of the file itself (`real_file`), so that a file has the
    same blobs however it was opened, and keeps them when its project's folder is moved, renamed or linked."""
    places = path.with_name(path.name + ".blobs"), path.with_name("blobs")
    if path.name != DEFAULT.name:
        return places[0]
    usual, other = reversed(places) if path.parts[-2:] == DEFAULT.parts else places
    return other if not _holds_blobs(usual) and _holds_blobs(other) else usual


def _holds_blobs(folder: Path) -> bool:
    """Whether a file in the folder has the name of a blob: another program may have a folder of the same name."""
    try:
        halves = [half for half in folder.iterdir() if _FIRST_HALF.fullmatch(half.name)]
        return any(_SECOND_HALF.fullmatch(file.name) for half in halves if half.is_dir() for file in half.iterdir())
    except (OSError, ValueError):
        return False
