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


def _created(generator: EventGenerator, _state: State) -> Burst:
    created = e.RunCreated(
        workflow="flow",
        version=generator.word(),
        params=generator.value(),
        by=generator.word(),
        kind=generator.one(("function", "graph", "plan", "trigger", "schedule")) or "function",
        title=generator.word(),
        tags=("a", "b")[: generator.pick(3)],
        parent=generator.word(),
        on_restart="hold" if generator.chance(4) else "resume",
    )
    return [created]


def _run_started(generator: EventGenerator, state: State) -> Burst:
    if state.outline.base is RunStatus.CREATED:
        return [e.RunStarted(by=generator.word())]
    return decide.resume(state) if generator.chance(2) else [e.RunStarted(resumed=True, by=generator.word())]


def _ended(generator: EventGenerator, state: State, ending: decide.Ending) -> Burst:
    """With the outcomes of all open nodes and requests, or alone where nothing is open. After a clean-up a run is
    cancelled."""
    if state.outline.cleanup is not None and not isinstance(ending, e.RunCancelled):
        return []
    is_open = state.outline.open_nodes or state.outline.requests
    return decide.end(state, ending) if is_open or generator.chance(2) else [ending]


def _run_failed(generator: EventGenerator, state: State) -> Burst:
    if generator.chance(2):
        return [e.RunFailed(error=generator.error(), recoverable=generator.chance(2), held=True)]
    return _ended(generator, state, e.RunFailed(error=generator.error(), recoverable=generator.chance(2)))


def _cleanup_started(generator: EventGenerator, state: State) -> Burst:
    extended = state.outline.cleanup is not None
    due = state.outline.time + generator.pick(3)
    return [e.CleanupStarted(due=due, by=generator.word(), reason=generator.word(), extended=extended)]


def _request_refused(generator: EventGenerator, state: State) -> Burst:
    return [
        e.RequestRefused(request=each.seq, code=generator.one(("ended", "superseded", "cannot", "still")) or "ended")
        for each in generator.some(state.outline.requests)
    ]


def _branch_opened(generator: EventGenerator, state: State) -> Burst:
    at = generator.pick(generator.seq + 3)
    cutoff = at if at <= generator.seq else (BEFORE_FIRST, generator.seq)[at - generator.seq - 1]
    return generator.cut(state, cutoff)


def _step_completed(generator: EventGenerator, state: State) -> Burst:
    found = generator.one([name for name, _ in state.steps.items()])
    return [e.StepCompleted(step=found)] if found else []


_CAUSE_OF: dict[NodeStatus, tuple[Literal["retry", "crash", "pause", "reset"], ...]] = {
    NodeStatus.RETRYING: ("retry",),
    NodeStatus.STARTED: ("crash", "pause", "reset"),
    NodeStatus.FAILED: ("reset",),
}


def _node_scheduled(generator: EventGenerator, state: State) -> Burst:
    again = generator.one(_nodes(state, *_CAUSE_OF)) if generator.chance(3) else None
    if again is None:
        return [
            e.NodeScheduled(node=generator.fresh("n", state.nodes), step=generator.word(), feedback=generator.value())
        ]
    name, node = again
    cause = generator.one(_CAUSE_OF[node.status]) or "reset"
    return [e.NodeScheduled(node=name, attempt=node.attempt + 1, cause=cause)]


def _node_started(generator: EventGenerator, state: State) -> Burst:
    return [
        e.NodeStarted(
            node=name, attempt=node.attempt, inputs=generator.value(), hash=generator.word(), code=generator.word()
        )
        for name, node in generator.some(_nodes(state, NodeStatus.SCHEDULED))
    ]


def _node_checkpointed(generator: EventGenerator, state: State) -> Burst:
    return [
        e.NodeCheckpointed(node=name, attempt=node.attempt, data=generator.value())
        for name, node in generator.some(_nodes(state, NodeStatus.STARTED))
    ]


def _node_completed(generator: EventGenerator, state: State) -> Burst:
    adoptable = [name for name in generator.done if _may_adopt(state.nodes.get(name))]
    if adoptable and generator.chance(2):
        name = generator.one(adoptable) or adoptable[0]
        known = state.nodes.get(name)
        place = generator.one(generator.done[name]) or 0
        return [
            e.NodeCompleted(node=name, attempt=known.attempt if known else 1, output=generator.value(), adopted=place)
        ]
    return [
        e.NodeCompleted(node=name, attempt=node.attempt, output=generator.value(), ms=1.5)
        for name, node in generator.some(_nodes(state, NodeStatus.STARTED))
    ]


def _may_adopt(node: NodeState | None) -> bool:
    return node is None or node.status in (NodeStatus.SCHEDULED, NodeStatus.STARTED)


