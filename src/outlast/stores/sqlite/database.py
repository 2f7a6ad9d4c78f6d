"""The database file, its connections and transactions. Only this module handles the errors of apsw."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import apsw

from outlast.errors import (
    Damaged,
    OutcomeUnknown,
    OutlastError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from outlast.stores.shared import check_version
from outlast.stores.sqlite.identity import FileIdentity
from outlast.stores.sqlite.schema import create, has_schema
from outlast.stores.sqlite.searching import are_texts_new, index_texts

Result = TypeVar("Result")
Act: TypeAlias = Callable[[apsw.Connection], Any]

SLOW_COMMIT = 0.005
"""Seconds: if commits take longer on average, they move to the writer thread."""
CHECKPOINT_PAGES = 1000
"""WAL pages at which the checkpointer starts."""
INDEXED_AT_END = 5
"""The most transactions in which a process indexes texts before it closes the file."""
BRIEF_WAIT_S, BRIEF_WAITS = 0.0001, 10
"""A thread that begins a transaction waits so long, and so often, for another process to end its own. An event loop that
sleeps instead often needs several times as long as that transaction: many round a sleep up to a millisecond."""
YIELD = 0.002
"""Seconds that an append leaves to the checkpointer."""
INDEX_AGAIN = 0.3
"""Seconds until the texts are indexed if others held the lock."""
LIMIT_PAGES = 16_000
"""WAL pages (64 MB) at which the writer itself makes a checkpoint, so that the file cannot grow without bound."""


class Database:
    """A process's connections to the file: one to write, one to read, one to search, and a checkpointer."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Literal["full", "relaxed"] = "full",
        commit: Literal["auto", "inline", "thread"] = "auto",
        busy_timeout: float = 10.0,
        readonly: bool = False,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self.readonly = readonly
        self._synchronous = "full" if durability == "full" else "normal"
        self._commit = commit
        self._busy_timeout = busy_timeout
        self._vfs = vfs
        self._writing = asyncio.Lock()
        self._waiting: list[tuple[Act, asyncio.Future[Any]]] = []
        self._gathering: asyncio.Task[None] | None = None
        self._writer_thread: ThreadPoolExecutor | None = None
        self._usual_commit = 0.0
        self._flushes = True
        self._is_closed = False
        with translating(f"open {path}"):
            self._write = self._open_writer()
            self._write.set_busy_handler(_wait_briefly)
            self._file = FileIdentity(path) if vfs is None else None
            self.read = self._with_retries(lambda: self._connect(writable=False))
            self._search = self._with_retries(lambda: self._connect(writable=False))
        self._reading = _Reading(self.read, f"read {path}", self._file)
        self._searching = threading.Lock()
        self._checkpointer = None if readonly else _Checkpointer(lambda: self._connect(writable=True))
        if self._checkpointer is not None:
            self._write.set_wal_hook(self._on_wal)

    def _open_writer(self) -> apsw.Connection:
        if self.readonly:
            if not self.path.is_file():
                raise StoreUnusable(f"there is no store at {self.path}")
            try:
                connection, is_made = self._with_retries(self._open_reader)
            except (apsw.ReadOnlyError, apsw.CantOpenError):
                self._with_retries(lambda: complete_creation(self._connect(writable=True)))
                connection, is_made = self._with_retries(self._open_reader)
            if not is_made:
                raise StoreUnusable(f"{self.path} is an empty file, and no store yet: start a run to create the store")
            return connection
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"could not create a store at {self.path}: {error}") from error
        if self.path.is_dir():
            raise StoreUnusable(f"{self.path} is a folder: give the path of a file")
        if self.path.exists():
            self._with_retries(self._check_format)
        connection = self._with_retries(lambda: self._connect(writable=True))
        self._with_retries(lambda: _prepare(connection))
        return connection

    def _open_reader(self) -> tuple[apsw.Connection, bool]:
        connection = self._connect(writable=False)
        return connection, has_schema(connection)

    def _check_format(self) -> None:
        """Check over a read-only connection: closing a writable one would delete the WAL of a foreign database."""
        try:
            connection = self._connect(writable=False)
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            return  # its creation was interrupted: only a writable connection can read it
        try:
            has_schema(connection)
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            return
        finally:
            connection.close()

    def _connect(self, *, writable: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if writable else apsw.SQLITE_OPEN_READONLY
        connection = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs)
        connection.execute("pragma foreign_keys = off; pragma temp_store = memory; pragma cache_size = -16000")
        if writable:
            connection.execute(f"pragma synchronous = {self._synchronous}")
            connection.execute("pragma wal_autocheckpoint = 0")
            if sys.platform == "darwin":
                connection.execute("pragma fullfsync = 1; pragma checkpoint_fullfsync = 1")
        return connection

    def _with_retries(self, act: Callable[[], Result]) -> Result:
        """Call `act` while opening, and wait while other processes hold the lock."""
        give_up = time.monotonic() + self._busy_timeout
        while True:
            try:
                return act()
            except (apsw.BusyError, apsw.LockedError):
                if time.monotonic() > give_up:
                    raise
                time.sleep(random.uniform(0.001, 0.01))

    # --- transactions

    def require_writable(self) -> None:
        if self.readonly:
            raise StoreReadOnly(f"{self.path} was opened read-only")

    async def transact(self, act: Callable[[apsw.Connection], Result], *, flushed: bool = True) -> Result:
        """Run `act` in one write transaction and make it durable; after an error nothing is written. If not `flushed`, a
        power cut may undo it until the next flushed one, and it runs on the writer thread."""
        self.require_writable()
        yields = self._checkpointer is not None and self._checkpointer.waits_to_write
        if flushed and not (yields or self._writing.locked() or self._is_slow()):
            with suppress(StoreBusy):
                return self._transact_now(act, flushed)  # no await, so no other task can run in between
        async with self._writing:
            if yields:  # a busy process would leave the checkpointer no moment to write
                await asyncio.sleep(YIELD)
            give_up = 0.0
            pause = 0.0002
            while True:
                try:
                    if self._is_slow() or not (flushed or self._commit == "inline"):
                        return await self._in_thread(act, flushed)
                    return self._transact_now(act, flushed)
                except StoreBusy:
                    now = time.monotonic()
                    give_up = give_up or now + self._busy_timeout
                    if now > give_up:
                        raise
                    await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
                    pause = min(pause * 2, 0.01)

    def transact_together(self, act: Callable[[apsw.Connection], Result]) -> asyncio.Future[Result]:
        """Like `transact`, but in one transaction with all that is asked for in the same turn of the event loop."""
        self.require_writable()
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((act, answer))
        if self._gathering is None:
            self._gathering = asyncio.create_task(self._write_waiting(), name="outlast-sqlite-writes")
        return answer

    async def _write_waiting(self) -> None:
        async with self._writing:  # more may be asked for while another transaction is under way
            self._gathering = None
            waiting, self._waiting = self._waiting, []
        await self._write_together(waiting)

    async def _write_together(self, waiting: list[tuple[Act, asyncio.Future[Any]]]) -> None:
        try:
            results = await self.transact(lambda connection: [act(connection) for act, _ in waiting])
        except BaseException as error:
            if len(waiting) > 1 and isinstance(error, Exception) and not isinstance(error, StoreError):
                for each in waiting:  # one of them cannot be written: the others do not fail with it
                    await self._write_together([each])
                return
            for _, answer in waiting:
                answer.set_exception(error) if isinstance(error, Exception) and not answer.done() else answer.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for (_, answer), result in zip(waiting, results, strict=True):
            if not answer.done():
                answer.set_result(result)

    def check_version(self, connection: apsw.Connection) -> None:
        """Refuse a store whose version has changed since it was opened. The connection is in a transaction."""
        check_version(str(self.path), int(connection.pragma("user_version")))

    async def shrink(self, pages: int) -> bool:
        """Give up to so many free pages back to the file system. Return whether some remain."""

        def vacuum(connection: apsw.Connection) -> bool:
            connection.execute(f"pragma incremental_vacuum({pages})").fetchall()
            return int(connection.pragma("freelist_count")) > 0

        with self.reading() as connection:
            if not connection.pragma("freelist_count"):
                return False
        return await self.transact(vacuum, flushed=False)

    def between_transactions(self) -> asyncio.Lock:
        """Return a context in which this process writes nothing."""
        return self._writing

    async def _in_thread(self, act: Callable[[apsw.Connection], Result], flushed: bool) -> Result:
        """Commit on the writer thread. After a cancellation, hold the lock until the thread has finished."""
        work = asyncio.get_running_loop().run_in_executor(self._thread(), self._transact_now, act, flushed)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            work.exception()  # nobody else asks for it
            raise

    def _transact_now(self, act: Callable[[apsw.Connection], Result], flushed: bool) -> Result:
        connection, committing = self._write, False
        try:
            if flushed is not self._flushes:
                self._choose_flushing(flushed)
            connection.execute("begin immediate")
            result = act(connection)
            if self._file is not None:
                self._file.check()
            committing, began = True, time.perf_counter()
            connection.execute("commit")
        except apsw.ConnectionClosedError as error:  # a closed connection has no `in_transaction`
            raise _translated(error, f"write to {self.path}") from error
        except BaseException as error:
            if connection.in_transaction:
                _roll_back(connection)
            if isinstance(error, apsw.Error):
                raise _translated(error, f"write to {self.path}", committing=committing) from error
            raise
        if flushed:  # other transactions do not show how long an append takes
            self._usual_commit += 0.05 * (time.perf_counter() - began - self._usual_commit)
        return result

    def _choose_flushing(self, flushed: bool) -> None:
        """Set whether commits wait for the disk. It is set before a transaction, not reset after one: if this fails, the
        transaction does not begin, so no append is acknowledged without its flush."""
        self._flushes = False  # until it is known: an interrupt may occur between the next two lines
        self._write.execute(f"pragma synchronous = {self._synchronous if flushed else 'normal'}")
        self._flushes = flushed

    def _is_slow(self) -> bool:
        return self._commit == "thread" or (self._commit == "auto" and self._usual_commit > SLOW_COMMIT)

    def _thread(self) -> ThreadPoolExecutor:
        if self._is_closed:
            raise StoreError(f"could not write to {self.path}: the store is closed; nothing was written")
        if self._writer_thread is None:
            self._writer_thread = ThreadPoolExecutor(1, thread_name_prefix="outlast-sqlite-writer")
        return self._writer_thread

    # --- reading

    def reading(self) -> _Reading:
        """Return a context with a connection for short reads on the event loop."""
        return self._reading

    async def scan(self, act: Callable[[apsw.Connection], Result]) -> Result:
        """Run a possibly long read on another thread."""

        def locked() -> Result:
            with self._searching, translating(f"read {self.path}"):
                if self._file is not None:
                    self._file.check()
                return act(self._search)

        return await asyncio.to_thread(locked)

    # --- checkpoints

    def _on_wal(self, connection: apsw.Connection, _name: str, pages: int) -> int:
        """Called after each commit. The checkpointer copies most pages while commits continue. The few pages written since
        are copied here, so that the WAL restarts at its beginning: a file that does not grow flushes much faster."""
        checkpointer = self._checkpointer
        if pages < CHECKPOINT_PAGES or checkpointer is None:
            return apsw.SQLITE_OK
        if checkpointer.stage == "done" or pages > LIMIT_PAGES:
            checkpointer.stage = "idle"
            with suppress(apsw.Error):  # the commit succeeded; the next commit retries the checkpoint
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        elif checkpointer.stage == "idle":
            checkpointer.wake()
        return apsw.SQLITE_OK

    async def close(self) -> None:
        async with self._writing:
            self._is_closed = True
            if self._checkpointer is not None:
                await asyncio.to_thread(self._checkpointer.stop)
            if self._writer_thread is not None:
                self._writer_thread.shutdown()
            if not self.readonly:
                left = iter([True] * INDEXED_AT_END)
                await asyncio.to_thread(_index_texts, self._write, lambda waits: not waits or next(left, False))
            with self._searching:
                self._search.close()
            self.read.close()
            self._write.set_wal_hook(None)
            self._write.close()


