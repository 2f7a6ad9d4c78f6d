"""A Dask cluster as an executor: it submits tasks to the scheduler, follows their notes, answers their questions and
cancels them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
from distributed import Client, LocalCluster

from outlast.errors import ClusterAway, NotBegun
from outlast.execution.executors import StoredResult
from outlast.execution.process_helper import Confirm, OnMessage, no_confirmation
from outlast.execution.process_wire import Call
from outlast.execution.processes import PoolClosed, ProcessDied
from outlast.history.events import Failure
from outlast.integrations.dask import remote
from outlast.ledger.blob_names import blob_of
from outlast.values.codec import decode

log = logging.getLogger("outlast.dask")

PARENT_CHECK_S = 2.0
"""Seconds between checks of the scheduler while waiting for the end of a task."""

Note: TypeAlias = dict[str, Any]
_encode_call = msgspec.json.Encoder().encode
_read_failure = msgspec.json.Decoder(Failure).decode


class _Word(Enum):
    """What the inbox of a task holds besides the task's own notes."""

    OVER = "Dask has an outcome for it"
    LOST = "its worker is gone"
    CLOSED = "the engine closes"


class _Underway:
    """A submitted task. `worker` is where it was allowed to start."""

    def __init__(self, key: str, entry: str, confirm: Confirm) -> None:
        self.key = key
        self.entry = entry
        self.confirm = confirm
        self.worker = ""
        self.has_ended = False
        self.inbox: asyncio.Queue[Note | _Word] = asyncio.Queue()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when its worker is lost."""

    def lost(self) -> ProcessDied:
        return ProcessDied(f"the Dask worker {self.worker} was lost while it ran {self.entry}")


class DaskCluster:
    """An executor (X1 to X5). It contacts the scheduler when the first node needs it; use it on one event loop."""

    def __init__(self, address: str, *, shelf: str = "", has: Callable[[str], Awaitable[bool]] | None = None) -> None:
        self._address = address
        self._shelf = shelf
        self._has = has
        self._topic = f"outlast-{uuid4().hex}"
        self._local: Any = None
        self._client: Any = None
        self._connecting: asyncio.Task[Any] | None = None
        self._underway: dict[str, _Underway] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def run(
        self, call: Call, inputs: bytes, *, on_message: OnMessage | None = None, confirm: Confirm = no_confirmation
    ) -> bytes | StoredResult | Failure:
        encoded = _encode_call(call)
        while True:
            answer = await self._hand_over(call.entry, encoded, inputs, on_message, confirm)
            if answer is not None:
                return answer
            # It had not started: its worker or the scheduler was lost before.

    async def close(self) -> None:
        self._is_closed = True
        for task in self._underway.values():
            task.inbox.put_nowait(_Word.CLOSED)
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for answering in list(self._tasks):
            answering.cancel()
        if self._client is not None:
            with suppress(Exception):  # otherwise the scheduler sends it an event and logs an error
                self._client.unsubscribe_topic("all")
        await self._put_down(self._client)
        await self._put_down(self._local)

    # --- one task

    async def _hand_over(
        self, entry: str, call: bytes, inputs: bytes, on_message: OnMessage | None, confirm: Confirm
    ) -> bytes | StoredResult | Failure | None:
        """The outcome of the task; None if it certainly did not start and may be submitted again."""
        client = await self._connected()
        # Dask estimates the duration of tasks by the first part of their names.
        task = _Underway(f"{entry.rpartition('.')[2].rpartition(':')[2]}-{uuid4().hex}", entry, confirm)
        self._underway[task.key] = task
        try:
            future = self._submitted(client, task, call, inputs)
            result: asyncio.Future[Any] = asyncio.ensure_future(future.result())
            result.add_done_callback(partial(_note_end, task))
            try:
                return await self._followed(client, task, result, on_message)
            except (ProcessDied, NotBegun):
                raise
            except BaseException:  # cancelled, or `on_message` failed
                await self._taken_back(client, task, future)
                raise
            finally:
                result.cancel()
                future.release()
        finally:
            del self._underway[task.key]

    def _submitted(self, client: Any, task: _Underway, call: bytes, inputs: bytes) -> Any:
        given = task.key, call, inputs, self._topic, self._shelf
        try:
            return client.submit(remote.run, *given, key=task.key, pure=False, retries=0)
        except Exception as error:  # the connection was lost just now
            raise ClusterAway(f"the Dask scheduler at {self._address} does not accept {task.entry}: {error}") from error

    async def _followed(
        self, client: Any, task: _Underway, result: asyncio.Future[Any], on_message: OnMessage | None
    ) -> bytes | StoredResult | Failure | None:
        while True:
            match await task.inbox.get():
                case _Word.OVER:
                    return _answer(task, result)
                case _Word.LOST:
                    raise task.lost()
                case _Word.CLOSED:
                    raise PoolClosed(f"the cluster was closed while it ran {task.entry}")
                case note:
                    await self._hear(client, task, note, on_message)

    async def _hear(self, client: Any, task: _Underway, note: Note, on_message: OnMessage | None) -> None:
        kind, body = note["kind"], bytes(note["body"])
        if kind == "begin":
            await task.confirm()
            is_first = task.worker == note["worker"] and note["serial"] == 1 and not task.has_ended
            await self._tell(client, task, note, is_first)
            if not is_first:  # Dask lost it, and would execute it again
                raise task.lost()
        elif kind == "stored":
            is_there = self._has is not None and await self._has(blob_of(msgspec.Raw(body)).hash)
            await self._tell(client, task, note, is_there)
        elif kind != "ended" and on_message is not None:
            result = on_message(kind, body if kind == "checkpoint" else decode(body))
            if inspect.isawaitable(result):
                result = await result
            if kind == "checkpoint":
                await self._tell(client, task, note, result is True)

    async def _tell(self, client: Any, task: _Underway, note: Note, answer: bool) -> None:
        """Answer a question. If the worker cannot be reached it is lost, or will be; that may be known long before Dask
        stops trying."""
        telling = asyncio.ensure_future(
            _called(client, note["worker"], remote.told, note["call"], note["serial"], answer)
        )
        try:
            await asyncio.wait([telling, task.gone], return_when=asyncio.FIRST_COMPLETED)
            if not telling.done():
                raise task.lost()
            telling.result()
        except OSError as error:
            raise ProcessDied(f"the Dask worker {note['worker']} does not answer: {error}") from error
        finally:
            telling.cancel()

    async def _taken_back(self, client: Any, task: _Underway, future: Any) -> None:
        """Cancel the task if it waits, and ask it to stop if it runs. Returns when it certainly does not run."""
        with suppress(Exception):
            await client.cancel([future])
        if not task.worker:
            return  # if it starts later, its question is refused
        with suppress(Exception):
            await _called(client, task.worker, remote.stop, task.key)
        while not (task.has_ended or self._is_closed or client.status != "running"):
            try:
                async with asyncio.timeout(PARENT_CHECK_S):
                    message = await task.inbox.get()
            except TimeoutError:
                continue
            if message in (_Word.LOST, _Word.CLOSED):
                return
            if isinstance(message, dict) and message["kind"] in ("begin", "checkpoint", "stored"):
                with suppress(ProcessDied):
                    await self._tell(client, task, message, message["kind"] == "checkpoint")

    # --- the scheduler

    async def _connected(self) -> Any:
        if self._is_closed:
            raise PoolClosed("the cluster was closed")
        if self._client is None or self._client.status != "running":
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect())
            # Not awaited itself: cancelling one waiter must not cancel the connection of the others.
            await asyncio.wait([self._connecting])
            if self._connecting.cancelled():
                raise PoolClosed("the cluster was closed")
            self._connecting.result()
        return self._client

    async def _connect(self) -> None:
        old, self._client = self._client, None
        await self._put_down(old)
        try:
            if self._address.startswith("local") and self._local is None:
                self._local = await _local_cluster(self._address)
            client: Any = await _client(self._local or self._address)
        except OSError as error:
            raise ClusterAway(
                f"the Dask scheduler at {self._address} could not be reached: {error}; start it, or correct the setting "
                "`dask`"
            ) from error
        client.subscribe_topic(self._topic, self._on_note)
        client.subscribe_topic("all", self._on_event)
        self._client = client

    async def _put_down(self, what: Any) -> None:
        if what is None:
            return
        try:
            await what.close()
        except Exception as error:
            log.info("closing %r failed: %s", what, error)

    def _on_note(self, event: tuple[float, Note]) -> None:
        """Receive a note of a task. Dask calls this in the order of the notes; slow work is left to the coroutine that
        follows the task."""
        note = event[1]
        task = self._underway.get(note["call"])
        if task is None:
            if note["kind"] in ("begin", "checkpoint", "stored"):
                self._spawn(self._dismiss(note))
            return
        if note["kind"] == "begin" and not task.worker:
            task.worker = note["worker"]
        if note["kind"] == "ended" and note["worker"] == task.worker:
            task.has_ended = True
        task.inbox.put_nowait(note)

    def _on_event(self, event: tuple[float, Any]) -> None:
        """Receive an event of the cluster."""
        content = event[1]
        if isinstance(content, dict) and content.get("action") == "remove-worker":
            for task in self._underway.values():
                if task.worker == content.get("worker") and not task.gone.done():
                    task.gone.set_result(None)
                    task.inbox.put_nowait(_Word.LOST)

    async def _dismiss(self, note: Note) -> None:
        """The engine does not wait for this task: refuse its start, and end it at a checkpoint."""
        with suppress(OSError):
            is_end = note["kind"] == "checkpoint"
            await _called(self._client, note["worker"], remote.told, note["call"], note["serial"], is_end)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(task: _Underway, result: asyncio.Future[Any]) -> bytes | StoredResult | Failure | None:
    """The meaning of an outcome of Dask (X1, X2)."""
    error = None if result.cancelled() else result.exception()
    if error is not None or result.cancelled():
        if task.worker:
            raise task.lost() from error
        if error is None or type(error).__name__ in ("KilledWorker", "FutureCancelledError", "CancelledError"):
            return None
        raise NotBegun(f"the Dask cluster could not start {task.entry}: {type(error).__name__}: {error}") from error
    kind, body = result.result()
    match kind:
        case "done":
            return bytes(body)
        case "stored":
            return StoredResult(msgspec.Raw(body))
        case "failed":
            return _read_failure(body)
        case _ if task.worker:
            raise task.lost()
        case _:
            return None


async def _called(client: Any, worker: str, function: Callable[..., None], *args: Any) -> None:
    """Call a function on a worker; `OSError` if it cannot be reached, whatever error Dask raises for that."""
    try:
        await client.run(function, *args, workers=[worker])
    except Exception as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error


def _note_end(task: _Underway, result: asyncio.Future[Any]) -> None:
    result.cancelled() or result.exception()  # mark it as retrieved
    task.inbox.put_nowait(_Word.OVER)


async def _client(address: Any) -> Any:
    return await Client(address, asynchronous=True, set_as_default=False)  # type: ignore[no-untyped-call]


async def _local_cluster(address: str) -> Any:
    workers = int(address.partition(":")[2] or os.cpu_count() or 1)
    return await LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        asynchronous=True,
    )
