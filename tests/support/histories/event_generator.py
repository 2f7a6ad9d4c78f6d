"""Generates events that may follow in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from outlast.history import events as e
from outlast.history.lineage import BEFORE_FIRST, ROOT, Branch, holder, lineage, opened
from outlast.history.record import Entry, Kind
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.fold import fold
from outlast.lifecycle.state import NodeState, NodeStatus, Outline, State, Table, Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.transitions import CONTROL, GUEST_DATA, may_follow

Part = TypeVar("Part")
Pick: TypeAlias = Callable[[int], int]
"""From n to a number below n; 0 is the simplest choice."""

Burst: TypeAlias = list[e.AnyEvent]
"""Events of one append."""

_VALUES = tuple(map(Raw, (b"null", b"0", b'"text"', b"[1, 2]", b'{"a":{"b":null}}', b"true", b"-1.5e3")))
_WORDS = ("", "ada", "because", "öß™", 'a "quoted"\nline')
_CAUSES: tuple[Literal["claimed", "expired", "dead"], ...] = ("claimed", "expired", "dead")
_CATEGORIES: tuple[Literal["permanent", "transient", "timeout", "crash", "rejected"], ...] = (
    "permanent",
    "transient",
    "timeout",
    "crash",
    "rejected",
)


_ATTRIBUTES = (True, 7, -1.5, "Oslo", e.Moment(1_700_000_000_000_000), None)


class EventGenerator(Struct):
    """Suggests events that may follow. It has read the whole log, since other branches affect what is legal."""

    pick: Pick
    branches: dict[int, Branch] = field(default_factory=lambda: {0: ROOT})
    done: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    owed: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether each expected receipt has arrived."""
    told: list[Entry] = field(default_factory=list[Entry])
    is_guest: bool = False
    seq: int = 0

    def hear(self, told: Iterable[Entry]) -> None:
        """Remember appended events of any branch."""
        for entry in told:
            self.seq = entry.seq
            self.told.append(entry)
            match entry.event:
                case e.BranchOpened() as event:
                    self.branches[event.branch] = opened(event, entry.seq)
                case e.NodeCompleted(node=node):
                    self.done.setdefault(node, []).append(entry.seq)
                case e.OutboxEnqueued(message=message):
                    self.owed.setdefault(f"outbox:{message}", False)
                case e.ChildStarted(child=child):
                    self.owed.setdefault(f"child:{child}", False)
                case e.OutboxSent(message=message):
                    self.owed[f"outbox:{message}"] = True
                case e.ChildEnded(child=child):
                    self.owed[f"child:{child}"] = True
                case _:
                    pass

    def cut(self, state: State, cutoff: int) -> Burst:
        """The events that open a branch at `cutoff`."""
        intervals = lineage(self.branches, holder(self.branches.values(), cutoff).id, cutoff)
        shared = (entry for first, last in intervals for entry in self.told[first - 1 : last])
        then = fold(State(), shared)
        turn = BranchPlan(cutoff=cutoff, by=self.word(), children="keep" if self.chance(3) else "cancel")
        return decide.open_branch(state, then, self.branches.values(), turn)

    def suggest(self, state: State, kind: Kind = Kind.OWNER, *, branching: bool = False) -> Burst:
        """Events that a writer of this kind may append now; empty if there are none.

        A BranchOpened, only suggested if `branching`, begins its append; a RunTakenOver only begins a TAKEOVER."""
        self.is_guest = kind in (Kind.GUEST, Kind.CONTROL)
        outline = state.outline
        offered = _offered(kind, outline.base, outline.recoverable, outline.held, branching)
        while offered:
            chosen = offered[self.pick(len(offered))]
            said = _ideas[chosen](self, state)
            if said:
                return [self._embellished(event) for event in said]
            offered = tuple(each for each in offered if each is not chosen)
        return []

    def take_over(self, state: State, epoch: int) -> Burst:
        """The first events of a new owner."""
        cause = self.one(_CAUSES) or "claimed"
        return decide.take_over(state, epoch, f"w{epoch}", previous="", cause=cause, hold=self.chance(6))

    def one(self, parts: Sequence[Part]) -> Part | None:
        """One of them, if there is any."""
        return parts[self.pick(len(parts))] if parts else None

    def some(self, parts: Sequence[Part]) -> list[Part]:
        """A list of one of them, empty if there is none."""
        return [parts[self.pick(len(parts))]] if parts else []

    def chance(self, of: int) -> bool:
        """True once in `of` times."""
        return self.pick(of) == of - 1

    def value(self) -> Raw:
        return _VALUES[self.pick(len(_VALUES))]

    def word(self) -> str:
        return _WORDS[self.pick(len(_WORDS))]

    def error(self) -> e.Failure:
        category = _CATEGORIES[self.pick(len(_CATEGORIES))]
        return e.Failure("Error", self.word(), category=category, data=self.value())

    def fresh(self, letter: str, *taken: Table[Any], spent: Callable[[str], bool] = lambda _: False) -> str:
        """The first unused name with this letter: other branches may use it too."""
        names = (f"{letter}{number}" for number in count())
        return next(name for name in names if not spent(name) and all(table.get(name) is None for table in taken))

    def _embellished(self, event: e.AnyEvent) -> e.AnyEvent:
        return replace(event, more={"later": self.value()}) if self.chance(30) else event


