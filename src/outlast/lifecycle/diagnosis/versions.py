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
    word = e.VersionChanged(version=evidence.today, reason="E1: the run had no version; it goes on with today's code")
    return Finding(
        code="E1",
        standing="repairable" if evidence.today else "reported",
        sentence="the run does not say which version of its workflow it began with",
        events=(1,),
        cause="it was created by something that records no versions",
        actions=("outlast doctor --fix runs it on today's code and records that",)
        if evidence.today
        else ("name the code with --app, then outlast doctor --fix runs it on that and records it",),
        remedy=Say((word,)) if evidence.today else None,
    )


def _unknown_version(evidence: Evidence) -> Finding:
    version, known = evidence.state.outline.version, evidence.known_versions or frozenset()
    places = tuple(each.seq for each in evidence.log if isinstance(each.event, e.VersionChanged | e.RunCreated))
    has_initial = evidence.initial in known and evidence.initial != version
    word = e.VersionChanged(
        version=evidence.initial,
        previous=version,
        reason="E2: its version is not stored; it goes on with the initial one",
    )
    return Finding(
        code="E2",
        standing="repairable" if has_initial else "reported",
        sentence=f"the run is of version {version[:12]}, which is not stored here",
        events=places[-1:],
        cause="the definition was stored elsewhere, or its blob was removed",
        actions=(f"outlast doctor --fix goes back to the initial version {evidence.initial[:12]} and records that",)
        if has_initial
        else (_without_definition(evidence),),
        remedy=Say((word,)) if has_initial else None,
    )


def _without_definition(evidence: Evidence) -> str:
    if evidence.state.outline.kind == "graph":
        return "bring the definition back (copy its blob); nothing is changed until then"
    return "the next worker replays it on today's code, and holds it if that differs; or bring the definition back"


def _changed_code(evidence: Evidence) -> Finding:
    outline = evidence.state.outline
    is_graph = outline.kind == "graph"
    what = (
        "it stays on the version it is pinned to" if is_graph else "the replay of its log decides whether that matters"
    )
    return Finding(
        code="E3",
        sentence=f"the workflow has changed since: the run is of version {outline.version[:12]}, today's is "
        f"{evidence.today[:12]}; {what}",
        events=(1,),
        cause="new code was deployed",
        actions=(
            f"outlast versions diff {evidence.run} shows what changed",
            f"outlast migrate {evidence.run} moves it, by a branch",
        ),
    )
