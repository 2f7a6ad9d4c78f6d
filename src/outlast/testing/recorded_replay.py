"""Does the current code still replay recorded runs? For a test that runs before the code is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outlast.address import file_at
from outlast.compose import open_store
from outlast.errors import InvalidInput, OutlastError
from outlast.functions.decorators import Workflow
from outlast.functions.dry_replay import DryRun, dry_run
from outlast.history.ids import RunId
from outlast.ledger.reading import created_of, runs_of
from outlast.store import Store
from outlast.stores.memory import MemoryStore
from outlast.testing.crash_test import apart
from outlast.testing.recorded_runs import files_at, remembered

STORES = (".db", ".sqlite", ".sqlite3")
"""Suffixes of store files; other files are exports."""


class DoesNotReplay(AssertionError):
    """Runs that the current code does not replay; the message names each with its difference."""


def replay_check(
    source: str | Path | Iterable[str | Path] | Store,
    workflow: Workflow[..., Any] | None = None,
    *,
    runs: Iterable[str] | None = None,
    unfinished: bool = False,
    apps: Iterable[str] = (),
) -> list[DryRun]:
    """Replay recorded runs with the current code, without writing or running a node; `DoesNotReplay` if the code does
    not match their logs.

    `source` is a store, the path of one, or files that `outlast export` wrote: a path, a pattern, or several. All its
    runs are checked, or those of one `workflow`, or those named by `runs`; of a store, with `unfinished` only the
    unfinished ones. The workflow of a run is the given one, or the known one of its name, or found in `apps` or where
    it was started. A blob that the export lacks cannot be checked and counts as a difference."""
    wanted = None if runs is None else list(runs)
    found, broken = apart(lambda: asyncio.run(_checked(source, workflow, wanted, unfinished, tuple(apps))))
    if broken:
        raise DoesNotReplay("\n\n".join(broken))
    if not found:
        which = f" of workflow {workflow.name}" if workflow is not None else ""
        raise InvalidInput(f"no run{which} to check: a check of nothing would always pass")
    return found


async def _checked(
    source: Any, workflow: Workflow[..., Any] | None, runs: list[str] | None, unfinished: bool, apps: tuple[str, ...]
) -> tuple[list[DryRun], list[str]]:
    found: list[DryRun] = []
    broken: list[str] = []
    for store, name, is_ours in _stores(source):
        try:
            for run in await _chosen(store, workflow, runs, unfinished):
                rehearsal, trouble = await _rehearsed(store, run, workflow, apps)
                if rehearsal is not None:
                    found.append(rehearsal)
                if trouble:
                    broken.append(f"run {run}{name}: {trouble}")
        finally:
            if is_ours:
                await store.close()
    return found, broken


def _stores(source: Any) -> Iterable[tuple[Store, str, bool]]:
    """Each store with its name in messages, and whether it must be closed."""
    if not isinstance(source, str | Path | Iterable):
        yield source, "", False
        return
    if isinstance(source, str | Path) and (str(source).endswith(STORES) or "://" in str(source)):
        if file_at(source) is None:
            raise InvalidInput(f"{source} has no runs when it is opened: pass the store of an open engine, or a file")
        yield open_store(source, readonly=True), f" in {source}", True
        return
    for path in files_at(source):
        yield MemoryStore(remembered(path.read_bytes().splitlines(), str(path))), f" in {path}", True


async def _chosen(
    store: Store, workflow: Workflow[..., Any] | None, runs: list[str] | None, unfinished: bool
) -> list[RunId]:
    if isinstance(store, MemoryStore) and not store.memory.summaries:
        there = list(store.memory.heads)  # an export
    else:
        there = [run async for run in runs_of(store, unfinished=unfinished)]
    if runs is not None:
        missing = [run for run in runs if run not in there]
        if missing:
            raise InvalidInput(f"there is no run {missing[0]}")
        there = [run for run in there if run in runs]
    if workflow is None:
        return there
    return [run for run in there if (await created_of(store, run)).workflow == workflow.name]


async def _rehearsed(
    store: Store, run: RunId, workflow: Workflow[..., Any] | None, apps: tuple[str, ...]
) -> tuple[DryRun | None, str]:
    try:
        found = await dry_run(store, run, workflow, apps=apps)
    except OutlastError as error:
        return None, str(error)
    if found.divergence is None:
        return found, ""
    agreed = f"code and log agree up to event {found.upto} of {found.events}"
    return found, f"workflow {found.workflow} no longer does what its log holds:\n  {found.divergence}\n  {agreed}"
