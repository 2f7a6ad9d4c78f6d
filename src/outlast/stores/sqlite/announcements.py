"""Announcements between the processes that use a file, so that none has to look at it all the time.

A process that watches the file makes a named pipe beside the locks of the workers. After a commit, a process writes a byte
into the pipes of the others. A byte is no fact and may be lost: without pipes, with a full one, or to a process that is not
known yet, the rows are found at the next look at the file.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

SUFFIX = ".pipe"
REFRESH_S = 0.25
"""Seconds between two searches for the pipes of other processes."""


class Inbox:
    """The pipe of a process that watches the file, as a context. Without a pipe, `wait` only waits.

    The pipe is made only in a folder that exists, which it does while a worker uses the file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{uuid4().hex}{SUFFIX}"
        self._handle: int | None = None

    def __enter__(self) -> Inbox:
        hidden = self.path.with_suffix(".new")  # a pipe that nobody has open yet would be removed as left behind
        with suppress(OSError, AttributeError, NotImplementedError):  # AttributeError: no pipes on this system
            os.mkfifo(hidden)
            # Open for writing too: else the pipe would be at its end, and readable, whenever a writer closes it.
            self._handle = os.open(hidden, os.O_RDWR | os.O_NONBLOCK)
            hidden.rename(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.path.unlink()
        if self._handle is not None:
            os.close(self._handle)

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    async def wait(self, seconds: float) -> None:
        """Wait until an announcement arrives, at most for this time."""
        handle = self._handle
        if handle is None:
            await asyncio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(handle, arrived.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await arrived.wait()
        finally:
            loop.remove_reader(handle)
        with suppress(BlockingIOError):
            while len(os.read(handle, 65_536)) == 65_536:
                pass


class Outbox:
    """The pipes of the other processes."""

    def __init__(self, folder: Path) -> None:
        self.own: Path | None = None
        """The pipe of this process, which needs no announcement."""
        self.folder = folder
        self._handles: dict[str, int] = {}
        self._next_search = 0.0

    def announce(self) -> None:
        """Tell the other processes that rows were written."""
        now = time.monotonic()
        if now >= self._next_search:
            self._next_search = now + REFRESH_S
            self._search()
        for name, handle in tuple(self._handles.items()):
            try:
                os.write(handle, b"\0")
            except BlockingIOError:  # it has not read earlier ones yet
                pass
            except OSError:
                self._drop(name)

    def close(self) -> None:
        for name in tuple(self._handles):
            self._drop(name)

    def _search(self) -> None:
        try:
            names = {name for name in os.listdir(self.folder) if name.endswith(SUFFIX)}
        except OSError:
            names = set()
        if self.own is not None:
            names.discard(self.own.name)
        for name in self._handles.keys() - names:
            self._drop(name)
        for name in names - self._handles.keys():
            path = self.folder / name
            try:
                self._handles[name] = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nobody reads it: its process was killed
                    with suppress(OSError):
                        path.unlink()

    def _drop(self, name: str) -> None:
        with suppress(OSError):
            os.close(self._handles.pop(name))