def _node_failed(generator: EventGenerator, state: State) -> Burst:
    found = generator.one(_nodes(state, NodeStatus.STARTED, NodeStatus.SCHEDULED))
    if found is None:
        return []
    name, node = found
    if node.status is NodeStatus.SCHEDULED:
        return [e.NodeFailed(node=name, attempt=node.attempt, error=e.Failure("Cancelled", category="cancelled"))]
    due = generator.pick(1000) if generator.chance(2) else None
    return [e.NodeFailed(node=name, attempt=node.attempt, error=generator.error(), ms=2.0, retry_at=due)]


def _nodes_retired(generator: EventGenerator, state: State) -> Burst:
    over = _nodes(state, NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.SKIPPED)
    return [e.NodesRetired(nodes=(name,)) for name, _ in generator.some(over)] if generator.chance(3) else []


def _node_skipped(generator: EventGenerator, state: State) -> Burst:
    found = generator.one(_nodes(state, NodeStatus.SCHEDULED)) if generator.chance(2) else None
    return [e.NodeSkipped(node=found[0] if found else generator.fresh("n", state.nodes), reason=generator.word())]


def _compensation_started(generator: EventGenerator, state: State) -> Burst:
    found = generator.some(_nodes(state, NodeStatus.COMPLETED, NodeStatus.COMPENSATING))
    return [e.CompensationStarted(node=name, attempt=1 + generator.pick(3)) for name, _ in found]


def _node_compensated(generator: EventGenerator, state: State) -> Burst:
    found = generator.some(_nodes(state, NodeStatus.COMPENSATING))
    return [e.NodeCompensated(node=name, attempt=node.attempt, ms=0.5) for name, node in found]


def _compensation_failed(generator: EventGenerator, state: State) -> Burst:
    found = generator.some(_nodes(state, NodeStatus.COMPENSATING))
    return [e.CompensationFailed(node=name, attempt=node.attempt, error=generator.error()) for name, node in found]


def _interaction_requested(generator: EventGenerator, state: State) -> Burst:
    asked = e.InteractionRequested(
        interaction=generator.fresh("q", state.interactions),
        node=generator.word(),
        key=generator.word(),
        kind=generator.one(("ask", "approve", "form")) or "ask",
        prompt=generator.word(),
        schema=generator.value(),
        hash=generator.word(),
        due=generator.pick(1000) if generator.chance(3) else None,
    )
    return [asked]


def _asked(generator: EventGenerator, state: State) -> list[str]:
    """A question that is open; a guest only sees the ones the run waits for."""
    if generator.is_guest:
        return generator.some(list(_waits(state, "interaction")))
    pending = [name for name, asked in state.interactions.items() if asked.answer is None and not asked.withdrawn]
    return generator.some(pending)


def _interaction_answered(generator: EventGenerator, state: State) -> Burst:
    return [
        e.InteractionAnswered(interaction=q, answer=generator.value(), by=generator.word())
        for q in _asked(generator, state)
    ]


def _interaction_withdrawn(generator: EventGenerator, state: State) -> Burst:
    return [e.InteractionWithdrawn(interaction=name, reason=generator.word()) for name in _asked(generator, state)]


def _signal_awaited(generator: EventGenerator, state: State) -> Burst:
    return [e.SignalAwaited(wait=generator.fresh("a", _waits(state, "signal")), name=f"news{generator.pick(2)}")]


def _signal_received(generator: EventGenerator, state: State) -> Burst:
    again = generator.one([name for name, _ in state.signals.items()]) if generator.chance(6) else None
    name = again or generator.fresh("g", state.signals)
    return [e.SignalReceived(signal=name, name=f"news{generator.pick(2)}", data=generator.value(), by=generator.word())]


def _signal_consumed(generator: EventGenerator, state: State) -> Burst:
    found = generator.some([name for name, signal in state.signals.items() if not signal.consumed])
    waiting = generator.one(list(_waits(state, "signal")))
    return [e.SignalConsumed(signal=name, wait=waiting or "") for name in found]


def _timer_set(generator: EventGenerator, state: State) -> Burst:
    again = generator.one(list(_waits(state, "timer"))) if generator.chance(3) else None
    if again is not None and not again.startswith("retry:"):
        return [e.TimerCancelled(timer=again, reason="put off"), e.TimerSet(timer=again, due=generator.pick(1000))]
    return [
        e.TimerSet(timer=generator.fresh("t", _waits(state, "timer")), due=generator.pick(1000), node=generator.word())
    ]


def _timer_fired(generator: EventGenerator, state: State) -> Burst:
    return [e.TimerFired(timer=name) for name in generator.some(list(_waits(state, "timer")))]


def _timer_cancelled(generator: EventGenerator, state: State) -> Burst:
    return [
        e.TimerCancelled(timer=name, reason=generator.word()) for name in generator.some(list(_waits(state, "timer")))
    ]


def _cursor(generator: EventGenerator, old: e.Cursor | None) -> e.Cursor:
    """Where it was or further on, in its own kind."""
    if old is None:
        return "" if generator.chance(2) else -3
    return old + "a" * generator.pick(3) if isinstance(old, str) else old + generator.pick(3)


