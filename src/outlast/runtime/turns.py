"""Requests to go back, carried out by whoever owns the run."""

from __future__ import annotations

import logging

from outlast.errors import Damaged, Overtaken, Refused
from outlast.ledger import Pen
from outlast.lifecycle import decide
from outlast.lifecycle.turning import Turn, turn_of, unmet

log = logging.getLogger("outlast.runtime")


async def turn_as_requested(pen: Pen) -> None:
    """Open the branch that was asked for, if one was: a request is a fact and outlives whoever should have heard it (P1).
    One that cannot be met is answered by a branch that begins just before it (D2), so that the person may ask again. A run
    that is to be cancelled as well is cancelled and goes nowhere; one that is to be paused as well is, on its new branch."""
    while (request := pen.state.outline.jump_requested) is not None:
        if pen.state.outline.cancel_requested is not None:
            return
        try:
            await turn_to(pen, turn_of(request))
        except Overtaken:
            continue
        except (Refused, Damaged) as refusal:
            log.warning("run %s: the jump to event %d cannot be made: %s", pen.run, request.target, refusal)
            await turn_to(pen, unmet(pen.state, str(refusal)))


async def turn_to(pen: Pen, turn: Turn) -> None:
    """Open a branch, and pause there if somebody asked for a pause. Raises `Overtaken` if somebody wants the run to end, or
    to go back elsewhere."""
    while True:
        pause = pen.state.outline.pause_requested
        try:
            await pen.turn(turn)
            break
        except Overtaken:
            if not _is_only_to_pause(pen):
                raise
    while pause is not None and not pen.state.is_closed:
        try:
            reason = pause.reason or "somebody asked for it while the run went back"
            await pen.append(decide.pause(pen.state, reason, pause.by))
            break
        except Overtaken:
            if not _is_only_to_pause(pen):
                raise


def _is_only_to_pause(pen: Pen) -> bool:
    outline = pen.state.outline
    return outline.cancel_requested is None and outline.jump_requested is None
