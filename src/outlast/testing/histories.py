"""Random histories: any event of any type, and whole logs that are legal.

`events` draws one event with any fields, by looking at what `EVENT_TYPES` says: a new type is drawn as soon as it is there.
`histories` draws a log that breaks no invariant: several owners, guests and their requests, branches cut anywhere, holds,
pauses, retries, compensation, endings and what re-opens them. A `Muse` suggests what may be said next in a state, asking
the transition table; a `History` writes it down as append records and keeps the state. Neither needs Hypothesis but for
the choices, which are a function from n to a number below n: a seeded generator serves as well.

This is the only module that imports Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from hypothesis import strategies as st
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId
from outlast.history.lineage import BEFORE_FIRST, ROOT, Branch, holder, lineage, opened
from outlast.history.record import Entry, Kind, Record, chained, entries, genesis
from outlast.lifecycle import decide
from outlast.lifecycle.fold import apply, fold
from outlast.lifecycle.state import NodeState, NodeStatus, Outline, State, Table, Wait
from outlast.lifecycle.status import Status
from outlast.lifecycle.transitions import CONTROL, GUEST_DATA, may_follow

Part = TypeVar("Part")
Pick: TypeAlias = Callable[[int], int]
"""From n to a number below n; 0 is the plainest choice."""

Burst: TypeAlias = list[e.AnyEvent]
"""Events that are said in one breath."""

# --- any event ---------------------------------------------------------------------------------------------------------

LETTERS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1)

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=6,
)
_odd = st.sampled_from(
    [b"[1, 2]", b'{ "a" : 1e400 }', b'"\\u00e9\\n"', b"-0", b"1E+5", b'{"a":1,"a":2}', b'""', b"[ ]"]
)


def values() -> st.SearchStrategy[Raw]:
    """JSON in its exact bytes, also as other programs write it."""
    return (_json.map(msgspec.json.encode) | _odd).map(Raw)


def events(
    *kinds: type[e.Event],
    text: st.SearchStrategy[str] = LETTERS,
    numbers: st.SearchStrategy[int] = NUMBERS,
    newer: bool = True,
) -> st.SearchStrategy[e.AnyEvent]:
    """Any event, or any of these types, with any fields. Texts and numbers may be narrowed so that events meet; `newer`
    adds fields that this version does not know."""
    return st.sampled_from(kinds or tuple(e.EVENT_TYPES.values())).flatmap(
        lambda kind: _event_of(kind, text, numbers, newer)
    )


@cache
def _event_of(
    kind: type[e.Event], text: st.SearchStrategy[str], numbers: st.SearchStrategy[int], newer: bool
) -> st.SearchStrategy[Any]:
    shape = msgspec.inspect.type_info(kind)
    assert isinstance(shape, msgspec.inspect.StructType)
    taken = {"type", *(each.encode_name for each in shape.fields)}
    fields = {each.name: _any(each.type, text, numbers) for each in shape.fields if each.encode_name != "+"}
    unknown = st.dictionaries(LETTERS.filter(lambda name: name not in taken), values(), min_size=1, max_size=3)
    return st.builds(kind, more=st.none() | unknown if newer else st.none(), **fields)


def _any(shape: msgspec.inspect.Type, text: st.SearchStrategy[str], numbers: st.SearchStrategy[int]) -> Any:
    """A strategy for a field, from what msgspec knows of its type. An unforeseen type fails here, loudly."""
    match shape:
        case msgspec.inspect.StrType():
            return text
        case msgspec.inspect.IntType():
            return numbers
        case msgspec.inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.RawType():
            return values()
        case msgspec.inspect.LiteralType():
            return st.sampled_from(shape.values)
        case msgspec.inspect.VarTupleType():
            return st.lists(_any(shape.item_type, text, numbers), max_size=3).map(tuple)
        case msgspec.inspect.UnionType():
            return st.one_of(*(_any(each, text, numbers) for each in shape.types))
        case msgspec.inspect.DictType(value_type=msgspec.inspect.RawType()):
            return st.nothing()  # fields of a newer version: whoever wants them adds them
        case msgspec.inspect.StructType():
            return st.builds(shape.cls, **{each.name: _any(each.type, text, numbers) for each in shape.fields})
        case _:
            raise NotImplementedError(f"no strategy for {shape}")


# --- a log that is being written ---------------------------------------------------------------------------------------


class History:
    """A legal log in the making: its records, its branches, what each branch has told, and the state of the newest.

    `told` is kept the plain way, one list of entries per branch, so that it can judge `lineage`."""

    def __init__(self, run: str = "run", *, key: bytes = b"") -> None:
        self.run = RunId(run)
        self.key = key
        self.records: list[Record] = []
        self.branches: dict[int, Branch] = {0: ROOT}
        self.told: dict[int, list[Entry]] = {0: []}
        self.state = State()
        self.epoch = 0
        self.time = 1_700_000_000_000_000
        self._saying: list[e.AnyEvent] = []

    @property
    def seq(self) -> int:
        """The place of the newest event, on whatever branch."""
        return self.records[-1].last if self.records else 0

    @property
    def branch(self) -> int:
        return max(self.branches)

    @property
    def lineage(self) -> list[Entry]:
        """What the newest branch sees."""
        return self.told[self.branch]

    def write(
        self,
        events: Sequence[e.AnyEvent],
        kind: Kind = Kind.OWNER,
        *,
        epoch: int | None = None,
        time: int | None = None,
    ) -> Record:
        """One append more. Raises `Illegal` if it may not follow; the history is then of no further use."""
        self.epoch = self.epoch if epoch is None else epoch
        self.time = self.time + 1 if time is None else time
        for event in events:
            self.say(event)
        return self.seal(kind)

    def say(self, event: e.AnyEvent) -> Entry:
        """One event of the append that is being written."""
        if isinstance(event, e.BranchOpened):
            self._open(event)
        seq = self.seq + len(self._saying) + 1
        apply(self.state, event, seq, self.time)
        entry = Entry(seq, self.branch, self.time, event)
        self.lineage.append(entry)
        self._saying.append(event)
        return entry

    def seal(self, kind: Kind = Kind.OWNER) -> Record:
        """What was said becomes an append record."""
        record = self.sealed(self._saying, kind)
        self.records.append(record)
        self._saying = []
        return record

    def sealed(self, events: Sequence[e.AnyEvent], kind: Kind = Kind.OWNER, *, epoch: int | None = None) -> Record:
        """The record that `events` would be, numbered and chained but neither checked nor written."""
        if kind in (Kind.GUEST, Kind.CONTROL):
            own = 0
        else:
            own = self.epoch if epoch is None else epoch
        first, body = self.seq + 1, encode(events)
        id = AppendId(first.to_bytes(16, "big"))
        previous = self.records[-1].digest if self.records else genesis(self.run, self.key)
        digest = chained(previous, first, len(events), self.branch, own, kind, self.time, id, body, self.key)
        return Record(self.run, first, len(events), self.branch, own, kind, id, self.time, body, digest)

    def state_at(self, cutoff: int) -> State:
        """What the lineage that ends at `cutoff` amounts to."""
        held = self.told[holder(self.branches.values(), cutoff).id]
        return fold(State(), (entry for entry in held if entry.seq <= max(cutoff, 1)))

    def cut(self, cutoff: int, *, by: str = "", reason: str = "") -> list[e.AnyEvent]:
        """What opens a branch at `cutoff`: BranchOpened, and the receipts it takes over."""
        then = self.state_at(cutoff)
        return decide.open_branch(self.state, then, self.branches.values(), cutoff, by=by, reason=reason)

    def _open(self, event: e.BranchOpened) -> None:
        shared = [entry for entry in self.told[event.parent] if entry.seq <= max(event.cutoff, 1)]
        self.branches[event.branch] = opened(event, self.seq + 1)
        self.told[event.branch] = shared
        self.state = fold(State(), shared)


def rechained(records: Iterable[Record], run: RunId, *, key: bytes = b"") -> list[Record]:
    """The same records with digests that chain, as someone who can write to the store could forge them."""
    previous = genesis(run, key)
    sound: list[Record] = []
    for each in records:
        header = (each.first, each.count, each.branch, each.epoch, each.kind, each.time, each.id)
        previous = chained(previous, *header, each.body, key)
        sound.append(replace(each, digest=previous))
    return sound


# --- what may be said next ---------------------------------------------------------------------------------------------

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


class Muse(Struct):
    """Suggests what may be said next. It has heard the whole log, since some of what is legal lies on other branches."""

    pick: Pick
    branches: dict[int, Branch] = field(default_factory=lambda: {0: ROOT})
    done: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    owed: dict[str, bool] = field(default_factory=dict[str, bool])
    """Receipts: of whom one may come, and whether it has."""
    told: list[Entry] = field(default_factory=list[Entry])
    is_guest: bool = False
    seq: int = 0

    def hear(self, told: Iterable[Entry]) -> None:
        """Remember what was written, on whatever branch."""
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
        """What opens a branch at `cutoff`."""
        intervals = lineage(self.branches, holder(self.branches.values(), cutoff).id, cutoff)
        shared = (entry for first, last in intervals for entry in self.told[first - 1 : last])
        then = fold(State(), shared)
        return decide.open_branch(state, then, self.branches.values(), cutoff, by=self.word())

    def suggest(self, state: State, kind: Kind = Kind.OWNER, *, branching: bool = False) -> Burst:
        """Something that someone who writes this kind of append may say now; nothing if there is nothing.

        A BranchOpened, suggested only where `branching` allows it, begins its append; a takeover only a TAKEOVER."""
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
        """The first words of a new owner."""
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
        """The first name of a kind that is not in use: other branches may use it too."""
        names = (f"{letter}{number}" for number in count())
        return next(name for name in names if not spent(name) and all(table.get(name) is None for table in taken))

    def _embellished(self, event: e.AnyEvent) -> e.AnyEvent:
        return replace(event, more={"later": self.value()}) if self.chance(30) else event


# Each idea says one thing that may be said now, or nothing. They know the rules of the log by themselves and not from the
# fold, so that the two check each other; only the table is asked beforehand.

Idea: TypeAlias = Callable[[Muse, State], Burst]


def _nodes(state: State, *statuses: NodeStatus) -> list[tuple[str, NodeState]]:
    return [(name, node) for name, node in state.nodes.items() if node.status in statuses]


def _waits(state: State, kind: str) -> dict[str, Wait]:
    return {wait.id: wait for wait in (*state.waits.values(), *state.loose.values()) if wait.kind == kind}


def _created(muse: Muse, _state: State) -> Burst:
    created = e.RunCreated(
        workflow="flow",
        version=muse.word(),
        params=muse.value(),
        by=muse.word(),
        kind=muse.one(("function", "graph", "plan", "trigger", "schedule")) or "function",
        title=muse.word(),
        tags=("a", "b")[: muse.pick(3)],
        parent=muse.word(),
        on_restart="hold" if muse.chance(4) else "resume",
    )
    return [created]


def _run_started(muse: Muse, state: State) -> Burst:
    if state.outline.base is Status.CREATED:
        return [e.RunStarted(by=muse.word())]
    return decide.resume(state) if muse.chance(2) else [e.RunStarted(resumed=True, by=muse.word())]


def _ended(muse: Muse, state: State, ending: decide.Ending) -> Burst:
    """With the outcomes of all that is open, or bare where nothing is in flight."""
    return decide.end(state, ending) if state.outline.open_nodes or muse.chance(2) else [ending]


def _run_failed(muse: Muse, state: State) -> Burst:
    if muse.chance(2):
        return [e.RunFailed(error=muse.error(), recoverable=muse.chance(2), held=True)]
    return _ended(muse, state, e.RunFailed(error=muse.error(), recoverable=muse.chance(2)))


def _branch_opened(muse: Muse, state: State) -> Burst:
    at = muse.pick(muse.seq + 3)
    cutoff = at if at <= muse.seq else (BEFORE_FIRST, muse.seq)[at - muse.seq - 1]
    return muse.cut(state, cutoff)


def _step_completed(muse: Muse, state: State) -> Burst:
    found = muse.one([name for name, _ in state.steps.items()])
    return [e.StepCompleted(step=found)] if found else []


_CAUSE_OF: dict[NodeStatus, tuple[Literal["retry", "crash", "pause", "reset"], ...]] = {
    NodeStatus.RETRYING: ("retry",),
    NodeStatus.STARTED: ("crash", "pause"),
    NodeStatus.FAILED: ("reset",),
}


def _node_scheduled(muse: Muse, state: State) -> Burst:
    again = muse.one(_nodes(state, *_CAUSE_OF)) if muse.chance(3) else None
    if again is None:
        return [e.NodeScheduled(node=muse.fresh("n", state.nodes), step=muse.word(), feedback=muse.value())]
    name, node = again
    cause = muse.one(_CAUSE_OF[node.status]) or "reset"
    return [e.NodeScheduled(node=name, attempt=node.attempt + 1, cause=cause)]


def _node_started(muse: Muse, state: State) -> Burst:
    return [
        e.NodeStarted(node=name, attempt=node.attempt, inputs=muse.value(), hash=muse.word(), code=muse.word())
        for name, node in muse.some(_nodes(state, NodeStatus.SCHEDULED))
    ]


def _node_checkpointed(muse: Muse, state: State) -> Burst:
    return [
        e.NodeCheckpointed(node=name, attempt=node.attempt, data=muse.value())
        for name, node in muse.some(_nodes(state, NodeStatus.STARTED))
    ]


def _node_completed(muse: Muse, state: State) -> Burst:
    adoptable = [name for name in muse.done if _may_adopt(state.nodes.get(name))]
    if adoptable and muse.chance(2):
        name = muse.one(adoptable) or adoptable[0]
        known = state.nodes.get(name)
        place = muse.one(muse.done[name]) or 0
        return [e.NodeCompleted(node=name, attempt=known.attempt if known else 1, output=muse.value(), adopted=place)]
    return [
        e.NodeCompleted(node=name, attempt=node.attempt, output=muse.value(), ms=1.5)
        for name, node in muse.some(_nodes(state, NodeStatus.STARTED))
    ]


def _may_adopt(node: NodeState | None) -> bool:
    return node is None or node.status in (NodeStatus.SCHEDULED, NodeStatus.STARTED)


def _node_failed(muse: Muse, state: State) -> Burst:
    found = muse.one(_nodes(state, NodeStatus.STARTED, NodeStatus.SCHEDULED))
    if found is None:
        return []
    name, node = found
    if node.status is NodeStatus.SCHEDULED:
        return [e.NodeFailed(node=name, attempt=node.attempt, error=e.Failure("Cancelled", category="cancelled"))]
    due = muse.pick(1000) if muse.chance(2) else None
    return [e.NodeFailed(node=name, attempt=node.attempt, error=muse.error(), ms=2.0, retry_at=due)]


def _node_skipped(muse: Muse, state: State) -> Burst:
    found = muse.one(_nodes(state, NodeStatus.SCHEDULED)) if muse.chance(2) else None
    return [e.NodeSkipped(node=found[0] if found else muse.fresh("n", state.nodes), reason=muse.word())]


def _compensation_started(muse: Muse, state: State) -> Burst:
    found = muse.some(_nodes(state, NodeStatus.COMPLETED, NodeStatus.COMPENSATING))
    return [e.CompensationStarted(node=name, attempt=1 + muse.pick(3)) for name, _ in found]


def _node_compensated(muse: Muse, state: State) -> Burst:
    found = muse.some(_nodes(state, NodeStatus.COMPENSATING))
    return [e.NodeCompensated(node=name, attempt=node.attempt, ms=0.5) for name, node in found]


def _compensation_failed(muse: Muse, state: State) -> Burst:
    found = muse.some(_nodes(state, NodeStatus.COMPENSATING))
    return [e.CompensationFailed(node=name, attempt=node.attempt, error=muse.error()) for name, node in found]


def _interaction_requested(muse: Muse, state: State) -> Burst:
    asked = e.InteractionRequested(
        interaction=muse.fresh("q", state.interactions),
        node=muse.word(),
        key=muse.word(),
        kind=muse.one(("ask", "approve", "form")) or "ask",
        prompt=muse.word(),
        schema=muse.value(),
        hash=muse.word(),
        due=muse.pick(1000) if muse.chance(3) else None,
    )
    return [asked]


def _asked(muse: Muse, state: State) -> list[str]:
    """A question that is open; a guest only sees the ones the run waits for."""
    if muse.is_guest:
        return muse.some(list(_waits(state, "interaction")))
    pending = [name for name, asked in state.interactions.items() if asked.answer is None and not asked.withdrawn]
    return muse.some(pending)


def _interaction_answered(muse: Muse, state: State) -> Burst:
    return [e.InteractionAnswered(interaction=q, answer=muse.value(), by=muse.word()) for q in _asked(muse, state)]


def _interaction_withdrawn(muse: Muse, state: State) -> Burst:
    return [e.InteractionWithdrawn(interaction=name, reason=muse.word()) for name in _asked(muse, state)]


def _signal_awaited(muse: Muse, state: State) -> Burst:
    return [e.SignalAwaited(wait=muse.fresh("a", _waits(state, "signal")), name=f"news{muse.pick(2)}")]


def _signal_received(muse: Muse, state: State) -> Burst:
    again = muse.one([name for name, _ in state.signals.items()]) if muse.chance(6) else None
    name = again or muse.fresh("g", state.signals)
    return [e.SignalReceived(signal=name, name=f"news{muse.pick(2)}", data=muse.value(), by=muse.word())]


def _signal_consumed(muse: Muse, state: State) -> Burst:
    found = muse.some([name for name, signal in state.signals.items() if not signal.consumed])
    waiting = muse.one(list(_waits(state, "signal")))
    return [e.SignalConsumed(signal=name, wait=waiting or "") for name in found]


def _timer_set(muse: Muse, state: State) -> Burst:
    again = muse.one(list(_waits(state, "timer"))) if muse.chance(3) else None
    if again is not None and not again.startswith("retry:"):
        return [e.TimerCancelled(timer=again, reason="put off"), e.TimerSet(timer=again, due=muse.pick(1000))]
    return [e.TimerSet(timer=muse.fresh("t", _waits(state, "timer")), due=muse.pick(1000), node=muse.word())]


def _timer_fired(muse: Muse, state: State) -> Burst:
    return [e.TimerFired(timer=name) for name in muse.some(list(_waits(state, "timer")))]


def _timer_cancelled(muse: Muse, state: State) -> Burst:
    return [e.TimerCancelled(timer=name, reason=muse.word()) for name in muse.some(list(_waits(state, "timer")))]


def _cursor(muse: Muse, old: e.Cursor | None) -> e.Cursor:
    """Where it was or further on, in its own kind."""
    if old is None:
        return "" if muse.chance(2) else -3
    return old + "a" * muse.pick(3) if isinstance(old, str) else old + muse.pick(3)


def _trigger_input_received(muse: Muse, state: State) -> Burst:
    found = muse.one(list(state.triggers.items()))
    if found is None:
        return []
    name, source = found
    cursor = None if muse.is_guest or muse.chance(2) else _cursor(muse, source.cursor)
    return [e.TriggerInputReceived(trigger=name, input=f"i{source.received}", data=muse.value(), cursor=cursor)]


def _trigger_cursor_advanced(muse: Muse, state: State) -> Burst:
    return [
        e.TriggerCursorAdvanced(trigger=name, cursor=_cursor(muse, source.cursor), count=1)
        for name, source in muse.some(list(state.triggers.items()))
    ]


def _outbox_enqueued(muse: Muse, state: State) -> Burst:
    name = muse.fresh("m", _waits(state, "outbox"), spent=lambda name: muse.owed.get(f"outbox:{name}", False))
    return [e.OutboxEnqueued(message=name, target=muse.word(), data=muse.value(), node=muse.word())]


def _unpaid(muse: Muse, state: State, kind: str) -> list[str]:
    """Whose receipt may come. A guest only sees what is still shown as open; each comes once in the whole log."""
    seen = _waits(state, kind)
    return muse.some([name for name in seen if not muse.owed.get(f"{kind}:{name}", False)])


def _outbox_sent(muse: Muse, state: State) -> Burst:
    return [e.OutboxSent(message=name, receipt=muse.word()) for name in _unpaid(muse, state, "outbox")]


def _child_started(muse: Muse, state: State) -> Burst:
    name = muse.fresh("c", state.children, spent=lambda name: muse.owed.get(f"child:{name}", False))
    return [e.ChildStarted(child=name, workflow=muse.word(), node=muse.word(), detached=muse.chance(3))]


def _child_ended(muse: Muse, state: State) -> Burst:
    return [
        e.ChildEnded(child=name, status="failed", error=muse.error())
        if muse.chance(3)
        else e.ChildEnded(child=name, output=muse.value())
        for name in _unpaid(muse, state, "child")
    ]


_ideas: dict[type[e.Event], Idea] = {
    e.RunCreated: _created,
    e.RunStarted: _run_started,
    e.RunPaused: lambda muse, _: [e.RunPaused(reason=muse.word())],
    e.RunTakenOver: lambda _, __: [],  # `Muse.take_over` says it, and only at the beginning of a TAKEOVER
    e.PauseRequested: lambda muse, _: [e.PauseRequested(by=muse.word(), reason=muse.word())],
    e.CancelRequested: lambda muse, _: [e.CancelRequested(by=muse.word(), reason=muse.word())],
    e.RunCompleted: lambda muse, state: _ended(muse, state, e.RunCompleted(output=muse.value(), ms=0.25)),
    e.RunFailed: _run_failed,
    e.RunCancelled: lambda muse, state: _ended(muse, state, e.RunCancelled(by=muse.word(), reason=muse.word())),
    e.RunContinued: lambda muse, state: _ended(muse, state, e.RunContinued(successor="next", carried=muse.value())),
    e.RunRecovered: lambda muse, state: [e.RunRecovered(code="G2", reason=muse.word(), evidence=(state.outline.seq,))],
    e.VersionChanged: lambda muse, state: [e.VersionChanged(version=muse.word(), previous=state.outline.version)],
    e.BranchOpened: _branch_opened,
    e.JumpRequested: lambda muse, _: [e.JumpRequested(target=muse.pick(muse.seq + 1), branch=max(muse.branches) + 1)],
    e.StepStarted: lambda muse, _: [e.StepStarted(step=f"s{muse.pick(3)}")],
    e.StepCompleted: _step_completed,
    e.NodeScheduled: _node_scheduled,
    e.NodeStarted: _node_started,
    e.NodeCheckpointed: _node_checkpointed,
    e.NodeCompleted: _node_completed,
    e.NodeFailed: _node_failed,
    e.NodeSkipped: _node_skipped,
    e.CompensationStarted: _compensation_started,
    e.NodeCompensated: _node_compensated,
    e.CompensationFailed: _compensation_failed,
    e.GraphExtended: lambda muse, _: [e.GraphExtended(by=muse.word(), nodes=muse.value())],
    e.InteractionRequested: _interaction_requested,
    e.InteractionAnswered: _interaction_answered,
    e.InteractionWithdrawn: _interaction_withdrawn,
    e.SignalAwaited: _signal_awaited,
    e.SignalReceived: _signal_received,
    e.SignalConsumed: _signal_consumed,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.TimerCancelled: _timer_cancelled,
    e.DecisionRecorded: lambda muse, state: [
        e.DecisionRecorded(key=muse.fresh("d", state.decisions), value=muse.value())
    ],
    e.TriggerRegistered: lambda muse, state: [
        e.TriggerRegistered(trigger=muse.fresh("x", state.triggers), kind=muse.word(), config=muse.value())
    ],
    e.TriggerInputReceived: _trigger_input_received,
    e.TriggerCursorAdvanced: _trigger_cursor_advanced,
    e.OutboxEnqueued: _outbox_enqueued,
    e.OutboxSent: _outbox_sent,
    e.ChildStarted: _child_started,
    e.ChildEnded: _child_ended,
}

_missing = set(e.EVENT_TYPES.values()) - set(_ideas)
assert not _missing, f"the muse has no idea of {_missing}"

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
    **dict.fromkeys((e.RunCompleted, e.RunCancelled, e.RunContinued, e.RunPaused, e.RunRecovered), 1),
    **dict.fromkeys((e.VersionChanged, e.PauseRequested, e.CancelRequested, e.JumpRequested, e.SignalReceived), 1),
}
"""How often a type is offered first, beside the 4 of the others: work more often than endings, or little would happen."""


def _weight(kind: type[e.Event]) -> int:
    return _WEIGHTS.get(kind, 4)


@cache
def _offered(
    kind: Kind, base: Status | None, recoverable: bool, held: bool, branching: bool
) -> tuple[type[e.Event], ...]:
    """What the table allows this writer here, each as often as its weight, the frequent ones first: Hypothesis likes to
    choose what stands first."""
    outline = Outline(base, recoverable=recoverable, held=held)
    sayable = GUEST_DATA if kind is Kind.GUEST else CONTROL if kind is Kind.CONTROL else tuple(_ideas)
    allowed = [each for each in sayable if may_follow(outline, each) and (branching or each is not e.BranchOpened)]
    allowed.sort(key=_weight, reverse=True)
    return tuple(each for each in allowed for _ in range(_weight(each)))


# --- whole histories ---------------------------------------------------------------------------------------------------

_TICKS = (1, 0, 1000, 60_000_000, -500)
"""How the clock moves between appends; the clock of a guest may be behind."""


class Author:
    """Writes a random history, append after append."""

    def __init__(self, pick: Pick, history: History | None = None) -> None:
        self.history = History() if history is None else history
        self.muse = Muse(pick)
        for record in self.history.records:
            self.muse.hear(entries(record))

    def go_on(self) -> None:
        """One append more, of whatever kind may come; the first one creates the run."""
        history, muse = self.history, self.muse
        kind = self._kind()
        history.time += _TICKS[muse.pick(len(_TICKS))]
        if kind is Kind.TAKEOVER:
            history.epoch += 1 + muse.pick(2)  # a claim may have come to nothing
            opening = muse.take_over(history.state, history.epoch)
        else:
            opening = muse.suggest(history.state, kind if history.records else Kind.OWNER, branching=True)
        self._say(opening)
        for _ in range(0 if history.state.is_closed else muse.pick(4)):
            self._say(muse.suggest(history.state, kind))
        if opening:
            history.seal(kind)

    def _kind(self) -> Kind:
        history = self.history
        if not history.records:
            is_owned = not self.muse.chance(4)
            history.epoch = int(is_owned)
            return Kind.OWNER if is_owned else Kind.GUEST
        kind = _WRITERS[self.muse.pick(len(_WRITERS))]
        if kind is Kind.OWNER and not history.epoch:
            return Kind.TAKEOVER
        return Kind.OWNER if kind is Kind.CONTROL and history.state.is_closed else kind

    def _say(self, burst: Burst) -> None:
        for event in burst:
            self.muse.hear([self.history.say(event)])


_WRITERS = (Kind.OWNER,) * 8 + (Kind.GUEST,) * 2 + (Kind.TAKEOVER, Kind.CONTROL)
"""Who writes how often."""


@cache
def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


@st.composite
def histories(draw: st.DrawFn, appends: int = 25) -> History:
    """A legal log of up to so many appends."""
    author = Author(lambda n: draw(_below(n)) if n > 1 else 0)
    for _ in range(1 + draw(_below(appends))):
        author.go_on()
    return author.history


def written(seed: int, appends: int = 25) -> History:
    """The legal log that belongs to this number, without Hypothesis: quick, but it does not shrink."""
    random = Random(seed)
    author = Author(random.randrange)
    for _ in range(appends):
        author.go_on()
    return author.history
