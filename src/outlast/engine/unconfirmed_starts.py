"""Starts that were cancelled before their outcome was known.

The caller of a start may be cancelled while the first append is under way. The append cannot be stopped: it succeeds or
fails. If it succeeds, this worker owns a run that has no driver. The ledger announces appends, and the run is then
taken over.
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
"""Seconds within which the append has succeeded or failed. After that the heartbeat finds the run."""
POLL_S = 0.005


def has_failed(error: BaseException) -> bool:
    """Whether a start that raised this error is known not to have happened."""
    if isinstance(error, StoreError):
        return not isinstance(error, OutcomeUnknown)
    return isinstance(error, AlreadyExists)


class UnconfirmedStarts:
    """The unconfirmed starts of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.expected: dict[RunId, asyncio.Event] = {}

    def on_runs_changed(self, runs: frozenset[RunId]) -> None:
        """The logs of these runs have grown."""
        for run in self.expected.keys() & runs:
            self.expected[run].set()

    def expect(self, run: RunId) -> None:
        """Take this run over if its first append succeeds."""
        if run not in self.expected:
            self.expected[run] = asyncio.Event()
            self._worker.spawn(self._adopt_when_created(run, self.expected[run]))

    async def _adopt_when_created(self, run: RunId, created: asyncio.Event) -> None:
        worker = self._worker
        try:
            if await worker.store.head(run) is None:  # an earlier append was not announced here
                async with asyncio.timeout(OUTCOME_TIMEOUT_S):
                    await created.wait()
            await self._wait_for_other_start(run)
            holding = await worker.store.holding(run)
            if holding is not None and holding.worker == worker.id and not worker.has_run(run):
                for claim in await worker.claim(runs=[run]):
                    await worker.takeovers.adopt(claim)
        except TimeoutError:
            pass
        except StoreError as error:
            log.warning("run %s: start outcome unknown; checking again: %s", run, error)
            worker.takeovers.retry_takeover(run, error)
        finally:
            del self.expected[run]

    async def _wait_for_other_start(self, run: RunId) -> None:
        """Wait until another start of the same run in this process has succeeded or failed."""
        drivers = self._worker.drivers
        while run in drivers and not drivers[run].writer.head.version:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(POLL_S)
