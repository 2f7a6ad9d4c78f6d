"""The helper process: runs one function after another and tells the pool how each went.

Three threads share the work. The main thread runs the user's code, as it would in a script. One listens, so that the end of
the parent is heard while the code is busy; one speaks, so that nothing which strikes the user's code (a signal, a stack that
is too deep, a finaliser that logs) leaves half a message behind. Whoever says something waits until it is out, so that what
was logged before a crash is known after it.

What the code prints goes to standard error. What it leaves behind (threads, the working directory, modules) is there in the
next call of the same helper; a thread that outlives its call and logs, logs in the name of the next.
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
from outlast.execution.process_call import outcome
from outlast.execution.process_wire import GRACE, PREFIX, Ack, Call, Kind, Note, opening, read_order

PARENT_CHECK_S = 2.0
"""Seconds after which a helper asks whether its parent is still there, should a fork of the parent hold the channel open."""

_helper: Helper | None = None


def main() -> None:
    """Serve calls that come in on standard input, until it ends."""
    global _helper
    _helper = Helper(_take_channel())
    os.register_at_fork(after_in_child=_detach_fork)
    logging.getLogger().setLevel(logging.INFO)
    listen_to_logging()
    _helper.serve()


class Helper:
    """The life of this process."""

    is_stopping = False
    """Who no longer waits for a call kills its process."""

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
            while (asked := self._calls.get()) is not None:
                self._answer(*asked)
        except BaseException:
            # At once: the end of an interpreter waits for threads, and the pool would wait for an answer meanwhile.
            traceback.print_exc()
            _exit_now()

    def send_note(self, kind: Kind, body: bytes, serial: int = 0) -> None:
        """Send a note about the present call, and wait until it is sent."""
        sent = threading.Event()
        self._outbox.put((Note(kind, self._number, serial), body, sent))
        sent.wait()

    def save(self, data: bytes) -> bool:
        """Send a checkpoint, and wait until it is acknowledged. True if the call is to end there."""
        serial, kept = next(self._serials), queue.SimpleQueue[bool]()
        self._unacknowledged[serial] = kept
        self.send_note("checkpoint", data, serial)
        return kept.get()

    def close(self) -> None:
        self._channel.close()

    def _answer(self, call: Call, inputs: bytes) -> None:
        remote.process_attempt, self._number = remote.RemoteAttempt(call.attempt, self), call.number
        kind, body = outcome(call, inputs, self.lines)
        remote.process_attempt = None
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the user may have closed it
                stream.flush()
        if os.getpid() != self._pid:  # the function forked, and this is the fork: only one of the two may answer
            os._exit(0)
        self._is_busy = False  # before the answer, which the next call may follow at once
        self.send_note(kind, body)

    # --- the two other threads

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        try:
            while True:
                self._handle_messages(poll)
        except Exception:  # the end of the channel, for the most part
            if self._is_busy:
                _exit_now()
        self._calls.put(None)
        time.sleep(GRACE)  # the rest of the process ends meanwhile, and this thread with it
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
            except Exception:  # nobody is there to hear it
                _exit_now()
            sent.set()


# --- the process -------------------------------------------------------------------------------------------------------


def _take_channel() -> socket.socket:
    """The channel, moved away from standard input, where the user's code finds nothing; its prints go to standard error."""
    import fcntl  # not on every system, and there this module can at least be imported

    # Not below 3: if the parent has closed its standard output, a print must not find the channel there.
    channel = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    if nothing > 2:
        os.close(nothing)
    with suppress(OSError, AttributeError):  # there may be no standard error
        os.dup2(2, 1)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return channel


def _detach_fork() -> None:
    """In a fork that the user's code made: it is not the helper, and must not speak for it or hold its channel open."""
    global _helper
    if _helper is not None:
        logging.getLogger().removeHandler(_helper.lines)
        _helper.close()
    _helper = remote.process_attempt = None


def _exit_now() -> NoReturn:
    """End now, with everything this process has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
