"""The helper process: runs one function after another and sends each outcome to the pool.

It has three threads. The main thread runs the user's code, as in a script. One thread receives, so that the process
notices the end of its parent while the code is busy. One thread sends, so that no event in the user's code (a signal, a
stack overflow, a finaliser that logs) leaves half a message behind. A sender waits until its message is sent, so that
lines before a crash arrive.

Printed text goes to standard error. Threads, the working directory and modules of a finished call are present in
the next call of the same helper; log lines of a thread that outlives its call belong to the next call.
"""

from __future__ import annotations

import itertools
import logging
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from outlast.execution import remote
from outlast.execution.log_capture import listen_to_logging
from outlast.execution.process_entry import outcome
from outlast.execution.process_wire import GRACE, PREFIX, Ack, Call, Kind, Note, opening, read_order

PARENT_CHECK_S = 2.0
"""Seconds between two checks that the parent still exists, in case a fork of the parent keeps the channel open."""

_helper: Helper | None = None


def main() -> None:
    """Serve calls from standard input until it ends."""
    global _helper
    _helper = Helper(_take_channel())
    os.register_at_fork(after_in_child=_detach_fork)
    logging.getLogger().setLevel(logging.INFO)
    listen_to_logging()
    _helper.serve()


class Helper:
    """The state of this process."""

    is_stopping = False
    """Always false: an abandoned call is ended by killing the process."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._parent = os.getppid()
        self._pid = os.getpid()
        self._number = 0
        self._is_busy = False
        self._calls: queue.SimpleQueue[tuple[Call, bytes] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[tuple[Note, bytes, threading.Event]] = queue.SimpleQueue()
        self._serials = itertools.count(1)
        self._unacknowledged: dict[int, queue.SimpleQueue[bool]] = {}
        self.lines = remote.LogForwarder(self)

    def serve(self) -> None:
        for work in (self._listen, self._send_notes):
            threading.Thread(target=work, name=f"outlast{work.__name__}", daemon=True).start()
        try:
            while (call := self._calls.get()) is not None:
                self._answer(*call)
        except BaseException:
            # Without a regular exit, which would wait for threads while the pool waits for an answer.
            traceback.print_exc()
            _exit_now()

    def send_note(self, kind: Kind, body: bytes, serial: int = 0) -> None:
        """Send a note about the current call, and wait until it is sent."""
        sent = threading.Event()
        self._outbox.put((Note(kind, self._number, serial), body, sent))
        sent.wait()

    def save(self, data: bytes) -> bool:
        """Send a checkpoint, and wait until it is acknowledged. True if the call must end there."""
        serial, acknowledged = next(self._serials), queue.SimpleQueue[bool]()
        self._unacknowledged[serial] = acknowledged
        self.send_note("checkpoint", data, serial)
        return acknowledged.get()

    def close(self) -> None:
        self._channel.close()

    def _answer(self, call: Call, inputs: bytes) -> None:
        remote.process_attempt, self._number = remote.RemoteAttempt(call.attempt, self), call.number
        kind, body = outcome(call, inputs, self.lines)
        remote.process_attempt = None
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the user may have closed it
                stream.flush()
        if os.getpid() != self._pid:  # the function forked and returned in the fork as well: only the parent answers
            os._exit(0)
        self._is_busy = False  # before the answer: the next call may follow it at once
        self.send_note(kind, body)

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        try:
            while True:
                self._handle_messages(poll)
        except Exception:  # usually the channel is closed
            if self._is_busy:
                _exit_now()
        self._calls.put(None)
        time.sleep(GRACE)  # the process normally ends meanwhile
        _exit_now()

    def _handle_messages(self, poll: select.poll) -> None:
        head_size, body_size = PREFIX.unpack(self._received(poll, PREFIX.size))
        order = read_order(self._received(poll, head_size))
        body = bytes(self._received(poll, body_size))
        if isinstance(order, Ack):
            self._unacknowledged.pop(order.serial).put(order.ends)
        else:
            self._is_busy = True
            self._calls.put((order, body))

    def _received(self, poll: select.poll, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while len(view):
            while not poll.poll(PARENT_CHECK_S * 1000):
                if os.getppid() != self._parent:
                    raise EOFError
            count = self._channel.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return buffer

    def _send_notes(self) -> None:
        while True:
            note, body, sent = self._outbox.get()
            try:
                self._channel.sendall(opening(note, body))
                self._channel.sendall(body)
            except Exception:  # the parent has closed the channel
                _exit_now()
            sent.set()


def _take_channel() -> socket.socket:
    """Move the channel away from standard input, which then is empty for the user's code; printed text goes to standard
    error."""
    import fcntl  # imported here, so that the module can be imported on systems without it

    # At least 3: if the parent has closed its standard output, a print must not write to the channel.
    channel = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    if nothing > 2:
        os.close(nothing)
    with suppress(OSError, AttributeError):  # standard error may be closed
        os.dup2(2, 1)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return channel


def _detach_fork() -> None:
    """Detach a fork that the user's code made: it must neither answer for the helper nor keep its channel open."""
    global _helper
    if _helper is not None:
        logging.getLogger().removeHandler(_helper.lines)
        _helper.close()
    _helper = remote.process_attempt = None


def _exit_now() -> NoReturn:
    """Exit at once, with all processes that this one has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
