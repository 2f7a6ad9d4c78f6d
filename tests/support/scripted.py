"""A small owner that drives a run from a script: a model of the engine.

A script is a list of acts. The next events depend on the state alone, so any owner can continue after another was
killed. Effects happen only after the append that announces them, and are counted in a `World` that outlives every
process. `serve` answers, fires, ends and sends what the run waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from outlast.definition.retry import Retry
from outlast.errors import Overtaken, RunGone
from outlast.history import events as e
from outlast.history.ids import RunId, WorkerId
from outlast.ledger import Ledger, RunWriter
from outlast.ledger.reading import head_of, lineage_of, state_of
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import NodeStatus, State
from outlast.lifecycle.status import RunStatus
from outlast.store import Store

# --- acts of a script ---- ---------------------------------------------------------------------------------------------


class Do(Struct, frozen=True):
    """A node whose first `fails` executions fail and are retried."""

    node: str
    fails: int = 0


class Together(Struct, frozen=True):
    """Several nodes at once."""

    nodes: tuple[str, ...]


class Ask(Struct, frozen=True):
    """A question to a person."""

    question: str


class Await(Struct, frozen=True):
    """A signal of this name."""

    signal: str


class Sleep(Struct, frozen=True):
    """A timer that is due at once."""

    timer: str


class Call(Struct, frozen=True):
    """A child run, awaited."""

    child: str


class Send(Struct, frozen=True):
    """A message to the outside, not awaited."""

    message: str


class GoBack(Struct, frozen=True):
    """Once: abandon `node` and the events after it, and execute it again on branch number `branch`."""

    node: str
    branch: int


class PauseOnce(Struct, frozen=True):
    """Pause after `node`, and resume."""

    key: str


Act: TypeAlias = Do | Together | Ask | Await | Sleep | Call | Send | GoBack | PauseOnce
Script: TypeAlias = Sequence[Act]


class World:
    """The effects of all processes, and every acknowledged append."""

    def __init__(self) -> None:
        self.executed: Counter[tuple[RunId, int, str]] = Counter()
        self.acknowledged: list[tuple[RunId, int]] = []
        self.signals: set[str] = set()


# --- the owner ---------------------------------------------------------------------------------------------------------


class ScriptedOwner:
    """Advances one run by its script until it waits or is over."""

    def __init__(self, writer: RunWriter, script: Script, world: World) -> None:
        self.writer = writer
        self._script = script
        self._world = world
        self._done: dict[str, e.AnyEvent] = {}

    async def advance(self) -> None:
        """Append and execute until only others can continue the run."""
        while True:
            try:
                events = await self._next()
                if not events:
                    return
                over = isinstance(events[-1], e.RunCompleted)
                first = await self.writer.append(events, release=over)
            except Overtaken:
                continue
            self._world.acknowledged.append((self.writer.run, first))
            for event in events:
                if isinstance(event, e.NodeStarted):
                    self._execute(event)

    def _execute(self, started: e.NodeStarted) -> None:
        """The effect of a node. Its outcome is in memory and is lost with the process if it is not appended."""
        name, branch = started.node, self.writer.head.branch
        self._world.executed[self.writer.run, branch, name] += 1
        wanted = next((act.fails for act in self._script if isinstance(act, Do) and act.node == name), 0)
        node = self.writer.state.nodes.get(name)
        assert node is not None
        if node.retries < wanted:
            error = e.Failure("Flaky", f"{name} fails", category="transient")
            policy = Retry(max_attempts=wanted + 1, delay=0.0, jitter=0.0)
            (self._done[name],) = decide.fail_node(self.writer.state, name, error, policy, now=0)
        else:
            output = Raw(msgspec.json.encode(f"{name} on {branch}"))
            self._done[name] = e.NodeCompleted(node=name, attempt=started.attempt, output=output)

    async def _next(self) -> list[e.AnyEvent]:
        """The outcomes to append, and the next starts: one append per boundary."""
        draft = Draft(self.writer.state)
        view = draft.view
        events: list[e.AnyEvent] = []
        if view.outline.base in (RunStatus.PAUSED, RunStatus.FAILED):
            return decide.resume(self.writer.state)
        if view.outline.base is RunStatus.CREATED:
            _add(view, events, e.RunStarted())
        for name, outcome in list(self._done.items()):
            node = view.nodes.get(name)
            if node is not None and node.status is NodeStatus.STARTED:
                _add(view, events, outcome)
            del self._done[name]
        for act in self._script:
            if isinstance(act, GoBack) and view.outline.branch < act.branch and not events:
                return await self._go_back(act)
            if not _begin(view, act, events):
                return events
        if view.outline.base is RunStatus.RUNNING:
            events.append(e.RunCompleted(output=_result(view)))
        return events

    async def _go_back(self, act: GoBack) -> list[e.AnyEvent]:
        scheduled = await self._scheduled_at(act.node)
        then, branches = await self.writer.state_at(scheduled - 1), await self.writer.branches(scheduled - 1)
        return decide.open_branch(
            self.writer.state, then, branches.values(), BranchPlan(cutoff=scheduled - 1, cause="retry")
        )

    async def _scheduled_at(self, node: str) -> int:
        store = self.writer.store
        for first, last in await lineage_of(store, self.writer.head):
            for record in await store.read(self.writer.run, first, last):
                for seq, event in enumerate(record.events(), record.first):
                    if isinstance(event, e.NodeScheduled) and event.node == node:
                        return seq
        raise AssertionError(f"node {node} was never scheduled")


def _add(view: State, events: list[e.AnyEvent], event: e.AnyEvent) -> None:
    apply(view, event, view.outline.seq + 1, 0)
    events.append(event)


def _begin(view: State, act: Act, events: list[e.AnyEvent]) -> bool:
    """Append the events that begin this act; True if it is over and the next act may begin."""
    match act:
        case Do():
            return _begin_node(view, act.node, events)
        case Together():
            over = [_begin_node(view, node, events) for node in act.nodes]  # all of them begin
            return all(over)
        case Ask():
            asked = view.interactions.get(act.question)
            if asked is None:
                _add(view, events, e.InteractionRequested(interaction=act.question, prompt=f"{act.question}?"))
            return asked is not None and asked.answer is not None
        case Await():
            return _begin_await(view, act, events)
        case Sleep():
            if view.decisions.get(act.timer) is None:
                _add(view, events, e.DecisionRecorded(key=act.timer))
                _add(view, events, e.TimerSet(timer=act.timer, due=1))
            return view.waits.get(f"timer:{act.timer}") is None
        case Call():
            child = view.children.get(act.child)
            if child is None:
                _add(view, events, e.ChildStarted(child=act.child, workflow="child"))
            return child is not None and bool(child.status)
        case Send():
            if view.decisions.get(act.message) is None:
                _add(view, events, e.DecisionRecorded(key=act.message))
                message = f"{act.message}@{view.outline.branch}"
                _add(view, events, e.OutboxEnqueued(message=message, target="outside"))
            return True
        case PauseOnce():
            if view.decisions.get(act.key) is None:
                _add(view, events, e.DecisionRecorded(key=act.key))
                _add(view, events, e.RunPaused(reason="the script says so"))
                return False
            return True
        case GoBack():
            return view.outline.branch >= act.branch


def _begin_node(view: State, name: str, events: list[e.AnyEvent]) -> bool:
    node = view.nodes.get(name)
    if node is None:
        _add(view, events, e.NodeScheduled(node=name))
        node = view.nodes.get(name)
    elif node.status is NodeStatus.RETRYING and view.waits.get(f"timer:retry:{name}") is None:
        _add(view, events, e.NodeScheduled(node=name, attempt=node.attempt + 1, cause="retry"))
        node = view.nodes.get(name)
    assert node is not None
    if node.status is NodeStatus.SCHEDULED:
        _add(view, events, e.NodeStarted(node=name, attempt=node.attempt))
    return node.status is NodeStatus.COMPLETED


def _begin_await(view: State, act: Await, events: list[e.AnyEvent]) -> bool:
    if view.decisions.get(act.signal) is not None:
        return True
    if view.waits.get(f"signal:{act.signal}") is None:
        _add(view, events, e.SignalAwaited(wait=act.signal, name=act.signal))
    for id, signal in list(view.signals.items()):
        if signal.name == act.signal and not signal.consumed:
            _add(view, events, e.SignalConsumed(signal=id, wait=act.signal))
            _add(view, events, e.DecisionRecorded(key=act.signal, value=signal.data))
            return True
    return False


def _result(view: State) -> Raw:
    outputs = {name: node.output for name, node in sorted(view.nodes.items())}
    answers = {name: asked.answer for name, asked in sorted(view.interactions.items()) if asked.answer is not None}
    return Raw(msgspec.json.encode([outputs, answers]))


# --- guests ------------------------------------------------------------------------------------------------------------


async def serve(ledger: Ledger, run: RunId, world: World) -> bool:
    """Complete everything the run waits for, once each; True if anything was delivered."""
    store = ledger.store
    busy = False
    waiting, _ = await store.waits(limit=1000)
    for due in waiting:
        if due.run != run:
            continue
        event = _reply(due.wait.kind, due.wait.id, due.wait.text)
        if isinstance(event, e.SignalReceived) and event.signal in world.signals:
            continue
        try:
            first = await ledger.deliver(run, [event])
        except RunGone:
            continue
        world.acknowledged.append((run, first))
        if isinstance(event, e.SignalReceived):
            world.signals.add(event.signal)
        busy = True
    return busy


def _reply(kind: str, id: str, text: str) -> e.AnyEvent:
    match kind:
        case "interaction":
            return e.InteractionAnswered(interaction=id, answer=Raw(b'"yes"'), by="someone")
        case "timer":
            return e.TimerFired(timer=id)
        case "child":
            return e.ChildEnded(child=id, output=Raw(b"1"))
        case "outbox":
            return e.OutboxSent(message=id)
        case _:
            return e.SignalReceived(signal=f"signal-{text}", name=text, data=Raw(b"2"))


# --- one process -------------------------------------------------------------------------------------------------------


async def live(store: Store, run: RunId, script: Script, world: World) -> bool:
    """One process: create or take over the run, advance it and serve it. True if the run is over."""
    ledger = Ledger(store)
    worker = WorkerId(ledger.new_worker_id())
    await store.enrol(worker, 30)
    writer = await _own(ledger, run, worker, world)
    while writer is not None:
        owner = ScriptedOwner(writer, script, world)
        await owner.advance()
        if not writer.state.is_closed and not await writer.release():
            continue
        while await serve(ledger, run, world):
            pass
        writer = await _claimed(ledger, run, worker)
    return (await state_now(store, run)).is_closed


async def _own(ledger: Ledger, run: RunId, worker: WorkerId, world: World) -> RunWriter | None:
    head = await ledger.store.head(run)
    if head is None:
        writer = await ledger.create(run, [e.RunCreated(workflow="scripted", tags=("test",)), e.RunStarted()], worker)
        world.acknowledged.append((run, 1))
        return writer
    return await _claimed(ledger, run, worker)


async def _claimed(ledger: Ledger, run: RunId, worker: WorkerId) -> RunWriter | None:
    head = await head_of(ledger.store, run)
    if head.closed:
        return None
    for claim in await ledger.store.claim(worker, runs=[run]):
        return await ledger.take_over(claim)
    return None


async def state_now(store: Store, run: RunId) -> State:
    """The state folded from the stored log."""
    head = await head_of(store, run)
    return await state_of(store, run, await lineage_of(store, head))
