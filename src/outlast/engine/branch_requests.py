"""Opens the branches that jump requests in a run's log ask for."""

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
    """Open the branch of an open jump request, if there is one. The request is an event, so it survives the crash of an
    owner (P1). A request that cannot be carried out is answered by a branch that begins just before the request (D2),
    so that the run accepts another one. An open cancellation takes precedence: then no branch is opened. An open pause
    applies to the new branch."""
    while isinstance(request := next_request(writer.state), e.JumpRequested):
        entry = newest(writer.state.outline.requests, e.JumpRequested)
        assert entry is not None
        try:
            await writer.open_branch(plan_of_request(request, entry.seq))
        except Overtaken:
            continue
        except (NotAllowed, Damaged) as refusal:
            log.warning("run %s: the jump to event %d is refused: %s", writer.run, request.target, refusal)
            with suppress(Overtaken):
                await _refuse(writer, entry.seq, str(refusal))


async def _refuse(writer: RunWriter, seq: int, reason: str) -> None:
    try:
        await writer.open_branch(unmet_request_plan(writer.state, reason))
    except NotAllowed:  # the branch would resume a stopped run whose exclusive key another run has
        await writer.append([e.RequestRefused(request=seq, code="cannot", reason=reason)])
