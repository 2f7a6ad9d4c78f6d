"""Runs the demo: undisturbed once, then killed half-way and started again; compares, proves and tells the story."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import outlast as ol
from outlast.client import Entry
from outlast.history import events as e
from outlast.history.ids import RunId

RUN = RunId("report")
PAGES = 24
PATIENCE = 40.0
"""Seconds any one process may take."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="outlast-demo-") as name:
        folder = Path(name)
        write_pages(folder / "pages")
        say("A workflow reads 24 pages, checks their links and publishes a report. First, undisturbed:")
        calm = Trial(folder, "calm")
        expected = calm.finish()
        print(f"  {expected}\n  {len(calm.executed())} executions of nodes\n")
        say("Now the same, but its process is killed with SIGKILL while pages are being read:")
        storm = Trial(folder, "storm")
        storm.kill_half_way()
        before = asyncio.run(storm.history())
        tell_crash(before, storm.executed())
        say("A new process is started on the same file. Nobody tells it anything:")
        found = storm.finish()
        print(f"  {found}\n")
        history = asyncio.run(storm.history())
        sound = asyncio.run(storm.verify())
        repeated = tell_recovery(before, history, storm.executed())
        same = found.replace("storm", "calm") == expected
        say("What was proved:")
        check("the result is the one of the undisturbed run", same)
        check("no node that had completed was executed again", not repeated)
        check("the log is whole: digests chain, every invariant holds (outlast verify)", sound)
        return 0 if same and sound and not repeated else 1


class Trial:
    """One run in a folder of its own, worked on by processes that are started and killed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pages = folder / "pages"
        self.store = folder / f"{name}.db"
        self.target = folder / f"{name}.html"
        self.witness = folder / f"{name}.txt"

    def process(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "demo.work", str(self.store), str(self.pages), str(self.target)]
        environment = {**os.environ, "DEMO_WITNESS": str(self.witness)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def finish(self) -> str:
        """Let a process work until the run is done; its result, as it printed it."""
        process = self.process()
        told, _ = process.communicate(timeout=PATIENCE)
        if process.returncode:
            raise SystemExit(f"the process failed with exit code {process.returncode}")
        return told.strip().removeprefix("result ")

    def kill_half_way(self) -> None:
        """Let a process work until half of the pages are read, and kill it."""
        process = self.process()
        deadline = time.monotonic() + PATIENCE
        while sum(line.startswith("read ") for line in self.executed()) < PAGES // 2:
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit("the process ended, or hung, before it could be killed")
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def executed(self) -> list[str]:
        return self.witness.read_text().splitlines() if self.witness.exists() else []

    async def history(self) -> list[Entry]:
        async with ol.open(self.store, worker=False) as desk:
            return [entry async for entry in desk.events(RUN)]

    async def verify(self) -> bool:
        async with ol.open(self.store, worker=False) as desk:
            return (await desk.verify(RUN)).is_sound


# --- the story, from the log -------------------------------------------------------------------------------------------


def tell_crash(history: list[Entry], executed: list[str]) -> None:
    done, open_now = completed(history), in_flight(history)
    print(f"  killed. {len(executed)} executions had begun; the log holds {len(history)} events.")
    print(f"  {len(done)} nodes are complete, {len(open_now)} were in flight: {', '.join(open_now)}\n")


def tell_recovery(before: list[Entry], after: list[Entry], executed: list[str]) -> list[str]:
    """Tells what the second process did; returns the nodes that were executed although they had completed."""
    say("What was recovered, and why:")
    seen = len(before)
    for entry in after[seen:]:
        match entry.event:
            case e.RunTakenOver(cause=cause, epoch=epoch):
                why = "its lock had been let go by the system" if cause == "dead" else f"its claim was {cause}"
                print(
                    f"  event {entry.seq}: a new worker took the run over (epoch {epoch}): the old one is dead, {why}"
                )
            case e.NodeScheduled(cause="crash", node=node, attempt=attempt):
                print(f"  event {entry.seq}: {node} was in flight and not recorded, so attempt {attempt} was scheduled")
            case _:
                pass
    done = completed(before)
    kept = [name for name in done if name.startswith("read/read/")]
    again = {what: count for what, count in Counter(executed).items() if count > 1 and what.startswith("read ")}
    print(
        f"  {len(done)} completed nodes were taken from the log; {len(again)} pages were read twice, those in flight\n"
    )
    names = {f"read {path.name}": f"read/read/{place}" for place, path in enumerate(pages_of(before))}
    return [what for what in again if names.get(what) in kept]


def completed(history: list[Entry]) -> list[str]:
    return [entry.event.node for entry in history if isinstance(entry.event, e.NodeCompleted)]


def in_flight(history: list[Entry]) -> list[str]:
    started = [entry.event.node for entry in history if isinstance(entry.event, e.NodeStarted)]
    over = set(completed(history)) | {entry.event.node for entry in history if isinstance(entry.event, e.NodeFailed)}
    return [node for node in started if node not in over]


def pages_of(history: list[Entry]) -> list[Path]:
    """The list that the first node found, from the log."""
    import msgspec

    found = next(entry.event for entry in history if isinstance(entry.event, e.NodeCompleted))
    return [Path(name) for name in msgspec.json.decode(found.output)]


# --- around it ---------------------------------------------------------------------------------------------------------


def write_pages(folder: Path) -> None:
    """Pages with words, headings, links, and a broken one."""
    folder.mkdir()
    for number in range(PAGES):
        target = f"page-{(number * 7) % PAGES:02}.md" if number != 13 else "lost.md"
        words = " ".join(f"word{chr(97 + (number * k) % 26) * 3}" for k in range(1, 200))
        text = f"# Page {number}\n\nThis page leads to [another one]({target}).\n\n## Words\n\n{words}\n"
        (folder / f"page-{number:02}.md").write_text(text)


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def check(what: str, holds: bool) -> None:
    print(f"  {'yes' if holds else 'NO '}  {what}")


if __name__ == "__main__":
    sys.exit(main())
