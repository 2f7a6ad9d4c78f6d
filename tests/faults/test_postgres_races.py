"""Many writers at one place of one log in PostgreSQL: one wins every time (S2, P3)."""

from __future__ import annotations

import asyncio

from outlast.store import LANDED, Lost
from outlast.stores.postgres import PostgresStore
from outlast.testing.contract.fencing import must_be_gapless
from outlast.testing.contract.samples import A, begin, follow, land, summary

WRITERS, FACTORIES, ROUNDS = 100, 10, 20


def test_of_a_hundred_that_write_at_one_place_one_wins_every_time(postgres_url: str) -> None:
    """S2, P3: the log has no gap and nothing twice. Each door has connections of its own."""

    async def play() -> None:
        doors = [PostgresStore(postgres_url) for _ in range(FACTORIES)]
        head = await land(doors[0], begin(A, summary=summary(A)))
        for _ in range(ROUNDS):
            rivals = [follow(head, body=b"[%d]" % number) for number in range(WRITERS)]
            answers = await asyncio.gather(*(doors[at % FACTORIES].append([each]) for at, each in enumerate(rivals)))
            won = [each for each, (outcome,) in zip(rivals, answers, strict=True) if outcome is LANDED]
            assert len(won) == 1
            losses = [outcome for (outcome,) in answers if isinstance(outcome, Lost)]
            assert len(losses) == WRITERS - 1
            assert all(loss.tail[0] == won[0].record for loss in losses)
            head = won[0].head
        await must_be_gapless(doors[3], A, ROUNDS + 1)
        for factory in doors:
            await factory.close()

    asyncio.run(asyncio.wait_for(play(), 60))