# Each idea suggests events that may follow now, or none. The ideas contain the rules of the log independently of the fold,
# so that the two check each other; only the transition table is consulted before.

Idea: TypeAlias = Callable[[EventGenerator, State], Burst]


def _nodes(state: State, *statuses: NodeStatus) -> list[tuple[str, NodeState]]:
    return [(name, node) for name, node in state.nodes.items() if node.status in statuses]


def _waits(state: State, kind: str) -> dict[str, Wait]:
    return {wait.id: wait for wait in (*state.waits.values(), *state.loose.values()) if wait.kind == kind}


def _created(gen: EventGenerator, _state: State) -> Burst:
    created = e.RunCreated(
        workflow="flow",
        version=gen.word(),
        params=gen.value(),
        by=gen.word(),
        kind=gen.one(("function", "graph", "plan", "trigger", "schedule")) or "function",
        title=gen.word(),
        tags=("a", "b")[: gen.pick(3)],
        parent=gen.word(),
        on_restart="hold" if gen.chance(4) else "resume",
    )
    return [created]


def _run_started(gen: EventGenerator, state: State) -> Burst:
    if state.outline.base is RunStatus.CREATED:
        return [e.RunStarted(by=gen.word())]
    return decide.resume(state) if gen.chance(2) else [e.RunStarted(resumed=True, by=gen.word())]


def _ended(gen: EventGenerator, state: State, ending: decide.Ending) -> Burst:
    """With the outcomes of all open nodes and requests, or alone where nothing is open. After a clean-up a run is
    cancelled."""
    if state.outline.cleanup is not None and not isinstance(ending, e.RunCancelled):
        return []
    is_open = state.outline.open_nodes or state.outline.requests
    return decide.end(state, ending) if is_open or gen.chance(2) else [ending]


def _run_failed(gen: EventGenerator, state: State) -> Burst:
    if gen.chance(2):
        return [e.RunFailed(error=gen.error(), recoverable=gen.chance(2), held=True)]
    return _ended(gen, state, e.RunFailed(error=gen.error(), recoverable=gen.chance(2)))


def _cleanup_started(gen: EventGenerator, state: State) -> Burst:
    extended = state.outline.cleanup is not None
    due = state.outline.time + gen.pick(3)
    return [e.CleanupStarted(due=due, by=gen.word(), reason=gen.word(), extended=extended)]