def _trigger_input_received(generator: EventGenerator, state: State) -> Burst:
    found = generator.one(list(state.triggers.items()))
    if found is None:
        return []
    name, source = found
    cursor = None if generator.is_guest or generator.chance(2) else _cursor(generator, source.cursor)
    return [e.TriggerInputReceived(trigger=name, input=f"i{source.received}", data=generator.value(), cursor=cursor)]


def _trigger_cursor_advanced(generator: EventGenerator, state: State) -> Burst:
    return [
        e.TriggerCursorAdvanced(trigger=name, cursor=_cursor(generator, source.cursor), count=1)
        for name, source in generator.some(list(state.triggers.items()))
    ]


def _outbox_enqueued(generator: EventGenerator, state: State) -> Burst:
    name = generator.fresh("m", _waits(state, "outbox"), spent=lambda name: generator.owed.get(f"outbox:{name}", False))
    return [e.OutboxEnqueued(message=name, target=generator.word(), data=generator.value(), node=generator.word())]


def _unpaid(generator: EventGenerator, state: State, kind: str) -> list[str]:
    """Receipts that may arrive. A guest only sees the open ones; each arrives once in the whole log."""
    seen = _waits(state, kind)
    return generator.some([name for name in seen if not generator.owed.get(f"{kind}:{name}", False)])


def _outbox_sent(generator: EventGenerator, state: State) -> Burst:
    return [e.OutboxSent(message=name, receipt=generator.word()) for name in _unpaid(generator, state, "outbox")]


def _child_started(generator: EventGenerator, state: State) -> Burst:
    name = generator.fresh("c", state.children, spent=lambda name: generator.owed.get(f"child:{name}", False))
    return [e.ChildStarted(child=name, workflow=generator.word(), node=generator.word(), detached=generator.chance(3))]


def _child_ended(generator: EventGenerator, state: State) -> Burst:
    return [
        e.ChildEnded(child=name, status="failed", error=generator.error())
        if generator.chance(3)
        else e.ChildEnded(child=name, output=generator.value())
        for name in _unpaid(generator, state, "child")
    ]


_ideas: dict[type[e.Event], Idea] = {
    e.RunCreated: _created,
    e.RunStarted: _run_started,
    e.RunPaused: lambda generator, _: [e.RunPaused(reason=generator.word())],
    e.RunTakenOver: lambda _, __: [],  # only `take_over` generates it, at the beginning of a TAKEOVER
    e.PauseRequested: lambda generator, _: [e.PauseRequested(by=generator.word(), reason=generator.word())],
    e.CancelRequested: lambda generator, _: [
        e.CancelRequested(by=generator.word(), reason=generator.word(), force=generator.chance(3))
    ],
    e.RequestRefused: _request_refused,
    e.RunCompleted: lambda generator, state: _ended(
        generator, state, e.RunCompleted(output=generator.value(), ms=0.25)
    ),
    e.RunFailed: _run_failed,
    e.CleanupStarted: _cleanup_started,
    e.RunCancelled: lambda generator, state: _ended(
        generator, state, e.RunCancelled(by=generator.word(), reason=generator.word())
    ),
    e.RunContinued: lambda generator, state: _ended(
        generator, state, e.RunContinued(successor="next", carried=generator.value())
    ),
    e.RunRecovered: lambda generator, state: [
        e.RunRecovered(code="G2", reason=generator.word(), evidence=(state.outline.seq,))
    ],
    e.VersionChanged: lambda generator, state: [
        e.VersionChanged(version=generator.word(), previous=state.outline.version)
    ],
    e.BranchOpened: _branch_opened,
    e.JumpRequested: lambda generator, _: [
        e.JumpRequested(target=generator.pick(generator.seq + 1), branch=max(generator.branches) + 1)
    ],
    e.Recalled: lambda _, state: [e.Recalled(at=state.outline.seq, time=state.outline.time)],
    e.StepStarted: lambda generator, _: [e.StepStarted(step=f"s{generator.pick(3)}")],
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
    e.GraphExtended: lambda generator, _: [e.GraphExtended(by=generator.word(), nodes=generator.value())],
    e.InteractionRequested: _interaction_requested,
    e.InteractionAnswered: _interaction_answered,
    e.InteractionWithdrawn: _interaction_withdrawn,
    e.SignalAwaited: _signal_awaited,
    e.SignalReceived: _signal_received,
    e.SignalConsumed: _signal_consumed,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.TimerCancelled: _timer_cancelled,
    e.NewsHeard: lambda _, state: [e.NewsHeard(upto=state.outline.seq)],
    e.DecisionRecorded: lambda generator, state: [
        e.DecisionRecorded(key=generator.fresh("d", state.decisions), value=generator.value())
    ],
    e.TriggerRegistered: lambda generator, state: [
        e.TriggerRegistered(
            trigger=generator.fresh("x", state.triggers), kind=generator.word(), config=generator.value()
        )
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
