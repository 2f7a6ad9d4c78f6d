"""The branches of a run: the cutoff, cause, user and final status of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from outlast.history import events as e
from outlast.history.record import Entry
from outlast.lifecycle.status import RunStatus

_STATUSES: dict[type[e.Event], RunStatus] = {
    e.RunStarted: RunStatus.RUNNING,
    e.RunPaused: RunStatus.PAUSED,
    e.RunCompleted: RunStatus.COMPLETED,
    e.RunContinued: RunStatus.COMPLETED,
    e.RunFailed: RunStatus.FAILED,
    e.RunCancelled: RunStatus.CANCELLED,
    e.CompensationStarted: RunStatus.COMPENSATING,
    e.CleanupStarted: RunStatus.COMPENSATING,
}
"""The events that change the status of a run, and the status that follows."""


class BranchSummary(Struct, kw_only=True):
    """One branch. `first` to `last` are its own events; `status` is the status of the run at its end, without `waiting`."""

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
    """Summarises each branch of a log, read in order with all its branches."""

    def __init__(self) -> None:
        self.branches: dict[int, BranchSummary] = {}
        self._changes: list[tuple[int, int, RunStatus, bool]] = []
        """The changes of the status: seq, branch, status, whether held."""

    def add(self, entry: Entry) -> None:
        """Read the next event, of any branch."""
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
        status = _STATUSES.get(type(event))
        if status is not None:
            if isinstance(event, e.RunStarted) and self._is_undoing(entry.branch, entry.seq):
                status = RunStatus.COMPENSATING  # the resumed run continues to compensate
            branch.status, branch.is_held = status, isinstance(event, e.RunFailed) and event.held
            self._changes.append((entry.seq, entry.branch, branch.status, branch.is_held))

    def _open(self, event: e.BranchOpened, entry: Entry) -> None:
        status, is_held = next(self._before(event.parent, event.cutoff), (RunStatus.CREATED, False))
        self.branches[event.branch] = BranchSummary(
            first=entry.seq,
            opened=entry.time,
            status=status,
            is_held=is_held,
            **{name: getattr(event, name) for name in ("branch", "parent", "cutoff", "cause", "by", "reason")},
        )

    def _is_undoing(self, branch: int, seq: int) -> bool:
        """Whether the run had begun to compensate before `seq`."""
        return any(status is RunStatus.COMPENSATING for status, _ in self._before(branch, seq))

    def _before(self, branch: int, cutoff: int) -> Iterator[tuple[RunStatus, bool]]:
        """The statuses of the run on the lineage of event `cutoff`, newest first."""
        line: int | None = branch
        while line is not None:
            for seq, on, status, is_held in reversed(self._changes):
                if on == line and seq <= cutoff:
                    yield status, is_held
            here = self.branches.get(line)
            line, cutoff = (here.parent, here.cutoff) if here is not None else (None, 0)

    def summaries(self) -> list[BranchSummary]:
        """All branches in the order they opened; the last one is current."""
        found = [self.branches[number] for number in sorted(self.branches)]
        if found:
            found[-1].is_current = True
        return found


def branches_in(entries: Iterable[Entry]) -> list[BranchSummary]:
    """The branches of a whole log."""
    branches = BranchSummaries()
    for entry in entries:
        branches.add(entry)
    return branches.summaries()