def _request_refused(gen: EventGenerator, state: State) -> Burst:
    return [
        e.RequestRefused(request=each.seq, code=gen.one(("ended", "superseded", "cannot", "still")) or "ended")
        for each in gen.some(state.outline.requests)
    ]


def _branch_opened(gen: EventGenerator, state: State) -> Burst:
    at = gen.pick(gen.seq + 3)
    cutoff = at if at <= gen.seq else (BEFORE_FIRST, gen.seq)[at - gen.seq - 1]
    return gen.cut(state, cutoff)


def _step_completed(gen: EventGenerator, state: State) -> Burst:
    found = gen.one([name for name, _ in state.steps.items()])
    return [e.StepCompleted(step=found)] if found else []


_CAUSE_OF: dict[NodeStatus, tuple[Literal["retry", "crash", "pause", "reset"], ...]] = {
    NodeStatus.RETRYING: ("retry",),
    NodeStatus.STARTED: ("crash", "pause", "reset"),
    NodeStatus.FAILED: ("reset",),
}


def _node_scheduled(gen: EventGenerator, state: State) -> Burst:
    again = gen.one(_nodes(state, *_CAUSE_OF)) if gen.chance(3) else None
    if again is None:
        return [e.NodeScheduled(node=gen.fresh("n", state.nodes), step=gen.word(), feedback=gen.value())]
    name, node = again
    cause = gen.one(_CAUSE_OF[node.status]) or "reset"
    return [e.NodeScheduled(node=name, attempt=node.attempt + 1, cause=cause)]


def _node_started(gen: EventGenerator, state: State) -> Burst:
    return [
        e.NodeStarted(node=name, attempt=node.attempt, inputs=gen.value(), hash=gen.word(), code=gen.word())
        for name, node in gen.some(_nodes(state, NodeStatus.SCHEDULED))
    ]


def _node_checkpointed(gen: EventGenerator, state: State) -> Burst:
    return [
        e.NodeCheckpointed(node=name, attempt=node.attempt, data=gen.value())
        for name, node in gen.some(_nodes(state, NodeStatus.STARTED))
    ]


def _node_completed(gen: EventGenerator, state: State) -> Burst:
    adoptable = [name for name in gen.done if _may_adopt(state.nodes.get(name))]
    if adoptable and gen.chance(2):
        name = gen.one(adoptable) or adoptable[0]
        known = state.nodes.get(name)
        place = gen.one(gen.done[name]) or 0
        return [e.NodeCompleted(node=name, attempt=known.attempt if known else 1, output=gen.value(), adopted=place)]
    return [
        e.NodeCompleted(node=name, attempt=node.attempt, output=gen.value(), ms=1.5)
        for name, node in gen.some(_nodes(state, NodeStatus.STARTED))
    ]


def _may_adopt(node: NodeState | None) -> bool:
    return node is None or node.status in (NodeStatus.SCHEDULED, NodeStatus.STARTED)


def _node_failed(gen: EventGenerator, state: State) -> Burst:
    found = gen.one(_nodes(state, NodeStatus.STARTED, NodeStatus.SCHEDULED))
    if found is None:
        return []
    name, node = found
    if node.status is NodeStatus.SCHEDULED:
        return [e.NodeFailed(node=name, attempt=node.attempt, error=e.Failure("Cancelled", category="cancelled"))]
    due = gen.pick(1000) if gen.chance(2) else None
    return [e.NodeFailed(node=name, attempt=node.attempt, error=gen.error(), ms=2.0, retry_at=due)]


def _nodes_retired(gen: EventGenerator, state: State) -> Burst:
    over = _nodes(state, NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.SKIPPED)
    return [e.NodesRetired(nodes=(name,)) for name, _ in gen.some(over)] if gen.chance(3) else []


def _node_skipped(gen: EventGenerator, state: State) -> Burst:
    found = gen.one(_nodes(state, NodeStatus.SCHEDULED)) if gen.chance(2) else None
    return [e.NodeSkipped(node=found[0] if found else gen.fresh("n", state.nodes), reason=gen.word())]


