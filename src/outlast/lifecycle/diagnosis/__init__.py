"""The diagnosis of a run: findings by code, each with the events that prove it. Pure.

`diagnose` turns the collected `Evidence` into findings. A finding has one sentence, the events that prove it, the likely
cause and the safe actions. A finding that can be repaired without loss also has a remedy, and recovery applies it without
further decisions. A consistent run has no remedy, so recovery leaves it unchanged.

A stale summary is not inconsistent: a summary behind the log is made again from the log (G2). A summary of the same version
that differs from the fold of the log was edited or damaged (A1 to A3r): then the untrusted events stay on their branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import structs

from outlast.lifecycle.diagnosis.damage import damage, lost_tail, missing_blobs
from outlast.lifecycle.diagnosis.derived_rows import related, wrong_derived_rows
from outlast.lifecycle.diagnosis.evidence import Evidence as Evidence
from outlast.lifecycle.diagnosis.evidence import Finding as Finding
from outlast.lifecycle.diagnosis.evidence import HandOver as HandOver
from outlast.lifecycle.diagnosis.evidence import Holder as Holder
from outlast.lifecycle.diagnosis.evidence import Open as Open
from outlast.lifecycle.diagnosis.evidence import QueueState as QueueState
from outlast.lifecycle.diagnosis.evidence import RelatedRun as RelatedRun
from outlast.lifecycle.diagnosis.evidence import Remedy as Remedy
from outlast.lifecycle.diagnosis.evidence import Rewrite as Rewrite
from outlast.lifecycle.diagnosis.evidence import Say as Say
from outlast.lifecycle.diagnosis.evidence import Settle as Settle
from outlast.lifecycle.diagnosis.info import held, stopped, unused_branches, unwatched, waiting
from outlast.lifecycle.diagnosis.stalled import failed_without_consequence, left_behind, unmet_jump
from outlast.lifecycle.diagnosis.summary_checks import contradicted, stale
from outlast.lifecycle.diagnosis.versions import versions

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
"""In the order of the findings. Recovery applies one remedy at a time, because each changes the evidence."""


def diagnose(evidence: Evidence) -> list[Finding]:
    """All findings about the run, the gravest first. If the log is damaged, only that is reported."""
    grave = [finding for rule in _GRAVE for finding in rule(evidence)]
    if grave:
        return grave
    found = [finding for rule in _RULES for finding in rule(evidence)]
    is_graph = evidence.state.outline.kind == "graph"  # a function only has its current code: replay decides
    if is_graph and any(finding.code == "E2" and finding.remedy is None for finding in found):
        return [structs.replace(finding, remedy=None) for finding in found]
    return found
