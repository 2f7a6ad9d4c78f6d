"""The last word of a run, from what its code came to."""

from __future__ import annotations

from outlast.errors import NotDurable, NotStorable
from outlast.history import events as e
from outlast.runtime.code import Code
from outlast.runtime.ends import Ended, successor_of
from outlast.runtime.failures import failure_of
from outlast.runtime.values import stored
from outlast.store import Blobs


class Continue(BaseException):
    """Raised through workflow code that wants its successor to go on."""

    def __init__(self, inputs: e.Value) -> None:
        self.inputs = inputs


async def concluded(code: Code, blobs: Blobs, ms: float) -> Ended:
    """What to say of code that is done, `ms` after its run was created."""
    if code.broken is not None or code.main is None:
        return _failed(code, code.broken or NotDurable("the workflow never began"))
    try:
        value = code.main.result()
    except Continue as wanted:
        return e.RunContinued(
            successor=successor_of(code.run, code.generation), carried=await stored(wanted.inputs, blobs)
        )
    except BaseException as error:
        return _failed(code, error)
    try:
        output = code.workflow.arguments.returns.encode(value, "result")
    except NotStorable as error:
        return _failed(code, error)
    return e.RunCompleted(output=await stored(output, blobs), ms=ms)


def _failed(code: Code, error: BaseException) -> e.RunFailed:
    if isinstance(error, RuntimeError) and "attached to a different loop" in str(error):
        error = NotDurable(f"the workflow awaits something that is not durable ({error}). Do this in a node.")
    return e.RunFailed(error=failure_of(error), node=code.node_behind(error), recoverable=True)