def _compensation_started(gen: EventGenerator, state: State) -> Burst:
    found = gen.some(_nodes(state, NodeStatus.COMPLETED, NodeStatus.COMPENSATING))
    return [e.CompensationStarted(node=name, attempt=1 + gen.pick(3)) for name, _ in found]


def _node_compensated(gen: EventGenerator, state: State) -> Burst:
    found = gen.some(_nodes(state, NodeStatus.COMPENSATING))
    return [e.NodeCompensated(node=name, attempt=node.attempt, ms=0.5) for name, node in found]


def _compensation_failed(gen: EventGenerator, state: State) -> Burst:
    found = gen.some(_nodes(state, NodeStatus.COMPENSATING))
    return [e.CompensationFailed(node=name, attempt=node.attempt, error=gen.error()) for name, node in found]


def _interaction_requested(gen: EventGenerator, state: State) -> Burst:
    asked = e.InteractionRequested(
        interaction=gen.fresh("q", state.interactions),
        node=gen.word(),
        key=gen.word(),
        kind=gen.one(("ask", "approve", "form")) or "ask",
        prompt=gen.word(),
        schema=gen.value(),
        hash=gen.word(),
        due=gen.pick(1000) if gen.chance(3) else None,
    )
    return [asked]


def _asked(gen: EventGenerator, state: State) -> list[str]:
    """A question that is open; a guest only sees the ones the run waits for."""
    if gen.is_guest:
        return gen.some(list(_waits(state, "interaction")))
    pending = [name for name, asked in state.interactions.items() if asked.answer is None and not asked.withdrawn]
    return gen.some(pending)


def _interaction_answered(gen: EventGenerator, state: State) -> Burst:
    return [e.InteractionAnswered(interaction=q, answer=gen.value(), by=gen.word()) for q in _asked(gen, state)]


def _interaction_withdrawn(gen: EventGenerator, state: State) -> Burst:
    return [e.InteractionWithdrawn(interaction=name, reason=gen.word()) for name in _asked(gen, state)]


def _signal_awaited(gen: EventGenerator, state: State) -> Burst:
    return [e.SignalAwaited(wait=gen.fresh("a", _waits(state, "signal")), name=f"news{gen.pick(2)}")]


def _signal_received(gen: EventGenerator, state: State) -> Burst:
    again = gen.one([name for name, _ in state.signals.items()]) if gen.chance(6) else None
    name = again or gen.fresh("g", state.signals)
    return [e.SignalReceived(signal=name, name=f"news{gen.pick(2)}", data=gen.value(), by=gen.word())]


def _signal_consumed(gen: EventGenerator, state: State) -> Burst:
    found = gen.some([name for name, signal in state.signals.items() if not signal.consumed])
    waiting = gen.one(list(_waits(state, "signal")))
    return [e.SignalConsumed(signal=name, wait=waiting or "") for name in found]


def _timer_set(gen: EventGenerator, state: State) -> Burst:
    again = gen.one(list(_waits(state, "timer"))) if gen.chance(3) else None
    if again is not None and not again.startswith("retry:"):
        return [e.TimerCancelled(timer=again, reason="put off"), e.TimerSet(timer=again, due=gen.pick(1000))]
    return [e.TimerSet(timer=gen.fresh("t", _waits(state, "timer")), due=gen.pick(1000), node=gen.word())]


def _timer_fired(gen: EventGenerator, state: State) -> Burst:
    return [e.TimerFired(timer=name) for name in gen.some(list(_waits(state, "timer")))]


def _timer_cancelled(gen: EventGenerator, state: State) -> Burst:
    return [e.TimerCancelled(timer=name, reason=gen.word()) for name in gen.some(list(_waits(state, "timer")))]


def _cursor(gen: EventGenerator, old: e.Cursor | None) -> e.Cursor:
    """Where it was or further on, in its own kind."""
    if old is None:
        return "" if gen.chance(2) else -3
    return old + "a" * gen.pick(3) if isinstance(old, str) else old + gen.pick(3)


