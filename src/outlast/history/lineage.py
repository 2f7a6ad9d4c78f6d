"""Lineages: the events that a branch sees.

A branch shares its parent's lineage up to its cutoff and then has its own events. Branches are numbered as they open, and
only the newest branch receives events, so each branch is a single interval of seq and a lineage is a short list of
intervals. RunCreated belongs to the run, not to a branch: every lineage begins with it. A cutoff of `BEFORE_FIRST` therefore
shares only RunCreated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from outlast.errors import Illegal, NotFound
from outlast.history.events import BranchOpened

BEFORE_FIRST = 0
"""The cutoff before every event. It differs from any seq and from "everything"."""

Interval = tuple[int, int]
"""First and last seq, both included."""


class Branch(Struct, frozen=True):
    """A line of history. `parent` is the branch that holds the event at `cutoff`; the first branch has none."""

    id: int
    first: int
    parent: int | None = None
    cutoff: int = BEFORE_FIRST


ROOT = Branch(0, 1)


def opened(event: BranchOpened, seq: int) -> Branch:
    """The branch that the event at `seq` opens."""
    return Branch(event.branch, seq, event.parent, event.cutoff)


def holder(branches: Iterable[Branch], seq: int) -> Branch:
    """The branch whose interval holds `seq`: the one that opened last at or before it."""
    found = ROOT
    for branch in branches:
        if found.first < branch.first <= seq:
            found = branch
    return found


def lineage(branches: Mapping[int, Branch], branch: int, last: int) -> list[Interval]:
    """The intervals that `branch` sees, oldest first, up to `last`, the end of its own interval."""
    intervals: list[Interval] = []
    while True:
        here = branches.get(branch)
        if here is None:
            raise NotFound(f"there is no branch {branch}")
        if here.first <= last:
            intervals.append((here.first, last))
        if here.parent is None:
            break
        if here.cutoff >= here.first:
            raise Illegal("V8", f"branch {branch} is cut at event {here.cutoff}, but it opened at {here.first}")
        if here.parent >= branch:
            raise Illegal("V8", f"branch {branch} cannot descend from branch {here.parent}: its number is not smaller")
        branch, last = here.parent, here.cutoff
    intervals.reverse()
    return intervals if intervals and intervals[0][0] == 1 else [(1, 1), *intervals]
