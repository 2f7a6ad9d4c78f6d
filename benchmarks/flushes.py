"""Counts the flushes that SQLite requests, with a file system that forwards everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


class Counter(apsw.VFS):
    """The default file system with a counter, for connections that name no other one."""

    def __init__(self) -> None:
        self.flushes = 0
        self.beneath = apsw.vfs_names()[0]  # the default so far
        super().__init__("counted", self.beneath, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, counter: Counter, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._counter = counter
        super().__init__(counter.beneath, name, flags)

    def xSync(self, flags: int) -> None:
        self._counter.flushes += 1
        super().xSync(flags)


@contextmanager
def counted() -> Iterator[Counter]:
    counter = Counter()
    try:
        yield counter
    finally:
        counter.unregister()
