"""The part that runs on a Dask worker: one attempt of a node, in one of the worker's threads.

It sends notes to its engine through events of Dask's scheduler, which arrive in order and before the result of the task. The
engine answers by calling `told` and `stop` on the worker.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Raw

from outlast.address import bucket_at
from outlast.errors import NotFound, NotStorable
from outlast.execution import remote
from outlast.execution.log_capture import listen_to_logging
from outlast.execution.process_entry import outcome
from outlast.execution.process_wire import Call, Kind
from outlast.store import Blobs
from outlast.values.codec import INLINE_LIMIT, stored

ANSWER_TIMEOUT_S = 120.0
"""Seconds that a task waits for an answer of its engine, which may be busy, or lost."""
SEND_TIMEOUT_S = 10.0
"""Seconds that a note may take to the worker's own loop."""
LARGEST_CHECKPOINT = 64_000
"""Bytes of a checkpoint: it passes through Dask's scheduler, which keeps the last thousand messages for a while."""

Asked = Literal["begin", "checkpoint", "stored"]
Told = Literal["done", "failed", "stored", "refused"]

_read_call = msgspec.json.Decoder(Call).decode
_wires: dict[str, Wire] = {}
_turn = threading.Lock()


def run(key: str, call: bytes, inputs: bytes, topic: str, shelf: str) -> tuple[Told, bytes]:
    """Ask the engine whether to start; if so run the function and return its outcome. Raises nothing."""
    from distributed import get_worker

    wire = Wire(get_worker(), topic, key)
    with _turn:
        if _wires.setdefault(key, wire) is not wire:
            return "refused", b""
    try:
        if not wire.ask("begin"):
            return "refused", b""
        return _run(wire, _read_call(call), inputs, shelf)
    finally:
        del _wires[key]
        wire.send_note("ended", b"")


def told(key: str, serial: int, answer: bool) -> None:
    """Deliver the engine's answer to a question of a task here."""
    wire = _wires.get(key)
    if wire is not None:
        wire.hear(serial, answer)


def stop(key: str) -> None:
    """The engine no longer waits for this task, which learns that by `is_stopping()` and at its next checkpoint."""
    wire = _wires.get(key)
    if wire is not None:
        wire.stop()


class Wire:
    """The connection from a task to its engine."""

    def __init__(self, worker: Any, topic: str, key: str) -> None:
        self.is_stopping = False
        self._worker = worker
        self._topic = topic
        self._key = key
        self._serials = itertools.count(1)
        self._open: dict[int, queue.SimpleQueue[bool | None]] = {}

    def send_note(self, kind: Kind | Asked | Literal["ended"], body: bytes, serial: int = 0) -> None:
        note = {"call": self._key, "kind": kind, "serial": serial, "worker": self._worker.address, "body": body}
        sent = threading.Event()

        def send() -> None:
            self._worker.log_event(self._topic, note)
            sent.set()

        # Wait until it is sent: a task that logs faster than the worker can send would fill the memory.
        self._worker.loop.add_callback(send)
        sent.wait(SEND_TIMEOUT_S)

    def ask(self, kind: Asked, body: bytes = b"") -> bool | None:
        """The engine's answer; None if there is none."""
        serial, answer = next(self._serials), queue.SimpleQueue[bool | None]()
        self._open[serial] = answer
        try:
            self.send_note(kind, body, serial)
            return answer.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            return None
        finally:
            del self._open[serial]

    def hear(self, serial: int, answer: bool) -> None:
        asked = self._open.get(serial)
        if asked is not None:
            asked.put(answer)

    def stop(self) -> None:
        """The engine no longer waits for the task, and answers none of its questions."""
        self.is_stopping = True
        for answer in list(self._open.values()):
            answer.put(None)

    def save(self, data: bytes) -> bool:
        if len(data) > LARGEST_CHECKPOINT:
            raise NotStorable(
                f"a checkpoint of {len(data)} bytes is too large for a node on a Dask cluster, where it may have "
                f"{LARGEST_CHECKPOINT}: store a reference instead, such as the path of a file"
            )
        ends = True if self.is_stopping else self.ask("checkpoint", data)
        if ends is None and not self.is_stopping:
            raise ConnectionError(f"the engine did not confirm a checkpoint within {ANSWER_TIMEOUT_S:g} s")
        return ends is not False


def _run(wire: Wire, call: Call, inputs: bytes, shelf: str) -> tuple[Told, bytes]:
    root = logging.getLogger()
    if root.level == logging.WARNING:  # the default level
        root.setLevel(logging.INFO)
    stop_listening = listen_to_logging()
    try:
        with remote.attempt_entered(remote.RemoteAttempt(call.attempt, wire)):
            kind, body = outcome(call, inputs, remote.LogForwarder(wire))
    finally:
        stop_listening()
    if kind == "done" and len(body) > INLINE_LIMIT and shelf:
        reference = _put(body, shelf)
        if reference and wire.ask("stored", reference):
            return "stored", reference
    return kind, body


# --- large results


def _put(body: bytes, shelf: str) -> bytes:
    """A reference to the result, stored where the engine's blobs should be; empty if that place cannot be reached from
    here."""
    try:
        return bytes(asyncio.run(_put_now(body, shelf)))
    except Exception as error:
        logging.getLogger("outlast.dask").info("a large result is sent through the scheduler: %s", error)
        return b""


async def _put_now(body: bytes, shelf: str) -> Raw:
    return await stored(Raw(body), _blobs_at(shelf))


def _blobs_at(shelf: str) -> Blobs:
    """Nothing is created here: a place that does not exist is on another machine."""
    bucket = bucket_at(shelf)
    if bucket is None:
        from outlast.stores.blob_folder import FolderBlobs

        if not Path(shelf).is_dir():
            raise NotFound(f"the folder {shelf} does not exist")
        return FolderBlobs(Path(shelf))
    from outlast.stores.objects.blobs import ObjectBlobs
    from outlast.stores.objects.opening import open_bucket

    open_bucket(bucket, readonly=True)
    return ObjectBlobs(open_bucket(bucket))
