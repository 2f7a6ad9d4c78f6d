"""Functions for running nodes: checkpoints, progress, feedback, and the identity of the attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from outlast.errors import InvalidInput, NotDurable
from outlast.execution import remote
from outlast.execution.partial_file import FINISHED, INTERRUPTED, OutputFile, Stage
from outlast.execution.process_wire import AttemptInfo
from outlast.execution.remote import Stopped
from outlast.functions import scope
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.values.codec import codec_for, encode, stored
from outlast.values.context import AttemptLog, current_attempt_log
from outlast.values.not_storable import name_of
from outlast.values.scalars import GREATEST, LEAST
from outlast.values.secret_patterns import masked
from outlast.values.source_location import shown, user_place

if TYPE_CHECKING:
    from outlast.functions.commands import NodeCommand


MAX_TEXT_LENGTH = 1_000
"""Characters of a progress text that are kept."""


class NodeContext(AttemptLog, eq=False, kw_only=True):
    """One attempt of a node. `checkpoint` is the last one, of this attempt or an earlier one; `unfinished` are the
    files that the attempt is writing, by their hidden names."""

    command: NodeCommand
    is_stopped: bool = False
    checkpoint: e.Value | None = None
    unfinished: dict[str, OutputFile] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.command.driver.worker.loop

    @property
    def is_threaded(self) -> bool:
        return self.command.spec.run_in == "thread"

    @property
    def idempotency_key(self) -> str:
        return idempotency_key_of(self.command)

    @property
    def feedback(self) -> e.Value | None:
        return None if self.command.given is None else self.command.given.feedback

    @property
    def is_over(self) -> bool:
        """Whether the attempt already has its outcome. A thread may still run its function."""
        return self.command.node_context is not self

    async def save_checkpoint(self, raw: e.Value) -> bool:
        """Store a checkpoint durably. True if the attempt must end there."""
        driver = self.command.driver
        if self.is_over or self.command.key not in driver.code.open:
            return True  # the outcome of the node is in the log or about to be: no event may follow it
        data = await stored(raw, driver.worker.store.blobs)
        self.checkpoint = raw
        await driver.record(e.NodeCheckpointed(node=self.command.name, attempt=self.attempt, data=data))
        return driver.is_winding_down and self.command.spec.repeatable

    async def save_checkpoint_async(self, raw: e.Value) -> None:
        """The same for an async node. If it must end, the whole node is cancelled, even if one of its tasks made the
        call."""
        if not await self.save_checkpoint(raw) or self.is_stopped:
            return  # a node that is already stopping may store checkpoints during its clean-up
        if self.command.task is None:
            raise asyncio.CancelledError
        self.is_stopped = True
        self.command.task.cancel()
        await self.loop.create_future()

    def output_changed(self, stage: Stage, written: OutputFile) -> None:
        """Track a file that the node begins or ends to write; from any thread."""
        if self.unfinished is None:
            self.unfinished = {}
        if stage == "begun":
            self.unfinished[written.hidden] = written
            return
        self.unfinished.pop(written.hidden, None)
        if stage == "finished":
            self.write_line("INFO", FINISHED, written.given)
        else:
            self.write_line("WARNING", INTERRUPTED, written.kept)

    def end(self) -> None:
        """End the attempt. Incomplete files are renamed to their interrupted names."""
        if self.unfinished:
            for written in list(self.unfinished.values()):
                if (partial := written.keep_partial()) is not None:
                    self.output_changed("interrupted", partial)
        if self.partial_line:
            super().end()


def idempotency_key_of(command: NodeCommand) -> str:
    """The same for every attempt of a node, until a branch runs the node anew."""
    return f"{command.driver.run}/{command.name}/{command.driver.writer.state.outline.generation}"


class CheckpointSaved(Awaitable[None]):
    """The result of `checkpoint`: await it in an async node."""

    def __init__(self, saving: Any = None) -> None:
        self._saving = saving

    def __await__(self) -> Generator[Any, Any, None]:
        if self._saving is not None:
            yield from self._saving.__await__()


def checkpoint(value: Any) -> CheckpointSaved:
    """Store how far this node has come, durably: after a crash its next attempt reads it with `last_checkpoint`.

    Await it in an async node; in a plain one it returns when the value is durable. If the run is being paused, the node
    ends here: an async node is cancelled, and in a plain one `Stopped` is raised, which `except Exception` does not
    catch."""
    raw = encode(value, where="checkpoint")
    if (remote_attempt := remote.current()) is not None:
        remote_attempt.checkpoint(bytes(raw))
        return CheckpointSaved()
    attempt = _current_node("checkpoint()")
    if not attempt.is_threaded:
        return CheckpointSaved(attempt.save_checkpoint_async(raw))
    if asyncio.run_coroutine_threadsafe(attempt.save_checkpoint(raw), attempt.loop).result():
        attempt.is_stopped = True
        raise Stopped(f"node {attempt.node} ends at its checkpoint")
    return CheckpointSaved()


def last_checkpoint(default: Any = None) -> Any:
    """The last value that this node stored with `checkpoint`, in this attempt or an earlier one, else `default`."""
    raw = _current("last_checkpoint()").checkpoint
    return default if raw is None else codec_for(Any).decode(Raw(raw))


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Show how far this node is, or in workflow code this run. Progress is shown while the run is active, and is not
    recorded in the log: a crash may lose it."""
    report: dict[str, Any] = {
        "done": _number(done, "done"),
        "total": None if total is None else _number(total, "total"),
        "text": masked(str(text)).encode(errors="backslashreplace").decode()[:MAX_TEXT_LENGTH],
    }
    if (workflow := scope.current.get(None)) is not None:
        workflow.code.show_progress({"node": "", **report})
    elif (remote_attempt := remote.current()) is not None:
        remote_attempt.progress(report)
    else:
        attempt = _current_node("progress()")
        report = {"node": attempt.command.name, **report}
        attempt.loop.call_soon_threadsafe(attempt.command.driver.worker.progress.update, attempt.run, report)


