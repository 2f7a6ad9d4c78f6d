"""What is the matter with a run, and putting it right: the doctor's two verbs.

`diagnose` only looks. `recover` carries out what the diagnosis calls for, one remedy at a time, each in one append; it
claims the run first and looks again before it touches anything, so that of many who recover at once one does, and a run
that is consistent is not touched. It may be killed anywhere: whoever comes next finds what is left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from outlast.client.evidence import Diagnosis, evidence_of
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.engine.completion import cancel_left_children, complete_run, created_of, ending_of
from outlast.errors import Claimed, Conflict, NotAllowed, OutlastError, Overtaken
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import RunWriter
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import decide
from outlast.lifecycle.branch_plan import BranchPlan, check_continues, unmet_request_plan
from outlast.lifecycle.diagnosis import Evidence, Finding, HandOver, Open, Rewrite, Say, Settle, diagnose
from outlast.lifecycle.state import State
from outlast.lifecycle.status import RunStatus
from outlast.store import Claim

MAX_ROUNDS = 8
"""Remedies in a row, before a person should look."""


class Recovery(Verbs):
    """Diagnoses and recovers."""

    def __init__(self, claims: TemporaryClaims) -> None:
        super().__init__(claims)
        self._remedies_tried = asyncio.Lock()

    async def diagnose(self, run: RunId, *, blobs: bool = True) -> Diagnosis:
        """What is the matter with a run, or that nothing is; it is not touched. Without `blobs` it is only looked whether
        they are there, not what is in them."""
        return _diagnosis(await self.evidence(run, blobs=blobs))

    async def recover(self, run: RunId) -> list[Finding]:
        """Repair what can be repaired without losing anything; returns what was found and repaired, in order."""
        done: list[Finding] = []
        async with self._remedies_tried:  # what is claimed in the name of one desk does not keep the same desk out
            while len(done) < MAX_ROUNDS:
                found = _first(await self.evidence(run))
                if found is None or not await self._apply_remedy(run, found):
                    break
                done.append(found)
        return done

    async def recovery_plan(self, run: RunId, finding: Finding) -> list[e.AnyEvent]:
        """The events that recovering would append for this finding, on top of taking the run over."""
        if finding.remedy is None or isinstance(finding.remedy, Rewrite | Settle):
            return []
        state, taken = await self._reader.state(run), await self._takeover_events(run)
        if isinstance(finding.remedy, HandOver) or _needs_decision(state, taken, finding):
            return taken
        if isinstance(finding.remedy, Say):
            return [*finding.remedy.events, _recovered(finding, state.outline.branch)]
        return await self.branch(run, state, finding.remedy.plan)

    async def _takeover_events(self, run: RunId) -> list[e.AnyEvent]:
        """What taking the run over would say."""
        holding, head, state = (
            await self._store.holding(run),
            await self._reader.head(run),
            await self._reader.state(run),
        )
        is_released = holding is None and (
            head.ready or state.status not in (RunStatus.RUNNING, RunStatus.COMPENSATING)
        )
        previous = holding.worker if holding is not None else ""
        cause: decide.Cause = "claimed" if is_released else "expired"
        return decide.take_over(state, head.epoch + 1, "the next worker", previous=previous, cause=cause)

    async def branch(self, run: RunId, state: State, new_branch: BranchPlan) -> list[e.AnyEvent]:
        branches = await self._reader.branch_map(run)
        then = await self._reader.state_at(run, new_branch.cutoff)
        try:
            check_continues(new_branch, then)
        except NotAllowed as refusal:
            new_branch = unmet_request_plan(state, str(refusal))
            then = await self._reader.state_at(run, new_branch.cutoff)
        return list(decide.open_branch(state, then, branches.values(), new_branch))

    async def evidence(self, run: RunId, *, claimed_by_us: bool = False, blobs: bool = False) -> Evidence:
        return await evidence_of(
            self._store,
            run,
            self._reader.key,
            workflow=await self._workflow_of(run),
            watchers=self._news.count(run),
            claimed_by_us=claimed_by_us,
            blobs=blobs,
        )

    async def _workflow_of(self, run: RunId) -> Workflow[..., Any] | None:
        """Its code, if this process knows it; none is imported for a diagnosis."""
        try:
            return registry.known((await created_of(self._store, run)).workflow)
        except (OutlastError, *STRANGE):  # the doctor must be able to look at what does not read
            return None

    async def _apply_remedy(self, run: RunId, finding: Finding) -> bool:
        """Carry one remedy out; False if there is nothing to be done any more, or somebody else is at it."""
        if isinstance(finding.remedy, Rewrite):
            return await self._rewrite(run)
        if isinstance(finding.remedy, Settle):
            return await self._complete_run(finding.remedy.run)
        try:
            claim = await self._claims.claimed(run)
        except Claimed:
            return False
        evidence = await self.evidence(run, claimed_by_us=True)
        again = _first(evidence)
        if again is None or again.code != finding.code:
            await self._release_as_found(claim)
            return False
        try:
            writer = await self._ledger.take_over(claim)
            async with self._claims.holding(writer, ready=True):
                if not await self._is_next_epoch(claim, evidence.version):
                    raise Overtaken("something was said between the diagnosis and the takeover: look again")
                if writer.state.outline.held <= evidence.state.outline.held or again.code == "D2":
                    await self._apply(writer, again)
        except Overtaken:  # a request has arrived: what is to be done may be something else now
            return await self._apply_remedy(run, finding)
        except Conflict:  # somebody else is at it
            return False
        return True

    async def _is_next_epoch(self, claim: Claim, version: int) -> bool:
        """Whether the takeover is what comes next after the diagnosis."""
        next_ones = await self._store.read(claim.run, version + 1, version + 1, 1)
        return any(record.first == version + 1 and record.epoch == claim.epoch for record in next_ones)

    async def _release_as_found(self, claim: Claim) -> None:
        """Let go of a run as it was found."""
        while True:
            head = await self._reader.head(claim.run)
            if await self._store.release(claim.run, claim.worker, head.version, ready=head.ready):
                return

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
                pass  # to take it over was all there was to do

    async def _rewrite(self, run: RunId) -> bool:
        evidence = await self.evidence(run)
        state = evidence.state
        waits = [*state.waits.values(), *state.loose.values()]
        return await self._store.rewrite(evidence.true, waits, closed=state.is_closed)

    async def _complete_run(self, run: RunId) -> bool:
        """See that everybody who has to know of the end of a run does, and that the children that it left are cancelled."""
        head = await self._reader.head(run)
        if not head.closed:
            await cancel_left_children(self._ledger, run, await self._reader.state(run))
            return True
        ending, created = await ending_of(self._store, head), await created_of(self._store, run)
        await complete_run(self._ledger, run, created, ending, await self._reader.state(run))
        return True

    async def must_be_sound(self, run: RunId) -> None:
        """What goes on with a run goes on from a sound one: what can be repaired is, and what cannot be is refused."""
        evidence = await self.evidence(run)
        grave = [finding for finding in diagnose(evidence) if finding.code in ("G3", "G5")]
        if grave:
            raise NotAllowed(
                f"run {run} cannot go on: {grave[0].sentence}. `outlast doctor {run}` says what can be done."
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
    """Whether taking the run over holds it: then a person decides, and nothing else is done. A jump is a person's word."""
    holds = any(isinstance(event, e.RunFailed) for event in taken)
    return holds and not state.outline.held and finding.code != "D2"


def _recovered(finding: Finding, branch: int) -> e.RunRecovered:
    return e.RunRecovered(
        code=finding.code,
        reason=finding.sentence,
        evidence=finding.events,
        previous_branch=branch,
        new_branch=branch,
    )