def _wait_briefly(waits: int) -> bool:
    """Wait for a lock that another process holds, unless that was done so many times."""
    time.sleep(BRIEF_WAIT_S)
    return waits < BRIEF_WAITS


def _index_texts(connection: apsw.Connection, may_continue: Callable[[bool], bool]) -> bool:
    """Index new texts, in small transactions. A power cut may undo that; they are indexed again then. False: others held the
    lock all the time. `may_continue` gets whether the lock is waited for, and returns whether to continue."""
    try:
        connection.execute("pragma synchronous = normal")
        connection.set_busy_timeout(500)
        while are_texts_new(connection) and may_continue(True):
            connection.execute("begin immediate")
            may_continue(False)
            index_texts(connection)
            connection.execute("commit")
    except apsw.BusyError:
        return False
    except apsw.Error:
        pass  # the disk is full: next time
    finally:
        may_continue(False)
        if connection.in_transaction:
            _roll_back(connection)
    return True


class _Checkpointer:
    """A thread that copies the WAL into the database after `wake`, and indexes texts."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self.waits_to_write = False
        self._wanted = threading.Event()
        self._ended = False
        self.stage: Literal["idle", "working", "done"] = "idle"
        """`done` when most pages are copied, until the writer has copied the rest."""
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="outlast-sqlite-checkpointer", daemon=True)
            self._thread.start()
        self.stage = "working"
        self._wanted.set()

    def stop(self) -> None:
        self._ended = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _may_continue(self, waits: bool) -> bool:
        self.waits_to_write = waits
        return not self._ended

    def _work(self) -> None:
        is_indexed = True
        while True:
            is_wanted = self._wanted.wait(None if is_indexed else INDEX_AGAIN)
            if self._ended:
                return
            self._wanted.clear()
            try:
                with closing(self._connect()) as connection:
                    if is_wanted:
                        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                        self.stage = "done"
                    is_indexed = _index_texts(connection, self._may_continue)
            except apsw.Error:
                time.sleep(0.1)  # a full disk, a lock: the data is safe in the WAL; the next commit tries again
                self.stage = "done"


def complete_creation(connection: apsw.Connection) -> None:
    """Finish the creation of the file and close the connection: a process that was killed during it left a journal to roll
    back."""
    with closing(connection):
        if not has_schema(connection):
            _prepare(connection)


def _prepare(connection: apsw.Connection) -> None:
    """Set WAL mode and create the tables. Several processes may do this at once; one of them succeeds."""
    if has_schema(connection) and connection.pragma("journal_mode") == "wal":
        return
    connection.pragma("auto_vacuum", "incremental")  # before the first page is written
    connection.pragma("journal_mode", "wal")
    connection.execute("begin immediate")
    try:
        if not has_schema(connection):
            create(connection)
        connection.execute("commit")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: apsw.Connection) -> None:
    try:
        connection.execute("rollback")
    except apsw.Error:
        if connection.in_transaction:
            raise


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Translate apsw's errors into errors of Outlast."""
    try:
        yield
    except apsw.Error as error:
        raise _translated(error, what) from error


