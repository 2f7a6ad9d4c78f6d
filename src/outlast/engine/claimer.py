"""Finds runs that want an owner: new ones, those that heard something, those whose owner is gone."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from contextlib import suppress

from outlast.engine.worker import Worker
from outlast.functions import registry
from outlast.history.ids import RunId
from outlast.lifecycle.summary import shortened
from outlast.store import Claim

log = logging.getLogger("outlast.services")

POLL = 1.0
"""Seconds between two looks when nothing was announced: a death is announced by nobody."""
BATCH = 200
"""Runs claimed in one step."""
PASSED = 100
"""Of the runs that a worker keeps to, so many are looked at in one such look, in turn: thousands may only wait."""
LONGEST_PROMPT = 120
SHOWN = 100
"""Open questions of which each is logged at the start; the others are counted."""
SHORTEST = 0.01
"""Seconds between two looks however much is announced."""


class Claimer:
    """Claims for one worker what its process has code for."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._is_scarce = False
        self._served = ""
        self._round: list[RunId] = []
        """Those of the worker's own runs that are still to be passed."""
        self._passed = -POLL
        """When some were passed last."""

    async def run(self) -> None:
        """Look whenever there may be something. After the first round it is known what others had left behind."""
        while await self.look():
            pass
        log.info(await self._recovered())
        while True:
            self._worker.wanted.clear()
            if not await self.look():
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL):
                        await self._worker.wanted.wait()
                await asyncio.sleep(SHORTEST)

    async def look(self) -> bool:
        """Claim some; True if there may be more."""
        worker, names = self._worker, tuple(sorted(registry.names()))
        wanted = min(worker.room, BATCH)
        if not wanted or not names:
            return False
        if worker.own is None:
            claims = await self._fairly(names, wanted)
        else:
            claims = await self._of_its_own(worker.own, wanted)
        await asyncio.gather(*(worker.arrivals.adopt(claim) for claim in claims))
        return len(claims) == wanted

    async def _of_its_own(self, own: set[RunId], wanted: int) -> list[Claim]:
        """Of the runs that the worker keeps to: those that have news, and in turn the others, of which nobody tells that
        their owner has died or left."""
        worker = self._worker
        heard, worker.heard = worker.heard | set(self._next_round(own)), set()
        try:
            runs = [run for run in heard & own if not worker.knows(run) and await self._wants_an_owner(run)]
            claims = await worker.claim(runs=runs, limit=wanted) if runs else []
        except BaseException:
            worker.heard |= heard
            raise
        if len(claims) == wanted:  # there was no room for more
            worker.heard |= own.intersection(runs) - {claim.run for claim in claims}
        return claims

    def _next_round(self, own: set[RunId]) -> list[RunId]:
        now = asyncio.get_running_loop().time()
        if now - self._passed < POLL:
            return []
        self._passed = now
        self._round = self._round or list(own)
        found, self._round = self._round[:PASSED], self._round[PASSED:]
        return found

    async def _fairly(self, names: tuple[str, ...], wanted: int) -> list[Claim]:
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

    async def _recovered(self) -> str:
        """What starting up has recovered. Questions need no recovery: they are in the log, and are shown to people."""
        recovered, questions, after = self._worker.arrivals.recovered, 0, ""
        while True:
            page, after = await self._worker.store.waits(kind="interaction", after=after, limit=1000)
            for due in page[: max(0, SHOWN - questions)]:
                log.info("run %s asks: %s", due.run, shortened(" ".join(due.wait.text.split()), LONGEST_PROMPT))
            questions += len(page)
            if not after:
                break
        if questions > SHOWN:
            log.info("and %d more questions: `outlast ps --status waiting`", questions - SHOWN)
        return f"Recovery complete: {recovered.resumed} resumed, {recovered.held} held, {questions} questions restored."

    async def _wants_an_owner(self, run: RunId) -> bool:
        """Whether a run is ready, or its worker is gone. To claim it by name anyhow would be to replay it for nothing."""
        store = self._worker.store
        head, holding = await store.head(run), await store.holding(run)
        if holding is not None:
            return not holding.is_live
        if head is not None and head.closed:
            await self._leave_out(run)
            return False
        return head is not None and head.ready

    async def _leave_out(self, run: RunId) -> None:
        """Look no more after a run that is over. Should somebody here have it go on at this very moment, that is seen in its
        log, or it is taken on afterwards."""
        worker, is_over = self._worker, False
        worker.leave_out(run)
        try:
            head = await worker.store.head(run)
            is_over = head is not None and head.closed
        finally:
            if not is_over:
                worker.take_on(run)
