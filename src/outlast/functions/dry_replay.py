"""Dry replay: run a recorded log through today's code, without writing events and without executing nodes.

It is the replay that a worker would make, up to the end of a lineage, and one check more: where the run ended, the code has
to end too, in the same way. If code and log differ, the dry replay finds the last event up to which a branch may keep the
log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from outlast.errors import NodeFailure, NotAllowed, NotStorable, Unawaited
from outlast.functions.code import Code, Continue, reason_of
from outlast.functions.commands import NodeCommand
from outlast.functions.decorators import Workflow
from outlast.functions.replay import MAX_SHOWN as NAMED
from outlast.functions.replay import Divergence, Replay
from outlast.functions.workflow_import import find_workflow
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.lineage import Interval
from outlast.history.record import Entry, Record
from outlast.ledger.reading import (
    RecordEntries,
    created_of,
    end_of_branch,
    fold_within,
    head_at,
    head_of,
    lineage_of,
    records,
)
from outlast.lifecycle.state import State
from outlast.store import Blobs, Head, Store
from outlast.values.codec import fetched
from outlast.values.failures import kind_of

_ENDINGS = (e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunContinued)
_WITH_OUTCOME = (*_ENDINGS, e.NodeFailed, e.NodeScheduled, e.InteractionRequested, e.InteractionAnswered)
"""Events that are examined again after a divergence, or at the end."""
MAX_SHOWN = 200
"""How many characters of a value a message shows."""


class DryRun(Struct, frozen=True):
    """The result of a dry replay of `run` with `workflow`, on a lineage of `events` events.

    Code and log agree up to event `upto`: the last one after which a branch may be cut so that it replays. It is the end of
    the lineage if they agree throughout, and 0 if they agree nowhere. Otherwise `divergence` says what the log holds and
    what the code requested, and `seq` is the event."""

    run: RunId
    workflow: str
    branch: int
    events: int
    upto: int
    divergence: str | None = None
    seq: int | None = None

    @property
    def agrees(self) -> bool:
        return self.divergence is None


async def dry_run(
    store: Store,
    run: RunId,
    workflow: Workflow[..., Any] | None = None,
    *,
    branch: int | None = None,
    apps: Iterable[str] = (),
) -> DryRun:
    """Check whether this code would replay that run, on its current branch or on `branch`, with `workflow` or the
    workflow of that name. Writes no events and executes no nodes. Raises `NotFound` if the blob of a value is missing."""
    created = await created_of(store, run)
    if created.kind != "function":
        raise NotAllowed(f"run {run} is a {created.kind}: only runs of workflow functions can be replayed")
    workflow = workflow or find_workflow(created, apps)
    log = await _Log.of(store, run, branch)
    first = difference = await _difference(log, workflow, created)
    whole, upto = log, log.head.version
    while difference is not None and upto:
        upto = log.last_before(difference.seq)
        log = await log.cut(upto)
        difference = await _difference(log, workflow, created) if upto else None
    found = (None, None) if first is None else (str(first), first.seq)
    return DryRun(run, workflow.name, whole.head.branch, whole.events, upto, *found)


async def command_at(
    store: Store, run: RunId, workflow: Workflow[..., Any], node: str, upto: int
) -> NodeCommand | None:
    """The node call that the code waits for at event `upto`. None if there is none, or if code and log differ."""
    log = await _Log.of(store, run, upto=upto)
    code = Code(run, workflow)
    try:
        await Replay(code, await created_of(store, run), log).run()
        command = code.open.get(node)
    except Divergence:
        return None
    finally:
        code.dismiss()
    return command if isinstance(command, NodeCommand) else None


class _Log:
    """A run up to an event of a branch; implements `Recorded` for a `Replay`."""

    def __init__(self, store: Store, head: Head) -> None:
        self.store = store
        self.head = head
        self.state = State()
        self.arrived: deque[Entry] = deque()
        self.remembered: list[RecordEntries] = []
        self._intervals: list[Interval] = []
        self._records: list[tuple[int, e.AnyEvent]] = []

    @property
    def run(self) -> RunId:
        return self.head.run

    @property
    def events(self) -> int:
        return sum(last - first + 1 for first, last in self._intervals)

    @classmethod
    async def of(cls, store: Store, run: RunId, branch: int | None = None, *, upto: int | None = None) -> _Log:
        """The whole lineage of a branch, or the lineage that ends at an event; by default that of the current branch."""
        head = await head_of(store, run)
        if branch is not None:
            head = await end_of_branch(store, head, branch)
        elif upto is not None:
            head = await head_at(store, head, upto)
        return await cls._read(store, head)

    async def cut(self, last: int) -> _Log:
        """The same log with `last` as its last event."""
        return await self._read(self.store, await head_at(self.store, self.head, last))

    @classmethod
    async def _read(cls, store: Store, head: Head) -> _Log:
        log = cls(store, head)
        log._intervals = await lineage_of(store, head)
        for interval in log._intervals:
            async for record in records(store, head.run, *interval):
                log._take_in(record, *interval)
        return log

    def _take_in(self, record: Record, first: int, last: int) -> None:
        for seq, event in enumerate(fold_within(self.state, record, first, last), record.first):
            if isinstance(event, _WITH_OUTCOME) and first <= seq <= last:
                self._records.append((seq, event))

    def last_before(self, seq: int) -> int:
        """The last event after which this log, diverging at `seq`, may be cut for another try.

        Usually that is the event before. But replay may treat an event differently because of a later one: an answer makes
        the text of the question matter, a reset makes a failure irrelevant. Before such a later event the log may still
        agree."""
        known: set[str] = set()
        for place, event in self._records:
            match event:
                case e.NodeFailed(node=name) | e.InteractionRequested(interaction=name) if place <= seq:
                    known.add(name)
                case _:
                    pass
        for place, event in reversed(self._records):
            match event:
                case e.NodeScheduled(node=name, cause="reset") | e.InteractionAnswered(interaction=name):
                    if place > seq and name in known:
                        return self._before(place)
                case _:
                    pass
        return self._before(seq)

    def _before(self, seq: int) -> int:
        return max((min(last, seq - 1) for first, last in self._intervals if first < seq), default=0)

    def ending(self) -> tuple[int, e.AnyEvent] | None:
        """The event that ended a closed run."""
        endings = (entry for entry in reversed(self._records) if isinstance(entry[1], _ENDINGS))
        return next(endings, None) if self.state.is_closed else None


async def _difference(log: _Log, workflow: Workflow[..., Any], created: e.RunCreated) -> Divergence | None:
    """The first place where code and log differ."""
    code = Code(log.run, workflow)
    try:
        await Replay(code, created, log).run()
        ending = log.ending()
        if ending is not None:
            await _check_end(code, *ending, log.store.blobs)
    except Divergence as difference:
        return difference
    finally:
        code.dismiss()
    return None


# --- endings -----------------------------------------------------------------------------------------------------------


async def _check_end(code: Code, seq: int, ending: e.AnyEvent, blobs: Blobs) -> None:
    """Check that the code has ended as the log says, with every command in the log."""
    if isinstance(ending, e.RunCancelled):
        return  # the code did not decide that
    had = _ending_text(ending)
    if isinstance(ending, e.RunFailed) and not code.is_done() and not code.open:
        return  # it waited for something that is not durable, and it still waits
    waiting = [
        *code.new_commands.values(),
        *(command for key, command in code.open.items() if key not in code.new_commands),
    ]
    continues = not code.is_done() and not (isinstance(ending, e.RunContinued) and code.continued is not None)
    if code.new_commands or continues:
        requested = ", ".join(command.describe() for command in waiting[:NAMED]) or "nothing"
        raise Divergence(f"at event {seq} the log has {had}; the code continues, and asked for {requested}", seq)
    if isinstance(ending, e.RunFailed) and ending.error.kind == kind_of(Unawaited) and code.unawaited():
        return
    has = _outcome(code)
    if not await _is_same(ending, has, blobs):
        raise Divergence(f"at event {seq} the log has {had}; the code {_outcome_text(has)}", seq)


def _outcome(code: Code) -> e.Value | BaseException:
    """What the code returned, as it would be stored, or raised."""
    if code.continued is not None:
        return code.continued
    if code.fatal_error is not None or code.main is None:
        return code.fatal_error or RuntimeError("the code never started")
    try:
        value = code.main.result()
    except BaseException as error:
        return reason_of(error)
    try:
        return code.workflow._arguments.returns.encode(value, "result")
    except NotStorable as error:
        return error


async def _is_same(ending: e.AnyEvent, has: e.Value | BaseException, blobs: Blobs) -> bool:
    match ending:
        case e.RunCompleted(output=output):
            return not isinstance(has, BaseException) and bytes(await fetched(output, blobs)) == bytes(has)
        case e.RunContinued(carried=carried):
            return isinstance(has, Continue) and bytes(await fetched(carried, blobs)) == bytes(has.inputs)
        case e.RunFailed(error=error):
            return isinstance(has, BaseException) and _class_name(has) == error.kind.rpartition(":")[2]
        case _:
            return True


def _class_name(error: BaseException) -> str:
    """Without its module: a script has another module name when it is imported."""
    kind = error.kind if isinstance(error, NodeFailure) else kind_of(type(error))
    return kind.rpartition(":")[2]


def _ending_text(ending: e.AnyEvent) -> str:
    match ending:
        case e.RunCompleted(output=output):
            return f"the end of the run, with the result {_shown(output)}"
        case e.RunFailed(error=error):
            return f"the failure of the run, with {error.kind}: {error.message}"
        case e.RunContinued(carried=carried):
            return f"the end of the run, continued with {_shown(carried)}"
        case _:
            return "the end of the run"


def _outcome_text(has: e.Value | BaseException) -> str:
    if isinstance(has, Continue):
        return f"continues with {_shown(has.inputs)}"
    if isinstance(has, BaseException):
        return f"raises {type(has).__name__}: {has}"
    return f"returns {_shown(has)}"


def _shown(raw: e.Value) -> str:
    text = bytes(memoryview(raw)[: 4 * MAX_SHOWN]).decode(errors="replace")
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
