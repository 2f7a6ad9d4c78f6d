"""What a run amounts to for people: the state that its events fold to, and how long its nodes took."""

from __future__ import annotations

from msgspec import Struct

from outlast.client import Engine, Entry
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.fold import apply
from outlast.lifecycle.state import NodeState, State, Wait
from outlast.lifecycle.timeline.texts import INFO, key_of, level_of


class Work(Struct):
    """What the state does not keep of a node: its step, when its attempt began, how long it took, its inputs."""

    step: str = ""
    began: int = 0
    ms: float = 0.0
    inputs: e.Value = e.NULL
    retry_at: int | None = None


class Tally:
    """A run as far as it was read. `work` is there for every node that the state knows."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.state = State()
        self.created: e.RunCreated | None = None
        self.work: dict[str, Work] = {}
        self.running: dict[str, int] = {}
        """The nodes that are being worked on and the attempt each is at, in the order they began."""
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
        """What it asks people now, with what an answer has to look like in `detail`."""
        return [wait for wait in self.state.waits.values() if wait.kind == "interaction"]

    def node(self, name: str) -> NodeState | None:
        return self.state.nodes.get(name)

    def take(self, entry: Entry) -> None:
        """One event more."""
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


async def tally_of(desk: Engine, run: RunId) -> Tally:
    """What the current branch of a run amounts to."""
    tally = Tally(run)
    async for entry in desk.events(run):
        tally.take(entry)
    return tally


async def caught_up(tally: Tally, desk: Engine) -> Tally:
    """The tally, with what the log holds more. If the run went back to an earlier event meanwhile, it is another one."""
    async for entry in desk.events(tally.run, everything=True, after=tally.seq):
        if isinstance(entry.event, e.BranchOpened):
            return await tally_of(desk, tally.run)
        tally.take(entry)
    return tally
