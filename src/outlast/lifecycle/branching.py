"""The branches of a run: where each one left its parent, why, by whom, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.status import RunStatus


class BranchSummary(Struct, kw_only=True):
    """One branch. `first` to `last` are its own events; `status` is how the run stood at its end, without `waiting`."""

    branch: int
    first: int = 1
    last: int = 1
    parent: int | None = None
    cutoff: int = 0
    cause: str = ""
    by: str = ""
    reason: str = ""
    opened: int = 0
    ended: int = 0
    nodes: int = 0
    """Nodes that completed on it."""
    status: RunStatus = RunStatus.CREATED
    is_held: bool = False
    is_current: bool = False

    @property
    def events(self) -> int:
        return self.last - self.first + 1


class BranchSummaries:
    """Hears a whole log, dead branches included, and keeps what there is to say of each branch."""

    def __init__(self) -> None:
        self.branches: dict[int, BranchSummary] = {}
        self._turns: list[tuple[int, int, RunStatus, bool]] = []
        """Where the status of the run changed: place, branch, status, whether held."""

    def hear(self, entry: Entry) -> None:
        """One event more, of whatever branch."""
        event = entry.event
        if isinstance(event, e.BranchOpened):
            self._open(event, entry)
        branch = self.branches.get(entry.branch)
        if branch is None:
            branch = self.branches[entry.branch] = BranchSummary(
                branch=entry.branch, first=entry.seq, opened=entry.time
            )
        branch.last, branch.ended = entry.seq, entry.time
        if isinstance(event, e.NodeCompleted):
            branch.nodes += 1
        turn = _turn(event)
        if turn is not None:
            if isinstance(event, e.RunStarted) and self._is_undoing(entry.branch, entry.seq):
                turn = RunStatus.COMPENSATING, False  # it goes on with what it was doing
            branch.status, branch.is_held = turn
            self._turns.append((entry.seq, entry.branch, *turn))

    def _open(self, event: e.BranchOpened, entry: Entry) -> None:
        status, is_held = self._at(event.parent, event.cutoff)
        self.branches[event.branch] = BranchSummary(
            branch=event.branch,
            first=entry.seq,
            parent=event.parent,
            cutoff=event.cutoff,
            cause=event.cause,
            by=event.by,
            reason=event.reason,
            opened=entry.time,
            status=status,
            is_held=is_held,
        )

    def _at(self, branch: int, cutoff: int) -> tuple[RunStatus, bool]:
        """How the run stood at that event of that branch."""
        return next(self._before(branch, cutoff), (RunStatus.CREATED, False))

    def _is_undoing(self, branch: int, seq: int) -> bool:
        """Whether the run had begun to compensate by then."""
        return any(status is RunStatus.COMPENSATING for status, _ in self._before(branch, seq))

    def _before(self, branch: int, cutoff: int) -> Iterator[tuple[RunStatus, bool]]:
        """How the run stood on the lineage of that event, from there back to its beginning."""
        line: int | None = branch
        while line is not None:
            for seq, on, status, is_held in reversed(self._turns):
                if on == line and seq <= cutoff:
                    yield status, is_held
            here = self.branches.get(line)
            line, cutoff = (here.parent, here.cutoff) if here is not None else (None, 0)

    def summaries(self) -> list[BranchSummary]:
        """All branches as they opened; the last one is the current one."""
        found = [self.branches[number] for number in sorted(self.branches)]
        if found:
            found[-1].is_current = True
        return found


def _turn(event: e.AnyEvent) -> tuple[RunStatus, bool] | None:
    match event:
        case e.RunStarted():
            return RunStatus.RUNNING, False
        case e.RunPaused():
            return RunStatus.PAUSED, False
        case e.RunCompleted() | e.RunContinued():
            return RunStatus.COMPLETED, False
        case e.RunFailed():
            return RunStatus.FAILED, event.held
        case e.RunCancelled():
            return RunStatus.CANCELLED, False
        case e.CompensationStarted() | e.CleanupStarted():
            return RunStatus.COMPENSATING, False
        case _:
            return None


def branches_in(entries: Iterable[Entry]) -> list[BranchSummary]:
    """The branches that a whole log tells of."""
    summaries_by_branch = BranchSummaries()
    for entry in entries:
        summaries_by_branch.hear(entry)
    return summaries_by_branch.summaries()
