"""A file system for SQLite with faults: power cuts, a full or read-only disk, failing flushes.

    disk = Disk()
    store = SqliteStore(path, vfs=disk.name)
    ...
    disk.cut_power(random.Random(1))  # the store gets I/O errors from now on
    store = SqliteStore(path)         # after the restart: what the disk held

Writes go to the real files at once, so every connection of the process sees them. For every sector written since the
last flush of its file, the disk also remembers its content before and after each write. A power cut leaves each of
these sectors with one of these contents, at random; flushed sectors keep theirs. A file that was created and never
flushed may be missing; a file that was removed without a flush of its folder may reappear. Flushes happen only in
this memory and do not wait for the real disk.

A full disk writes the part that fits and then refuses. A failed flush leaves sectors that a later flush does not save
unless they are written again, as on some systems.

The disk covers one process: connections of other processes are not seen. Shared memory belongs to the default file
system, so a connection without power can still read its memory, and nothing else.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from typing_extensions import Buffer

SECTOR = 512
LUCK = (0.0, 0.5, 0.9, 1.0)
"""Probabilities that the newest content of a sector reached the disk; each power cut draws one."""

_numbers = count(1)


class Disk:
    """The disk of one machine. Its files are the real ones; a connection opens them through `name`."""

    def __init__(self) -> None:
        self.name = f"outlast-disk-{next(_numbers)}"
        self.space: int | None = None
        """Bytes that all files together may take; None is no limit."""
        self.readonly = False
        self.syncs = 0
        self.writes = 0
        self.operations = 0
        """Everything that changes the disk: writes, truncations, flushes and removals."""
        self.is_dead = False
        self._turn = threading.RLock()
        self._files: dict[str, _File] = {}
        self._removed: dict[str, _File] = {}
        self._cut_at: tuple[int, Random] | None = None
        self._failing = range(0)
        self._then_readonly = False
        self._file_system = _FileSystem(self)

    def close(self) -> None:
        """Unregister the name; open connections stay open."""
        self._file_system.unregister()

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self._files.values())

    # --- faults

    def cut_power(self, rng: Random) -> None:
        """Cut the power now. The files become what the disk could have held; this disk never works again."""
        with self._turn:
            if self.is_dead:
                return
            self.is_dead = True
            luck = rng.choice(LUCK)
            for path, file in sorted({**self._removed, **self._files}.items()):
                file.lose_power(Path(path), rng, luck)
                Path(path + "-shm").unlink(missing_ok=True)

    def cut_power_at(self, operation: int, rng: Random) -> None:
        """Cut the power during the operation of that number, counted from now: it may or may not have reached the
        disk."""
        self._cut_at = (self.operations + operation, rng)

    def fail_sync_after(self, flushes: int, *, times: int = 1, then_readonly: bool = False) -> None:
        """Fail the flush of that number, counted from now, and the next ones, `times` in all. With `then_readonly`
        the disk accepts no writes after the first failure, as on some systems."""
        self._failing = range(self.syncs + flushes, self.syncs + flushes + times)
        self._then_readonly = then_readonly

    def mend(self) -> None:
        """End every fault but a power cut."""
        self.space, self.readonly, self._failing = None, False, range(0)

    # --- called by the file system, which holds the lock

    def _operate(self) -> None:
        """Count a change of the disk; a planned power cut happens here."""
        self.operations += 1
        if self._cut_at is not None and self.operations >= self._cut_at[0]:
            self.cut_power(self._cut_at[1])
            self._must_live()

    @property
    def _is_faulty(self) -> bool:
        return self.is_dead or self.readonly or self.space is not None or self.syncs < self._failing.stop

    def _must_live(self) -> None:
        if self.is_dead:
            raise apsw.IOError("the power was cut")

    def _require_writable(self) -> None:
        self._must_live()
        if self.readonly:
            raise apsw.ReadOnlyError("the disk is read-only")

    def _excess(self, file: _File, end: int) -> int:
        """How many of the last bytes do not fit if the file grows to `end`."""
        growth = max(0, end - file.size)
        return 0 if self.space is None else min(growth, max(0, self.used + growth - self.space))

    def _flush(self, file: _File) -> None:
        self.syncs += 1
        if self.syncs in self._failing:
            self.readonly = self.readonly or self._then_readonly
            file.fail_flush()
            raise apsw.IOError("the disk could not be flushed")
        if file.is_new:
            self._flush_folders()
        file.flush()

    def _flush_folders(self) -> None:
        """SQLite flushes the folder together with a new file."""
        self._removed.clear()
        for file in self._files.values():
            file.is_new = False

    def _opened(self, path: str, *, is_new: bool, size: int) -> _File:
        file = self._files.get(path)
        if file is None:
            self._removed.pop(path, None)
            file = self._files[path] = _File(is_new, size)
        return file

    def _remove(self, path: str, *, durably: bool) -> None:
        file = self._files.pop(path, None)
        if file is not None and not durably:
            file.remains = Path(path).read_bytes()
            self._removed[path] = file


class _File:
    """One file, and the possible contents of its sectors after a power cut."""

    def __init__(self, is_new: bool, size: int) -> None:
        self.is_new = is_new
        self.size = size
        self.remains: bytes | None = None
        """What it held when it was removed."""
        self._unflushed: dict[int, list[bytes]] = {}
        """By sector: what it held at the last flush and after each write since. A sector past the end holds nothing."""
        self._given_up: set[int] = set()

    def sectors(self, start: int, end: int) -> range:
        return range(start // SECTOR, -(-end // SECTOR))

    def is_known(self, sectors: range) -> bool:
        return all(number in self._unflushed for number in sectors)

    def hold(self, sectors: range, flushed: bytes) -> None:
        """Remember the content of these sectors before their first write since the last flush."""
        for place, number in enumerate(sectors):
            self._unflushed.setdefault(number, [flushed[place * SECTOR : (place + 1) * SECTOR]])

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        for number in self.sectors(offset, end):
            versions = self._unflushed[number]
            start = number * SECTOR
            low, high = max(offset - start, 0), min(end - start, SECTOR)
            old = versions[-1]
            versions.append(
                old[:low].ljust(low, b"\0") + data[start + low - offset : start + high - offset] + old[high:]
            )
            self._given_up.discard(number)
        self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        for number in self.sectors(size - size % SECTOR, self.size):
            versions = self._unflushed[number]
            versions.append(versions[-1][: max(size - number * SECTOR, 0)])
            self._given_up.discard(number)
        self.size = size

    def flush(self) -> None:
        self._unflushed = {number: held for number, held in self._unflushed.items() if number in self._given_up}

    def fail_flush(self) -> None:
        self._given_up.update(self._unflushed)

    def lose_power(self, path: Path, rng: Random, luck: float) -> None:
        """Replace the file, so that open handles do not affect it."""
        may_be_gone = self.is_new or self.remains is not None
        content = self._survivors(path.read_bytes() if self.remains is None else self.remains, rng, luck)
        if may_be_gone and rng.random() < 0.5:
            path.unlink(missing_ok=True)
            return
        fresh = path.with_name(path.name + ".after-power-cut")
        fresh.write_bytes(content)
        os.replace(fresh, path)

    def _survivors(self, now: bytes, rng: Random, luck: float) -> bytes:
        content = bytearray(now)
        flushed = [number for number in self.sectors(0, len(now)) if number not in self._unflushed]
        end = min(len(now), (flushed[-1] + 1) * SECTOR) if flushed else 0
        for number, versions in sorted(self._unflushed.items()):
            held = versions[-1] if rng.random() < luck else rng.choice(versions)
            start = number * SECTOR
            content.extend(bytes(max(0, start - len(content))))
            content[start : start + SECTOR] = held.ljust(SECTOR, b"\0")
            end = max(end, start + len(held)) if held else end
        return bytes(content[:end])


class _FileSystem(apsw.VFS):
    """The default file system over a `Disk`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None:
            return apsw.VFSFile("", name, flags)  # a temporary file
        with self._disk._turn:
            self._disk._must_live()
            return _Handle(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._disk._turn:
            self._disk._require_writable()
            self._disk._remove(filename, durably=syncdir)
            super().xDelete(filename, syncdir)
            self._disk._operate()

    def xAccess(self, pathname: str, flags: int) -> bool:
        self._disk._must_live()
        return super().xAccess(pathname, flags)


class _Handle(apsw.VFSFile):
    """One connection's handle of a file."""

    def __init__(self, disk: Disk, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        is_new = not os.path.exists(self._path)
        super().__init__("", name, flags)
        self._file = disk._opened(self._path, is_new=is_new, size=super().xFileSize())

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk._must_live()
        return super().xRead(amount, offset)

    def xFileSize(self) -> int:
        self._disk._must_live()
        return super().xFileSize()

    def xWrite(self, data: Buffer, offset: int) -> None:
        disk = self._disk
        with disk._turn:
            disk._require_writable()
            content = bytes(data)
            fitting = content[: len(content) - disk._excess(self._file, offset + len(content))]
            self._hold(offset, offset + len(fitting))
            super().xWrite(fitting, offset)
            self._file.write(fitting, offset)
            disk.writes += 1
            disk._operate()
            if len(fitting) < len(content):
                raise apsw.FullError("the disk is full")

    def xTruncate(self, newsize: int) -> None:
        with self._disk._turn:
            self._disk._require_writable()
            self._hold(newsize, self._file.size)
            super().xTruncate(newsize)
            self._file.truncate(newsize)
            self._disk._operate()

    def xSync(self, _flags: int) -> None:
        with self._disk._turn:
            self._disk._must_live()
            self._disk._operate()
            self._disk._flush(self._file)

    def _hold(self, start: int, end: int) -> None:
        sectors = self._file.sectors(start, end)
        if not self._file.is_known(sectors):
            self._file.hold(sectors, super().xRead(len(sectors) * SECTOR, sectors.start * SECTOR))

    def xLock(self, level: int) -> None:
        if level == apsw.SQLITE_LOCK_EXCLUSIVE and self._disk._is_faulty and self._path + "-wal" in self._disk._files:
            # A closing connection requests this lock for its clean-up and ignores a failure, but another error than
            # "busy" would come out of the close.
            raise apsw.BusyError("the disk refuses the clean-up")
        self._disk._must_live()
        try:
            super().xLock(level)
        except apsw.IOError as error:  # a read-only handle cannot take a write lock, which SQLite ignores
            if level == apsw.SQLITE_LOCK_SHARED:
                raise
            raise apsw.BusyError(str(error)) from error

    def xCheckReservedLock(self) -> bool:
        self._disk._must_live()
        return super().xCheckReservedLock()
