"""Runs the demo: once undisturbed, then killed half-way and started again; compares both and explains the recovery."""

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

import msgspec

import outlast as ol
from outlast.client import Entry
from outlast.history import events as e
from outlast.history.ids import RunId

RUN = RunId("report")
PAGES = 24
PROCESS_TIMEOUT_S = 40.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="outlast-demo-") as name:
        folder = Path(name)
        write_pages(folder / "pages")
        print(f"A workflow reads {PAGES} Markdown files, checks their links and publishes a report.\n", flush=True)

        print("1. Undisturbed run", flush=True)
        undisturbed = Trial(folder, "undisturbed")
        expected = undisturbed.finish()
        print(f"   result: {expected}\n   nodes executed: {len(undisturbed.executed())}, retries included\n")

        print("2. Second run; SIGKILL ends its process while it reads files", flush=True)
        killed = Trial(folder, "killed")
        killed.kill_half_way()
        before = asyncio.run(killed.history())
        done, running = completed(before), in_flight(before)
        print(f"   log at the crash: {len(before)} events, {len(done)} nodes completed")
        print(f"   nodes running at the crash: {', '.join(running)}\n")

        print("3. A new process opens the same store and starts the same run id", flush=True)
        result = killed.finish()
        history = asyncio.run(killed.history())
        show_recovery(history[len(before) :])
        print(f"   {len(done)} completed nodes were not executed again: their results are in the log")
        print(f"   result: {result}\n")

        print("4. Checks")
        repeated = repeated_reads(before, killed.executed()) & set(done)
        checks = {
            "result and report are the same as in the undisturbed run": (result, killed.report())
            == (expected, undisturbed.report()),
            "no completed node was executed again": not repeated,
            "the log is sound (outlast verify): the digests chain and every invariant holds": asyncio.run(
                killed.verify()
            ),
        }
        for check, holds in checks.items():
            print(f"   {'ok  ' if holds else 'FAIL'}  {check}")
        return 0 if all(checks.values()) else 1


class Trial:
    """One run in its own store, advanced by processes that are started and killed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pages = folder / "pages"
        self.store = folder / f"{name}.db"
        self.target = folder / f"{name}.html"
        self.executions = folder / f"{name}.txt"

    def process(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "demo.work", str(self.store), str(self.pages), str(self.target)]
        environment = {**os.environ, "DEMO_EXECUTIONS": str(self.executions)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def finish(self) -> str:
        """Start a process, wait until the run has ended, and return the printed result."""
        process = self.process()
        output, _ = process.communicate(timeout=PROCESS_TIMEOUT_S)
        if process.returncode:
            raise SystemExit(f"the process failed with exit code {process.returncode}")
        return output.strip()

    def kill_half_way(self) -> None:
        """Start a process and kill it when half of the files are being read or have been read."""
        process = self.process()
        deadline = time.monotonic() + PROCESS_TIMEOUT_S
        while sum(line.startswith("read ") for line in self.executed()) < PAGES // 2:
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit("the process ended, or hung, before it could be killed")
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def report(self) -> str:
        return self.target.read_text()

    def executed(self) -> list[str]:
        return self.executions.read_text().splitlines() if self.executions.exists() else []

    async def history(self) -> list[Entry]:
        async with ol.open(self.store, worker=False) as engine:
            return [entry async for entry in engine.events(RUN)]

    async def verify(self) -> bool:
        async with ol.open(self.store, worker=False) as engine:
            return (await engine.verify(RUN)).is_sound


# --- what the log shows ------------------------------------------------------------------------------------------------


def show_recovery(history: list[Entry]) -> None:
    """Print the takeover and the interrupted nodes from the events after the crash."""
    for entry in history:
        match entry.event:
            case e.RunTakenOver(cause=cause, epoch=epoch):
                why = "its process is dead: the lock is free" if cause == "dead" else f"its claim is {cause}"
                print(f"   event {entry.seq}: a new worker takes over the run (epoch {epoch}) from the old one; {why}")
            case e.NodeScheduled(cause="crash", node=node, attempt=attempt):
                print(f"   event {entry.seq}: {node} was running at the crash: attempt {attempt} is scheduled")
            case _:
                pass


def completed(history: list[Entry]) -> list[str]:
    return [entry.event.node for entry in history if isinstance(entry.event, e.NodeCompleted)]


def in_flight(history: list[Entry]) -> list[str]:
    started = [entry.event.node for entry in history if isinstance(entry.event, e.NodeStarted)]
    over = set(completed(history)) | {entry.event.node for entry in history if isinstance(entry.event, e.NodeFailed)}
    return [node for node in started if node not in over]


def repeated_reads(history: list[Entry], executed: list[str]) -> set[str]:
    """The `read` nodes that were executed more than once. The first node of the log has the list of files."""
    found = next(entry.event for entry in history if isinstance(entry.event, e.NodeCompleted))
    times = Counter(executed)
    files = enumerate(msgspec.json.decode(found.output))
    return {f"read/read/{place}" for place, file in files if times[f"read {Path(file).name}"] > 1}


# --- input -------------------------------------------------------------------------------------------------------------


def write_pages(folder: Path) -> None:
    """Markdown files with words, headings and links; one link is broken."""
    folder.mkdir()
    for number in range(PAGES):
        target = f"page-{(number * 7) % PAGES:02}.md" if number != 13 else "lost.md"
        words = " ".join(f"word{chr(97 + (number * k) % 26) * 3}" for k in range(1, 200))
        text = f"# Page {number}\n\nThis page leads to [another one]({target}).\n\n## Words\n\n{words}\n"
        (folder / f"page-{number:02}.md").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