class _Reading:
    """A reading connection as a context that translates errors. It has no state of its callers, so all reads share one:
    they are too frequent for a generator each."""

    def __init__(self, connection: apsw.Connection, what: str, file: FileIdentity | None) -> None:
        self._connection = connection
        self._what = what
        self._file = file

    def __enter__(self) -> apsw.Connection:
        if self._file is not None:
            self._file.check()
        return self._connection

    def __exit__(self, _kind: type | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _translated(error, self._what) from error


_NO_MESSAGE = "not an error"
"""SQLite's text for an error without a message, such as a full disk during a backup."""


def _translated(error: apsw.Error, what: str, *, committing: bool = False) -> OutlastError:
    """Return the error of Outlast for an error of apsw. Only this function decides which errors leave the outcome open:
    an I/O error during the commit itself, when the last page may or may not have reached the disk."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"could not {what}: another process holds the lock ({error})")
        case apsw.FullError():
            detail = f" ({error})" if str(error) != _NO_MESSAGE else ""
            return StoreFull(f"could not {what}: no space is left{detail}; nothing was written")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreReadOnly(f"could not {what}: it may only be read ({error}); nothing was written")
        case apsw.CantOpenError():
            return StoreUnusable(f"could not {what}: {error}")
        case apsw.NotADBError():
            return StoreUnusable(f"could not {what}: this is not an SQLite file ({error})")
        case apsw.CorruptError():
            return Damaged(f"could not {what}: the database file is damaged ({error})")
        case apsw.ConstraintError():
            return Damaged(f"could not {what}: the log already has a row after its head ({error}); nothing was written")
        case apsw.IOError() if committing:
            return OutcomeUnknown(f"could not {what}: {error}; whether the commit happened is unknown")
        case _:
            return StoreError(f"could not {what}: {error}; nothing was written")
