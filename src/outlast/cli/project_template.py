"""The files of a new project: a first workflow, its tests, its settings, a README."""

from __future__ import annotations

FLOWS = '''\
"""A first workflow: two nodes, one after the other.

A node is a function whose result is stored: after it completed, it is not executed again for the same run. A workflow is a
function that calls nodes. Kill the process at any point and start it again: the run continues from the last result.
"""

import outlast as ol


@ol.node
async def find_words(text: str) -> list[str]:
    """An async node runs on the event loop: use it for I/O."""
    return text.split()


@ol.node(retry=ol.Retry(max_attempts=3))
def count_letters(words: list[str]) -> dict[str, int]:
    """A plain node runs in a thread: use it for blocking code. After an error it is retried, three attempts in total."""
    return {word: len(word) for word in words}


@ol.workflow
async def letters(text: str) -> dict[str, int]:
    words = await find_words(text)
    return await count_letters(words)


if __name__ == "__main__":
    print(ol.run(letters, text="workflows that cannot be lost"))
'''

TESTS = '''\
"""Tests of a node as a plain function, of the workflow on a store in memory, and of the workflow with a crash at every
point where one is possible."""

from flows import count_letters, letters

import outlast as ol


def test_a_node_counts_letters() -> None:
    assert count_letters.fn(["to", "last"]) == {"to": 2, "last": 4}


def test_the_workflow_runs_from_text_to_counts() -> None:
    with ol.open("memory:") as engine:
        handle = engine.start(letters, text="to last")
        assert handle.result() == {"to": 2, "last": 4}


def test_the_workflow_survives_a_crash_at_every_point(survives_crashes) -> None:
    assert survives_crashes(letters, text="to last").result == {"to": 2, "last": 4}
'''

SETTINGS = """\
# The settings of this project. `outlast config show` shows each setting and its source.

store = ".outlast/runs.db"  # relative to this file
apps = ["flows"]  # modules with workflows

# claim = 30  # seconds until another worker takes over the runs of a dead worker
# concurrency = 2000  # maximum number of runs that a process executes at once
# queues = ["mail"]  # a worker executes only the runs of these queues
# queue_limits = { gpu = 3 }  # maximum number of runs of a queue that all processes execute at once
# threads = 32  # for nodes that are plain functions
# processes = 0  # for nodes with run_in="process"; 0 is one for each core
# dask = "tcp://scheduler:8786"  # for nodes with run_in="dask"; "local:2" starts two workers on this machine
# durability = "full"  # or "relaxed": a power failure may lose the last events
# grace = 5  # seconds for nodes to complete or to reach a checkpoint when their run is paused
# unawaited = "fail"  # or "warn": a run that ends with calls that were not awaited completes, with a warning
# on_restart = "resume"  # or "hold": interrupted runs are held until you resume them
"""

README = """\
# A project with Outlast

`flows.py` defines a workflow with two nodes, `test_flows.py` tests it, `outlast.toml` has the settings. Next:

```console
$ python flows.py
$ outlast ps
$ python -m pytest
```

The first command runs the workflow and stores the run in `.outlast/` (do not commit that folder). The second lists the runs.
The third runs the tests (`pip install pytest` if it is missing).
"""

FILES = {"outlast.toml": SETTINGS, "flows.py": FLOWS, "test_flows.py": TESTS, "README.md": README}
