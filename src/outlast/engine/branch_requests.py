"""Requests to go back, carried out by whoever owns the run."""

from __future__ import annotations

import logging
from contextlib import suppress

from outlast.errors import Damaged, NotAllowed, Overtaken
from outlast.history import events as e
from outlast.ledger import Pen
from outlast.lifecycle.branch_plan import turn_of, unmet
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.requests import newest

log = logging.getLogger("outlast.engine")


async def turn_as_requested(pen: Pen) -> None:
    """Open the branch that was asked for, if one was: a request is a fact and outlives whoever should have heard it (P1).
    One that cannot be met is answered by a branch that begins just before it (D2), so that the person may ask again. A run
    that is to be cancelled as well is cancelled and goes nowhere; one that is to be paused as well is, on its new branch."""
    while isinstance(request := next_request(pen.state), e.JumpRequested):
        asked = newest(pen.state.outline.requests, e.JumpRequested)
        assert asked is not None
        try:
            await pen.turn(turn_of(request, asked.seq))
        except Overtaken:
            continue
        except (NotAllowed, Damaged) as refusal:
            log.warning("run %s: the jump to event %d cannot be made: %s", pen.run, request.target, refusal)
            with suppress(Overtaken):
                await pen.turn(unmet(pen.state, str(refusal)))
