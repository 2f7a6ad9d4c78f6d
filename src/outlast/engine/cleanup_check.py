"""Decides whether a run without an owner can be cancelled without a worker: a replay that writes nothing cancels its
code."""

from __future__ import annotations

from outlast.engine.terminal_events import has_cleanup
from outlast.errors import OutlastError
from outlast.functions.code import Code
from outlast.functions.commands import ChildCommand
from outlast.functions.decorators import Workflow
from outlast.functions.deliveries import decode_delivery
from outlast.functions.replay import Divergence, Replay
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.lifecycle.status import RunStatus


async def without_cleanup(
    writer: RunWriter, created: e.RunCreated, workflow: Workflow[..., object]
) -> list[RunId] | None:
    """The children that have to end before the run does, if its cancelled code ends without issuing another command.
    None if the code has a clean-up or does not replay here: then a worker that has the code must carry out the
    cancellation."""
    code = Code(writer.run, workflow)
    replay = Replay(code, created, writer)
    try:
        await replay.run()
        await _deliver_news(code, replay, writer)
        return _children_given_up(code)
    except (Divergence, OutlastError):
        return None
    finally:
        code.dismiss()


async def _deliver_news(code: Code, replay: Replay, writer: RunWriter) -> None:
    """Deliver to the code the entries that guests appended, as its driver would."""
    if writer.state.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
        return
    for entry in replay.news:
        delivery = await decode_delivery(code, entry.event, writer.store.blobs)
        if delivery is not None:
            delivery()


def _children_given_up(code: Code) -> list[RunId] | None:
    if code.main is None or not code.workflow._spec.cleanup:
        return []
    if code.is_cancelled:
        return None
    code.cancel()
    children: list[RunId] = []
    while has_cleanup(code):
        abandoned = [
            command
            for command in code.open.values()
            if isinstance(command, ChildCommand) and command.is_cancel_requested
        ]
        if code.new_commands or not abandoned:
            return None
        for command in abandoned:
            children.append(command.child)
            if code.open.pop(command.key, None) is not None:
                code.resolve_cancelled(command)
    return children
