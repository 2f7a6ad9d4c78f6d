"""What keeps a thread's event loop from turning, told from another thread by the frames it executes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from outlast.runtime.attempts import Attempts
from outlast.runtime.callers import shown, user_place
from outlast.runtime.loop import WorkflowLoop
from outlast.runtime.threaded import Baton


def blocked_by(thread: int) -> str:
    """Who blocks the loop of that thread, and where; empty if the loop waits for something to do."""
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_code.co_name == "select":
        return ""
    who = ""
    for each in _outwards(frame):
        it: Any = each.f_locals.get("self")
        if isinstance(it, Baton):  # the loop waits for the thread of a plain workflow
            frame = sys._current_frames().get(it._thread.ident or 0, frame)
        elif isinstance(it, WorkflowLoop):
            code: Any = it._timekeeping
            who = f"workflow {code.workflow.spec.name} (run {code.run})"
            break
        elif isinstance(it, Attempts) and "ask" in each.f_locals:
            ask = each.f_locals["ask"]
            who = f"node {ask.name} (run {ask.driver.run})"
            break
    return f"{who or 'something'} at {shown(user_place(frame))}"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