def _number(value: Any, where: str) -> float:
    """A number that can be stored, converted from any numeric class."""
    try:
        number = value if type(value) is int and LEAST <= value <= GREATEST else float(value)
        if isfinite(number):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInput(
        f"progress: {where} is a number, not {name_of(type(value)) if not isinstance(value, float) else value}"
    )


def feedback(default: Any = None) -> Any:
    """The feedback that a person gave when this node was run again, else `default`."""
    raw = _current("feedback()").feedback
    return default if raw is None or bytes(raw) == b"null" else codec_for(Any).decode(Raw(raw))


class Context(Struct, frozen=True):
    """Identifies running code. `attempt` counts from 1. `idempotency_key` is the same for every attempt of a node: pass
    it to services that detect repeated requests. In workflow code `node` is empty, `attempt` is 0 and the key is the
    run id."""

    run: RunId
    node: str
    attempt: int
    idempotency_key: str


def context() -> Context:
    """The run, node and attempt of the calling code, and the idempotency key of the node."""
    if (workflow := scope.current.get(None)) is not None:
        return Context(workflow.code.recorded_in, "", 0, workflow.code.recorded_in)
    found = _current("context()")
    return Context(RunId(found.run), found.node, found.attempt, found.idempotency_key)


def idempotency_key() -> str:
    """A text that is the same for every attempt of this node: pass it to services that detect repeated requests."""
    return _current("idempotency_key()").idempotency_key


def is_stopping() -> bool:
    """Whether this attempt was abandoned or asked to stop: a plain node with a loop should check this, and return."""
    if (remote_attempt := remote.current()) is not None:
        return remote_attempt.is_stopping
    attempt = _current_node("is_stopping()")
    return attempt.is_stopped or attempt.is_over


def _current(function: str) -> NodeContext | AttemptInfo:
    remote_attempt = remote.current()
    return _current_node(function) if remote_attempt is None else remote_attempt.attempt


def _current_node(function: str) -> NodeContext:
    found = current_attempt_log()
    if not isinstance(found, NodeContext):
        raise NotDurable(f"{shown(user_place())}: {function} is called outside a node: call it in the code of a node")
    return found
