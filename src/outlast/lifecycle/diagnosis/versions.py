"""Runs and the versions of their workflows (E1, E2, E3)."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.history import events as e
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, Say


def versions(evidence: Evidence) -> Iterator[Finding]:
    outline = evidence.state.outline
    if (evidence.state.is_closed and not outline.recoverable) or outline.base is None:
        return
    if not outline.version:
        yield _unversioned(evidence)
    elif evidence.known_versions is not None and outline.version not in evidence.known_versions:
        yield _unknown_version(evidence)
    elif evidence.today and outline.version != evidence.today:
        yield _changed_code(evidence)


def _unversioned(evidence: Evidence) -> Finding:
    changed = e.VersionChanged(version=evidence.today, reason="E1: the run had no version; it uses the current code")
    return Finding(
        code="E1",
        standing="repairable" if evidence.today else "reported",
        sentence="the run does not record the version of its workflow",
        events=(1,),
        cause="a program that records no versions created the run",
        actions=("outlast doctor --fix runs it with the current code and records that version",)
        if evidence.today
        else ("name the code with --app; outlast doctor --fix then runs it with that code and records the version",),
        remedy=Say((changed,)) if evidence.today else None,
    )


def _unknown_version(evidence: Evidence) -> Finding:
    version, known = evidence.state.outline.version, evidence.known_versions or frozenset()
    places = tuple(each.seq for each in evidence.log if isinstance(each.event, e.VersionChanged | e.RunCreated))
    has_initial = evidence.initial in known and evidence.initial != version
    changed = e.VersionChanged(
        version=evidence.initial,
        previous=version,
        reason="E2: the version of the run is not stored; it uses the initial version",
    )
    return Finding(
        code="E2",
        standing="repairable" if has_initial else "reported",
        sentence=f"the run uses version {version[:12]} of its workflow, which is not in this store",
        events=places[-1:],
        cause="the definition is in another store, or its blob was removed",
        actions=(f"outlast doctor --fix returns to the initial version {evidence.initial[:12]} and records that",)
        if has_initial
        else (_without_definition(evidence),),
        remedy=Say((changed,)) if has_initial else None,
    )


def _without_definition(evidence: Evidence) -> str:
    if evidence.state.outline.kind == "graph":
        return "restore the definition (copy its blob); the run does not change until then"
    return "the next worker replays the run with the current code, and holds it if the two differ; or restore the definition"


def _changed_code(evidence: Evidence) -> Finding:
    outline = evidence.state.outline
    is_graph = outline.kind == "graph"
    effect = "the run stays on its version" if is_graph else "the replay of the log decides whether that matters"
    return Finding(
        code="E3",
        sentence=f"the workflow has changed: the run uses version {outline.version[:12]}, the current version is "
        f"{evidence.today[:12]}; {effect}",
        events=(1,),
        cause="new code was deployed",
        actions=(
            f"outlast versions diff {evidence.run} shows what changed",
            f"outlast migrate {evidence.run} moves the run to the current version, on a new branch",
        ),
    )
