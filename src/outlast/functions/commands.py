"""Commands: what workflow code can request, and what the driver does about each.

A command has a name that the code gives it. `schedule` writes it to the log once; `begin` gives it its effect after that
append has landed; `resume` continues it after a replay that found it in the log; `close` ends it when the code or the run no
longer needs it.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from outlast.definition.function import NodeSpec
from outlast.errors import NODE_ABANDONED, RUN_ENDED
from outlast.functions.loop import Alarm
from outlast.history import events as e
from outlast.history.ids import RunId, checked_run, derived_run, input_hash, question_of
from outlast.lifecycle.state import NodeStatus, State
from outlast.values.arguments import Arguments
from outlast.values.codec import Codec
from outlast.values.source_location import Where, shown

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver
    from outlast.execution.node_context import NodeContext
    from outlast.functions.code import Pending
    from outlast.functions.decorators import Workflow

SHOWN_INPUTS = 2_000
"""Inputs up to this size are stored in the log in full; of larger ones only the hash is stored."""

LATEST = 253_402_300_799_000_000
"""Microseconds: the last second of the year 9999, the latest due time of a timer."""

CANCELLED = e.Failure(NODE_ABANDONED, "the workflow no longer waits for it", category="cancelled")


class Command:
    """The base class. `key` is unique among open commands; `future` is what the code waits for."""

    __slots__ = ("driver", "future", "key", "name", "where")

    driver: RunDriver
    future: Pending

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self.where: Where | None = None
        """The place in the user's code that issued it."""

    def schedule(self, pending: list[e.AnyEvent]) -> None:
        """Append the events that record the command."""
        raise NotImplementedError

    def assign_id(self, run: RunId, generation: int) -> None:
        """Derive the id for this run and, after a person went back, for this generation of it."""

    def begin(self) -> None:
        """The command is durable: give it its effect."""

    def resume(self, state: State, pending: list[e.AnyEvent]) -> bool:
        """Continue a command that a replay found in the log without an outcome. True if `begin` has to follow the pending
        events."""
        return False

    def close(self, pending: list[e.AnyEvent], reason: e.Failure) -> None:
        """Append the events that record that the code no longer waits for it."""

    def on_close_committed(self, reason: e.Failure) -> None:
        """The close is durable."""
        self.release()

    def release(self) -> None:
        """Release what this process holds for it: the run may continue in another process."""

    def describe(self) -> str:
        """Its kind, name and place, for a message."""
        return f"{self.key.partition(':')[0]} {self.name!r}{self.location}"

    @property
    def location(self) -> str:
        """The place in the user's code, for a message."""
        return f" ({shown(self.where)})" if self.where is not None else ""


