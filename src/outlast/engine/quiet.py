"""Whether a run that nobody advances can be cancelled without a worker: a replay that writes nothing cancels its code."""

from __future__ import annotations

from outlast.engine.terminal_events import has_cleanup
from outlast.errors import OutlastError
from outlast.functions.code import Code
from outlast.functions.commands import ChildAsk
from outlast.functions.decorators import Workflow
from outlast.functions.deliveries import understood
from outlast.functions.replay import Divergence, Replay
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Pen
from outlast.lifecycle.status import RunStatus


async def without_cleanup(pen: Pen, created: e.RunCreated, workflow: Workflow[..., object]) -> list[RunId] | None:
    """The children that have to end before the run does, if its code then ends without asking for anything more. None if it
    has a clean-up, or does not replay here: then the cancellation is for a worker that has its code."""
    code = Code(pen.run, workflow)
    replay = Replay(code, created, pen)
    try:
        await replay.run()
        await _hear(code, replay, pen)
        return _children_given_up(code)
    except (Divergence, OutlastError):
        return None
    finally:
        code.dismiss()


async def _hear(code: Code, replay: Replay, pen: Pen) -> None:
    """Tell the code what others wrote before, as its driver does in a run that goes on."""
    if pen.state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
        return
    for entry in replay.news:
        telling = await understood(code, entry.event, pen.store.blobs)
        if telling is not None:
            telling()


def _children_given_up(code: Code) -> list[RunId] | None:
    if code.main is None or not code.workflow._spec.cleanup:
        return []
    if code.is_cancelled:
        return None
    code.cancel()
    children: list[RunId] = []
    while has_cleanup(code):
        given_up = [ask for ask in code.open.values() if isinstance(ask, ChildAsk) and ask.is_unwanted]
        if code.fresh or not given_up:
            return None
        for ask in given_up:
            children.append(ask.child)
            if code.open.pop(ask.key, None) is not None:
                code.tell_cancelled(ask)
    return children
