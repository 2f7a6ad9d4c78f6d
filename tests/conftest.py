"""What all tests share: a real PostgreSQL, if they ask for it; and Hypothesis draws the same examples in every run, and says
how to draw a failing one again."""

from __future__ import annotations

import os
import signal
import sys
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

_keeps_no_bytecode = sys.dont_write_bytecode
sys.dont_write_bytecode = (
    False  # rewriting the assertions of all modules takes longer than everything else in collection
)

pytest.register_assert_rewrite("support")

from support import built_command, sampling  # noqa: E402
from support.servers.fixtures import _any_postgres, empty_postgres_url, postgres, postgres_url  # noqa: E402
from support.stage import pytest_pyfunc_call, stage  # noqa: E402

__all__ = ["_any_postgres", "empty_postgres_url", "postgres", "postgres_url", "pytest_pyfunc_call", "stage"]

LONGEST = ("journeys", "page", "faults", "docs")
"""Folders of long tests, many of which wait for processes and servers."""

built_command.keep()

settings.register_profile(
    "outlast",
    derandomize=True,
    print_blob=True,
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("outlast")

# Hypothesis also draws constants that it finds in the modules of this project, as many as have been imported by then: the
# examples of a test would depend on the tests that ran before it in its process.
_nothing_found = deepcopy(providers._local_constants)
providers._get_local_constants = lambda: _nothing_found

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job; programs would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In each process a folder of long tests first, so that none of them is begun when all the others are done. Each
    process of `--dist worksteal` begins with an equal part of the list."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first: list[list[pytest.Item]] = [[] for _ in range(processes)]
    others: list[pytest.Item] = []
    for item in items:
        folder = item.path.parent.name
        (first[LONGEST.index(folder) % processes] if folder in LONGEST else others).append(item)
    part = len(items) // processes
    items.clear()
    for each in first:
        count = max(0, part - len(each))
        items += each + others[:count]
        del others[:count]
    items += others


def pytest_collection_finish() -> None:
    """Modules that tests write, import and write again leave no bytecode."""
    sys.dont_write_bytecode = _keeps_no_bytecode


def pytest_sessionfinish() -> None:
    """Servers that tests of this process brought up end with it."""
    servers = sys.modules.get("support.servers.s3")
    if servers is not None:
        servers.stop_shared()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seed = sampling.seed()
    terminalreporter.write_line(f"points that are a sample were chosen by {seed}: again with {sampling.GIVEN}={seed}")
