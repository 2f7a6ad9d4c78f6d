"""What is stored beside the log against what the log amounts to: the head's flag, the waits, the catalogue (G2); and the
runs that this one depends on (G1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from outlast.history import events as e
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, HandOver, RelatedRun, Rewrite, Settle, and_more
from outlast.lifecycle.state import State, Wait

_FROM_CREATED = ("workflow", "kind", "created", "parent", "title", "tags")
"""What a summary has from the creation of its run: it is never behind."""


def differences(state: State, *, is_closed: bool, waits: Mapping[str, Wait]) -> list[str]:
    """In which way the head's flag and the stored waits are not those of the state."""
    found: list[str] = []
    if is_closed is not state.is_closed:
        said = ("goes on", "is over")
        found.append(f"the head says that the run {said[is_closed]}, the log that it {said[state.is_closed]}")
    true = dict([*state.waits.items(), *state.loose.items()])
    found += [f"the wait {name!r} is not stored" for name in true.keys() - waits.keys()]
    found += [f"the wait {name!r} is stored and not in the log" for name in waits.keys() - true.keys()]
    found += [
        f"the stored wait {name!r} is another" for name in true.keys() & waits.keys() if waits[name] != true[name]
    ]
    return sorted(found)


def rewrite(evidence: Evidence) -> Rewrite:
    """The repair that writes what is stored beside the log again, and what it changes."""
    told, true = evidence.summary, evidence.true
    if told is None:
        changes = [f"write the summary as of event {true.at}"]
    else:
        changes = [
            f"write summary.{name}: {getattr(told, name)!r} becomes {getattr(true, name)!r}"
            for name in true.__struct_fields__
            if name != "waits" and getattr(told, name) != getattr(true, name)
        ]
        changes += ["write summary.waits"] if told.waits != true.waits else []
    stored = differences(evidence.state, is_closed=evidence.is_closed, waits=evidence.waits)
    return Rewrite((*changes, *(f"correct: {difference}" for difference in stored)))


def wrong_derived_rows(evidence: Evidence) -> Iterator[Finding]:
    told, true = evidence.summary, evidence.true
    found = [*evidence.faults, *differences(evidence.state, is_closed=evidence.is_closed, waits=evidence.waits)]
    found += [
        f"the summary says {name} {getattr(told, name)!r}, the log {getattr(true, name)!r}"
        for name in _FROM_CREATED
        if told is not None and getattr(told, name) != getattr(true, name)
    ]
    if found:
        yield Finding(
            code="G2",
            standing="repairable",
            sentence=f"what is stored beside the log differs from it: {found[0]}{and_more(len(found) - 1)}",
            events=(evidence.version,),
            cause="it was edited or damaged, or written by something else: the log is what counts",
            actions=("outlast doctor --fix writes it from the log",),
            remedy=rewrite(evidence),
        )


def related(evidence: Evidence) -> Iterator[Finding]:
    """A child or a successor that does not exist, and a child that has ended without its parent knowing."""
    if evidence.is_held:
        return
    for related_run in evidence.related_runs:
        if related_run.relation == "left":
            yield _to_cancel(evidence, related_run)
        elif related_run.has_ended or related_run.relation == "successor":
            yield _owed(evidence, related_run)
        else:
            is_wanted = not evidence.is_ready
            yield Finding(
                code="G1",
                standing="repairable" if is_wanted else "consistent",
                sentence=f"the run waits for its child {related_run.run}, which does not exist",
                events=_places(evidence, related_run),
                cause="its process ended before it had created the child, or the child was removed",
                actions=(
                    "outlast doctor --fix leaves it to the next worker, which creates the child"
                    if is_wanted
                    else "the next worker that knows its workflow creates the child",
                ),
                remedy=HandOver() if is_wanted else None,
            )


def _to_cancel(evidence: Evidence, related_run: RelatedRun) -> Finding:
    return Finding(
        code="G1",
        standing="repairable",
        sentence=f"the run went back to before its child {related_run.run}, which is to be cancelled and is not",
        events=_places(evidence, related_run),
        cause="its process ended, or the store failed, before it had asked the child to stop",
        actions=("outlast doctor --fix cancels the child",),
        remedy=Settle(evidence.run),
    )


def _owed(evidence: Evidence, related_run: RelatedRun) -> Finding:
    if related_run.has_ended:
        sentence = f"the run waits for its child {related_run.run}, which has ended"
        remedy, action = Settle(related_run.run), "outlast doctor --fix tells it"
    else:
        sentence = f"the run goes on as run {related_run.run}, which does not exist"
        remedy, action = Settle(evidence.run), "outlast doctor --fix creates it, for the next worker"
    return Finding(
        code="G1",
        standing="repairable",
        sentence=sentence,
        events=_places(evidence, related_run),
        cause="the worker died between the end of a run and what follows from it, and its claim was lost",
        actions=(action,),
        remedy=remedy,
    )


def _places(evidence: Evidence, related_run: RelatedRun) -> tuple[int, ...]:
    """The events that name the run."""
    names = ("child", "successor")
    return tuple(
        each.seq
        for each in evidence.log
        if related_run.run in (getattr(each.event, name, "") for name in names)
        or (isinstance(each.event, e.BranchOpened) and related_run.run in each.event.cancelled)
    )
