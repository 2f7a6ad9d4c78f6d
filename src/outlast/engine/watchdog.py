"""A thread that checks whether a worker's event loop is responsive.

Code that blocks the loop (`time.sleep`, a long computation, a request without `await`) stops everything else on the
worker, including the renewal of its lease. While the loop is blocked, this thread reports the blocking code with its
file and line, and renews the lease through a store connection of its own.

Code that holds the interpreter lock blocks this thread as well. The claims of such a worker may expire.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from outlast.engine.worker import Worker
from outlast.errors import OutlastError
from outlast.execution.attempts import Attempts
from outlast.functions.loop import WorkflowLoop
from outlast.functions.threaded import ThreadHandoff
from outlast.ledger.ledger import system_clock
from outlast.store import Store
from outlast.values.source_location import shown, user_place

log = logging.getLogger("outlast.engine")

LOOK_S = 0.5
"""Seconds between two checks of the loop."""
BLOCKED_S = 1.0
"""Seconds without an iteration of the loop before a report; the report is repeated each time they double."""
LONGEST_S = 60.0
"""Maximum number of seconds between two reports."""


@contextmanager
def watched(worker: Worker) -> Iterator[None]:
    """Watch the running loop, which is the worker's. With a simulated clock there is nothing to watch."""
    if worker.ledger.clock is not system_clock:
        yield
        return
    watchdog = Watchdog(worker)
    try:
        yield
    finally:
        watchdog.close()


class Watchdog:
    """Watches the loop that it is created on."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._watched = threading.get_ident()
        self._ended, self._last_turn = threading.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._store: Store | None = None
        self._look = min(LOOK_S, worker.lease.ttl / 6)
        self._thread = threading.Thread(target=self._watch, name="outlast-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._last_turn.set()
        self._thread.join(LOOK_S)  # it may be waiting for a store that does not answer

    # --- in the watching thread

    def _watch(self) -> None:
        while not self._ended.wait(self._look):
            turned = self._last_turn = threading.Event()
            try:
                self._worker.loop.call_soon_threadsafe(turned.set)
            except RuntimeError:  # the loop is closed
                break
            began, reported = monotonic(), 0.0
            while not (turned.wait(self._look) or self._ended.is_set()):
                self._renew()
                blocked = monotonic() - began
                if blocked >= max(BLOCKED_S, min(2 * reported, reported + LONGEST_S)):
                    reported = blocked
                    self._report(blocked)
            self._renew()
        self._close_store()

    def _report(self, seconds: float) -> None:
        by = blocked_by(self._watched)
        if by:
            log.warning(
                "the event loop has been blocked for %.0f s by %s: this worker can do nothing else meanwhile; "
                "move this into a node, and in an async node await it",
                seconds,
                by,
            )

    def _renew(self) -> None:
        """Renew the lease if half of it has passed: the loop renews it after a third."""
        lease, id = self._worker.lease, self._worker.id
        if lease.until - lease.clock() > lease.ttl / 2:
            return
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            if self._store is None:
                self._store = self._worker.store.reopen()
            self._store.skew = self._worker.store.skew
            sent = lease.clock()
            if self._loop.run_until_complete(asyncio.wait_for(self._store.renew(id, lease.ttl), lease.ttl)):
                lease.renewed(id, sent)
            elif id == self._worker.id:
                lease.lapse()
        except (OutlastError, OSError) as error:
            log.warning("worker %s could not renew its claims: %s", id, error)

    def _close_store(self) -> None:
        if self._loop is None:
            return
        if self._store is not None:
            with suppress(OutlastError, OSError):
                self._loop.run_until_complete(self._store.close())
        self._loop.close()


def blocked_by(thread: int) -> str:
    """The code that blocks the event loop of a thread, with its file and line, from the thread's frames; empty if the
    loop is idle."""
    innermost = each = sys._current_frames().get(thread)
    if innermost is None or innermost.f_code.co_name == "select":
        return ""
    culprit = ""
    while each is not None and not culprit:
        owner: Any = each.f_locals.get("self")
        if isinstance(owner, ThreadHandoff):  # the loop waits for the thread of a plain workflow
            innermost = sys._current_frames().get(owner._thread.ident or 0, innermost)
        elif isinstance(owner, WorkflowLoop):
            code: Any = owner._clock
            culprit = f"workflow {code.workflow.name} (run {code.run})"
        elif isinstance(owner, Attempts) and "command" in each.f_locals:
            command = each.f_locals["command"]
            culprit = f"node {command.name} (run {command.driver.run})"
        each = each.f_back
    return f"{culprit or 'code'} at {shown(user_place(innermost))}"