def _trigger_input_received(gen: EventGenerator, state: State) -> Burst:
    found = gen.one(list(state.triggers.items()))
    if found is None:
        return []
    name, source = found
    cursor = None if gen.is_guest or gen.chance(2) else _cursor(gen, source.cursor)
    return [e.TriggerInputReceived(trigger=name, input=f"i{source.received}", data=gen.value(), cursor=cursor)]


def _trigger_cursor_advanced(gen: EventGenerator, state: State) -> Burst:
    return [
        e.TriggerCursorAdvanced(trigger=name, cursor=_cursor(gen, source.cursor), count=1)
        for name, source in gen.some(list(state.triggers.items()))
    ]


def _outbox_enqueued(gen: EventGenerator, state: State) -> Burst:
    name = gen.fresh("m", _waits(state, "outbox"), spent=lambda name: gen.owed.get(f"outbox:{name}", False))
    return [e.OutboxEnqueued(message=name, target=gen.word(), data=gen.value(), node=gen.word())]


def _unpaid(gen: EventGenerator, state: State, kind: str) -> list[str]:
    """Receipts that may arrive. A guest only sees the open ones; each arrives once in the whole log."""
    seen = _waits(state, kind)
    return gen.some([name for name in seen if not gen.owed.get(f"{kind}:{name}", False)])


def _outbox_sent(gen: EventGenerator, state: State) -> Burst:
    return [e.OutboxSent(message=name, receipt=gen.word()) for name in _unpaid(gen, state, "outbox")]


def _child_started(gen: EventGenerator, state: State) -> Burst:
    name = gen.fresh("c", state.children, spent=lambda name: gen.owed.get(f"child:{name}", False))
    return [e.ChildStarted(child=name, workflow=gen.word(), node=gen.word(), detached=gen.chance(3))]


def _child_ended(gen: EventGenerator, state: State) -> Burst:
    return [
        e.ChildEnded(child=name, status="failed", error=gen.error())
        if gen.chance(3)
        else e.ChildEnded(child=name, output=gen.value())
        for name in _unpaid(gen, state, "child")
    ]


