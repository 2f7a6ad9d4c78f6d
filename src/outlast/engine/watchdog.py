"""A thread that watches whether a worker's event loop turns.

Code that blocks the loop (`time.sleep`, a long computation, a request without `await`) keeps everything else of the worker
from going on, the renewal of its claims included. So a thread checks whether the loop turns. If it does not, the thread
reports what blocks it and where, and renews the claims in the loop's place, through a connection of its own.

Code that does not let go of the interpreter's lock blocks this thread as well. The claims of such a worker may expire.
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
"""Seconds between two looks at the loop."""
BLOCKED_S = 1.0
"""Seconds without a turn of the loop after which that is reported, and again whenever they have doubled."""
LONGEST_S = 60.0
"""Seconds between two reports at most."""


@contextmanager
def watched(worker: Worker) -> Iterator[None]:
    """Watch the running loop, which is the worker's. Where time is not the machine's, there is nothing to watch."""
    if worker.ledger.clock is not system_clock:
        yield
        return
    watchdog = Watchdog(worker)
    try:
        yield
    finally:
        watchdog.close()


class Watchdog:
    """Watches the loop that it is made on."""

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

    # --- in the thread

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
        self._leave()

    def _report(self, seconds: float) -> None:
        by = blocked_by(self._watched)
        if by:
            log.warning(
                "the event loop has been blocked for %.0f s by %s: nothing else of this worker goes on meanwhile; "
                "do this in a node, and in an async node with await",
                seconds,
                by,
            )

    def _renew(self) -> None:
        """Renew if the loop should have done so: it does when two thirds of the time are left."""
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

    def _leave(self) -> None:
        if self._loop is None:
            return
        if self._store is not None:
            with suppress(OutlastError, OSError):
                self._loop.run_until_complete(self._store.close())
        self._loop.close()


def blocked_by(thread: int) -> str:
    """Who blocks the event loop of that thread, and where, by its frames; empty if the loop waits for something to do."""
    innermost = each = sys._current_frames().get(thread)
    if innermost is None or innermost.f_code.co_name == "select":
        return ""
    who = ""
    while each is not None and not who:
        it: Any = each.f_locals.get("self")
        if isinstance(it, ThreadHandoff):  # the loop waits for the thread of a plain workflow
            innermost = sys._current_frames().get(it._thread.ident or 0, innermost)
        elif isinstance(it, WorkflowLoop):
            code: Any = it._clock
            who = f"workflow {code.workflow.name} (run {code.run})"
        elif isinstance(it, Attempts) and "ask" in each.f_locals:
            command = each.f_locals["ask"]
            who = f"node {command.name} (run {command.driver.run})"
        each = each.f_back
    return f"{who or 'something'} at {shown(user_place(innermost))}"
