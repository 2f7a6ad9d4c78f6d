"""Diagnosis and repair of a run: the verbs behind `outlast doctor`.

`diagnose` only reads. `recover` applies the remedies of the diagnosis one at a time, each in one append. It claims
the run and diagnoses it again before each remedy, so that of several concurrent calls one repairs, and a consistent
run is not changed. It may be killed at any point: the next call finds the remaining work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from outlast.client.evidence import Diagnosis, evidence_of
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.engine.completion import cancel_left_children, complete_run
from outlast.errors import Claimed, Conflict, NotAllowed, OutlastError, Overtaken
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.ledger.reading import created_of, ending_of
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan, check_continues, unmet_request_plan
from outlast.lifecycle.diagnosis import Evidence, Finding, HandOver, Open, Rewrite, Say, Settle, diagnose
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply_all
from outlast.lifecycle.state import State
from outlast.store import Claim

MAX_ROUNDS = 8
"""The number of remedies after which a person should look."""


class Recovery(Verbs):
    """Diagnoses and recovers."""

    def __init__(self, claims: TemporaryClaims) -> None:
        super().__init__(claims)
        self._remedies_tried = asyncio.Lock()

    async def diagnose(self, run: RunId, *, blobs: bool = True) -> Diagnosis:
        """The problems of a run, if any; changes nothing. Without `blobs`, only the presence of blobs is checked, not
        their content."""
        return _diagnosis(await self.evidence(run, blobs=blobs))

    async def recover(self, run: RunId) -> list[Finding]:
        """Repair what can be repaired without loss. Returns the findings that were repaired, in order."""
        done: list[Finding] = []
        async with self._remedies_tried:  # a claim does not exclude another call of the same engine
            while len(done) < MAX_ROUNDS:
                found = _first(await self.evidence(run))
                if found is None or not await self._apply_remedy(run, found):
                    break
                done.append(found)
        return done

    async def recovery_plan(self, run: RunId, finding: Finding) -> list[e.AnyEvent]:
        """The events that `recover` would append for this finding, after the run is taken over."""
        if finding.remedy is None or isinstance(finding.remedy, Rewrite | Settle):
            return []
        state = await self._reader.state(run)
        taken = await self.takeover_events(run, state)
        if isinstance(finding.remedy, HandOver) or _needs_decision(state, taken, finding):
            return taken
        if isinstance(finding.remedy, Say):
            return [*finding.remedy.events, _recovered(finding, state.outline.branch)]
        return await self.branch(run, state, finding.remedy.plan)

    async def takeover_events(self, run: RunId, state: State) -> list[e.AnyEvent]:
        """The events that a takeover of the run would append."""
        holding, head = await self._store.holding(run), await self._reader.head(run)
        previous, seen = (holding.worker, holding.seen) if holding is not None else ("", 0)
        cause: decide.Cause = "expired" if (await self._store.derived(run)).interrupted else "claimed"
        return decide.take_over(state, head.epoch + 1, "the next worker", previous=previous, cause=cause, seen=seen)

    async def taken_over(self, run: RunId, state: State) -> tuple[list[e.AnyEvent], State]:
        """The events of a takeover and the state after it; no events if a live worker holds the run."""
        holding = await self._store.holding(run)
        if holding is not None and holding.is_live and not state.is_closed:
            return [], state
        view, taken = Draft(state).view, await self.takeover_events(run, state)
        apply_all(view, taken, state.outline.seq + 1, state.outline.time)
        return taken, view

    async def branch(self, run: RunId, state: State, new_branch: BranchPlan) -> list[e.AnyEvent]:
        then = await self._reader.state_at(run, new_branch.cutoff)
        try:
            check_continues(new_branch, then)
        except NotAllowed as refusal:
            new_branch = unmet_request_plan(state, str(refusal))
            then = await self._reader.state_at(run, new_branch.cutoff)
        branches = await self._reader.branches_around(run, new_branch.cutoff)
        return list(decide.open_branch(state, then, branches.values(), new_branch))

    async def evidence(self, run: RunId, *, claimed_by_us: bool = False, blobs: bool = False) -> Evidence:
        return await evidence_of(
            self._store,
            run,
            self._reader.key,
            workflow=await self._known_workflow_of(run),
            watchers=self._news.count(run),
            claimed_by_us=claimed_by_us,
            blobs=blobs,
        )

    async def _known_workflow_of(self, run: RunId) -> Workflow[..., Any] | None:
        """The workflow of the run, if this process knows it; a diagnosis imports no code."""
        try:
            return registry.known((await created_of(self._store, run)).workflow)
        except (OutlastError, *STRANGE):  # an unreadable run must be diagnosed too
            return None

    async def _apply_remedy(self, run: RunId, finding: Finding) -> bool:
        """Apply one remedy; False if the finding is gone, or another process repairs it."""
        if isinstance(finding.remedy, Rewrite):
            return await self._rewrite(run)
        if isinstance(finding.remedy, Settle):
            return await self.complete_run(finding.remedy.run)
        try:
            claim = await self._claims.claimed(run)
        except Claimed:
            return False
        evidence = await self.evidence(run, claimed_by_us=True)
        again = _first(evidence)
        if again is None or again.code != finding.code:
            await self._ledger.release_as_found(claim)
            return False
        try:
            writer = await self._ledger.take_over(claim)
            async with self._claims.holding(writer, ready=True):
                if not await self._is_next_epoch(claim, evidence.version):
                    raise Overtaken("an event was appended between the diagnosis and the takeover: diagnose again")
                if writer.state.outline.held <= evidence.state.outline.held or again.code == "D2":
                    await self._apply(writer, again)
        except Overtaken:  # a request has arrived: the remedy may be another one now
            return await self._apply_remedy(run, finding)
        except Conflict:  # another process repairs the run
            return False
        return True

    async def _is_next_epoch(self, claim: Claim, version: int) -> bool:
        """Whether the takeover is the first append after the diagnosis."""
        next_ones = await self._store.read(claim.run, version + 1, version + 1, 1)
        return any(record.first == version + 1 and record.epoch == claim.epoch for record in next_ones)

    async def _apply(self, writer: RunWriter, finding: Finding) -> None:
        match finding.remedy:
            case Open(new_branch):
                try:
                    await writer.open_branch(new_branch)
                except NotAllowed as refusal:
                    if finding.code != "D2":
                        raise
                    await writer.open_branch(unmet_request_plan(writer.state, str(refusal)))
            case Say(events):
                await writer.append([*events, _recovered(finding, writer.head.branch)])
            case _:
                pass  # the takeover was the remedy

    async def _rewrite(self, run: RunId) -> bool:
        evidence = await self.evidence(run)
        state = evidence.state
        waits = [*state.waits.values(), *state.loose.values()]
        return await self._store.rewrite(evidence.true, waits, closed=state.is_closed)

    async def complete_run(self, run: RunId) -> bool:
        """Deliver the end of a run to every run that needs it, and cancel the children it left."""
        head = await self._reader.head(run)
        if not head.closed:
            await cancel_left_children(self._ledger, run, await self._reader.state(run))
            return True
        ending, created = await ending_of(self._store, head), await created_of(self._store, run)
        await complete_run(self._ledger, run, created, ending, await self._reader.state(run))
        return True

    async def must_be_sound(self, run: RunId) -> None:
        """Repair a run before it is resumed; refuse if it cannot be repaired."""
        evidence = await self.evidence(run)
        grave = [finding for finding in diagnose(evidence) if finding.code in ("G3", "G5")]
        if grave:
            raise NotAllowed(
                f"run {run} cannot continue: {grave[0].sentence}. `outlast doctor {run}` shows the remedies."
            )
        found = _first(evidence)
        if found is not None and not isinstance(found.remedy, HandOver):
            await self.recover(run)


def _diagnosis(evidence: Evidence) -> Diagnosis:
    outline = evidence.state.outline
    held = outline.reason or "no reason was given" if outline.held else ""
    return Diagnosis(evidence.run, str(evidence.state.status), tuple(diagnose(evidence)), held)


def _first(evidence: Evidence) -> Finding | None:
    return next((finding for finding in diagnose(evidence) if finding.remedy is not None), None)


def _needs_decision(state: State, taken: Sequence[e.AnyEvent], finding: Finding) -> bool:
    """Whether the takeover holds the run: then a person decides, and nothing else is repaired. A jump is such a
    decision."""
    holds = any(isinstance(event, e.RunFailed) for event in taken)
    return holds and not state.outline.held and finding.code != "D2"


def _recovered(finding: Finding, branch: int) -> e.RunRecovered:
    return e.RunRecovered(
        code=finding.code, reason=finding.sentence, evidence=finding.events, previous_branch=branch, new_branch=branch
    )
