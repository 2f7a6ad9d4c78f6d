"""Finds runs that want an owner: new ones, those that heard something, those whose owner is gone."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from contextlib import suppress

from outlast.engine.worker import Worker
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import shortened
from outlast.store import Claim

log = logging.getLogger("outlast.services")

POLL_INTERVAL_S = 1.0
"""Seconds between two looks when nothing was announced: a death is announced by nobody."""
BATCH = 200
"""Runs claimed in one step."""
MAX_PROMPT_LENGTH = 120
MAX_LOGGED_QUESTIONS = 100
"""Open questions of which each is logged at the start; the others are counted."""
MIN_SLEEP_S = 0.01
"""Seconds between two looks however much is announced."""


class Claimer:
    """Claims for one worker what its process has code for. With `reports_start` it logs what the first round found."""

    def __init__(self, worker: Worker, *, reports_start: bool = True) -> None:
        self._worker = worker
        self._reports_start = reports_start
        self._is_scarce = False
        self._served = ""

    async def run(self) -> None:
        """Look whenever there may be something. After the first round it is known what others had left behind."""
        while await self.look():
            pass
        if self._reports_start:
            log.info(await self._log_recovered())
        while True:
            self._worker.claim_wakeup.clear()
            if not await self.look():
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._worker.claim_wakeup.wait()
                await asyncio.sleep(MIN_SLEEP_S)

    async def look(self) -> bool:
        """Claim some; True if there may be more."""
        worker, names = self._worker, tuple(sorted(registry.names()))
        wanted = min(worker.capacity, BATCH)
        if not wanted or not names:
            return False
        await worker.lease.confirm()
        if worker.lease.is_settling:
            return False
        if worker.own is None:
            claims = await self._claim_fairly(names, wanted)
        else:
            claims = await self._claim_own(worker.own, wanted)
        await asyncio.gather(*(worker.takeovers.adopt(claim) for claim in claims))
        return len(claims) == wanted

    async def _claim_own(self, own: set[RunId], wanted: int) -> list[Claim]:
        """Of the runs that the worker keeps to: those that nobody advances and that are to go on."""
        runs = [run for run in tuple(own) if not self._worker.has_run(run) and await self._needs_owner(run)]
        return await self._worker.claim(runs=runs, limit=wanted) if runs else []

    async def _claim_fairly(self, names: tuple[str, ...], wanted: int) -> list[Claim]:
        """While there are more runs than there is room for, each workflow has its share first, in turn: one with thousands
        of runs must not keep the others waiting. Otherwise all are asked for at once, which costs one look."""
        claim = self._worker.claim
        claims: list[Claim] = []
        if self._is_scarce and len(names) > 1:
            after = bisect_right(names, self._served)
            share = max(1, wanted // len(names))
            for name in (*names[after:], *names[:after]):
                if len(claims) < wanted:
                    some = await claim(workflows=(name,), limit=min(share, wanted - len(claims)))
                    self._served = name if some else self._served
                    claims += some
        if len(claims) < wanted:
            claims += await claim(workflows=names, limit=wanted - len(claims))
        self._is_scarce = len(claims) == wanted
        return claims

    async def _log_recovered(self) -> str:
        """What starting up has recovered. Questions need no recovery: they are in the log, and are shown to people."""
        recovered, questions, after = self._worker.takeovers.recovered, 0, ""
        while True:
            page, after = await self._worker.store.waits(kind="interaction", after=after, limit=1000)
            for due in page[: max(0, MAX_LOGGED_QUESTIONS - questions)]:
                log.info("run %s asks: %s", due.run, shortened(" ".join(due.wait.text.split()), MAX_PROMPT_LENGTH))
            questions += len(page)
            if not after:
                break
        if questions > MAX_LOGGED_QUESTIONS:
            log.info("and %d more questions: `outlast ps --status waiting`", questions - MAX_LOGGED_QUESTIONS)
        return f"Recovery complete: {recovered.resumed} resumed, {recovered.held} held, {questions} questions restored."

    async def _needs_owner(self, run: RunId) -> bool:
        """Whether nobody advances a run that is to go on."""
        store, own = self._worker.store, self._worker.own
        head, holding = await store.head(run), await store.holding(run)
        if holding is not None:
            return not holding.is_live
        if head is not None and head.closed and own is not None:
            own.discard(run)
            head = await store.head(run)
            if head is not None and not head.closed:  # somebody had it go on meanwhile
                own.add(run)
            return False
        summary = await store.summary(run)
        if head is None or summary is None:
            return False
        return head.ready or not (summary.held or summary.status is RunStatus.PAUSED)
