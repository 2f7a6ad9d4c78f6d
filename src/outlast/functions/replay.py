"""Replay: run the code of a run through its log.

Events are processed in the order of the log. Outcomes are delivered to the code, which runs until it is blocked. Every
command in the log must be among those that the code issued, with the same name and the same inputs. What guests appended
is delivered at GuestEventsRead, where the live code received it. If code and log disagree, nothing is guessed:
`Divergence` says what the log holds and what the code requested, and the run is held."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from outlast.errors import InvalidInput
from outlast.execution.log_capture import replays_silenced
from outlast.functions.code import ATTRIBUTES, Code
from outlast.functions.commands import ChildCommand, Command, NodeCommand, Note, QuestionCommand, TimerCommand
from outlast.functions.deliveries import decode_delivery
from outlast.history import events as e
from outlast.history.ids import RunId, input_hash, question_of
from outlast.history.record import Entry, Kind, Record
from outlast.ledger.blob_names import is_elsewhere
from outlast.ledger.reading import RecordEntries, lineage_of, read_entries
from outlast.lifecycle.attributes import attributes_text
from outlast.lifecycle.state import State
from outlast.lifecycle.transitions import CONTROL
from outlast.store import Head, Store
from outlast.values.attributes import is_same
from outlast.values.codec import fetched

_GUESTS = (Kind.GUEST, Kind.CONTROL)
MAX_SHOWN = 5
"""How many commands a message about a divergence names."""


class Divergence(Exception):
    """The code does not request what the log holds. `seq` is the event at which that shows."""

    def __init__(self, message: str, seq: int) -> None:
        super().__init__(message)
        self.seq = seq


class Recorded(Protocol):
    """The log of a run up to `head`, where its state is `state`. A `RunWriter` implements it."""

    head: Head
    state: State
    arrived: deque[Entry]
    remembered: list[RecordEntries]

    @property
    def run(self) -> RunId: ...
    @property
    def store(self) -> Store: ...


class Replay:
    """Runs the code of a run through its log, up to the head of the writer."""

    def __init__(self, code: Code, created: e.RunCreated, writer: Recorded) -> None:
        self._code = code
        self._created = created
        code.attributes = created.attributes
        self._writer = writer
        self._blobs = writer.store.blobs
        self.news: deque[Entry] = deque()
        """Events of guests that are not delivered yet."""
        self._given: set[str] = set()
        """Nodes with inputs that a person replaced: the log holds those inputs, and the hash of the code's."""
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    async def run(self) -> None:
        """Replay the log; `Divergence` if the code does not match. Afterwards the driver can continue live."""
        with replays_silenced():
            await self._run()

    async def _run(self) -> None:
        self._writer.arrived.clear()  # up to the head, everything is in the log
        await self._find_arguments()
        store, writer = self._writer.store, self._writer
        remembered, writer.remembered = writer.remembered, []
        async for batch in read_entries(store, writer.run, await lineage_of(store, writer.head), remembered):
            for record, events, first, last in batch:
                if record.kind in _GUESTS:
                    self._keep_news(record, first, last)
                else:
                    await self._replay_record(record, events, first, last)

    async def _replay_record(self, record: Record, events: list[e.AnyEvent], first: int, last: int) -> None:
        """Replay the events of an owner's append that lie between `first` and `last`."""
        time, seq = record.time, record.first
        is_whole = first <= seq and seq + record.count <= last + 1
        code = self._code
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is None:
                if type(event) is e.Recalled:
                    time, code.recorded_in = event.time, RunId(event.run or code.run)
            elif is_whole or first <= seq <= last:
                try:
                    pending = handler(self, event, seq, time)
                    if pending is not None:
                        await pending
                except InvalidInput as error:
                    raise _unreadable(event, seq, error) from error
            seq += 1
        code.recorded_in = code.run

    async def _find_arguments(self) -> None:
        params = await fetched(self._created.params, self._blobs)
        try:
            self.args, self.kwargs = self._code.workflow._arguments.unpack(params)
        except InvalidInput as error:
            raise Divergence(
                f"the code does not accept the parameters that the run was started with: {error}", 1
            ) from error

    def _keep_news(self, record: Record, first: int, last: int) -> None:
        for seq, event in enumerate(record.events(), record.first):
            if first <= seq <= last and not isinstance(event, (e.RunCreated, *CONTROL)):
                self.news.append(Entry(seq, record.branch, record.time, event))

    # --- outcomes, which are delivered to the code

    def started(self, event: e.RunStarted, seq: int, time: int) -> None:
        if self._code.main is None:  # a run that was paused before it started is started by a resume
            self._code.now_us = time
            self._code.begin(self.args, self.kwargs)

    def completed(self, event: e.NodeCompleted, seq: int, time: int) -> Any:
        if self._code.to_close.pop(event.node, None) is not None:
            return None  # it completed while the code was being cancelled
        command = self._outcome_of(event.node, "result", seq, time)
        if is_elsewhere(event.output):
            return self._completed_slowly(command, event)
        self._code.resolve(command, command.arguments.returns.decode(event.output))
        return None

    async def _completed_slowly(self, command: NodeCommand, event: e.NodeCompleted) -> None:
        self._code.resolve(command, command.arguments.returns.decode(await fetched(event.output, self._blobs)))

    def failed(self, event: e.NodeFailed, seq: int, time: int) -> None:
        if event.retry_at is not None:
            return
        node = self._writer.state.nodes.get(event.node)
        if node is not None and node.reset > seq:
            return  # a person had the node executed again: this outcome has no effect
        if self._code.to_close.pop(event.node, None) is not None or event.error.category == "cancelled":
            return
        command = self._outcome_of(event.node, "failure", seq, time)
        self._code.resolve_failure(command, event.error)

    def fired(self, event: e.TimerFired, seq: int, time: int) -> None:
        self._check_logged(f"timer {event.timer!r} fired", seq)
        command = self._code.open.pop(f"timer:{event.timer}", None)
        if not isinstance(command, TimerCommand):
            raise self._divergence(f"timer {event.timer!r} firing", seq)
        self._code.now_us = time
        self._code.resolve_timer(command)

    async def guest_events_read(self, event: e.GuestEventsRead, seq: int, time: int) -> None:
        while self.news and self.news[0].seq <= event.upto:
            entry = self.news.popleft()
            deliver = await decode_delivery(self._code, entry.event, self._blobs)
            if deliver is None:
                continue
            self._check_logged(f"the delivery of event {entry.seq}", seq)
            self._code.now_us = time
            deliver()

    def keep(self, event: e.AnyEvent, seq: int, time: int) -> None:
        """An event of a guest that an owner copied from a branch that was left, or from the run this one was forked
        from."""
        self.news.append(Entry(seq, 0, time, event))

    def cancelled(self, event: e.CleanupStarted, seq: int, time: int) -> None:
        if event.extended:
            return
        self._check_logged("the start of the clean-up", seq)
        self._code.now_us = time
        self._code.cancel()

    def branched(self, event: e.BranchOpened, seq: int, time: int) -> None:
        if event.cause != "recovery":
            self._code.begin_generation(event.branch)

    def _outcome_of(self, node: str, kind: Literal["result", "failure"], seq: int, time: int) -> NodeCommand:
        code = self._code
        if code.new_commands or code.main is None:
            self._check_logged(f"the {kind} of node {node!r}", seq)
        command = code.open.pop(node, None)
        if type(command) is not NodeCommand:
            raise self._divergence(f"the {kind} of node {node!r}", seq)
        code.now_us = time
        return command

    def _check_logged(self, what: str, seq: int) -> None:
        """Before an outcome is delivered, every command that the code has issued must be in the log."""
        fresh = self._code.new_commands
        if fresh:
            requested = ", ".join(command.describe() for command in list(fresh.values())[:MAX_SHOWN])
            raise Divergence(
                f"at event {seq} the log has {what}; before that the code asked for {requested}, which is not in the log",
                seq,
            )
        if self._code.main is None:
            raise Divergence(f"at event {seq} the log has {what}, before the run started", seq)

    # --- commands, which the code must have issued

    def scheduled(self, event: e.NodeScheduled, seq: int, time: int) -> None:
        if event.cause == "first":
            command = self._code.new_commands.pop(event.node, None)
            if type(command) is not NodeCommand:
                raise self._divergence(f"node {event.node!r}", seq)
            command.is_scheduled = True
        if event.inputs is not e.NULL:
            self._given.add(event.node)

    def node_started(self, event: e.NodeStarted, seq: int, time: int) -> None:
        command = self._code.open.get(event.node) or self._code.to_close.get(event.node)
        if type(command) is NodeCommand:
            if event.inputs == command.packed.inputs and event.node not in self._given:
                return
            self._check_matches(command, event, seq)

    def _check_matches(self, command: NodeCommand, event: e.NodeStarted, seq: int) -> None:
        if (event.hash or input_hash(event.inputs)) != command.hash:
            inputs = f" ({_shown(event.inputs)})" if len(event.inputs) > 4 else ""
            raise Divergence(
                f"at event {seq} the log has node {event.node!r} with other inputs{inputs} than the code passes "
                f"now{command.location} ({_shown(command.packed.inputs)})",
                seq,
            )

    def timer_set(self, event: e.TimerSet, seq: int, time: int) -> None:
        key = f"timer:{event.timer}"
        command = self._code.new_commands.pop(key, None) or self._code.open.get(key)
        if not isinstance(command, TimerCommand):
            raise self._divergence(f"timer {event.timer!r}", seq)
        command.due = event.due

    def asked(self, event: e.InteractionRequested, seq: int, time: int) -> None:
        key = f"interaction:{question_of(event.interaction)}"
        command = self._code.new_commands.pop(key, None) or self._code.open.get(key)
        if not isinstance(command, QuestionCommand):
            raise self._divergence(f"the question {event.prompt!r}", seq)
        command.interaction = event.interaction
        command.is_stale = event.hash != command.hash
        known = self._writer.state.interactions.get(event.interaction)
        if command.is_stale and known is not None and known.answer is not None:
            raise Divergence(
                f"at event {seq} the log has the question {event.prompt!r}, which was answered; "
                f"the code asks {command.prompt!r} there{command.location}, or expects another type of answer",
                seq,
            )

    def child_started(self, event: e.ChildStarted, seq: int, time: int) -> None:
        command = self._code.new_commands.pop(f"child:{event.child}", None) or self._with_forked_id(event)
        if not isinstance(command, ChildCommand):
            raise self._divergence(f"child run {event.node!r}", seq)
        if event.hash and event.hash != command.hash:
            raise Divergence(
                f"at event {seq} the log has child run {event.node!r} with other parameters than the code passes "
                f"now{command.location} ({_shown(command.packed.inputs)})",
                seq,
            )

    def _with_forked_id(self, event: e.ChildStarted) -> Command | None:
        """The call of a child with an id that the code chose, in a fork: there its run has another id."""
        code = self._code
        for key, command in list(code.new_commands.items()):
            if isinstance(command, ChildCommand) and command.given and command.node == event.node:
                del code.new_commands[key], code.open[key]
                command.assign_child(RunId(event.child))
                code.open[command.key] = command
                return command
        return None

    def stated(self, key: str, what: str, seq: int) -> None:
        if not isinstance(self._code.new_commands.pop(key, None), Note):
            raise self._divergence(what, seq)

    def decided(self, event: e.DecisionRecorded, seq: int, _time: int) -> None:
        note = self._code.new_commands.pop(f"decision:{event.key}", None)
        if not isinstance(note, Note) or not isinstance(note.event, e.DecisionRecorded):
            raise self._divergence(f"decision {event.key!r}", seq)
        if note.event.value != event.value:
            raise Divergence(
                f"at event {seq} the log has decision {event.key!r} with {_shown(event.value)}; "
                f"the code decides {_shown(note.event.value)}",
                seq,
            )

    def attributed(self, event: e.AttributesSet, seq: int, _time: int) -> None:
        note, logged = self._code.new_commands.pop(ATTRIBUTES, None), attributes_text(event.attributes)
        if not isinstance(note, Note) or not isinstance(note.event, e.AttributesSet):
            raise self._divergence(f"the search attributes {logged}", seq)
        wanted, had = note.event.attributes, event.attributes
        if wanted.keys() != had.keys() or not all(is_same(value, had[name]) for name, value in wanted.items()):
            raise Divergence(
                f"at event {seq} the log has the search attributes {logged}; "
                f"the code sets {attributes_text(wanted)}{note.location}",
                seq,
            )

    def closed(self, key: str) -> None:
        """The code closed it, or the end of the run did; in the second case it is open again for code that continues."""
        self._code.to_close.pop(key, None)

    def _divergence(self, what: str, seq: int) -> Divergence:
        code = self._code
        waiting: list[Command] = [
            *code.new_commands.values(),
            *(command for key, command in code.open.items() if key not in code.new_commands),
        ]
        if code.is_done():
            return Divergence(f"at event {seq} the log has {what}; the code has ended before that", seq)
        requested = ", ".join(command.describe() for command in waiting[:MAX_SHOWN]) or "nothing"
        more = f" and {len(waiting) - MAX_SHOWN} more" if len(waiting) > MAX_SHOWN else ""
        return Divergence(f"at event {seq} the log has {what}; the code asked for {requested}{more}", seq)


