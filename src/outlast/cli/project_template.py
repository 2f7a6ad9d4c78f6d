"""The files of a new project: a first workflow, its tests, its settings, and what to type next."""

from __future__ import annotations

FLOWS = '''\
"""A first workflow: two nodes, one after the other.

A node is a function whose result is kept: once it has completed, it is never run again for the same run. A workflow is a
function that calls nodes. Kill the process wherever you like: started again, the run goes on where it was.
"""

import outlast as ol


@ol.node
async def find_words(text: str) -> list[str]:
    """An async node runs on the event loop: for everything that waits."""
    return text.split()


@ol.node(retry=ol.Retry(max_attempts=3))
def count_letters(words: list[str]) -> dict[str, int]:
    """A plain node runs in a thread: for everything that computes. An error is tried again, three attempts in all."""
    return {word: len(word) for word in words}


@ol.workflow
async def letters(text: str) -> dict[str, int]:
    words = await find_words(text)
    return await count_letters(words)


if __name__ == "__main__":
    print(ol.run(letters, text="workflows that cannot be lost"))
'''

TESTS = '''\
"""A node is tested as the function it is, a workflow by running it on a store that is gone with the test, and by killing it
wherever it can be killed."""

from flows import count_letters, letters

import outlast as ol


def test_a_node_counts_letters() -> None:
    assert count_letters.fn(["to", "last"]) == {"to": 2, "last": 4}


def test_the_workflow_runs_from_text_to_counts() -> None:
    with ol.open("memory:") as engine:
        handle = engine.start(letters, text="to last")
        assert handle.result() == {"to": 2, "last": 4}


def test_the_workflow_ends_the_same_wherever_its_process_dies(survives_crashes) -> None:
    assert survives_crashes(letters, text="to last").result == {"to": 2, "last": 4}
'''

SETTINGS = """\
# The settings of this project; `outlast config show` says what is in force and why.

store = ".outlast/runs.db"  # relative to this file
apps = ["flows"]  # the modules that hold workflows

# claim = 30  # seconds until another worker takes over from one that went silent
# concurrency = 2000  # runs that one process advances at once
# threads = 32  # for nodes that are plain functions
# processes = 0  # for nodes with run_in="process"; 0 is one for each core
# dask = "tcp://scheduler:8786"  # for nodes with run_in="dask"; "local:2" brings up two workers here
# durability = "full"  # or "relaxed": a power cut may cost the last moments
# grace = 5  # seconds that nodes have to reach a checkpoint or their end when their run is paused
# unawaited = "fail"  # or "warn": a run that ends with calls it never awaited completes, with a warning
# on_restart = "resume"  # or "hold": interrupted runs wait until they are told to go on
"""

README = """\
# A project with Outlast

`flows.py` holds a workflow of two nodes, `test_flows.py` its tests, `outlast.toml` the settings. Next:

```console
$ python flows.py
$ outlast ps
$ python -m pytest
```

The first runs the workflow and keeps what happened in `.outlast/` (do not commit that folder), the second lists the runs,
the third runs the tests (`pip install pytest` if it is missing).
"""

FILES = {"outlast.toml": SETTINGS, "flows.py": FLOWS, "test_flows.py": TESTS, "README.md": README}
