"""Versions of workflows: list, compare, and move a run to another one."""

from __future__ import annotations

import difflib
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from outlast.client.branch_plans import signed
from outlast.client.branching import Branching
from outlast.client.control import Control
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.engine.definitions import definition_of
from outlast.errors import InvalidInput, NotFound
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.functions.dry_replay import DryRun, dry_run
from outlast.functions.workflow_import import find_workflow
from outlast.history import events as e
from outlast.history.events import Children
from outlast.history.ids import RunId
from outlast.ledger.reading import created_of
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.lifecycle.timeline.phrases import cropped
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


class VersionDiff(Struct, frozen=True):
    """How the code of two versions differs: `diff` is a unified diff, empty if it does not."""

    old: str
    new: str
    diff: str


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

    async def diff(self, old: str, new: str = "") -> VersionDiff:
        """How two versions differ. Each is named by a run or by its beginning; without `new`, `old` is a run, and the other
        version is that of the code that would continue it here."""
        before = await self._named(old)
        if new:
            after = await self._named(new)
            document = await definition_of(self._store.blobs, after)
        else:
            workflow = await self._workflow(await self._reader.find(old))
            after, document = workflow.version, workflow._document
        texts = [
            _source(each).splitlines(keepends=True)
            for each in (await definition_of(self._store.blobs, before), document)
        ]
        lines = difflib.unified_diff(texts[0], texts[1], before[:12], after[:12])
        return VersionDiff(before, after, "".join(line if line.endswith("\n") else f"{line}\n" for line in lines))

    async def _named(self, name: str) -> str:
        """The version of a run, or the only version of any run that begins so."""
        with suppress(NotFound, InvalidInput):
            return (await self._reader.get(await self._reader.find(name))).version
        found: set[str] = set()
        async for summary in self._reader.iter_runs(RunFilter(limit=1000)):
            if name and summary.version.startswith(name):
                found.add(summary.version)
        if len(found) != 1:
            raise NotFound(f"{cropped(name, 80)!r} is no run, and {len(found) or 'no'} versions begin with it")
        return found.pop()

    async def replay(self, run: RunId) -> DryRun:
        """Whether the current code replays a run, and if not, up to which event. Nothing is written and no node
        runs."""
        return await dry_run(self._store, run, await self._workflow(run))

    async def migrate(self, run: RunId, *, by: str = "", reason: str = "", children: Children = "cancel") -> DryRun:
        """See `Engine.migrate`."""
        by, reason = signed(by, reason)
        await self.check_migration(run)
        rehearsal = await self.replay(run)
        if rehearsal.agrees:
            if (await self._reader.get(run)).held:
                await self._control.resume(run, by)
            return rehearsal
        previous = (await self._reader.get(run)).version
        version = await self._claims.definitions.keep(await self._workflow(run))
        word = e.VersionChanged(version=version, previous=previous, reason=reason or "migrated")
        why = reason or f"today's code agrees with the log up to event {rehearsal.upto}"
        new_branch = BranchPlan(cutoff=rehearsal.upto, cause="migrate", by=by, reason=why, then=(word,))
        await self._branching.open_branch(run, "migrate", lambda _: new_branch, children)
        return rehearsal

    async def check_migration(self, run: RunId) -> None:
        """Refuse to move a run that is over."""
        await self._claims.must_allow(run, "migrate")

    async def _workflow(self, run: RunId) -> Workflow[..., Any]:
        """The code that would continue a run here."""
        return find_workflow(await created_of(self._store, run), self._apps)

    def _today(self, workflow: str) -> str:
        known = registry.known(workflow)
        return known.version if known is not None else ""


def _source(definition: bytes) -> str:
    """The code in a definition."""
    document = msgspec.json.decode(definition)
    return str(document.get("source") or f"(no source was available; code {document.get('code')})\n")