Handler: TypeAlias = Callable[[Replay, Any, int, int], Any]

_HANDLERS: dict[type[e.Event], Handler] = {
    e.RunStarted: Replay.started,
    e.CleanupStarted: Replay.cancelled,
    e.NodeScheduled: Replay.scheduled,
    e.NodeStarted: Replay.node_started,
    e.NodeCompleted: Replay.completed,
    e.NodeFailed: Replay.failed,
    e.NodesRetired: lambda self, event, seq, _: self.stated(
        f"retired:{event.nodes[0]}", "the retirement of nodes", seq
    ),
    e.TimerSet: Replay.timer_set,
    e.TimerFired: Replay.fired,
    e.TimerCancelled: lambda self, event, _, __: self.closed(f"timer:{event.timer}"),
    e.InteractionRequested: Replay.asked,
    e.InteractionWithdrawn: lambda self, event, _, __: self.closed(f"interaction:{question_of(event.interaction)}"),
    e.GuestEventsRead: Replay.guest_events_read,
    e.ChildStarted: Replay.child_started,
    e.ChildEnded: Replay.keep,
    e.InteractionAnswered: Replay.keep,
    e.BranchOpened: Replay.branched,
    e.StepStarted: lambda self, event, seq, _: self.stated(f"step:{event.step}", f"step {event.step!r}", seq),
    e.StepCompleted: lambda self, event, seq, _: self.stated(
        f"step end:{event.step}", f"the end of step {event.step!r}", seq
    ),
    e.DecisionRecorded: Replay.decided,
    e.AttributesSet: Replay.attributed,
}
"""How a replay handles each event of an owner. Events that are missing here have no effect."""


def _unreadable(event: e.AnyEvent, seq: int, error: InvalidInput) -> Divergence:
    of = getattr(event, "node", "") or getattr(event, "interaction", "")
    owner = f" of {of!r}" if of else ""
    return Divergence(f"at event {seq} the log has a value{owner} that the code cannot read now: {error}", seq)


def _shown(raw: e.Value) -> str:
    text = bytes(raw).decode()
    return text if len(text) <= 200 else f"{text[:199]}…"
