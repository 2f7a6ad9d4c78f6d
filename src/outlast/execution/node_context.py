"""What a node can do and ask while it runs: keep a checkpoint, tell its progress, know who it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from outlast.errors import InvalidInput, NotDurable
from outlast.execution import remote
from outlast.execution.partial_file import FINISHED, INTERRUPTED, OutputFile, Stage
from outlast.execution.stopping import Stopped
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
"""How many characters of what is told with the progress are kept."""


class NodeContext(AttemptLog, eq=False, kw_only=True):
    """One attempt of a node, seen from inside. `kept` is what an earlier attempt kept by a checkpoint; `unfinished` are the
    files that it is writing, by their hidden names."""

    command: NodeCommand
    is_stopped: bool = False
    kept: e.Value | None = None
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
    def is_over(self) -> bool:
        """Whether the attempt has had its outcome. What was left running in a thread is then nobody's."""
        return self.command.node_context is not self

    async def save_checkpoint(self, raw: e.Value) -> bool:
        """Keep a checkpoint durably. True if the attempt is to end there."""
        driver = self.command.driver
        if self.is_over or self.command.key not in driver.code.open:
            return True  # its outcome is in the log, or about to be: nothing may follow it there
        data = await stored(raw, driver.worker.store.blobs)
        self.kept = raw
        await driver.record(e.NodeCheckpointed(node=self.command.name, attempt=self.attempt, data=data))
        return driver.is_winding_down and self.command.spec.repeatable

    async def save_checkpoint_async(self, raw: e.Value) -> None:
        """The same for an async node. One that is to end is cancelled as a whole, whichever of its tasks this is."""
        if not await self.save_checkpoint(raw) or self.is_stopped:
            return  # one that was stopped already may keep what it has while it cleans up
        if self.command.task is None:
            raise asyncio.CancelledError
        self.is_stopped = True
        self.command.task.cancel()
        await self.loop.create_future()

    def output_changed(self, stage: Stage, written: OutputFile) -> None:
        """It begins to write a file, or has ended that; from any thread."""
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
        """The attempt is over. Files whose writer was killed, or goes on where nobody waits for it, are kept as they are."""
        if self.unfinished:
            for written in list(self.unfinished.values()):
                if (kept := written.keep_partial()) is not None:
                    self.output_changed("interrupted", kept)
        if self.partial_line:
            super().end()


def idempotency_key_of(command: NodeCommand) -> str:
    """The same for every attempt of a node, until a person goes back and has it done again."""
    return f"{command.driver.run}/{command.name}/{command.driver.writer.state.outline.generation}"


class CheckpointSaved(Awaitable[None]):
    """What `checkpoint` gives: in an async node, await it."""

    def __init__(self, saving: Any = None) -> None:
        self._saving = saving

    def __await__(self) -> Generator[Any, Any, None]:
        if self._saving is not None:
            yield from self._saving.__await__()


def checkpoint(value: Any) -> CheckpointSaved:
    """Keep how far this node has come, durably: after a crash its next attempt finds it by `last_checkpoint`.

    Await it in an async node; in a plain one it returns when the value is kept. If the run is being paused the node ends
    here: an async one is cancelled, in a plain one `Stopped` is raised, which `except Exception` does not catch."""
    raw = encode(value, where="checkpoint")
    if (here := remote.current()) is not None:
        here.checkpoint(bytes(raw))
        return CheckpointSaved()
    attempt = _current_node("checkpoint()")
    if not attempt.is_threaded:
        return CheckpointSaved(attempt.save_checkpoint_async(raw))
    if asyncio.run_coroutine_threadsafe(attempt.save_checkpoint(raw), attempt.loop).result():
        attempt.is_stopped = True
        raise Stopped(f"node {attempt.node} ends at its checkpoint")
    return CheckpointSaved()


def last_checkpoint(default: Any = None) -> Any:
    """What this node last kept by `checkpoint`, in this attempt or an earlier one, else `default`."""
    here = remote.current()
    kept = here.attempt.checkpoint if here is not None else _current_node("last_checkpoint()").kept
    return default if kept is None else codec_for(Any).decode(kept)


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Show how far this node, or in workflow code this run, is. It is shown while the run is at work and is not recorded in
    the log: a crash may lose it."""
    told: dict[str, Any] = {"done": _number(done, "done"), "total": None if total is None else _number(total, "total")}
    told["text"] = masked(str(text)).encode(errors="backslashreplace").decode()[:MAX_TEXT_LENGTH]
    if (workflow := scope.current.get(None)) is not None:
        workflow.code.show_progress({"node": "", **told})
        return
    if (here := remote.current()) is not None:
        here.progress(told)
        return
    attempt = _current_node("progress()")
    told = {"node": attempt.command.name, **told}
    attempt.loop.call_soon_threadsafe(attempt.command.driver.worker.progress.update, attempt.run, told)


def _number(value: Any, where: str) -> float:
    """A number that can be stored, of whatever class it was."""
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
    """What a person gave this node along when they had it done again, else `default`."""
    here = remote.current()
    if here is not None:
        raw = here.attempt.feedback
    else:
        given = _current_node("feedback()").command.given
        raw = None if given is None else given.feedback
    return default if raw is None or bytes(raw) == b"null" else codec_for(Any).decode(Raw(raw))


class Context(Struct, frozen=True):
    """Where code runs. `attempt` counts from 1. `idempotency_key` is the same for every attempt of a node: give it to
    services that detect repeated requests. In workflow code `node` is empty, `attempt` is 0 and the key is the run id."""

    run: RunId
    node: str
    attempt: int
    idempotency_key: str


def context() -> Context:
    """The run, node and attempt that this code belongs to, and the idempotency key of the node."""
    if (workflow := scope.current.get(None)) is not None:
        return Context(workflow.code.run, "", 0, workflow.code.run)
    here = remote.current()
    found = here.attempt if here is not None else _current_node("context()")
    return Context(RunId(found.run), found.node, found.attempt, found.idempotency_key)


def idempotency_key() -> str:
    """A text that is the same for every attempt of this node: give it to services that detect repeated requests."""
    here = remote.current()
    return (here.attempt if here is not None else _current_node("idempotency_key()")).idempotency_key


def is_stopping() -> bool:
    """Whether nobody waits for this attempt any more: a plain node that works in a loop should look, and return."""
    if (here := remote.current()) is not None:
        return here.is_stopping
    attempt = _current_node("is_stopping()")
    return attempt.is_stopped or attempt.is_over


def _current_node(what: str) -> NodeContext:
    found = current_attempt_log()
    if not isinstance(found, NodeContext):
        raise NotDurable(f"{shown(user_place())}: {what} is called outside a node: call it in the code of a node")
    return found
