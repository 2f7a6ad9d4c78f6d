"""Replays recorded runs in another Python, with other hashes, which shows code that depends on the order of a set.

The other Python imports the module of the workflow and replays; it runs no node. If the workflow is not at the top of
an importable module, there is no result.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from outlast.errors import OutlastError
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.functions.dry_replay import dry_run
from outlast.functions.workflow_import import load
from outlast.ledger.reading import created_of
from outlast.stores.memory import Memory, MemoryStore
from outlast.testing.recorded_runs import remembered, write

SEEDS = ("1", "2")
"""Hash seeds. Two, because a small set may have the same order by chance."""
PATIENCE = 60


def replayed(workflow: Workflow[..., Any], memory: Memory) -> str | None:
    """The first divergence in another Python, an empty text if there is none, None if the replay is impossible."""
    fn = workflow.fn
    if "<locals>" in fn.__qualname__ or not Path(fn.__code__.co_filename).is_file():
        return None
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        file = Path(folder) / "runs.jsonl"
        asyncio.run(write(memory, file))
        arguments = [fn.__module__, fn.__code__.co_filename, str(file), json.dumps(sys.path)]
        others = [_started(arguments, seed) for seed in SEEDS]
        answers = [_answer(other) for other in others]
    if None in answers:
        return None
    return next(filter(None, answers), "")


def _started(arguments: list[str], seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", __name__, *arguments]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _answer(other: subprocess.Popen[str]) -> str | None:
    try:
        output, _ = other.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        other.kill()
        other.communicate()
        return None
    if other.returncode:
        return None
    answer: str = json.loads(output.splitlines()[-1])
    return answer


# --- in the other Python -----------------------------------------------------------------------------------------------


def main(module: str, source: str, file: str, path: str) -> None:
    sys.path[:] = json.loads(path)
    try:
        importlib.import_module(module if module != "__main__" else "")
    except Exception:
        load(source)
    answer = asyncio.run(_rehearsed(Path(file)))
    print(f"\n{json.dumps(answer)}", flush=True)
    os._exit(0)  # end threads that the module started


async def _rehearsed(file: Path) -> str:
    memory = remembered(file.read_bytes().splitlines())
    store = MemoryStore(memory)
    for run in memory.heads:
        if registry.known((await created_of(store, run)).workflow) is None:
            raise OutlastError("the workflow is not at the top of its module")
        found = await dry_run(store, run)
        if found.divergence is not None:
            return found.divergence
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
