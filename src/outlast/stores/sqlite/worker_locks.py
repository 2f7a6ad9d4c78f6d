"""Operating-system locks on files, which prove that workers are alive or dead.

A worker holds the lock on its own file as long as its process lives; the operating system releases it when the process ends.
On systems and file systems without locks nothing is proved, and only the leases of the workers decide.
"""

from __future__ import annotations

import errno
import importlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from outlast.errors import StoreError, StoreFull, StoreReadOnly
from outlast.history.ids import WorkerId

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None


class WorkerLocks:
    """The locks of the workers of one store, in a folder beside its file. With `hidden`, a file system without locks."""

    hidden = False

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + ".workers")
        self._store = store
        self._handles: dict[WorkerId, int] = {}
        _all.add(self)

    def acquire(self, worker: WorkerId) -> None:
        """Hold the lock of a worker of this process. It is free: other processes check it only after the worker's row
        exists."""
        if worker in self._handles or self.hidden:
            return
        path = self._path(worker)
        try:
            path.parent.mkdir(exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _no_lock(self._store, error) from error
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._handles[worker] = handle

    def release(self, worker: WorkerId) -> None:
        """Remove the lock of a worker of this process, if it has one."""
        handle = self._handles.pop(worker, None)
        if handle is not None:
            self.remove(worker)
            os.close(handle)

    def remove(self, worker: WorkerId) -> None:
        """Remove the file of a worker that has no lock any more. It is harmless, and may belong to another user."""
        with suppress(OSError):
            self._path(worker).unlink()

    def hide(self) -> None:
        """Behave like a file system without locks."""
        for worker in list(self._handles):
            self.release(worker)
        self.hidden = True

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def is_alive(self, worker: WorkerId) -> bool | None:
        """Return whether a process holds the worker's lock; None if that cannot be checked."""
        if worker in self._handles:
            return True
        try:
            handle = os.open(self._path(worker), os.O_RDWR)
        except OSError:
            return None
        try:
            return _is_locked(handle)
        finally:
            os.close(handle)

    def _path(self, worker: WorkerId) -> Path:
        return self.folder / (worker.replace("/", "_") + ".lock")


_all: WeakSet[WorkerLocks] = WeakSet()


def _close_after_fork() -> None:
    """A forked child shares its parent's locks, and would keep the parent's workers alive after the parent's death."""
    for locks in list(_all):
        locks.close()


if fcntl is not None:
    os.register_at_fork(after_in_child=_close_after_fork)


def _is_locked(handle: int) -> bool | None:
    """Return whether another handle holds the lock; None without file locks. Concurrent checks do not conflict."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _no_lock(store: Path, error: OSError) -> StoreError:
    """Return the error for a lock file that cannot be created: a store without write access has no workers."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(f"could not write to {store}: it may only be read ({error}); nothing was written")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"could not write to {store}: no space is left ({error}); nothing was written")
    return StoreError(f"could not write to {store}: {error}; nothing was written")
