"""Requests to go back, carried out by whoever owns the run."""

from __future__ import annotations

import logging
from contextlib import suppress

from outlast.errors import Damaged, NotAllowed, Overtaken
from outlast.history import events as e
from outlast.ledger import RunWriter
from outlast.lifecycle.branch_plan import plan_of_request, unmet_request_plan
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.requests import newest

log = logging.getLogger("outlast.engine")


async def open_requested_branch(writer: RunWriter) -> None:
    """Open the branch that was asked for, if one was: a request is a fact and outlives whoever should have heard it (P1).
    One that cannot be met is answered by a branch that begins just before it (D2), so that the person may ask again. A run
    that is to be cancelled as well is cancelled and goes nowhere; one that is to be paused as well is, on its new branch."""
    while isinstance(request := next_request(writer.state), e.JumpRequested):
        asked = newest(writer.state.outline.requests, e.JumpRequested)
        assert asked is not None
        try:
            await writer.open_branch(plan_of_request(request, asked.seq))
        except Overtaken:
            continue
        except (NotAllowed, Damaged) as refusal:
            log.warning("run %s: the jump to event %d cannot be made: %s", writer.run, request.target, refusal)
            with suppress(Overtaken):
                await writer.open_branch(unmet_request_plan(writer.state, str(refusal)))
