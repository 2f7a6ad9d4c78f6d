"""Versions of workflows: list, compare, and move a run to another one."""

from __future__ import annotations

import difflib

import msgspec
from msgspec import Struct

from outlast.client.branch_plans import signed
from outlast.client.branching import Branching
from outlast.client.control import Control
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.engine.definitions import definition_of
from outlast.errors import NotFound
from outlast.functions import registry
from outlast.functions.dry_replay import DryRun, dry_run
from outlast.functions.workflow_import import find_workflow
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId
from outlast.ledger.reading import created_of
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.store import RunFilter


class Version(Struct, frozen=True, kw_only=True):
    """One version of a workflow with runs. `is_today`: it is the version of the code known to this process."""

    version: str
    workflow: str
    runs: int
    first: int
    last: int
    is_stored: bool
    is_today: bool = False


class Versions(Verbs):
    """The versions of workflows: `engine.versions`."""

    def __init__(self, claims: TemporaryClaims, branching: Branching, control: Control) -> None:
        super().__init__(claims)
        self._branching = branching
        self._control = control

    async def of(self, workflow: str) -> list[Version]:
        """The versions of a workflow that its runs use, the latest used first. Times are microseconds since 1970."""
        found: dict[str, Version] = {}
        async for run in self._reader.iter_runs(RunFilter(workflow=workflow, limit=1000)):
            old = found.get(run.version)
            found[run.version] = Version(
                version=run.version,
                workflow=workflow,
                runs=old.runs + 1 if old else 1,
                first=min(old.first, run.created) if old else run.created,
                last=max(old.last, run.created) if old else run.created,
                is_stored=old.is_stored if old else bool(run.version) and await self._store.blobs.has(run.version),
                is_today=run.version == self._today(workflow),
            )
        if not found:
            raise NotFound(f"there is no run of a workflow {workflow!r}")
        return sorted(found.values(), key=lambda each: each.last, reverse=True)

    async def starting_with(self, beginning: str) -> list[str]:
        """The versions with this prefix that any run uses."""
        found: dict[str, None] = {}
        async for summary in self._reader.iter_runs(RunFilter(limit=1000)):
            if summary.version.startswith(beginning):
                found[summary.version] = None
        return list(found)

    async def source(self, version: str) -> str:
        """The stored text of a version."""
        document = msgspec.json.decode(await definition_of(self._store.blobs, version))
        return str(document.get("source") or f"(no source was available; code {document.get('code')})\n")

    async def diff(self, old: str, new: str) -> str:
        """How two versions differ, as a unified diff; empty if they do not."""
        before, after = await self.source(old), await self.source(new)
        lines = difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), old[:12], new[:12]
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    async def current(self, run: RunId) -> str:
        """The version of the code that would continue a run here; it is stored when this returns."""
        workflow = find_workflow(await created_of(self._store, run), self._apps)
        return await self._claims.definitions.keep(workflow)

    async def replay(self, run: RunId) -> DryRun:
        """Whether the current code replays a run, and if not, up to which event. Nothing is written and no node
        runs."""
        return await dry_run(self._store, run, find_workflow(await created_of(self._store, run), self._apps))

    async def migrate(self, run: RunId, *, by: str = "", reason: str = "", children: Children = "cancel") -> DryRun:
        """See `Engine.migrate`."""
        by, reason = signed(by, reason)
        await self.check_migration(run)
        rehearsal = await self.replay(run)
        if rehearsal.agrees:
            if (await self._reader.get(run)).held:
                await self._control.resume(run, by)
            return rehearsal
        previous, version = (await self._reader.get(run)).version, await self.current(run)
        word = e.VersionChanged(version=version, previous=previous, reason=reason or "migrated")
        why = reason or f"today's code agrees with the log up to event {rehearsal.upto}"
        new_branch = BranchPlan(cutoff=rehearsal.upto, cause="migrate", by=by, reason=why, then=(word,))
        await self._branching.open_branch(run, "migrate", lambda _: new_branch, children)
        return rehearsal

    async def check_migration(self, run: RunId) -> None:
        """Refuse to move a run that is over."""
        await self._claims.must_allow(run, "migrate")

    def _today(self, workflow: str) -> str:
        known = registry.known(workflow)
        return known.version if known is not None else ""
