"""What is the matter with a run: every state of the catalogue by its code, with the events that prove it. Pure.

`diagnose` looks at what was found (`Evidence`) and answers with findings. A finding says in one sentence what is the case,
shows the events, names the likely cause and what is safe to do. One that can be repaired without losing anything carries its
remedy; whoever recovers the run carries it out and has nothing to decide. A consistent run has no remedy, so nobody touches
it.

Stale is not inconsistent: a summary behind the log is refolded (G2). A summary of the same version that says something else
than the fold of the log was edited or damaged (A1 to A3r): then what cannot be trusted is left on its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import structs

from outlast.lifecycle.diagnosis.damage import damage, lost_tail, missing_blobs
from outlast.lifecycle.diagnosis.derived_rows import related, wrong_derived_rows
from outlast.lifecycle.diagnosis.evidence import (
    Evidence,
    Finding,
    HandOver,
    Holder,
    Open,
    RelatedRun,
    Remedy,
    Rewrite,
    Say,
    Settle,
)
from outlast.lifecycle.diagnosis.info import held, stopped, unused_branches, unwatched, waiting
from outlast.lifecycle.diagnosis.stalled import failed_without_consequence, left_behind, unmet_jump
from outlast.lifecycle.diagnosis.summary_checks import contradicted, stale
from outlast.lifecycle.diagnosis.versions import versions

__all__ = [
    "Evidence",
    "Finding",
    "HandOver",
    "Holder",
    "Open",
    "RelatedRun",
    "Remedy",
    "Rewrite",
    "Say",
    "Settle",
    "diagnose",
]

Rule: TypeAlias = Callable[[Evidence], Iterator[Finding]]

_GRAVE: tuple[Rule, ...] = (damage, lost_tail)
_RULES: tuple[Rule, ...] = (
    unmet_jump,
    contradicted,
    wrong_derived_rows,
    stale,
    related,
    failed_without_consequence,
    versions,
    missing_blobs,
    left_behind,
    held,
    stopped,
    waiting,
    unused_branches,
    unwatched,
)
"""In the order in which findings are told and remedies carried out: one at a time, because each changes the evidence."""


def diagnose(evidence: Evidence) -> list[Finding]:
    """Everything that can be said of the run's state, the gravest first. What must not be built upon silences the rest."""
    grave = [finding for rule in _GRAVE for finding in rule(evidence)]
    if grave:
        return grave
    found = [finding for rule in _RULES for finding in rule(evidence)]
    is_graph = evidence.state.outline.kind == "graph"  # of a function, today's code is all there is: replay decides
    if is_graph and any(finding.code == "E2" and finding.remedy is None for finding in found):
        return [structs.replace(finding, remedy=None) for finding in found]
    return found
