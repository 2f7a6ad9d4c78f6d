"""What the store asks of a place for objects: seven requests, each counted.

A bucket keeps bytes under names. Names are paths of segments, `list` gives those below a folder in order of their names,
and two requests are conditional: `create` writes only where nothing is, `update` only where what is there is what was
last seen. Whoever refuses one of them raises `Taken`, and has written nothing.

B1  What a request that writes has answered for is durable, and every later request sees it, whoever makes it.
B2  Of several that create the same name, or update the same version of it, one is told that it did.
B3  An error that leaves it open whether something was written is `OutcomeUnknown`; any other means that nothing was.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

Tag: TypeAlias = tuple[str, str]
"""Which version of an object: its ETag and, where a server counts them, its version."""


_NAME = re.compile(r"(?!.*(?:^|/)\.{0,2}(?:/|$))[A-Za-z0-9._:@=+,/-]+")


def is_name(name: str) -> bool:
    """Whether an object can be called that. Ids come from people and out of logs, and must not lead astray."""
    return _NAME.fullmatch(name) is not None


class Taken(Exception):
    """The condition of a conditional write did not hold. It may have been held off by itself: a request whose answer was
    lost on the way is sent again, and then finds what it wrote. So whoever is told this reads and compares."""


class Found(Struct, frozen=True):
    """An object that was read."""

    body: bytes
    tag: Tag


class Listed(Struct, frozen=True, gc=False):
    """An object in a list; `time` is when it was written, in microseconds by the clock of whoever keeps it,
    `tag` is another after every change."""

    name: str
    size: int
    time: int
    tag: str


class Requests(Struct):
    """How many requests were made since the store was opened, by kind. A list counts once for every thousand names."""

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
    """A place for objects."""

    requests: Requests

    async def create(self, name: str, body: bytes) -> Tag:
        """Write it if there is no such object, else `Taken`."""
        ...

    async def update(self, name: str, body: bytes, tag: Tag) -> Tag:
        """Write it if the object is still that version, else `Taken`."""
        ...

    async def put(self, name: str, body: bytes | Path) -> Tag:
        """Write it, or what is in a file, whatever was there before."""
        ...

    async def get(self, name: str) -> Found | None:
        """All of it, None if it is not there."""
        ...

    def stream(self, name: str) -> AsyncIterator[bytes]:
        """Its bytes in pieces; `FileNotFoundError` if it is not there."""
        ...

    async def written(self, name: str) -> int | None:
        """When it was written, in microseconds by the clock of whoever keeps it; None if it is not there."""
        ...

    def listing(self, folder: str, after: str = "") -> AsyncIterator[Listed]:
        """What is below a folder, with names greater than `after`, in their order."""
        ...

    async def folders(self, folder: str) -> Sequence[str]:
        """The names of the folders right below a folder."""
        ...

    async def delete(self, names: Iterable[str]) -> None:
        """Remove these; what is not there already is."""
        ...

    async def close(self) -> None: ...