class NodeCommand(Command):
    """A node with its arguments. `attempt` is the current attempt or the last one."""

    __slots__ = (
        "alarm",
        "arguments",
        "attempt",
        "given",
        "is_scheduled",
        "is_waiting",
        "node_context",
        "packed",
        "spec",
        "step",
        "task",
    )

    def __init__(
        self,
        name: str,
        spec: NodeSpec,
        arguments: Arguments,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        step: str,
    ) -> None:
        self.name = self.key = name
        self.where = None
        self.spec = spec
        self.arguments = arguments
        self.packed = arguments.pack(args, kwargs)
        self.step = step
        self.attempt = 1
        self.task: asyncio.Task[None] | None = None
        self.node_context: NodeContext | None = None
        self.is_scheduled = False
        """Whether it is in the log, or about to be."""
        self.is_waiting = False
        """Whether an attempt failed and the next one is not due yet."""
        self.alarm: asyncio.TimerHandle | None = None
        self.given: e.NodeScheduled | None = None
        """The values from a person: feedback, or inputs that replace those of the code."""

    @property
    def hash(self) -> str:
        """The hash of the inputs that the code passes. It is rarely needed, so it is computed on request."""
        return input_hash(self.packed.inputs)

    @property
    def inputs(self) -> e.Value:
        """The inputs of the node: those of the code, with those that a person replaced."""
        inputs, given = self.packed.inputs, self.given
        if given is None or given.inputs is e.NULL:
            return inputs
        parts = [msgspec.json.decode(each, type=dict[str, msgspec.Raw] | None) or {} for each in (inputs, given.inputs)]
        return msgspec.Raw(msgspec.json.encode({**parts[0], **parts[1]}))

    def schedule(self, pending: list[e.AnyEvent]) -> None:
        self.is_scheduled = True
        pending += (e.NodeScheduled(node=self.name, step=self.step), self.started())

    def started(self) -> e.NodeStarted:
        inputs, spec = self.packed.inputs if self.given is None else self.inputs, self.spec
        is_shown = len(inputs) <= SHOWN_INPUTS
        return e.NodeStarted(
            node=self.name,
            attempt=self.attempt,
            inputs=inputs if is_shown else e.NULL,
            hash="" if is_shown and self.given is None else self.hash,
            code=spec.code,
            repeatable=spec.repeatable,
        )

    def begin(self) -> None:
        self.driver.begin_attempt(self)

    def resume(self, state: State, pending: list[e.AnyEvent]) -> bool:
        node = state.nodes.get(self.name)
        assert node is not None, f"node {self.name} was found in the log and is not in the state"
        self.attempt = node.attempt
        self.given = node.given
        if node.status is NodeStatus.RETRYING:
            self.is_waiting = True
            wait = state.waits.get(f"timer:retry:{self.name}")
            self.wait_for_retry(wait.due if wait is not None and wait.due is not None else 0)
            return False
        if node.status is NodeStatus.STARTED:  # its owner released the run without being interrupted
            self.attempt += 1
            pending.append(e.NodeScheduled(node=self.name, attempt=self.attempt, cause="pause"))
        elif (
            node.status is NodeStatus.FAILED
        ):  # the end of the run interrupted it, and a branch continues before that end
            self.attempt += 1
            pending.append(e.NodeScheduled(node=self.name, attempt=self.attempt, cause="reset"))
        pending.append(self.started())
        self.driver.in_flight += 1
        return True

    def wait_for_retry(self, due: int) -> None:
        self.alarm = self.driver.call_at_time(due, self._try_again)

    def _try_again(self) -> None:
        if self.driver.is_winding_down or not self.driver.is_waiting_for(self):
            return  # the next owner of the run finds the time in the log
        self.alarm, self.is_waiting = None, False
        self.attempt += 1
        again = e.NodeScheduled(node=self.name, attempt=self.attempt, cause="retry")
        self.driver.in_flight += 1
        self.driver.schedule_later([again, self.started()], self)

    def close(self, pending: list[e.AnyEvent], reason: e.Failure) -> None:
        if self.is_waiting:
            self.attempt += 1
            pending.append(e.NodeScheduled(node=self.name, attempt=self.attempt, cause="retry"))
        else:
            self.driver.in_flight -= 1
        pending.append(e.NodeFailed(node=self.name, attempt=self.attempt, error=reason))

    def adopt_future(self, other: NodeCommand) -> None:
        """Keep the attempt: its outcome goes to the future of `other`, the same command of a later replay."""
        self.future = other.future
        self.future.command = self

    def restore(self, state: State) -> None:
        """Set it to the state in the log. It does not continue: the code has closed it, or is about to."""
        node = state.nodes.get(self.name)
        if node is None:
            return
        self.attempt, self.given = node.attempt, node.given
        self.is_waiting = node.status is NodeStatus.RETRYING
        if not self.is_waiting:
            self.driver.in_flight += 1

    def release(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
        if self.node_context is not None:
            self.node_context.is_stopped = True
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    def describe(self) -> str:
        return f"node {self.name!r}{self.location}"


class TimerCommand(Command):
    """A point in time. If it has an `alarm` of the workflow's loop, the alarm is called instead of a future."""

    __slots__ = ("alarm", "due", "handle")

    def __init__(self, name: str, due: int, alarm: Alarm | None = None) -> None:
        super().__init__(name, f"timer:{name}")
        self.due = min(due, LATEST)
        self.alarm = alarm
        self.handle: asyncio.TimerHandle | None = None

    def schedule(self, pending: list[e.AnyEvent]) -> None:
        pending.append(e.TimerSet(timer=self.name, due=self.due))

    def begin(self) -> None:
        self.handle = self.driver.call_at_time(self.due, lambda: self.driver.fired(self))

    def resume(self, state: State, pending: list[e.AnyEvent]) -> bool:
        if state.waits.get(self.key) is None:  # the run had ended, and was resumed
            self.schedule(pending)
            return True
        self.begin()
        return False

    def close(self, pending: list[e.AnyEvent], reason: e.Failure) -> None:
        pending.append(e.TimerCancelled(timer=self.name))

    def release(self) -> None:
        if self.handle is not None:
            self.handle.cancel()


class QuestionCommand(Command):
    """A question to a person. `interaction` is its id; a question that is asked again after it was withdrawn gets another
    one."""

    __slots__ = ("codec", "hash", "interaction", "is_stale", "kind", "prompt", "schema")

    def __init__(self, name: str, kind: Literal["ask", "approve"], prompt: str, schema: e.Value, codec: Codec) -> None:
        super().__init__(name, f"interaction:{name}")
        self.kind: Literal["ask", "approve"] = kind
        self.prompt = prompt
        self.schema = schema
        self.codec = codec
        self.interaction = name
        self.hash = hashlib.blake2b(prompt.encode() + b"\0" + bytes(schema), digest_size=8).hexdigest()
        self.is_stale = False

    def assign_id(self, _run: RunId, generation: int) -> None:
        self.interaction = f"{self.name}~b{generation}" if generation else self.name

    def schedule(self, pending: list[e.AnyEvent]) -> None:
        pending.append(
            e.InteractionRequested(
                interaction=self.interaction,
                kind=self.kind,
                prompt=self.prompt,
                schema=self.schema,
                hash=self.hash,
            )
        )

    def resume(self, state: State, pending: list[e.AnyEvent]) -> bool:
        is_open = state.waits.get(f"interaction:{self.interaction}") is not None
        known = state.interactions.get(self.interaction)
        is_answered = known is not None and known.answer is not None  # it is about to be delivered
        if (is_open or is_answered) and not self.is_stale:
            return False
        if is_open:
            pending.append(
                e.InteractionWithdrawn(interaction=self.interaction, reason="the code now asks another question")
            )
        self.interaction = _next_interaction_id(self.interaction)
        self.schedule(pending)
        return True

    def close(self, pending: list[e.AnyEvent], reason: e.Failure) -> None:
        pending.append(e.InteractionWithdrawn(interaction=self.interaction, reason=reason.message))


class ChildCommand(Command):
    """A run of another workflow, started for this one. Its id is `given`, or follows from the id of this run and the name
    of the call. After a person went back, a new call is another run."""

    __slots__ = ("child", "given", "hash", "is_cancel_requested", "node", "packed", "workflow")

    child: RunId
    node: str

    def __init__(self, name: str, workflow: Workflow[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(name, f"child:{name}")
        self.workflow = workflow
        self.given: str = workflow._start_options.get("id", "")
        self.packed = workflow._arguments.pack(args, kwargs)
        self.hash = input_hash(self.packed.inputs)
        self.is_cancel_requested = False
        """Whether the code cancelled it and waits for its end."""

    def assign_id(self, run: RunId, generation: int) -> None:
        self.node = f"{self.name}~b{generation}" if generation else self.name
        given = self.given and checked_run(f"{self.given}-b{generation}" if generation else self.given)
        self.assign_child(given or derived_run(run, self.node))

    def assign_child(self, run: RunId) -> None:
        self.child = run
        self.key = f"child:{run}"

    def schedule(self, pending: list[e.AnyEvent]) -> None:
        pending.append(e.ChildStarted(child=self.child, workflow=self.workflow.name, node=self.node, hash=self.hash))

    def begin(self) -> None:
        self.driver.start_child(self)

    def resume(self, state: State, pending: list[e.AnyEvent]) -> bool:
        self.driver.start_child(self, again=True)  # it may not exist yet, or its end may not have been delivered
        return False

    def on_close_committed(self, reason: e.Failure) -> None:
        if reason.kind != RUN_ENDED:  # the end of a run ends its children itself
            self.driver.cancel_child(self)

    def describe(self) -> str:
        return f"child run {self.name!r}{self.location}"


class Note(Command):
    """A statement of the code: a step begins or ends, a race has a winner, nodes are retired."""

    __slots__ = ("event",)

    def __init__(self, key: str, event: e.AnyEvent) -> None:
        super().__init__(key.partition(":")[2], key)
        self.event = event

    def schedule(self, pending: list[e.AnyEvent]) -> None:
        pending.append(self.event)


def _next_interaction_id(interaction: str) -> str:
    """`command~2` after `command`; `command~b3.2` after `command~b3`, the id of the question after a person went back."""
    base = question_of(interaction)
    suffix = interaction[len(base) + 1 :]
    branch, _, number = suffix.partition(".") if suffix.startswith("b") else ("", "", suffix)
    return f"{base}~{branch}{'.' if branch else ''}{int(number or 1) + 1}"
