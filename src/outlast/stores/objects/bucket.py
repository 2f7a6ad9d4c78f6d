"""The interface of a bucket: seven kinds of request, each counted.

A bucket stores bytes under names. A name is a path; a list returns the names below a folder in order. Two requests are
conditional: `create` writes only if the name is free, `update` only if the object still has a given version. A refused
request raises `Taken` and writes nothing.

B1  When a write returns, it is durable, and every later request of any process sees it.
B2  Of several requests that create the same name or update the same version of it, exactly one succeeds.
B3  An error that leaves the outcome open is `OutcomeUnknown`. After any other error, nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

Tag: TypeAlias = tuple[str, str]
"""The version of an object: its ETag and, on some servers, its version number."""


_NAME = re.compile(r"(?!.*(?:^|/)\.{0,2}(?:/|$))[A-Za-z0-9._:@=+,/-]+")


def is_name(name: str) -> bool:
    """Return whether this is a valid object name. Ids come from users and logs and must not name other objects."""
    return _NAME.fullmatch(name) is not None


class Taken(Exception):
    """The condition of a conditional write did not hold. The cause may be the same write: a request whose answer was lost is
    sent again and then finds its own object. So the caller reads the object and compares."""


class Found(Struct, frozen=True):
    """The content and version of an object."""

    body: bytes
    tag: Tag


class Listed(Struct, frozen=True, gc=False):
    """An object in a list. `time` is when it was written, in microseconds by the server's clock. `tag` changes with every
    write."""

    name: str
    size: int
    time: int
    tag: str


class Requests(Struct):
    """The number of requests since the store was opened, by kind. A list counts once per thousand names."""

    create: int = 0
    update: int = 0
    put: int = 0
    get: int = 0
    list: int = 0
    head: int = 0
    delete: int = 0

    @property
    def all(self) -> int:
        return self.create + self.update + self.put + self.get + self.list + self.head + self.delete


class Bucket(Protocol):
    """A place that stores objects."""

    requests: Requests

    async def create(self, name: str, body: bytes) -> Tag:
        """Write the object if the name is free, else raise `Taken`."""

    async def update(self, name: str, body: bytes, tag: Tag) -> Tag:
        """Write the object if it still has this version, else raise `Taken`."""

    async def put(self, name: str, body: bytes | Path) -> Tag:
        """Write bytes or the content of a file, replacing any existing object."""

    async def get(self, name: str) -> Found | None:
        """Read the whole object; None if it does not exist."""

    def stream(self, name: str) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks; raise `FileNotFoundError` if the object does not exist."""

    async def written(self, name: str) -> int | None:
        """Return when the object was written, in microseconds by the server's clock; None if it does not exist."""

    def listing(self, folder: str, after: str = "") -> AsyncIterator[Listed]:
        """List the objects below a folder with names greater than `after`, in order."""

    async def folders(self, folder: str) -> Sequence[str]:
        """List the names of the folders directly below a folder."""

    async def delete(self, names: Iterable[str]) -> None:
        """Delete these objects; absent ones are ignored."""

    async def close(self) -> None: ...