_ideas: dict[type[e.Event], Idea] = {
    e.RunCreated: _created,
    e.RunStarted: _run_started,
    e.RunPaused: lambda gen, _: [e.RunPaused(reason=gen.word())],
    e.RunTakenOver: lambda _, __: [],  # only `take_over` generates it, at the beginning of a TAKEOVER
    e.PauseRequested: lambda gen, _: [e.PauseRequested(by=gen.word(), reason=gen.word())],
    e.CancelRequested: lambda gen, _: [e.CancelRequested(by=gen.word(), reason=gen.word(), force=gen.chance(3))],
    e.RequestRefused: _request_refused,
    e.RunCompleted: lambda gen, state: _ended(gen, state, e.RunCompleted(output=gen.value(), ms=0.25)),
    e.RunFailed: _run_failed,
    e.CleanupStarted: _cleanup_started,
    e.RunCancelled: lambda gen, state: _ended(gen, state, e.RunCancelled(by=gen.word(), reason=gen.word())),
    e.RunContinued: lambda gen, state: _ended(gen, state, e.RunContinued(successor="next", carried=gen.value())),
    e.RunRecovered: lambda gen, state: [e.RunRecovered(code="G2", reason=gen.word(), evidence=(state.outline.seq,))],
    e.AttributesSet: lambda gen, _state: [e.AttributesSet(attributes={gen.word(): gen.one(_ATTRIBUTES)})],
    e.VersionChanged: lambda gen, state: [e.VersionChanged(version=gen.word(), previous=state.outline.version)],
    e.BranchOpened: _branch_opened,
    e.JumpRequested: lambda gen, _: [e.JumpRequested(target=gen.pick(gen.seq + 1), branch=max(gen.branches) + 1)],
    e.Recalled: lambda _, state: [e.Recalled(at=state.outline.seq, time=state.outline.time)],
    e.StepStarted: lambda gen, _: [e.StepStarted(step=f"s{gen.pick(3)}")],
    e.StepCompleted: _step_completed,
    e.NodeScheduled: _node_scheduled,
    e.NodeStarted: _node_started,
    e.NodeCheckpointed: _node_checkpointed,
    e.NodeCompleted: _node_completed,
    e.NodeFailed: _node_failed,
    e.NodesRetired: _nodes_retired,
    e.NodeSkipped: _node_skipped,
    e.CompensationStarted: _compensation_started,
    e.NodeCompensated: _node_compensated,
    e.CompensationFailed: _compensation_failed,
    e.GraphExtended: lambda gen, _: [e.GraphExtended(by=gen.word(), nodes=gen.value())],
    e.InteractionRequested: _interaction_requested,
    e.InteractionAnswered: _interaction_answered,
    e.InteractionWithdrawn: _interaction_withdrawn,
    e.SignalAwaited: _signal_awaited,
    e.SignalReceived: _signal_received,
    e.SignalConsumed: _signal_consumed,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.TimerCancelled: _timer_cancelled,
    e.GuestEventsRead: lambda _, state: [e.GuestEventsRead(upto=state.outline.seq)],
    e.DecisionRecorded: lambda gen, state: [e.DecisionRecorded(key=gen.fresh("d", state.decisions), value=gen.value())],
    e.TriggerRegistered: lambda gen, state: [
        e.TriggerRegistered(trigger=gen.fresh("x", state.triggers), kind=gen.word(), config=gen.value())
    ],
    e.TriggerInputReceived: _trigger_input_received,
    e.TriggerCursorAdvanced: _trigger_cursor_advanced,
    e.OutboxEnqueued: _outbox_enqueued,
    e.OutboxSent: _outbox_sent,
    e.ChildStarted: _child_started,
    e.ChildEnded: _child_ended,
}

_missing = set(e.EVENT_TYPES.values()) - set(_ideas)
assert not _missing, f"no idea for {_missing}"

_WEIGHTS: dict[type[e.Event], int] = {
    e.RunStarted: 24,
    e.NodeScheduled: 12,
    e.NodeStarted: 20,
    e.NodeCompleted: 16,
    e.InteractionAnswered: 6,
    e.CompensationStarted: 6,
    e.NodeCompensated: 8,
    e.CompensationFailed: 8,
    e.ChildEnded: 2,
    e.OutboxSent: 2,
    e.RunFailed: 2,
    **dict.fromkeys((e.RunCompleted, e.RunCancelled, e.RunContinued, e.RunPaused, e.RunRecovered, e.Recalled), 1),
    e.CleanupStarted: 1,
    **dict.fromkeys((e.VersionChanged, e.PauseRequested, e.CancelRequested, e.JumpRequested, e.SignalReceived), 1),
}
"""How often a type is offered first, beside the 4 of the others: work more often than endings, or little would happen."""


def _weight(kind: type[e.Event]) -> int:
    return _WEIGHTS.get(kind, 4)


@cache
def _offered(
    kind: Kind, base: RunStatus | None, recoverable: bool, held: bool, branching: bool
) -> tuple[type[e.Event], ...]:
    """The types that the table allows this writer, each as often as its weight, the frequent ones first: Hypothesis
    prefers early choices."""
    outline = Outline(base, recoverable=recoverable, held=held)
    sayable = GUEST_DATA if kind is Kind.GUEST else CONTROL if kind is Kind.CONTROL else tuple(_ideas)
    allowed = [each for each in sayable if may_follow(outline, each) and (branching or each is not e.BranchOpened)]
    allowed.sort(key=_weight, reverse=True)
    return tuple(each for each in allowed for _ in range(_weight(each)))
