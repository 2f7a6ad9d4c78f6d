"""The results that a new branch adopts from the branch it left: those of nodes that do not depend on why it opened.

A node outside the redone part that is called under the same name, with the same inputs and the same code, does not run
again: the new branch adopts its completion. Two kinds of nodes are outside: those called before the cutoff, because they
cannot depend on later events; and those of tasks that were running at the cutoff beside the redone part, not after it. A
branch that repairs a run or moves it to new code redoes no node for its own sake, so it may adopt every result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from outlast.history import events as e
from outlast.history.ids import input_hash
from outlast.history.record import Entry
from outlast.lifecycle.state import OPEN, State

_ADOPT_EVERYTHING = ("recovery", "migrate")


class Adoptable(Struct, frozen=True):
    """A completion on a branch that was left: its seq, the hash of the inputs, the version of the code, and the output."""

    seq: int
    hash: str
    code: str
    output: e.Value


def adoptable(
    opened: e.BranchOpened, then: State, left: Iterable[Entry], earlier: Mapping[str, Adoptable] | None = None
) -> dict[str, Adoptable]:
    """The adoptable completions by node; `then` is the state at the cutoff, `left` are the events after it. Results that the
    left branch could have adopted `earlier` and did not are included."""
    found = {**(earlier or {}), **_completions(then, left)}
    for node in opened.redo:
        found.pop(node, None)
    if opened.cause in _ADOPT_EVERYTHING:
        return found
    begun = _scopes_begun(then)
    return {
        node: each
        for node, each in found.items()
        if _is_under_way(then, node)
        or (opened.redo and all(_is_beside(node, other, then, begun) for other in opened.redo))
    }


def _completions(then: State, left: Iterable[Entry]) -> dict[str, Adoptable]:
    asked = {name: node.started for name, node in then.nodes.items() if node.status in OPEN}
    edited = {name for name, node in then.nodes.items() if node.given is not None and node.given.inputs is not e.NULL}
    found: dict[str, Adoptable] = {}
    for entry in left:
        match entry.event:
            case e.NodeScheduled() as event:
                found.pop(event.node, None)
                if event.inputs is not e.NULL:
                    edited.add(event.node)
            case e.NodeStarted() as event:
                asked[event.node] = event
            case e.NodeCompleted() as event if event.node not in edited:
                started = asked.get(event.node)
                if started is not None:
                    hash = started.hash or input_hash(started.inputs)
                    found[event.node] = Adoptable(event.adopted or entry.seq, hash, started.code, event.output)
            case _:
                pass
    return found


def _is_under_way(then: State, node: str) -> bool:
    known = then.nodes.get(node)
    return known is not None and known.status in OPEN


def _scopes_begun(then: State) -> set[str]:
    """The scopes in which a node had been called at the cutoff."""
    return {name[:place] for name, _ in then.nodes.items() for place, sign in enumerate(name) if sign == "/"}


def _is_beside(node: str, other: str, then: State, begun: set[str]) -> bool:
    """Whether a node belongs to another item of the same map as `other`, or to another task that had begun before the
    cutoff. Maps and tasks are numbered; steps, which follow one another, are not."""
    mine, theirs = node.split("/"), other.split("/")
    for place, (here, there) in enumerate(zip(mine, theirs, strict=False)):
        if here != there:
            if not (here.isdigit() and there.isdigit()):
                return False
            around = "/".join(mine[:place])
            is_map = bool(around) and not mine[place - 1].isdigit() and then.steps.get(around) is None
            return is_map or "/".join(mine[: place + 1]) in begun
    return False
