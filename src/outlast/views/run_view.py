"""A run folded from its events: its state, and the durations and inputs of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.timeline.texts import INFO, key_of, level_of

if TYPE_CHECKING:
    from outlast.client import Engine


class Work(Struct):
    """Facts about a node that the state does not keep: its step, the start and duration of its attempt, its inputs."""

    step: str = ""
    began: int = 0
    ms: float = 0.0
    inputs: e.Value = e.NULL
    retry_at: int | None = None


NO_WORK = Work()


class Tally:
    """A run as far as its log was read."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.state = State()
        self.created: e.RunCreated | None = None
        self.work: dict[str, Work] = {}
        self.running: dict[str, int] = {}
        """The running nodes and their attempts, in the order they started."""
        self.workflows: dict[str, str] = {}
        """The workflow of each child."""
        self.retired = 0
        self.newest: Entry | None = None
        """The newest entry above level info."""

    @property
    def seq(self) -> int:
        return self.state.outline.seq

    @property
    def questions(self) -> list[Wait]:
        """The open questions. `detail` has the JSON Schema of an answer."""
        return [wait for wait in self.state.waits.values() if wait.kind == "interaction"]

    def take(self, entry: Entry) -> None:
        """Fold the next event."""
        event = entry.event
        apply(self.state, event, entry.seq, entry.time)
        if level_of(key_of(event)) != INFO:
            self.newest = entry
        match event:
            case e.RunCreated():
                self.created = event
            case e.NodeScheduled():
                self.work.setdefault(event.node, Work()).step = event.step
                self.running.pop(event.node, None)
            case e.RunTakenOver():
                self.running.clear()
            case e.NodeStarted():
                work = self.work.setdefault(event.node, Work())
                work.began, work.inputs, work.retry_at = entry.time, event.inputs, None
                self.running[event.node] = event.attempt
            case e.NodeCompleted() | e.NodeFailed():
                self._ended(event, entry.time)
            case e.NodesRetired():
                self.retired += len(event.nodes)
                for name in event.nodes:
                    self.work.pop(name, None)
            case e.ChildStarted():
                self.workflows[event.child] = event.workflow
            case e.RunCompleted() | e.RunFailed() | e.RunCancelled() | e.RunContinued() | e.RunPaused():
                self.running.clear()
            case _:
                pass

    def _ended(self, event: e.NodeCompleted | e.NodeFailed, time: int) -> None:
        work = self.work.setdefault(event.node, Work())
        work.ms = event.ms or (max(0, time - work.began) / 1000 if work.began else 0.0)
        work.retry_at = event.retry_at if isinstance(event, e.NodeFailed) else None
        self.running.pop(event.node, None)


async def tally_of(engine: Engine, run: RunId) -> Tally:
    """The tally of the current branch of a run."""
    tally = Tally(run)
    async for entry in engine.events(run):
        tally.take(entry)
    return tally


async def caught_up(tally: Tally, engine: Engine) -> Tally:
    """The tally with the new events of the log. A run that has a new branch gets a new tally."""
    async for entry in engine.events(tally.run, everything=True, after=tally.seq):
        if isinstance(entry.event, e.BranchOpened):
            return await tally_of(engine, tally.run)
        tally.take(entry)
    return tally
