"""Nodes on a Dask cluster: `@ol.node(run_in="dask")`.

`cluster` is the engine's side, an executor like the helper processes; `remote` runs on a Dask worker. Functions are named by
their entry and imported there; arguments, results and failures are sent as JSON. Dask pickles only the call of `remote.run`,
with texts and bytes. Dask decides where and when a task runs, but not that it runs again: every task asks the engine before
it starts (`remote.run`), and only the first one is allowed to.

The promises are X1 to X5 of `execution.executors`. If a task is lost with its worker, the engine makes the next attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from outlast.errors import NotSetUp
from outlast.execution.executors import Executor

MISSING = (
    'run_in="dask" needs Dask, which is not installed: install Outlast with its extra, outlast[dask] '
    "(pip install 'outlast[dask]')"
)


def open_cluster(address: str, *, shelf: str = "", has: Callable[[str], Awaitable[bool]] | None = None) -> Executor:
    """The cluster at the address of its scheduler; `local` or `local:2` starts a cluster here, for trials, when the first
    node needs it. `shelf` is the place where its workers may find the engine's blobs, and `has` whether a blob has
    arrived there."""
    try:
        from outlast.integrations.dask.cluster import DaskCluster
    except ImportError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise NotSetUp(MISSING) from None
    return DaskCluster(address, shelf=shelf, has=has)
