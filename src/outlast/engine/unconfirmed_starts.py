"""Starts that were given up before it was known whether they happened.

Whoever starts a run may be cancelled while the append that makes it is on its way: that can no longer be stopped, and lands
or does not. If it lands the run is ours, and nobody drives it. The ledger announces what lands; then the run is taken up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from outlast.errors import AlreadyExists, OutcomeUnknown, StoreError
from outlast.history.ids import RunId

if TYPE_CHECKING:
    from outlast.engine.worker import Worker

log = logging.getLogger("outlast.engine")

OUTCOME_TIMEOUT_S = 60.0
"""Seconds within which it has landed or will not. Should it be later, the renewer finds it."""
POLL_S = 0.005


def has_failed(error: BaseException) -> bool:
    """Whether a start that ended so is known not to have happened."""
    if isinstance(error, StoreError):
        return not isinstance(error, OutcomeUnknown)
    return isinstance(error, AlreadyExists)


class UnconfirmedStarts:
    """Those of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._expected: dict[RunId, asyncio.Event] = {}

    def on_runs_changed(self, runs: frozenset[RunId]) -> None:
        """The logs of these runs have grown."""
        if self._expected:
            for run in self._expected.keys() & runs:
                self._expected[run].set()

    def expect(self, run: RunId) -> None:
        """Take this run up once it is there, if it comes to be."""
        if run not in self._expected:
            self._expected[run] = asyncio.Event()
            self._worker.spawn(self._adopt_when_created(run, self._expected[run]))

    async def _adopt_when_created(self, run: RunId, landed: asyncio.Event) -> None:
        worker = self._worker
        try:
            if await worker.store.head(run) is None:  # what landed before now was announced to nobody
                async with asyncio.timeout(OUTCOME_TIMEOUT_S):
                    await landed.wait()
            await self._wait_for_other_start(run)
            holding = await worker.store.holding(run)
            if holding is not None and holding.worker == worker.id and not worker.has_run(run):
                for claim in await worker.claim(runs=[run]):
                    await worker.takeovers.adopt(claim)
        except TimeoutError:
            pass
        except StoreError as error:
            log.warning("run %s was perhaps started, which cannot be told now: %s", run, error)
            worker.takeovers.retry_takeover(run, error)
        finally:
            del self._expected[run]

    async def _wait_for_other_start(self, run: RunId) -> None:
        """Wait until whoever else is about to start it here has started it, or has failed to."""
        drivers = self._worker.drivers
        while run in drivers and not drivers[run].writer.head.version:  # noqa: ASYNC110 - rarely, and never for long
            await asyncio.sleep(POLL_S)
